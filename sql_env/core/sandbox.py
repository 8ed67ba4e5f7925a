"""One guarded SQLite connection: untrusted SQL goes in, rows or a clear error come out.

What is covered
    * Writing, ATTACH, VACUUM INTO, PRAGMA, transactions, extension loading: an authorizer with an
      allow-list (SELECT, READ, RECURSIVE, named functions) on a `mode=ro`, `immutable=1` file with
      no room for attached databases. `sqlite_master` and the PRAGMA table functions are closed
      too: the schema is read with DESCRIBE.
    * Time: a progress handler looks at the clock every 1,000 opcodes. It is blind inside an
      opcode, so values are kept short (1 KB): no function then takes long, however often it is
      written. A query that meets a longer value is run again in the careful lane: up to 32 KB,
      the clock every ten opcodes, and few function calls.
    * Memory: SQLite's heap limit, which also ends statements that explode while they are being
      compiled, and caps on rows and bytes that are checked between small batches of rows.
    * Results that differ from run to run: `random()` and `randomblob()` are not on the list.

What is not covered
    * The heap limit belongs to the process; SQLite offers no smaller unit. Queries running in
      other threads, and other SQLite connections of the process, share it.
    * Large sorts spill into SQLite's temporary files (deleted as soon as they are opened): a
      query can write to the temporary folder for as long as its deadline lets it.
    * `count(*)` of a whole table is a single opcode: on tables of many gigabytes it may overrun.
    * `date('now')` and its kin read the clock.
    * A flaw in SQLite itself. Run public servers as an unprivileged user in a container.
"""

from __future__ import annotations

import marshal
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from sql_env.core.allow_list import FUNCTIONS, TABLE_FUNCTIONS, USE_DESCRIBE, denial
from sql_env.core.query_result import Cell, ErrorKind, Limits, QueryResult, Row
from sql_env.core.sqlite_messages import LONGEST_SQL, classify

WIDEST_RESULT = 128
COMPILE_LIMITS = {
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: LONGEST_SQL,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 1_500,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 32,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 64,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 100,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
# Above the soft limit page caches are recycled and sorts spill; at the hard one a statement ends.
SOFT_HEAP_BYTES = 20_000_000
HARD_HEAP_BYTES = 40_000_000


class _Lane(NamedTuple):
    """How carefully a statement is run."""

    longest_value: int
    opcodes_between_looks: int  # at the clock

    largest_cell: int  # in Python, where one emoji makes a text four bytes a character
    batch_cells: int  # how many of these may come between two looks at the size


_QUICK = _Lane(1_024, 1000, largest_cell=5_000, batch_cells=3_200)
_CAREFUL = _Lane(32_768, 10, largest_cell=150_000, batch_cells=50)
_CAREFUL_CALLS = 10
_LONGEST_TRIM_SET = 64
_BYTES_OF_A_CELL = 48  # what Python needs for a value beside its content
_BYTES_OF_A_STATEMENT = 500  # and for a statement that is remembered
MOST_BYTES_KEPT = 250_000  # by a sandbox: then it is better replaced than remembered


class Sandbox:
    """A guarded connection to one file. Used by one thread at a time; the pool sees to that.

    Args:
        path: the database.
        tables: the names of the tables and views that may be read.
        widest_table: the columns of the widest of them, so that `SELECT *` stays possible.

    Raises:
        sqlite3.Error: the file cannot be opened or is not a database.
        MemoryError: SQLite's heap is full.
    """

    def __init__(self, path: Path, tables: Iterable[str], widest_table: int) -> None:
        self._names = {name.lower(): name for name in tables}
        # What the authorizer sees while a statement is compiled. Python keeps compiled statements:
        # one that comes again is not announced again, so what it reads is kept as well.
        self._seen: list[tuple[str, str]] = []
        self._reads_of: dict[str, frozenset[tuple[str, str]]] = {}
        self.bytes_kept = 0
        self._denied = ""
        self._deadline = 0.0
        self._connection = connection = connect(path)
        for limit, value in COMPILE_LIMITS.items():
            connection.setlimit(limit, value)
        connection.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, max(WIDEST_RESULT, widest_table))
        for name, strip in (("trim", str.strip), ("ltrim", str.lstrip), ("rtrim", str.rstrip)):
            connection.create_function(name, 2, self._make_trim(name, strip), deterministic=True)
        connection.set_authorizer(self._make_authorizer())
        self._enter(_QUICK)

    def close(self) -> None:
        self._connection.close()

    def query(self, sql: str, limits: Limits, deadline: float) -> QueryResult:
        """Run one untrusted SELECT. Whatever is wrong with it comes back as an error.

        Args:
            sql: the statement.
            limits: what it may cost.
            deadline: when it has to end, on the monotonic clock.

        Raises:
            MemoryError: SQLite's heap is full. The sandbox is not to be used again.
        """
        self._deadline = deadline
        try:
            return self._run(sql, limits, _QUICK)
        except (sqlite3.Error, sqlite3.Warning, UnicodeError) as error:
            if not _needs_care(error):
                return self._failed(error, limits)
        self._enter(_CAREFUL)
        self._connection.text_factory = decode
        try:
            return self._run_carefully(sql, limits)
        except (sqlite3.Error, sqlite3.Warning) as error:
            return self._failed(error, limits)
        finally:
            self._connection.text_factory = str
            self._enter(_QUICK)

    def _enter(self, lane: _Lane) -> None:
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, lane.longest_value)
        self._connection.set_progress_handler(
            lambda: monotonic() > self._deadline, lane.opcodes_between_looks
        )

    def _run(self, sql: str, limits: Limits, lane: _Lane) -> QueryResult:
        if "\0" in sql:
            return QueryResult.failed(ErrorKind.SYNTAX, "the query contains a NUL character")
        self._denied = ""
        self._seen.clear()
        try:
            cursor = self._connection.execute(sql)
        finally:  # it may fail after it was compiled, and then it is kept all the same
            if self._seen:
                self._reads_of[sql] = frozenset(self._seen)
                self.bytes_kept += len(sql) + _BYTES_OF_A_STATEMENT
        description = cursor.description
        if description is None:
            return QueryResult.failed(ErrorKind.SYNTAX, "there is no SELECT statement in the query")
        columns = tuple([item[0] for item in description])
        if columns in _EXPLAIN_COLUMNS:
            return QueryResult.failed(
                ErrorKind.DENIED, "EXPLAIN is not allowed: write one SELECT statement"
            )
        batch_size = lane.batch_cells // len(columns) + 1
        rows: list[Row] = cursor.fetchmany(batch_size)
        most = len(rows) * len(columns) * lane.largest_cell
        if len(rows) == batch_size or most > limits.bytes:
            size = _size(rows)
            while size <= limits.bytes and len(rows) <= limits.rows:
                batch: list[Row] = cursor.fetchmany(batch_size)
                if not batch:
                    break
                rows += batch
                size += _size(batch)
            cursor.close()
            if size > limits.bytes:
                return _too_large(f"{limits.bytes:,} bytes")
        if len(rows) > limits.rows:
            return _too_large(f"{limits.rows:,} rows")
        return QueryResult(columns, tuple(rows), self._reads_of.get(sql, _NOTHING))

    def _run_carefully(self, sql: str, limits: Limits) -> QueryResult:
        """Long values make functions slow, so there may be only few of them.

        The compiled program is counted, not the text: SQLite copies expressions.
        """
        program = self._connection.execute(f"EXPLAIN {sql.lstrip(BEFORE_A_STATEMENT)}")
        if sum(opcode in _CALLS for _, opcode, *_ in program) > _CAREFUL_CALLS:
            return QueryResult.failed(
                ErrorKind.TOO_LARGE,
                f"a text or blob is longer than {_QUICK.longest_value:,} bytes; in such a query "
                f"there may be at most {_CAREFUL_CALLS} function calls",
            )
        return self._run(sql, limits, _CAREFUL)

    def _make_authorizer(self) -> Callable[..., int]:
        ok, deny = sqlite3.SQLITE_OK, sqlite3.SQLITE_DENY
        read, function = sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION
        harmless = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE)
        names = frozenset(self._names.values())
        note = self._seen.append

        def authorize(action: int, first: str, second: str, _database: str, _view: str) -> int:
            if action == read:
                if first in names:
                    note((first, second))
                    return ok
                return ok if self._may_read(first, second) else deny
            if action in harmless or (action == function and second in FUNCTIONS):
                return ok
            self._denied = self._denied or denial(action, first, second)
            return deny

        return authorize

    def _may_read(self, name: str, column: str) -> bool:
        """A table written in another case, or a common table expression, but nothing else."""
        lowered = name.lower()
        table = self._names.get(lowered)
        if table is not None:
            self._seen.append((table, column))
            return True
        if column or lowered.startswith(TABLE_FUNCTIONS):
            self._denied = f"{name} cannot be read here: {USE_DESCRIBE}"
            return False
        return True

    def _make_trim(
        self, name: str, strip: Callable[[str, str], str]
    ) -> Callable[[Cell, Cell], str | None]:
        """SQLite's own trim(text, characters) takes time with the product of the two lengths."""

        def trim(text: Cell, characters: Cell) -> str | None:
            if text is None or characters is None:
                return None
            unwanted = _text(characters)
            if len(unwanted) > _LONGEST_TRIM_SET:
                self._denied = f"{name}() can remove at most {_LONGEST_TRIM_SET} characters"
                raise ValueError(self._denied)
            return strip(_text(text), unwanted)

        return trim

    def _failed(self, error: Exception, limits: Limits) -> QueryResult:
        message = str(error)
        code = getattr(error, "sqlite_errorcode", None)
        if self._denied or code == sqlite3.SQLITE_AUTH:
            kind, message = ErrorKind.DENIED, self._denied or "write one SELECT statement"
        elif code == sqlite3.SQLITE_INTERRUPT:
            if monotonic() <= self._deadline:
                # Control-C came while the progress handler ran, where Python cannot raise it.
                raise KeyboardInterrupt
            kind = ErrorKind.TIMEOUT
            message = f"the query ran longer than {limits.seconds:g} seconds: make it simpler"
        elif code == sqlite3.SQLITE_TOOBIG:
            kind = ErrorKind.TOO_LARGE
            message = f"a text or blob is longer than {_CAREFUL.longest_value:,} bytes"
        elif isinstance(error, UnicodeError):
            kind, message = ErrorKind.SYNTAX, "the query is not valid Unicode text"
        else:
            kind, message = classify(message)
        return QueryResult.failed(kind, message)


_NOTHING: frozenset[tuple[str, str]] = frozenset()
BEFORE_A_STATEMENT = "; \t\r\n\f"
_CALLS = frozenset(("Function", "PureFunc", "AggStep"))
# The columns of EXPLAIN and of EXPLAIN QUERY PLAN, the only statements the authorizer never sees.
_EXPLAIN_COLUMNS = {
    ("addr", "opcode", "p1", "p2", "p3", "p4", "p5", "comment"),
    ("id", "parent", "notused", "detail"),
}


def connect(path: Path) -> sqlite3.Connection:
    """A read-only connection with its schema parsed; nothing else guards it yet.

    Raises:
        sqlite3.Error: the file cannot be opened or is not a database.
        MemoryError: SQLite's heap is full.
    """
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro&immutable=1",
        uri=True,
        isolation_level=None,
        check_same_thread=False,  # the pool hands a connection to one thread at a time
    )
    try:
        connection.execute(f"PRAGMA soft_heap_limit = {SOFT_HEAP_BYTES}")
        connection.execute(f"PRAGMA hard_heap_limit = {HARD_HEAP_BYTES}")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")
        # Now: under the sandbox's limits a wide table would make the schema unreadable.
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _needs_care(error: Exception) -> bool:
    """The quick lane met a long value, or a text that is not UTF-8."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_TOOBIG or str(
        error
    ).startswith("Could not decode to UTF-8")


def decode(raw: bytes) -> str:
    """Text of a database, which SQLite does not promise to be UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _text(value: Cell) -> str:
    return decode(value) if isinstance(value, bytes) else str(value)


def _size(rows: list[Row]) -> int:
    """The most bytes that these rows can take, found faster than by asking each value.

    Marshal writes UTF-8; Python keeps up to four bytes for each of its own.
    """
    cells = len(rows) * len(rows[0]) if rows else 0
    return 4 * len(marshal.dumps(rows)) + _BYTES_OF_A_CELL * cells


def _too_large(what: str) -> QueryResult:
    return QueryResult.failed(
        ErrorKind.TOO_LARGE, f"the result has more than {what}: add a WHERE or a LIMIT"
    )
