"""A read-only database for untrusted SQL: its tables, its schema, its queries.

Connections are pooled by file and borrowed for one query at a time, so that thousands of sessions
need no more of them than there are queries running at once. What the sandbox covers and what it
does not is said in `sql_env.core.sandbox`.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import OrderedDict
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import monotonic

from sql_env.core.query_result import Cell, ErrorKind, Limits, QueryResult, Row
from sql_env.core.sandbox import Sandbox, connect, decode
from sql_env.core.schema import (
    Column,
    ForeignKey,
    TableSchema,
    quote_identifier,
    read_schemas,
)

__all__ = [
    "Cell",
    "Column",
    "Database",
    "DatabaseOpenError",
    "ErrorKind",
    "ForeignKey",
    "Limits",
    "QueryResult",
    "Row",
    "TableSchema",
    "open_database",
    "quote_identifier",
    "release",
]

IDLE_CONNECTIONS = 64


class DatabaseOpenError(ValueError):
    """A database that cannot be used; the message names the path and what to do."""


@dataclass(frozen=True)
class _File:
    """A file as it was when it was opened: one that has been replaced since is another."""

    path: Path
    modified: int
    size: int

    @classmethod
    def at(cls, path: Path) -> _File:
        try:
            found = path.stat()
        except OSError as error:
            raise DatabaseOpenError(
                f"{path}: {error.strerror or error}. Prepare the data first, or name the folder "
                "that holds <name>/<name>.sqlite"
            ) from error
        return cls(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=512)
def _catalog(file: _File) -> dict[str, TableSchema]:
    """The schemas of a file's tables and views, by name in lower case."""
    try:
        with closing(connect(file.path)) as connection:
            connection.text_factory = decode
            schemas = read_schemas(connection)
    except sqlite3.Error as error:
        raise DatabaseOpenError(
            f"{file.path}: {error}. The file is damaged or is not an SQLite database: "
            "delete it and prepare the data again"
        ) from error
    except MemoryError as error:
        raise DatabaseOpenError(
            f"{file.path}: SQLite's memory is used up. Close other SQLite connections of this "
            "process, or run this in a process of its own"
        ) from error
    if not schemas:
        raise DatabaseOpenError(
            f"{file.path}: the database has no tables. Delete it and prepare the data again"
        )
    return {schema.name.lower(): schema for schema in schemas}


class _Pool:
    """Idle sandboxes by file; the file used longest ago loses its own first."""

    def __init__(self, idle_limit: int) -> None:
        self.idle_limit = idle_limit
        self.forget()

    def forget(self) -> None:
        """Begin anew, as a forked child must: connections do not survive a fork."""
        self._lock = threading.Lock()
        self._idle: OrderedDict[_File, list[Sandbox]] = OrderedDict()
        self._count = 0

    def take(self, file: _File) -> Sandbox | None:
        with self._lock:
            sandboxes = self._idle.get(file)
            if not sandboxes:
                return None
            self._count -= 1
            return sandboxes.pop()

    def give(self, file: _File, sandbox: Sandbox) -> None:
        surplus = sandbox
        with self._lock:
            if not sandbox.worn:
                self._idle.setdefault(file, []).append(sandbox)
                self._idle.move_to_end(file)
                self._count += 1
                if self._count <= self.idle_limit:
                    return
                surplus = self._pop_oldest()
        surplus.close()

    def _pop_oldest(self) -> Sandbox:
        while not (oldest := next(iter(self._idle.values()))):
            self._idle.popitem(last=False)
        self._count -= 1
        return oldest.pop()

    def clear(self) -> None:
        """Close every idle connection."""
        with self._lock:
            idle = [sandbox for sandboxes in self._idle.values() for sandbox in sandboxes]
            self._idle.clear()
            self._count = 0
        for sandbox in idle:
            sandbox.close()


_POOL = _Pool(IDLE_CONNECTIONS)
os.register_at_fork(after_in_child=_POOL.forget)


class Database:
    """One SQLite file, read-only, for SQL that nobody has checked. Safe to share among threads.

    Args:
        path: the file.
        limits: what one query may cost.

    Raises:
        DatabaseOpenError: the file is missing, damaged or empty.
    """

    def __init__(self, path: Path | str, limits: Limits = Limits()) -> None:
        self.path = Path(path)
        self.limits = limits
        self._file = _File.at(self.path)
        self._schemas = _catalog(self._file)
        self.table_names: tuple[str, ...] = tuple(schema.name for schema in self._schemas.values())

    def schema(self, table: str) -> TableSchema | None:
        """The schema of `table` (any case), or None where there is no such table."""
        return self._schemas.get(table.lower())

    def sample(self, table: str, rows: int) -> QueryResult:
        """The first `rows` rows of a table."""
        return self.query(f"SELECT * FROM {quote_identifier(table)} LIMIT {rows}")

    def query(self, sql: str) -> QueryResult:
        """Run one untrusted SELECT. Whatever is wrong with it comes back as `error`."""
        begun = monotonic()
        deadline = begun + self.limits.seconds
        try:
            return self._query(sql, deadline)
        except MemoryError:
            _POOL.clear()
        # It may have been the idle connections that filled SQLite's heap: once more, if it fits.
        if 2 * monotonic() < begun + deadline:
            try:
                return self._query(sql, deadline)
            except MemoryError:
                pass
        return QueryResult.failed(
            ErrorKind.TOO_LARGE, "the query needs too much memory: make it simpler"
        )

    def _query(self, sql: str, deadline: float) -> QueryResult:
        sandbox = _POOL.take(self._file) or self._new_sandbox()
        try:
            result = sandbox.query(sql, self.limits, deadline)
        except BaseException:
            sandbox.close()
            raise
        _POOL.give(self._file, sandbox)
        return result

    def _new_sandbox(self) -> Sandbox:
        widest = max(len(schema.columns) for schema in self._schemas.values())
        return Sandbox(self.path, self.table_names, widest)

    def close(self) -> None:
        """Nothing is held between queries; here for symmetry with `open_database`."""


def open_database(path: Path | str, limits: Limits = Limits()) -> Database:
    """A database whose connections and schema are shared by all who open the same file."""
    return Database(path, limits)


def release(database: Database) -> None:
    """Say that `database` is no longer needed."""
    database.close()
