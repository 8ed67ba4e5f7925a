"""One guarded SQLite connection: untrusted SQL goes in, rows or a clear error come out.

What is covered
    * Writing, ATTACH, VACUUM INTO, PRAGMA, transactions, extension loading: an authorizer with an
      allow-list (SELECT, READ, RECURSIVE, named functions) on a `mode=ro`, `immutable=1` file with
      no room for attached databases. `sqlite_master` and the PRAGMA table functions are closed too:
      the schema is read with DESCRIBE.
    * Time: a progress handler looks at the clock every 1,000 opcodes.
    * Work inside one opcode, where that handler is blind: short limits for values, SQL text,
      LIKE patterns, expression depth, compound selects, columns and programs.
    * Memory: SQLite's own heap limit (which also ends statements that explode while they are being
      compiled), and a cap on rows and on bytes that is checked between small batches of rows.
    * Results that differ from run to run: `random()` and `randomblob()` are not on the list.
What is not covered
    * The heap limit belongs to the process: SQLite offers no smaller unit. Queries that run at the
      same time in other threads share it; one of them may be told that it needs too much memory.
    * Large sorts spill into SQLite's temporary files (deleted as soon as they are opened): a hostile
      query can write to the temporary folder for as long as its deadline lets it.
    * A flaw in SQLite itself. Run public servers as an unprivileged user in a container.
    * `date('now')` and its kin read the clock.
"""

from __future__ import annotations

import marshal
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from time import monotonic

Cell = None | int | float | str | bytes
Row = tuple[Cell, ...]

# SQLite's limits for one statement. A result row of WIDEST_RESULT values of LONGEST_VALUE bytes,
# four bytes a character in Python, still fits into the memory one query may take.
LONGEST_VALUE = 65_536
LONGEST_SQL = 20_000
WIDEST_RESULT = 128
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: LONGEST_VALUE,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: LONGEST_SQL,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 25_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 32,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
# Above the soft limit page caches are recycled and sorts spill; at the hard one a statement ends.
SOFT_HEAP_BYTES = 32_000_000
HARD_HEAP_BYTES = 48_000_000
_OPCODES_BETWEEN_LOOKS_AT_THE_CLOCK = 1000
_CELLS_IN_A_BATCH = 64
_BYTES_OF_A_CELL = 48  # what Python needs for a value beside its content
_BYTES_OF_A_STATEMENT = 500  # and for a statement that is remembered
_BYTES_KEPT = 500_000
_USE_DESCRIBE = "use DESCRIBE to see a table's columns"

FUNCTIONS = frozenset(
    # scalar
    "abs char coalesce concat concat_ws format glob hex if ifnull iif instr length like likelihood "
    "likely lower ltrim max min nullif octet_length printf quote replace round rtrim sign soundex "
    "substr substring trim typeof unicode unlikely upper "
    # aggregates and windows
    "avg count group_concat string_agg sum total median percentile percentile_cont "
    "percentile_disc row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value "
    "last_value nth_value "
    # date and time
    "date datetime time julianday strftime unixepoch timediff current_date current_time "
    "current_timestamp "
    # mathematics
    "acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 "
    "log2 mod pi pow power radians sin sinh sqrt tan tanh trunc "
    # reading JSON
    "-> ->> json_array_length json_extract json_type json_valid".split()
)

_ACTIONS = {
    value: name.removeprefix("SQLITE_").replace("_", " ")
    for name, value in vars(sqlite3).items()
    if name.startswith(("SQLITE_CREATE_", "SQLITE_DROP_", "SQLITE_ALTER_"))
    or name
    in {
        "SQLITE_ANALYZE", "SQLITE_ATTACH", "SQLITE_DELETE", "SQLITE_DETACH", "SQLITE_INSERT",
        "SQLITE_PRAGMA", "SQLITE_REINDEX", "SQLITE_SAVEPOINT", "SQLITE_TRANSACTION",
        "SQLITE_UPDATE",
    }
}  # fmt: skip

# The columns of EXPLAIN and of EXPLAIN QUERY PLAN, the only statements the authorizer never sees.
_EXPLAIN_COLUMNS = {
    ("addr", "opcode", "p1", "p2", "p3", "p4", "p5", "comment"),
    ("id", "parent", "notused", "detail"),
}


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
    """What one query may cost.

    Args:
        seconds: from the call to the last row.
        rows: of the whole result.
        bytes: of the whole result, counted as Python objects.
    """

    seconds: float = 2.0
    rows: int = 10_000
    bytes: int = 8_000_000


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


class Sandbox:
    """A guarded connection to one file. Used by one thread at a time; the pool sees to that.

    Args:
        path: the database.
        tables: the names of the tables and views that may be read.
        widest_table: the columns of the widest of them, so that `SELECT *` stays possible.

    Raises:
        sqlite3.Error: the file cannot be opened or is not a database.
    """

    def __init__(self, path: Path, tables: Iterable[str], widest_table: int) -> None:
        self._connection = connect(path)
        # The schema is parsed now: a table wider than the limit would make it unreadable later.
        self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        for limit, value in _LIMITS.items():
            self._connection.setlimit(limit, value)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, max(WIDEST_RESULT, widest_table))
        self._names = {name.lower(): name for name in tables}
        # By statement, because the authorizer speaks only when a statement is compiled and Python
        # keeps compiled statements: one that comes again is not announced again.
        self._reads_of: dict[str, set[tuple[str, str]]] = {}
        self._reads: set[tuple[str, str]] = set()
        self._bytes_kept = 0
        self._denied = ""
        self._deadline = 0.0
        self._connection.set_authorizer(self._make_authorizer())
        self._connection.set_progress_handler(
            lambda: monotonic() > self._deadline, _OPCODES_BETWEEN_LOOKS_AT_THE_CLOCK
        )

    @property
    def worn(self) -> bool:
        """It has been asked so much that its memory of statements had better be given up."""
        return self._bytes_kept > _BYTES_KEPT

    def close(self) -> None:
        self._connection.close()

    def query(self, sql: str, limits: Limits) -> QueryResult:
        """Run one untrusted SELECT. Whatever is wrong with it comes back as an error.

        Raises:
            MemoryError: SQLite's heap is full. The sandbox is not fit for use afterwards.
        """
        self._deadline = monotonic() + limits.seconds
        try:
            return self._run(sql, limits)
        except sqlite3.OperationalError as error:
            if not str(error).startswith("Could not decode to UTF-8"):
                return self._failed(error, limits)
        except (sqlite3.Error, sqlite3.Warning, UnicodeError) as error:
            return self._failed(error, limits)
        # Rare enough to run the query again rather than to decode every text in Python.
        self._connection.text_factory = decode
        try:
            return self._run(sql, limits)
        except sqlite3.Error as error:
            return self._failed(error, limits)
        finally:
            self._connection.text_factory = str

    def _run(self, sql: str, limits: Limits) -> QueryResult:
        if "\0" in sql:
            return _error(ErrorKind.SYNTAX, "the query contains a NUL character")
        reads = self._reads_of.get(sql)
        if reads is None:
            reads = self._reads_of[sql] = set()
            self._bytes_kept += len(sql) + _BYTES_OF_A_STATEMENT
        self._reads = reads  # where the authorizer notes what it sees
        self._denied = ""
        cursor = self._connection.execute(sql)
        description = cursor.description
        if description is None:
            return _error(ErrorKind.SYNTAX, "there is no SELECT statement in the query")
        columns = tuple([item[0] for item in description])
        if columns in _EXPLAIN_COLUMNS:
            return _error(ErrorKind.DENIED, "EXPLAIN is not allowed: write one SELECT statement")
        batch_size = _CELLS_IN_A_BATCH // len(columns) + 1
        rows: list[Row] = cursor.fetchmany(batch_size)
        if len(rows) == batch_size:
            size = _size(rows)
            while batch := cursor.fetchmany(batch_size):
                rows += batch
                size += _size(batch)
                if size > limits.bytes or len(rows) > limits.rows:
                    break
            cursor.close()
            if size > limits.bytes:
                return _too_large(f"{limits.bytes:,} bytes")
        if len(rows) > limits.rows:
            return _too_large(f"{limits.rows:,} rows")
        return QueryResult(columns, tuple(rows), frozenset(reads))

    def _make_authorizer(self) -> Callable[..., int]:
        ok, deny = sqlite3.SQLITE_OK, sqlite3.SQLITE_DENY
        read, function = sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION
        harmless = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE)
        names = frozenset(self._names.values())

        def authorize(action: int, first: str, second: str, _database: str, _view: str) -> int:
            if action == read:
                if first in names:
                    self._reads.add((first, second))
                    return ok
                return ok if self._may_read(first, second) else deny
            if action in harmless or (action == function and second in FUNCTIONS):
                return ok
            if not self._denied:
                self._denied = _denial(action, first, second)
            return deny

        return authorize

    def _may_read(self, name: str, column: str) -> bool:
        """A table written in another case, or a common table expression, but nothing else."""
        table = self._names.get(name.lower())
        if table is not None:
            self._reads.add((table, column))
            return True
        if column or name.lower().startswith(("sqlite_", "pragma_")):
            self._denied = f"{name} cannot be read here: {_USE_DESCRIBE}"
            return False
        return True

    def _failed(self, error: Exception, limits: Limits) -> QueryResult:
        message = str(error)
        code = getattr(error, "sqlite_errorcode", None)
        if self._denied or code == sqlite3.SQLITE_AUTH:
            return _error(
                ErrorKind.DENIED,
                self._denied or "this statement is not allowed: write one SELECT statement",
            )
        if code == sqlite3.SQLITE_INTERRUPT:
            if monotonic() <= self._deadline:
                # Control-C arrived inside the progress handler, where Python cannot raise it.
                raise KeyboardInterrupt
            return _error(
                ErrorKind.TIMEOUT,
                f"the query ran longer than {limits.seconds:g} seconds: make it simpler",
            )
        if isinstance(error, UnicodeError):
            return _error(ErrorKind.SYNTAX, "the query is not valid Unicode text")
        if code == sqlite3.SQLITE_TOOBIG or isinstance(error, sqlite3.DataError):
            return _error(
                ErrorKind.TOO_LARGE,
                f"a text or blob of the query is longer than {LONGEST_VALUE:,} bytes"
                if "query string" not in message
                else f"the query is longer than {LONGEST_SQL:,} characters",
            )
        if "one statement at a time" in message:
            return _error(
                ErrorKind.MULTIPLE, "write one statement only, without a second one after ;"
            )
        if "number of bindings" in message:
            return _error(ErrorKind.SYNTAX, "parameters cannot be used: write the value itself")
        for start, kind in _KINDS:
            if message.startswith(start):
                return _error(kind, message)
        return _error(ErrorKind.OTHER, message)


_KINDS = (
    ("no such table", ErrorKind.NO_TABLE),
    ("no such column", ErrorKind.NO_COLUMN),
    ("near ", ErrorKind.SYNTAX),
    ("incomplete input", ErrorKind.SYNTAX),
    ("unrecognized token", ErrorKind.SYNTAX),
)


def connect(path: Path) -> sqlite3.Connection:
    """A read-only connection."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro&immutable=1",
        uri=True,
        isolation_level=None,
        check_same_thread=False,  # the pool hands a connection to one thread at a time
    )
    connection.execute(f"PRAGMA soft_heap_limit = {SOFT_HEAP_BYTES}")
    connection.execute(f"PRAGMA hard_heap_limit = {HARD_HEAP_BYTES}")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA query_only = ON")
    return connection


def decode(raw: bytes) -> str:
    """Text of a database, which SQLite does not promise to be UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _size(rows: list[Row]) -> int:
    """About the bytes that these rows take; marshal walks them faster than Python code can."""
    return len(marshal.dumps(rows, 2)) + _BYTES_OF_A_CELL * len(rows) * len(rows[0])


def _denial(action: int, first: str, second: str) -> str:
    if action == sqlite3.SQLITE_FUNCTION:
        return f"the function {second}() is not available here"
    if action == sqlite3.SQLITE_UPDATE and first == "sqlite_master":
        # SQLite asks this when it is about to set up a table function.
        return f"table functions cannot be read here: {_USE_DESCRIBE}"
    what = _ACTIONS.get(action, "this statement")
    return f"{what} is not allowed: the database is read-only, write one SELECT statement"


def _error(kind: ErrorKind, message: str) -> QueryResult:
    return QueryResult(error=message, error_kind=kind)


def _too_large(what: str) -> QueryResult:
    return _error(ErrorKind.TOO_LARGE, f"the result has more than {what}: add a WHERE or a LIMIT")
