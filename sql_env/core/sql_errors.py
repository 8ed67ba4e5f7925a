"""SQLite's own error message, followed by what the agent could know to mend its query.

Only names the agent has already seen are offered: the database's tables, and the columns of tables
it has described. A hint must not do the exploring for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sql_env.core.render import spelt_identifier
from sql_env.core.suggestions import did_you_mean, nearest

# A table with more columns is not listed again after every mistake: DESCRIBE has shown them.
_COLUMNS_LISTED = 16
_NO_COLUMN = re.compile(r"^no such column: (?:(?:.*\.)?(?P<table>[^.]+)\.)?(?P<name>[^.]+)$")
_AMBIGUOUS = re.compile(r"^ambiguous column name: (?P<name>.+)$")
_NO_TABLE = re.compile(r"^no such table: (?P<name>.+)$")


def explain_sql_error(
    message: str, tables: Sequence[str], described: Mapping[str, Sequence[str]]
) -> str:
    """`message` with a hint drawn from the tables' names and the columns already described.

    A query that asks a described table for a column it does not have is told the ones it has: the
    name meant may be nothing like the one that was written.
    """
    if match := _NO_TABLE.match(message):
        names = [spelt_identifier(table) for table in tables]
        return f"{message}.{did_you_mean(match['name'], names)} Tables: {', '.join(names)}"
    if match := _AMBIGUOUS.match(message):
        owners = _owners(match["name"], described)
        return f"{message}. Did you mean {' or '.join(owners)}?" if owners else message
    if missing := missing_column(message):
        of, name = missing
        owners = _owners(name, described)
        named = _full_name(of, name).lower()
        for owner, table in owners.items():
            if owner.lower() == named:
                return f"{message}. The query does not read {spelt_identifier(table)}: JOIN it"
        columns = _columns_of(of, described)
        if owners:
            return f"{message}. Did you mean {' or '.join(owners)}?{columns}"
        seen = {
            _full_name(table, column): column for table in described for column in described[table]
        }
        near = [item.lower() for item in nearest(name, seen.values(), likeness=0.6)]
        guess = next((full for full, column in seen.items() if [column.lower()] == near), None)
        if guess:
            return f"{message}. Did you mean {guess}?{columns}"
        return f"{message}.{columns or ' DESCRIBE shows columns'}"
    return message


def missing_column(message: str) -> tuple[str, str] | None:
    """The table (empty where none is named) and the column that SQLite says are not there."""
    match = _NO_COLUMN.match(message)
    return (match["table"] or "", match["name"]) if match else None


def _owners(column: str, described: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """`table.column`, spelt as DESCRIBE does, and its table, for every table with such a column."""
    return {
        _full_name(table, name): table
        for table, columns in described.items()
        for name in columns
        if name.lower() == column.lower()
    }


def _columns_of(table: str, described: Mapping[str, Sequence[str]]) -> str:
    """' X has a, b, c' for a table that was described and is not too wide, or nothing."""
    for name, columns in described.items():
        if name.lower() == table.lower() and len(columns) <= _COLUMNS_LISTED:
            names = ", ".join(spelt_identifier(column) for column in columns)
            return f" {spelt_identifier(name)} has {names}"
    return ""


def _full_name(table: str, column: str) -> str:
    return f"{spelt_identifier(table)}.{spelt_identifier(column)}"
