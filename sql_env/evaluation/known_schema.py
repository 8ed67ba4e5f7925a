"""What an episode was told of its database, as an empty database that queries can be tried on.

The names of the tables are known from the start, their columns once they were described. SQLite
itself then says whether a query can work, without a step being spent: `EXPLAIN` compiles it and
reads nothing. Of tables that were not described nothing is claimed.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence

from sql_env.core.schema import quote_identifier
from sql_env.models import SQLObservation

_NAME = r'(?:"(?:[^"]|"")*"|\w+)'
_HEADING = re.compile(rf"(?P<table>{_NAME}) \(\d+ rows\)$")
_COLUMN = re.compile(rf" {_NAME}\.(?P<column>{_NAME})(?! = | -> )(?: |$)")
_NO_TABLE = re.compile(r"no such table: (?P<table>.+)")
_NO_COLUMN = re.compile(r"no such column: (?:(?P<table>.+)\.)?(?P<column>.+)")


class KnownSchema:
    """The tables of one episode, and of some their columns."""

    def __init__(self) -> None:
        self._tables: list[str] = []
        self._described: dict[str, list[str]] = {}
        self._text = ""
        self._database: sqlite3.Connection | None = None

    def hear(self, observation: SQLObservation) -> None:
        """Take over what an observation says."""
        if (observation.table_names, observation.schema_info) == (self._tables, self._text):
            return
        self._tables, self._text = observation.table_names, observation.schema_info
        self._described = dict(_described(self._text))
        self._database = None

    def has(self, table: str, column: str) -> bool | None:
        """Whether a table has a column; None where that is not known."""
        columns = self._described.get(table.lower())
        return None if columns is None else column.lower() in columns

    def complaint(self, query: str) -> str:
        """What is wrong with the names in a query, in SQLite's words, or nothing."""
        if self._database is None:
            self._database = _empty_database(self._tables, self._described)
        try:
            self._database.execute(f"EXPLAIN {query}").close()
        except (sqlite3.Error, sqlite3.Warning) as error:
            words = str(error)
            return words if self._is_sure_of(words, query) else ""
        return ""

    def _is_sure_of(self, complaint: str, query: str) -> bool:
        if _NO_TABLE.match(complaint) or complaint.startswith("ambiguous column name: "):
            return True
        found = _NO_COLUMN.match(complaint)
        if not found:
            return False  # what else there may be, the environment may see otherwise
        if (found["table"] or "").lower() in self._described:
            return True
        words = set(re.findall(r"\w+", query.lower()))
        return not any(
            name.lower() in words for name in self._tables if name.lower() not in self._described
        )


def missing_names(complaint: str) -> tuple[str, str] | None:
    """The table and the column that a complaint names, either of them perhaps empty."""
    if found := _NO_TABLE.match(complaint):
        return found["table"], ""
    found = _NO_COLUMN.match(complaint)
    return (found["table"] or "", found["column"]) if found else None


def _described(text: str) -> list[tuple[str, list[str]]]:
    """The tables that DESCRIBE has shown and their columns, all in lower case."""
    found = []
    for block in filter(None, text.split("\n\n")):
        heading, *lines = block.split("\n")
        table = _HEADING.match(heading)
        columns = [match for line in lines if (match := _COLUMN.match(line))]
        if table and columns:
            names = [_bare(match["column"]).lower() for match in columns]
            found.append((_bare(table["table"]).lower(), names))
    return found


def _bare(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _empty_database(tables: Sequence[str], described: dict[str, list[str]]) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    for table in tables:
        columns = described.get(table.lower()) or ["?"]
        names = ", ".join(map(quote_identifier, columns))
        database.execute(f"CREATE TABLE {quote_identifier(table)} ({names})")
    return database
