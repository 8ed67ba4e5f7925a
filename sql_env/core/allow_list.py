"""Which functions a query may call, and what is said to one that asks for anything else."""

from __future__ import annotations

import apsw

_SCALAR = """
    abs char coalesce concat concat_ws glob hex if ifnull iif instr length like likelihood likely
    lower ltrim max min nullif octet_length quote replace round rtrim sign substr substring
    trim typeof unicode unlikely upper
"""  # not printf: "%.*c" runs as long as it is told to, and what grows too long becomes NULL
_AGGREGATE_AND_WINDOW = """
    avg count cume_dist dense_rank first_value group_concat lag last_value lead max min nth_value
    ntile percent_rank rank row_number string_agg sum total
"""  # not median and percentile: rows in the right order make their quicksort quadratic and deep
_TIME = """
    current_date current_time current_timestamp date datetime julianday strftime time timediff
    unixepoch
"""
_MATHEMATICS = """
    acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10
    log2 mod pi pow power radians sin sinh sqrt tan tanh trunc
"""
_JSON = "-> ->> json_array_length json_extract json_type json_valid"

FUNCTIONS = frozenset(
    name
    for names in (_SCALAR, _AGGREGATE_AND_WINDOW, _TIME, _MATHEMATICS, _JSON)
    for name in names.split()
)

# How the names of tables begin that SQLite makes up. Any other name that is no table of the
# database is a common table expression.
TABLE_FUNCTIONS = ("sqlite_", "pragma_", "json_", "jsonb_", "dbstat", "bytecode", "tables_used")

USE_DESCRIBE = "use DESCRIBE to see a table's columns"

_WRITES = (
    "ANALYZE ALTER_TABLE ATTACH CREATE_INDEX CREATE_TABLE CREATE_TEMP_INDEX CREATE_TEMP_TABLE "
    "CREATE_TEMP_TRIGGER CREATE_TEMP_VIEW CREATE_TRIGGER CREATE_VIEW CREATE_VTABLE DELETE DETACH "
    "DROP_INDEX DROP_TABLE DROP_TEMP_INDEX DROP_TEMP_TABLE DROP_TEMP_TRIGGER DROP_TEMP_VIEW "
    "DROP_TRIGGER DROP_VIEW DROP_VTABLE INSERT PRAGMA REINDEX SAVEPOINT TRANSACTION UPDATE"
)
_NAMES = {
    getattr(apsw, f"SQLITE_{name}"): name.replace("_", " ").replace("VTABLE", "VIRTUAL TABLE")
    for name in _WRITES.split()
} | {apsw.SQLITE_ATTACH: "ATTACH or VACUUM"}  # VACUUM attaches a database of its own


def denial(action: int, first: str | None, second: str | None) -> str:
    """Why the authorizer says no, for the one who asked.

    Args:
        action: SQLite's code of what the statement wants to do.
        first: the first of its two arguments; what it means depends on the action.
        second: the second of them.
    """
    if action == apsw.SQLITE_FUNCTION:
        return f"the function {second}() is not available here"
    if action == apsw.SQLITE_UPDATE and first == "sqlite_master":
        # SQLite asks this when it is about to set up a table function.
        return f"table functions cannot be read here: {USE_DESCRIBE}"
    what = _NAMES.get(action, "this statement")
    return f"{what} is not allowed: the database is read-only, write one SELECT statement"
