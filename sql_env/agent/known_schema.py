"""What an episode was told of its database, as an empty database that queries can be tried on.

The names of the tables are known from the start, their columns once they were described. SQLite
itself then says whether a query can work, without a step being spent: `EXPLAIN` compiles it and
reads nothing. Of tables that were not described nothing is claimed.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import NamedTuple

from sql_env.core.sandbox import BEFORE_A_STATEMENT, COMPILE_LIMITS
from sql_env.core.schema import quote_identifier, table_name
from sql_env.models import SQLObservation

_NAME = r'(?:"(?:[^"]|"")*"|\w+)'
_HEADING = re.compile(rf"(?P<table>{_NAME}) \(\d+ rows\)$")
_COLUMN = re.compile(
    rf" {_NAME}\.(?P<column>{_NAME})"
    rf"(?: (?:=|->) (?P<table>{_NAME})(?:\.(?P<other>{_NAME}))?$| (?P<type>.*))?"
)
_KEY = "primary key"
_NO_TABLE = re.compile(r"no such table: (?P<table>.+)")
_NO_COLUMN = re.compile(r"no such column: (?:(?P<table>.+)\.)?(?P<column>.+)")
# Whatever the tables are: SQLite does not get as far as looking for them.
_NO_SQL = re.compile(
    'near ".*": syntax error|incomplete input|unrecognized token|a JOIN clause is required'
    "|no such function",
    re.DOTALL,
)
_UNKNOWN = ("?",)
_READING = frozenset(
    (
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    )
)


class DescribedTable(NamedTuple):
    """A table as DESCRIBE has shown it.

    Attributes:
        name: as it is spelt.
        columns: likewise.
        types: the type of each, by its folded name.
        key: the columns of the primary key, folded.
        links: a column, the table and the column that it refers to, folded; the last is empty
            where it is left to the other table's key.
    """

    name: str
    columns: list[str]
    types: dict[str, str]
    key: list[str]
    links: list[tuple[str, str, str]]


class KnownSchema:
    """The tables of one episode, and of some their columns."""

    def __init__(self) -> None:
        self.tables: list[str] = []
        self.described: dict[str, DescribedTable] = {}
        self._text = ""

    def hear(self, observation: SQLObservation) -> None:
        """Take over what an observation says."""
        if observation.schema_info != self._text:
            self._text = observation.schema_info
            self.described = dict(described_tables(self._text))
        self.tables = observation.table_names

    def has(self, table: str, column: str) -> bool | None:
        """Whether a table has a column; None where that is not known."""
        described = self.described.get(folded(table))
        return None if described is None else folded(column) in described.types

    def lacks(self, argument: str) -> bool:
        """Whether what DESCRIBE or SAMPLE is asked for is no table."""
        return table_name(argument.strip()).lower() not in (name.lower() for name in self.tables)

    def complaint(self, query: str) -> str:
        """What is wrong with a query or the names in it, in SQLite's words, or nothing."""
        words = self._said_of(query)
        undescribed = [name for name in self.tables if folded(name) not in self.described]
        if found := _NO_COLUMN.match(words):
            # Perhaps a table has it that was not described. Then this is not said again.
            sure = not undescribed or self._said_of(query, (found["column"],)) == words
        elif words.startswith("ambiguous column name: "):
            # In an inner query it may be a column of a table that was not described.
            sure = not any(name.lower() in query.lower() for name in undescribed)
        else:
            sure = bool(_NO_TABLE.match(words) or _NO_SQL.match(words))
        return words if sure else ""

    def _said_of(self, query: str, undescribed: tuple[str, ...] = _UNKNOWN) -> str:
        """SQLite's error. `undescribed` are the columns that tables may have, for all we know."""
        try:
            # Not kept: what all episodes of a batch hold would fill the heap that SQLite may use.
            with closing(sqlite3.connect(":memory:", cached_statements=0)) as database:
                for table in self.tables:
                    described = self.described.get(folded(table))
                    columns = described.columns if described else undescribed
                    names = ", ".join(map(quote_identifier, columns))
                    database.execute(f"CREATE TABLE {quote_identifier(table)} ({names})")
                for limit, value in COMPILE_LIMITS.items():
                    database.setlimit(limit, value)
                # EXPLAIN runs nothing, but a PRAGMA acts while it is compiled.
                database.set_authorizer(_only_reading)
                statement = query.strip().lstrip(BEFORE_A_STATEMENT)
                database.execute(f"EXPLAIN {statement}").close()
        except (sqlite3.Error, sqlite3.Warning, UnicodeError, MemoryError) as error:
            return str(error)
        return ""


def missing_names(complaint: str) -> tuple[str, str]:
    """The table and the column that a complaint names, either of them perhaps empty."""
    if found := _NO_TABLE.match(complaint):
        return found["table"], ""
    found = _NO_COLUMN.match(complaint)
    return (found["table"] or "", found["column"]) if found else ("", "")


def _only_reading(action: int, *_: str | None) -> int:
    return sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY


def described_tables(text: str) -> list[tuple[str, DescribedTable]]:
    """What DESCRIBE has shown of tables, by their folded names. What is not legible is left out."""
    found = []
    for block in filter(None, text.split("\n\n")):
        heading, *lines = block.split("\n")
        table = _HEADING.match(heading)
        parts = [part for line in lines if (part := _COLUMN.match(line))]
        if table and parts and len(parts) == len(lines):
            name = _bare(table["table"])
            found.append((folded(name), _described(name, parts)))
    return found


def _described(name: str, parts: list[re.Match[str]]) -> DescribedTable:
    of_columns = [part for part in parts if not part["table"]]
    names = [_bare(part["column"]) for part in of_columns]
    types = [part["type"] or "" for part in of_columns]
    return DescribedTable(
        name,
        names,
        {folded(name): type_ for name, type_ in zip(names, types, strict=True)},
        [folded(name) for name, type_ in zip(names, types, strict=True) if type_.endswith(_KEY)],
        [
            (folded(_bare(p["column"])), folded(_bare(p["table"])), folded(_bare(p["other"] or "")))
            for p in parts
            if p["table"]
        ],
    )


def _bare(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def folded(name: str) -> str:
    """As SQLite compares names: only the letters of ASCII have capitals."""
    return "".join(c.lower() if c.isascii() else c for c in name)
