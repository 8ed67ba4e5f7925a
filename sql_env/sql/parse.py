"""The one place where a text becomes a tree."""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError


class NotAQueryError(ValueError):
    """The text is not one SQL query."""


def parse_query(sql: str) -> exp.Query:
    """Read one SELECT (or a set operation of them) in SQLite's dialect.

    Raises:
        NotAQueryError: the text cannot be read as one query.
    """
    try:
        statements = [item for item in sqlglot.parse(sql, dialect="sqlite") if item is not None]
    except SqlglotError as error:
        raise NotAQueryError(f"cannot read this SQL: {sql!r}") from error
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise NotAQueryError(f"not one SELECT query: {sql!r}")
    return statements[0]
