"""SQLite's own error message, followed by what the agent could know to mend its query.

Only names the agent has already seen are offered: the database's tables, and the columns of tables
it has described. A hint must not do the exploring for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

_NO_COLUMN = re.compile(r"^no such column: (?:(?:.*\.)?(?P<table>[^.]+)\.)?(?P<name>[^.]+)$")
_AMBIGUOUS = re.compile(r"^ambiguous column name: (?P<name>.+)$")
_NO_TABLE = re.compile(r"^no such table: (?P<name>.+)$")


def explain_sql_error(
    message: str, tables: Sequence[str], described: Mapping[str, Sequence[str]]
) -> str:
    """`message` with a hint drawn from the tables' names and the columns already described."""
    if match := _NO_TABLE.match(message):
        return f"{message}. {nearest(match['name'], tables)}Tables: {', '.join(tables)}"
    if match := _AMBIGUOUS.match(message):
        owners = _owners(match["name"], described)
        return f"{message}. Did you mean {' or '.join(owners)}?" if owners else message
    if match := _NO_COLUMN.match(message):
        owners = _owners(match["name"], described)
        named = f"{match['table']}.{match['name']}".lower()
        for owner, table in owners.items():
            if owner.lower() == named:
                return f"{message}. The query does not read {table}: JOIN it"
        if owners:
            return f"{message}. Did you mean {' or '.join(owners)}?"
        seen = {f"{table}.{column}": column for table in described for column in described[table]}
        near = get_close_matches(match["name"].lower(), [c.lower() for c in seen.values()], n=1)
        guess = next((full for full, column in seen.items() if [column.lower()] == near), None)
        return f"{message}. " + (f"Did you mean {guess}?" if guess else "DESCRIBE shows columns")
    return message


def nearest(name: str, names: Sequence[str]) -> str:
    """'Did you mean X? ' for the nearest of `names`, or nothing."""
    lowered = {item.lower(): item for item in names}
    near = get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    return f"Did you mean {lowered[near[0]]}? " if near else ""


def _owners(column: str, described: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """`table.column`, spelt as described, and its table, for every table with such a column."""
    return {
        f"{table}.{name}": table
        for table, columns in described.items()
        for name in columns
        if name.lower() == column.lower()
    }
