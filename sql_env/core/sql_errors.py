"""SQLite's own error message, followed by what the agent could know to mend its query.

Only names the agent has already seen are offered: the database's tables, and the columns of tables
it has described. A hint must not do the exploring for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from sql_env.core.render import spelt_identifier
from sql_env.core.sql_text import tokenize
from sql_env.core.suggestions import did_you_mean, nearest

# A table with more columns is not listed again after every mistake: DESCRIBE has shown them.
_COLUMNS_LISTED = 16
_NO_COLUMN = re.compile(r"^no such column: (?:(?:.*\.)?(?P<table>[^.]+)\.)?(?P<name>[^.]+)$")
_AMBIGUOUS = re.compile(r"^ambiguous column name: (?P<name>.+)$")
_NO_TABLE = re.compile(r"^no such table: (?P<name>.+)$")


def explain_sql_error(
    message: str, sql: str, tables: Sequence[str], described: Mapping[str, Sequence[str]]
) -> str:
    """`message` with a hint drawn from the tables' names and the columns already described.

    A query that asks a described table for a column it does not have is told the ones it has: the
    name meant may be nothing like the one that was written.

    Args:
        sql: the query that failed; it says which table an alias stands for.
    """
    if match := _NO_TABLE.match(message):
        names = [spelt_identifier(table) for table in tables]
        return f"{message}.{did_you_mean(match['name'], names)} Tables: {', '.join(names)}"
    if match := _AMBIGUOUS.match(message):
        owners = _owners(match["name"], described)
        return f"{message}. Did you mean {' or '.join(owners)}?" if owners else message
    if missing := missing_column(message):
        return _joined(message, *_about_column(*missing, _tables_read(sql, tables), described))
    return message


def missing_column(message: str) -> tuple[str, str] | None:
    """The table (empty where none is named) and the column that SQLite says are not there."""
    match = _NO_COLUMN.match(message)
    return (match["table"] or "", match["name"]) if match else None


def _about_column(
    of: str, name: str, read: Mapping[str, str], described: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """What can be said of a column `name` that `of` does not have; `of` may be empty."""
    owners = _owners(name, described)
    unread = [table for table in owners.values() if table not in read.values()]
    full = _full_name(of, name).lower()
    if right := next((table for owner, table in owners.items() if owner.lower() == full), None):
        called = spelt_identifier(right)
        missing = f"The query does not read {called}: JOIN it"
        yield missing if right in unread else f"Write the alias of {called} instead of its name"
        return
    guess = " or ".join(owners) or _nearly(name, described)
    if guess:
        yield f"Did you mean {guess}?"
    if len(unread) == len(owners) == 1:
        yield f"The query does not read {spelt_identifier(unread[0])}: JOIN it"
    one_table = not of and len({*read.values()}) == 1
    asked = next(iter(read.values())) if one_table else read.get(of.lower(), of)
    if listed := _columns_of(asked, described):
        yield listed
    elif not guess:
        yield "DESCRIBE shows columns"


def _tables_read(sql: str, tables: Sequence[str]) -> dict[str, str]:
    """The tables that a query names, each under its name and its aliases in lower case."""
    spelt = {table.lower(): table for table in tables}
    read = {}
    tokens = tokenize(sql)
    names = [token.identifier or "" for token in tokens] + [""] * 2
    for at in range(len(tokens)):
        qualifies = at + 1 < len(tokens) and tokens[at + 1].text == "."
        if (table := spelt.get(names[at])) and not qualifies:
            read[names[at]] = table
            read[names[at + 2] if names[at + 1] == "as" else names[at + 1]] = table
    read.pop("", None)
    return read


def _joined(*sentences: str) -> str:
    *others, last = sentences
    return " ".join([*(text if text.endswith("?") else f"{text}." for text in others), last])


def _nearly(name: str, described: Mapping[str, Sequence[str]]) -> str:
    """The full name of the one described column that is spelt nearly so, or nothing."""
    seen = {_full_name(table, column): column for table in described for column in described[table]}
    near = [item.lower() for item in nearest(name, seen.values(), likeness=0.6)]
    return next((full for full, column in seen.items() if [column.lower()] == near), "")


def _owners(column: str, described: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """`table.column`, spelt as DESCRIBE does, and its table, for every table with such a column."""
    return {
        _full_name(table, name): table
        for table, columns in described.items()
        for name in columns
        if name.lower() == column.lower()
    }


def _columns_of(table: str, described: Mapping[str, Sequence[str]]) -> str:
    """`X has a, b, c` for a table that was described and is not too wide, or nothing."""
    for name, columns in described.items():
        if name.lower() == table.lower() and len(columns) <= _COLUMNS_LISTED:
            names = ", ".join(spelt_identifier(column) for column in columns)
            return f"{spelt_identifier(name)} has {names}"
    return ""


def _full_name(table: str, column: str) -> str:
    return f"{spelt_identifier(table)}.{spelt_identifier(column)}"
