"""What a query may cost and what comes back from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
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
    """The kind of one of SQLite's errors, and the words for it: its own where they say enough."""
    for part, kind, better in _MESSAGES:
        if part in message:
            return kind, better or message
    return ErrorKind.OTHER, message


@dataclass(frozen=True)
class Limits:
    """What one query may cost.

    Args:
        seconds: from the call to the last row.
        rows: of the whole result.
        bytes: the most that the whole result might take as Python objects.
    """

    seconds: float = 2.0
    rows: int = 10_000
    bytes: int = 16_000_000


class QueryResult(NamedTuple):
    """Outcome of one query: rows, or an error; never both."""

    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    reads: frozenset[tuple[str, str]] = frozenset()  # (table, column) the sandbox saw being read
    error: str = ""
    error_kind: ErrorKind | None = None

    @property
    def ok(self) -> bool:
        return not self.error

    @property
    def tables(self) -> frozenset[str]:
        """The tables that the sandbox saw being read, as the schema spells them."""
        return frozenset(table for table, _ in self.reads)

    @classmethod
    def failed(cls, kind: ErrorKind, message: str) -> QueryResult:
        """A query that came to nothing."""
        return cls(error=message, error_kind=kind)
