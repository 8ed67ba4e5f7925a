"""One guarded SQLite connection: untrusted SQL goes in, rows or a clear error come out.

What is covered
    * Writing, ATTACH, VACUUM INTO, PRAGMA, transactions, extension loading: an authorizer with an
      allow-list (SELECT, READ, RECURSIVE, named functions) on a `mode=ro`, `immutable=1` file with
      no room for attached databases. `sqlite_master` and the PRAGMA table functions are closed
      too: the schema is read with DESCRIBE.
    * Time: a progress handler looks at the clock every 1,000 opcodes, and as often while a
      statement is compiled. It is blind while the planner orders a join, so a join may have 16
      tables; and while names are looked up, so there may be 64 SELECTs, each counted as often as it
      is used, or fewer where a table is wide. And it is blind inside an opcode, so values are kept
      short (1 KB): no function then takes long, however often it is written. A query that meets a
      longer value is run again in the careful lane: up to 32 KB, the clock every ten opcodes, and
      few function calls.
    * Memory: SQLite's heap limit, which also ends statements that explode while they are being
      compiled, and caps on rows and bytes that are checked between small batches of rows.
    * Results that differ from run to run: `random()` and `randomblob()` are not on the list.

What is not covered
    * The heap limit belongs to the process; SQLite offers no smaller unit. Queries running in
      other threads share it, and so do other users of `apsw`. Python's `sqlite3` is another copy
      of SQLite and does not.
    * Large sorts spill into SQLite's temporary files (deleted as soon as they are opened): a
      query can write to the temporary folder for as long as its deadline lets it.
    * `count(*)` of a whole table is a single opcode: on tables of many gigabytes it may overrun.
    * `date('now')` and its kin read the clock.
    * A flaw in SQLite itself. Run public servers as an unprivileged user in a container.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import apsw

from sql_env.core.allow_list import FUNCTIONS, TABLE_FUNCTIONS, USE_DESCRIBE, denial
from sql_env.core.query_result import Cell, ErrorKind, Limits, QueryResult, Row, classify
from sql_env.core.schema import largest_statement
from sql_env.core.sql_text import Size, bare_statement, is_larger, lowered

LONGEST_SQL = 10_000  # bytes
WIDEST_RESULT = 128
COMPILE_LIMITS = {
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 100,
    apsw.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    apsw.SQLITE_LIMIT_FUNCTION_ARG: 32,
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 64,
    apsw.SQLITE_LIMIT_VARIABLE_NUMBER: 100,
    apsw.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
}
# Above the soft limit page caches are recycled and sorts spill; at the hard one a statement ends.
SOFT_HEAP_BYTES = 12_000_000
HARD_HEAP_BYTES = 24_000_000


class _Lane(NamedTuple):
    """How carefully a statement is run."""

    longest_value: int
    opcodes_between_looks: int  # at the clock

    largest_cell: int  # in Python, where one emoji makes a text four bytes a character
    batch_cells: int  # how many of these may come between two looks at the size
    longest_program: int = 1_500  # opcodes


_QUICK = _Lane(1_024, 1000, largest_cell=5_000, batch_cells=3_200)
_CAREFUL = _Lane(32_768, 10, largest_cell=150_000, batch_cells=50)
# For a statement that has passed the careful lane, with some opcodes more for each column.
_UNDECODED = _CAREFUL._replace(longest_program=30_000)
_CAREFUL_CALLS = 10
_LONGEST_TRIM_SET = 64
_BYTES_OF_A_CELL = 48  # what Python needs for a value beside its content
_BYTES_OF_A_STATEMENT = 500  # and for a statement that is remembered
MOST_BYTES_KEPT = 250_000  # by a sandbox: then it is better replaced than remembered
# A column whose texts come as bytes and whose blobs come as text.
_UNDECODED_COLUMN = (
    "CASE typeof({0}) WHEN 'text' THEN CAST({0} AS BLOB) WHEN 'blob' THEN hex({0}) ELSE {0} END"
)


class _Known(NamedTuple):
    """A statement that was compiled and is one SELECT."""

    columns: tuple[str, ...]
    reads: frozenset[tuple[str, str]]


class _Refused(Exception):
    """The sandbox's own no, from inside one of SQLite's calls."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Sandbox:
    """A guarded connection to one file. Used by one thread at a time; the pool sees to that.

    Args:
        path: the database.
        tables: the names of the tables and views that may be read.
        widest_table: the columns of the widest of them, so that `SELECT *` stays possible.
        views: how large the views are.

    Raises:
        apsw.Error: the file cannot be opened or is not a database.
        MemoryError: SQLite's heap is full.
    """

    def __init__(
        self, path: Path, tables: Iterable[str], widest_table: int, views: Mapping[str, Size]
    ) -> None:
        self._names = {lowered(name): name for name in tables}
        self._views = views
        self._widest_table = widest_table
        self._most = largest_statement(widest_table)
        # What the authorizer sees while a statement is compiled. Compiled statements are kept: one
        # that comes again is neither announced nor checked again.
        self._seen: list[tuple[str, str]] = []
        self._noted: dict[tuple[str, str], tuple[str, str]] = {}
        self._known: dict[str, _Known] = {}
        self.bytes_kept = 0
        self._denied = ""
        self._deadline = 0.0
        self._sql = ""
        self._columns: tuple[str, ...] = ()
        self._connection = connection = connect(path)
        stored = connection.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
        )
        self._hidden = {lowered(str(name)) for (name,) in stored} - self._names.keys()
        limit_statements(connection, widest_table)
        for name, strip in (("trim", str.strip), ("ltrim", str.lstrip), ("rtrim", str.rstrip)):
            connection.create_scalar_function(
                name,
                _make_trim(name, strip),
                2,
                deterministic=True,
                flags=apsw.SQLITE_INNOCUOUS,  # for views
            )
        connection.authorizer = self._make_authorizer()
        self._enter(_QUICK)

    def _new_cursors(self) -> None:
        """One for statements seen before, one that checks the others; both are used again."""
        self._plain = self._connection.cursor()
        self._checking = self._connection.cursor()
        self._checking.exec_trace = self._before_it_runs

    def close(self) -> None:
        self._connection.close(True)

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
            if 4 * len(sql) > LONGEST_SQL and len(sql.encode()) > LONGEST_SQL:
                raise _Refused(
                    ErrorKind.TOO_LARGE, f"the query is longer than {LONGEST_SQL:,} bytes"
                )
            if "\0" in sql:
                raise _Refused(ErrorKind.SYNTAX, "the query contains a NUL character")
            try:
                return self._run(sql, limits, _QUICK)
            except (apsw.TooBigError, UnicodeDecodeError) as error:
                decodable = isinstance(error, apsw.TooBigError)
            try:
                return self._run_carefully(sql, limits, decodable)
            finally:
                self._enter(_QUICK)
        except apsw.NoMemError as error:
            raise MemoryError from error
        except (apsw.Error, UnicodeError, _Refused) as error:
            self._new_cursors()
            return self._failed(error, limits)

    def _enter(self, lane: _Lane) -> None:
        self._new_cursors()  # the old one's statement may have failed before the comment behind it
        self._connection.limit(apsw.SQLITE_LIMIT_LENGTH, lane.longest_value)
        self._connection.limit(
            apsw.SQLITE_LIMIT_VDBE_OP, lane.longest_program + 3 * self._widest_table
        )
        self._connection.set_progress_handler(
            lambda: monotonic() > self._deadline, lane.opcodes_between_looks
        )

    def _run(self, sql: str, limits: Limits, lane: _Lane) -> QueryResult:
        self._denied = ""
        self._seen.clear()
        self._sql = sql
        known = self._known.get(sql)
        if known is not None:
            cursor = self._plain.execute(sql)
        else:
            if is_larger(sql, self._most, self._views):
                raise _Refused(
                    ErrorKind.TOO_LARGE,
                    f"the query joins more than {self._most.joined} tables or has more than "
                    f"{self._most.selects} SELECTs, those in views included",
                )
            self._columns = ()
            try:
                cursor = self._checking.execute(sql)
            finally:  # it may fail after it was compiled, and then it is kept all the same
                if self._columns:
                    known = self._known[sql] = _Known(self._columns, self._reads())
                    self.bytes_kept += len(sql) + _BYTES_OF_A_STATEMENT
            assert known is not None
        columns, reads = known
        batch_size = lane.batch_cells // len(columns) + 1
        rows: list[Row] = list(islice(cursor, batch_size))
        most = len(rows) * len(columns) * lane.largest_cell
        if len(rows) == batch_size or most > limits.bytes:
            size = _size(rows)
            while size <= limits.bytes and len(rows) <= limits.rows:
                batch: list[Row] = list(islice(cursor, batch_size))
                if not batch:
                    break
                rows += batch
                size += _size(batch)
            self._new_cursors()  # with rows left, the old one's statement would stay open
            cursor.close(True)
            if size > limits.bytes:
                return _too_large(f"{limits.bytes:,} bytes")
        if len(rows) > limits.rows:
            return _too_large(f"{limits.rows:,} rows")
        return QueryResult(columns, tuple(rows), reads)

    def _reads(self) -> frozenset[tuple[str, str]]:
        """What was seen. All statements share the names: that takes less memory."""
        return frozenset([self._noted.setdefault(read, read) for read in self._seen])

    def _run_carefully(self, sql: str, limits: Limits, decodable: bool) -> QueryResult:
        """Long values make functions slow, so there may be only few of them.

        The compiled program is counted, not the text: SQLite copies expressions.
        """
        self._enter(_CAREFUL)
        program = self._plain.execute(sql, explain=1)
        if sum(opcode in _CALLS for _, opcode, *_ in program) > _CAREFUL_CALLS:
            return QueryResult.failed(
                ErrorKind.TOO_LARGE,
                f"a text or blob is longer than {_QUICK.longest_value:,} bytes; in such a query "
                f"there may be at most {_CAREFUL_CALLS} function calls",
            )
        if decodable:
            try:
                return self._run(sql, limits, _CAREFUL)
            except UnicodeDecodeError:
                pass
        return self._run_undecoded(sql, limits)

    def _run_undecoded(self, sql: str, limits: Limits) -> QueryResult:
        """Some text of the result is not UTF-8, so texts are fetched as bytes and decoded here."""
        self._enter(_UNDECODED)
        columns = self._known[sql].columns
        names = [f"c{i}" for i in range(len(columns))]
        result = self._run(
            f"WITH q({', '.join(names)}) AS MATERIALIZED ({bare_statement(sql)}) "
            f"SELECT {', '.join(map(_UNDECODED_COLUMN.format, names))} FROM q",
            limits,
            _UNDECODED,
        )
        rows = tuple(tuple(map(_decoded, row)) for row in result.rows)
        return result._replace(columns=columns, rows=rows) if result.ok else result

    def _before_it_runs(self, cursor: apsw.Cursor, statement: str, _bindings: object) -> bool:
        """A statement is compiled and none of it has run: is it one SELECT?

        The authorizer is asked about VACUUM only while it runs, and never about EXPLAIN.
        """
        if self._columns:
            return True  # a comment behind the statement
        if not _NOTHING_MORE.fullmatch(self._sql, len(statement)):
            raise _Refused(ErrorKind.MULTIPLE, "write one statement only, nothing after ;")
        columns = tuple([name for name, _ in cursor.get_description()])
        if not columns:
            if _NOTHING_MORE.fullmatch(statement):
                raise _Refused(ErrorKind.SYNTAX, "there is no SELECT statement in the query")
            raise _Refused(ErrorKind.DENIED, denial(apsw.SQLITE_ATTACH, None, None))
        if cursor.is_explain:
            raise _Refused(ErrorKind.DENIED, "EXPLAIN is not allowed: write one SELECT statement")
        self._columns = columns  # only now: with them the statement counts as checked
        return True

    def _make_authorizer(self) -> Callable[..., int]:
        ok, deny = apsw.SQLITE_OK, apsw.SQLITE_DENY
        read, function = apsw.SQLITE_READ, apsw.SQLITE_FUNCTION
        harmless = (apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE)
        names = frozenset(self._names.values())
        note = self._seen.append

        def authorize(
            action: int, first: str | None, second: str | None, _database: object, _view: object
        ) -> int:
            if action == read:
                if first in names:
                    note((first, second or ""))
                    return ok
                return ok if self._may_read(first or "", second or "") else deny
            if action in harmless or (
                action == function and self._may_call((second or "").lower())
            ):
                return ok
            self._denied = self._denied or denial(action, first, second)
            return deny

        return authorize

    def _may_call(self, name: str) -> bool:
        """One on the list, or one that the statement does not name: then the database does.

        SQLite asks about the functions in defaults, generated columns and views, too.
        """
        return name in FUNCTIONS or name not in self._sql.lower()

    def _may_read(self, name: str, column: str) -> bool:
        """A table written in another case, or a common table expression, but nothing else."""
        in_lower_case = lowered(name)
        table = self._names.get(in_lower_case)
        if table is not None:
            self._seen.append((table, column))
            return True
        hidden = column or in_lower_case in self._hidden
        if hidden or in_lower_case.startswith(TABLE_FUNCTIONS):
            self._denied = f"{name} cannot be read here: {USE_DESCRIBE}"
            return False
        return True

    def _failed(self, error: Exception, limits: Limits) -> QueryResult:
        if isinstance(error, _Refused):
            kind, message = error.kind, str(error)
        elif self._denied or isinstance(error, apsw.AuthError):
            kind, message = ErrorKind.DENIED, self._denied or "write one SELECT statement"
        elif isinstance(error, apsw.InterruptError):
            kind = ErrorKind.TIMEOUT
            message = f"the query ran longer than {limits.seconds:g} seconds: make it simpler"
        elif isinstance(error, apsw.TooBigError):
            kind = ErrorKind.TOO_LARGE
            longest = _CAREFUL.longest_value
            message = (
                f"a text or blob is longer than {longest:,} bytes: leave its column out, or begin "
                f"the conditions with octet_length(column) <= {longest}"
            )
        elif isinstance(error, apsw.BindingsError):
            kind = ErrorKind.SYNTAX
            message = "parameters cannot be used: write the value itself"
        elif isinstance(error, UnicodeError):
            kind, message = ErrorKind.SYNTAX, "the query is not valid Unicode text"
        else:
            kind, message = classify(str(error))
        return QueryResult.failed(kind, message)


_NOTHING_MORE = re.compile(r"(?>[; \t\r\n\f\ufeff]|--[^\n]*|/\*(?>.*?(?:\*/|\Z)))*", re.DOTALL)
_CALLS = frozenset(("Function", "PureFunc", "AggStep"))
# No lock of SQLite's own around every call: one thread at a time uses a connection.
_OPEN_FLAGS = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOMUTEX


def connect(path: Path) -> apsw.Connection:
    """A read-only connection with its schema parsed; nothing else guards it yet.

    Raises:
        apsw.Error: the file cannot be opened or is not a database.
        MemoryError: SQLite's heap is full.
    """
    try:
        connection = apsw.Connection(
            f"{path.absolute().as_uri()}?mode=ro&immutable=1",
            flags=_OPEN_FLAGS,
        )
        try:
            limit_heap()
            connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
            connection.execute("PRAGMA query_only = ON")
            # Now: under the sandbox's limits a wide table would make the schema unreadable.
            connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        except BaseException:
            connection.close(True)
            raise
    except apsw.NoMemError as error:
        raise MemoryError from error
    return connection


def limit_heap() -> None:
    """Bound what all of apsw's connections in this process may take together."""
    apsw.soft_heap_limit(SOFT_HEAP_BYTES)
    apsw.hard_heap_limit(HARD_HEAP_BYTES)


def limit_statements(connection: apsw.Connection, widest_table: int) -> None:
    """Bound what a statement may look like, so that compiling it takes little."""
    for limit, value in COMPILE_LIMITS.items():
        connection.limit(limit, value)
    widest = max(WIDEST_RESULT, widest_table)
    connection.limit(apsw.SQLITE_LIMIT_COLUMN, widest)
    longest = LONGEST_SQL + widest * (len(_UNDECODED_COLUMN) + 32)
    connection.limit(apsw.SQLITE_LIMIT_SQL_LENGTH, longest)


def _make_trim(name: str, strip: Callable[[str, str], str]) -> Callable[..., str | None]:
    """SQLite's own trim(text, characters) takes time with the product of the two lengths."""

    def trim(text: Cell, characters: Cell) -> str | None:
        if text is None or characters is None:
            return None
        unwanted = _text(characters)
        if len(unwanted) > _LONGEST_TRIM_SET:
            raise _Refused(
                ErrorKind.DENIED, f"{name}() can remove at most {_LONGEST_TRIM_SET} characters"
            )
        return strip(_text(text), unwanted)

    return trim


def decode(raw: bytes) -> str:
    """Text of a database, which SQLite does not promise to be UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _decoded(cell: Cell) -> Cell:
    """A cell of a column that was fetched as `_UNDECODED_COLUMN`."""
    if isinstance(cell, bytes):
        return decode(cell)
    return bytes.fromhex(cell) if isinstance(cell, str) else cell


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
