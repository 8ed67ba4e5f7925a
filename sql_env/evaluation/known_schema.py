"""What an episode was told of its database, as an empty database that queries can be tried on.

The names of the tables are known from the start, their columns once they were described. SQLite
itself then says whether a query can work, without a step being spent: `EXPLAIN` compiles it and
reads nothing. Of tables that were not described nothing is claimed.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

from sql_env.core.sandbox import BEFORE_A_STATEMENT, COMPILE_LIMITS
from sql_env.core.schema import quote_identifier, table_name
from sql_env.models import SQLObservation

_NAME = r'(?:"(?:[^"]|"")*"|\w+)'
_HEADING = re.compile(rf"(?P<table>{_NAME}) \(\d+ rows\)$")
_COLUMN = re.compile(rf" {_NAME}\.(?P<column>{_NAME})(?P<foreign> = | -> )?")
_NO_TABLE = re.compile(r"no such table: (?P<table>.+)")
_NO_COLUMN = re.compile(r"no such column: (?:(?P<table>.+)\.)?(?P<column>.+)")
# Whatever the tables are: SQLite does not get as far as looking for them.
_NO_SQL = re.compile(
    'near ".*": syntax error|incomplete input|unrecognized token|a JOIN clause is required',
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


class KnownSchema:
    """The tables of one episode, and of some their columns."""

    def __init__(self) -> None:
        self._tables: list[str] = []
        self._described: dict[str, list[str]] = {}
        self._text = ""

    def hear(self, observation: SQLObservation) -> None:
        """Take over what an observation says."""
        if observation.schema_info != self._text:
            self._text = observation.schema_info
            self._described = dict(described_tables(self._text))
        self._tables = observation.table_names

    def has(self, table: str, column: str) -> bool | None:
        """Whether a table has a column; None where that is not known."""
        columns = self._described.get(_folded(table))
        return None if columns is None else _folded(column) in map(_folded, columns)

    def has_table_like(self, beginning: str) -> bool:
        """Whether the name of a table begins so."""
        return any(_folded(name).startswith(_folded(beginning)) for name in self._tables)

    def lacks(self, argument: str) -> bool:
        """Whether what DESCRIBE or SAMPLE is asked for is no table."""
        return table_name(argument.strip()).lower() not in (name.lower() for name in self._tables)

    def complaint(self, query: str) -> str:
        """What is wrong with a query or the names in it, in SQLite's words, or nothing."""
        words = self._said_of(query)
        undescribed = [name for name in self._tables if _folded(name) not in self._described]
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
                for table in self._tables:
                    columns = self._described.get(_folded(table), undescribed)
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


def described_tables(text: str) -> list[tuple[str, list[str]]]:
    """The tables that DESCRIBE has shown, and their columns. What is not legible is left out."""
    found = []
    for block in filter(None, text.split("\n\n")):
        heading, *lines = block.split("\n")
        table = _HEADING.match(heading)
        columns = [_COLUMN.match(line) for line in lines]
        if table and columns and all(columns):
            names = [_bare(c["column"]) for c in columns if c and not c["foreign"]]
            found.append((_folded(_bare(table["table"])), names))
    return found


def _bare(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _folded(name: str) -> str:
    """As SQLite compares names: only the letters of ASCII have capitals."""
    return "".join(c.lower() if c.isascii() else c for c in name)
