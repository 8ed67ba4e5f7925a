"""A read-only database for untrusted SQL: its tables, its schema, its queries.

Connections are pooled by file and borrowed for one query at a time, so that thousands of sessions
need no more of them than there are queries running at once. What the sandbox covers and what it
does not is said in `sql_env.core.sandbox`.
"""

from __future__ import annotations

import os
import threading
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import apsw

from sql_env.core.errors import UserError
from sql_env.core.query_result import Cell, ErrorKind, Limits, QueryResult, Row
from sql_env.core.sandbox import LONGEST_SQL, MOST_BYTES_KEPT, Sandbox, connect
from sql_env.core.schema import (
    Column,
    ForeignKey,
    TableSchema,
    quote_identifier,
    read_schemas,
    read_views,
)
from sql_env.core.sql_text import Size, lowered

__all__ = [
    "Cell",
    "Column",
    "Database",
    "DatabaseOpenError",
    "ErrorKind",
    "FileIdentity",
    "ForeignKey",
    "Limits",
    "QueryResult",
    "Row",
    "TableSchema",
    "quote_identifier",
]

MOST_CONNECTIONS = 64  # while no more than that many queries run at once
MOST_FILES = 512
TOO_LONG = "(too long to show)"


class DatabaseOpenError(UserError, ValueError):
    """A database that cannot be used; the message names the path and what to do."""


@dataclass(frozen=True)
class FileIdentity:
    """A file as it was when it was opened: one that has been replaced since is another."""

    path: Path
    modified: int
    size: int
    inode: int

    @classmethod
    def at(cls, path: Path) -> FileIdentity:
        try:
            found = path.stat()
        except OSError as error:
            raise DatabaseOpenError(
                f"{path}: {error.strerror or error}. Prepare the data first, or name the folder "
                "that holds <name>/<name>.sqlite"
            ) from error
        return cls(path, found.st_mtime_ns, found.st_size, found.st_ino)


def _read(file: FileIdentity) -> tuple[list[TableSchema], dict[str, Size]]:
    try:
        with closing(connect(file.path)) as connection:
            views = read_views(connection)
            schemas = _readable(file.path, read_schemas(connection, views), views)
    except (apsw.Error, UnicodeDecodeError) as error:
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
    return schemas, views


def _readable(path: Path, schemas: list[TableSchema], views: dict[str, Size]) -> list[TableSchema]:
    """`schemas` without the views that show what the sandbox does not."""
    if not views:
        return schemas
    widest = max((len(schema.columns) for schema in schemas), default=0)
    with closing(Sandbox(path, [schema.name for schema in schemas], widest, views)) as sandbox:
        return [
            schema
            for schema in schemas
            if lowered(schema.name) not in views
            or sandbox.query(
                f"SELECT * FROM {quote_identifier(schema.name)} LIMIT 0",
                Limits(),
                monotonic() + Limits().seconds,
            ).error_kind
            is not ErrorKind.DENIED
        ]


class _OpenFile:
    """What all who opened a file share: its schema and its idle connections."""

    def __init__(self, file: FileIdentity) -> None:
        schemas, self.views = _read(file)
        self.path = file.path
        self.schemas = {schema.name.lower(): schema for schema in schemas}
        self.table_names = tuple(schema.name for schema in schemas)
        self.widest_table = max(len(schema.columns) for schema in schemas)
        self.idle: list[Sandbox] = []
        self.last_used = monotonic()
        self.retired = False


class _Pool:
    """The open files of the process. Beyond the bounds, what was used longest ago goes first."""

    def __init__(self, connections: int, files: int) -> None:
        self.connections = connections
        self.files = files
        self._lock = threading.RLock()
        self._open: dict[FileIdentity, _OpenFile] = {}
        self._count = 0

    def after_fork(self) -> None:
        """In the child: SQLite's connections survive no fork, not even to be closed."""
        self._lock = threading.RLock()
        self._of_the_parent = [file.idle for file in self._open.values()]
        for file in self._open.values():
            file.idle = []
        self._count = 0

    def open(self, file: FileIdentity) -> _OpenFile:
        found = self._open.get(file)
        if found is None:
            read = _OpenFile(file)  # takes its time on a large file, so nobody waits for it
            with self._lock:
                found = self._open.setdefault(file, read)
                if len(self._open) > self.files:
                    oldest = min(self._open, key=lambda key: self._open[key].last_used)
                    self._open[oldest].retired = True
                    self._close(self._open.pop(oldest).idle)
        return found

    def take(self, file: _OpenFile) -> Sandbox:
        try:
            return file.idle.pop()  # lists are safe to share: this is the way of almost all
        except IndexError:
            pass
        with self._lock:
            if self._count >= self.connections:
                idle = [other for other in self._open.values() if other.idle]
                if idle:
                    self._close(min(idle, key=lambda other: other.last_used).idle)
            self._count += 1
        try:
            return Sandbox(file.path, file.table_names, file.widest_table, file.views)
        except BaseException:
            with self._lock:
                self._count -= 1
            raise

    def give(self, file: _OpenFile, sandbox: Sandbox) -> None:
        if sandbox.bytes_kept > MOST_BYTES_KEPT or self._count > self.connections:
            self.discard(sandbox)
            return
        file.last_used = monotonic()
        file.idle.append(sandbox)
        if file.retired:
            self._close(file.idle)

    def discard(self, sandbox: Sandbox) -> None:
        self._close([sandbox])

    def clear(self) -> None:
        """Close every idle connection."""
        with self._lock:
            for file in self._open.values():
                self._close(file.idle)

    def _close(self, sandboxes: list[Sandbox]) -> None:
        with self._lock:
            while sandboxes:
                sandboxes.pop().close()
                self._count -= 1


_POOL = _Pool(MOST_CONNECTIONS, MOST_FILES)
if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_POOL.after_fork)


class Database:
    """One SQLite file, read-only, for SQL that nobody has checked. Safe to share among threads.

    Connections and schema are shared by all who open the same file; there is nothing to close.

    Args:
        path: the file.
        limits: what one query may cost.

    Raises:
        DatabaseOpenError: the file is missing, damaged or empty.
    """

    def __init__(self, path: Path | str, limits: Limits = Limits()) -> None:
        self.path = Path(path)
        self.limits = limits
        self.identity = FileIdentity.at(self.path)
        self._file = _POOL.open(self.identity)
        self.table_names: tuple[str, ...] = self._file.table_names

    def schema(self, table: str) -> TableSchema | None:
        """The schema of `table` (any case), or None where there is no such table."""
        return self._file.schemas.get(table.lower())

    def sample(self, table: str, rows: int) -> QueryResult:
        """The first `rows` rows of a table; columns with too long values say so in their place.

        Of a table that is too wide to look at each of its columns, it is the first columns.
        """
        deadline = monotonic() + self.limits.seconds
        source = f"FROM {quote_identifier(table)} LIMIT {rows}"
        result = self.query(f"SELECT * {source}", deadline)
        schema = self.schema(table)
        if result.error_kind is not ErrorKind.TOO_LARGE or schema is None:
            return result
        shown = []
        for name in (quote_identifier(column.name) for column in schema.columns):
            alone = self.query(f"SELECT {name} {source}", deadline)
            shown.append(name if alone.ok else f"'{TOO_LONG}' AS {name}")
            late = monotonic() + self.limits.seconds / 2 > deadline
            if late or sum(map(len, shown)) > LONGEST_SQL / 2:
                break
        return self.query(f"SELECT {', '.join(shown)} {source}", deadline)

    def query(self, sql: str, deadline: float | None = None) -> QueryResult:
        """Run one untrusted SELECT. Whatever is wrong with it comes back as `error`.

        Args:
            sql: the statement.
            deadline: when it has to end, on the monotonic clock; by default as `limits` say.
        """
        if deadline is None:
            deadline = monotonic() + self.limits.seconds
        try:
            return self._query(sql, deadline)
        except MemoryError:
            _POOL.clear()
        # It may have been the idle connections that filled SQLite's heap.
        if monotonic() + self.limits.seconds / 2 < deadline:
            with suppress(MemoryError):
                return self._query(sql, deadline)
        return QueryResult.failed(
            ErrorKind.TOO_LARGE, "the query needs too much memory: make it simpler"
        )

    def _query(self, sql: str, deadline: float) -> QueryResult:
        file = self._file
        try:
            sandbox = _POOL.take(file)
        except apsw.Error as error:
            return QueryResult.failed(ErrorKind.OTHER, f"the database is gone: {error}")
        try:
            result = sandbox.query(sql, self.limits, deadline)
        except BaseException:
            _POOL.discard(sandbox)
            raise
        _POOL.give(file, sandbox)
        return result
