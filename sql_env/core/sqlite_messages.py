"""What SQLite says about a statement, told apart by what it says."""

from __future__ import annotations

from sql_env.core.query_result import ErrorKind

LONGEST_SQL = 10_000  # bytes

# A part of the message, what kind of error it is, and better words where there are any.
_MESSAGES = (
    ("no such table", ErrorKind.NO_TABLE, ""),
    ("no such column", ErrorKind.NO_COLUMN, ""),
    ("syntax error", ErrorKind.SYNTAX, ""),
    ("incomplete input", ErrorKind.SYNTAX, ""),
    ("unrecognized token", ErrorKind.SYNTAX, ""),
    ("parser stack overflow", ErrorKind.TOO_LARGE, "the query is nested too deeply"),
    ("Recursion limit", ErrorKind.TOO_LARGE, "the query is nested too deeply"),
    ("nested too deep", ErrorKind.TOO_LARGE, ""),
    ("too many", ErrorKind.TOO_LARGE, ""),
    ("too large", ErrorKind.TOO_LARGE, ""),
    ("too complex", ErrorKind.TOO_LARGE, ""),
    ("at most 64 tables", ErrorKind.TOO_LARGE, ""),
)


def classify(message: str) -> tuple[ErrorKind, str]:
    """The kind of an error and the words for it: SQLite's own wherever they say enough."""
    for part, kind, better in _MESSAGES:
        if part in message:
            return kind, better or message
    return ErrorKind.OTHER, message
