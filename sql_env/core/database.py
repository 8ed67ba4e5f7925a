"""A read-only sandbox around one SQLite database.

What is covered
    (to be completed with the tests)
What is not covered
    (to be completed with the tests)
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

Cell = None | int | float | str | bytes
Row = tuple[Cell, ...]


class ErrorKind(StrEnum):
    """Why a query came back without rows; kept with every step so that runs can be analysed."""

    SYNTAX = "syntax"
    NO_TABLE = "no_such_table"
    NO_COLUMN = "no_such_column"
    DENIED = "denied"
    MULTIPLE = "several_statements"
    TIMEOUT = "timeout"
    TOO_LARGE = "too_large"
    OTHER = "other"


@dataclass(frozen=True)
class Limits:
    """What one query may cost."""

    seconds: float = 2.0
    rows: int = 10_000
    bytes: int = 4_000_000


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Outcome of one query: rows, or an error; never both."""

    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    reads: frozenset[tuple[str, str]] = frozenset()  # (table, column) the sandbox saw being read
    error: str = ""
    error_kind: ErrorKind | None = None

    @property
    def ok(self) -> bool:
        return not self.error


class Column(NamedTuple):
    name: str
    type: str
    primary_key: bool
    not_null: bool


class ForeignKey(NamedTuple):
    column: str
    table: str
    references: str


class TableSchema(NamedTuple):
    name: str
    columns: tuple[Column, ...]
    foreign_keys: tuple[ForeignKey, ...]
    row_count: int


def quote_identifier(name: str) -> str:
    """`name` as an SQL identifier, whatever characters it holds."""
    return '"' + name.replace('"', '""') + '"'


_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, 33}


class Database:
    """One read-only connection with its guard."""

    def __init__(self, path: Path | str, limits: Limits = Limits()) -> None:
        self.path = Path(path)
        self.limits = limits
        self._connection = sqlite3.connect(
            f"file:{self.path}?mode=ro&immutable=1", uri=True, check_same_thread=False,
            cached_statements=0,
        )
        self._connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        self._schemas: dict[str, TableSchema] = {}
        self.table_names: tuple[str, ...] = tuple(
            name
            for (name,) in self._connection.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
                "AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
            )
        )
        for name in self.table_names:
            self._schemas[name.lower()] = self._read_schema(name)
        self._reads: set[tuple[str, str]] = set()
        self._deadline = 0.0
        self._connection.set_authorizer(self._authorize)
        self._connection.set_progress_handler(self._out_of_time, 1000)

    def _read_schema(self, name: str) -> TableSchema:
        quoted = quote_identifier(name)
        execute = self._connection.execute
        columns = tuple(
            Column(row[1], row[2] or "", bool(row[5]), bool(row[3]))
            for row in execute(f"PRAGMA table_info({quoted})")
        )
        keys = tuple(
            ForeignKey(row[3], row[2], row[4] or "")
            for row in execute(f"PRAGMA foreign_key_list({quoted})")
        )
        (count,) = execute(f"SELECT count(*) FROM {quoted}").fetchone()
        return TableSchema(name, columns, keys, count)

    def _authorize(
        self, action: int, arg1: str | None, arg2: str | None, _db: str | None, _src: str | None
    ) -> int:
        if action not in _ALLOWED:
            return sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_READ and arg1:
            self._reads.add((arg1, arg2 or ""))
        return sqlite3.SQLITE_OK

    def _out_of_time(self) -> bool:
        return time.monotonic() > self._deadline

    def schema(self, table: str) -> TableSchema | None:
        """The schema of `table` (any case), or None where there is no such table."""
        return self._schemas.get(table.lower())

    def sample(self, table: str, rows: int) -> QueryResult:
        """The first `rows` rows of a table."""
        return self.query(f"SELECT * FROM {quote_identifier(table)} LIMIT {rows}")

    def query(self, sql: str) -> QueryResult:
        """Run one untrusted SELECT."""
        self._reads = set()
        self._deadline = time.monotonic() + self.limits.seconds
        try:
            cursor = self._connection.execute(sql)
            rows: Sequence[Row] = cursor.fetchmany(self.limits.rows + 1)
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            return QueryResult(error=str(error), error_kind=ErrorKind.OTHER)
        if len(rows) > self.limits.rows:
            return QueryResult(
                error=f"the result has more than {self.limits.rows:,} rows: add a LIMIT",
                error_kind=ErrorKind.TOO_LARGE,
            )
        columns = tuple(item[0] for item in cursor.description or ())
        return QueryResult(columns, tuple(rows), frozenset(self._reads))

    def close(self) -> None:
        self._connection.close()


def open_database(path: Path | str, limits: Limits = Limits()) -> Database:
    """A pooled database: the same file is opened once and handed out again after `release`."""
    return Database(path, limits)


def release(database: Database) -> None:
    """Give a database back to the pool."""
    database.close()
