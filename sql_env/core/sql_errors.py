"""SQLite's own error message, followed by what the agent could know to mend its query.

Only names the agent has already seen are offered: the database's tables, and the columns of tables
it has described. A hint must not do the exploring for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from sql_env.core.render import spelt_identifier
from sql_env.core.sql_text import tokenize
from sql_env.core.suggestions import did_you_mean, nearest

# A table with more columns is not listed again after every mistake: DESCRIBE has shown them.
_COLUMNS_LISTED = 16
_AFTER_FROM = frozenset(
    ("select", "where", "group", "having", "order", "limit", "union", "intersect", "except")
)
_NO_ALIAS = _AFTER_FROM | frozenset(
    [
        "join",
        "inner",
        "left",
        "right",
        "full",
        "outer",
        "cross",
        "natural",
        "on",
        "using",
        "window",
        "indexed",
        "not",
    ]
)
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


class _Read(NamedTuple):
    """The tables in the FROMs of a query.

    Attributes:
        tables: all of them; "" stands for whatever is none, such as a subquery.
        called: what a name or an alias, in lower case, stands for wherever it is given.
    """

    tables: frozenset[str]
    called: dict[str, str]


def _about_column(
    of: str, name: str, read: _Read, described: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """What can be said of a column `name` that `of` does not have; `of` may be empty."""
    owners = _owners(name, described)
    full = _full_name(of, name).lower()
    if right := next((table for owner, table in owners.items() if owner.lower() == full), None):
        yield _where_it_is(right, read)
        return
    asked = read.called.get(of.lower(), of)
    if not of and len(read.tables) == 1:
        (asked,) = read.tables
    unseen = asked in read.tables and asked not in ("", *described)
    guess = " or ".join(owners) or _nearly(name, described)
    if guess:
        yield f"Did you mean {guess}?"
    absent = [table for table in owners.values() if table not in read.tables]
    if len(absent) == len(owners) == 1:
        yield _where_it_is(absent[0], read)
    if unseen:
        yield f"DESCRIBE {spelt_identifier(asked)} shows its columns"
    elif listed := _columns_of(asked, described):
        yield listed
    elif not guess:
        yield "DESCRIBE shows columns"


def _where_it_is(table: str, read: _Read) -> str:
    """Why a query cannot use a column that a table has."""
    spelt = spelt_identifier(table)
    aliases = [alias for alias, of in read.called.items() if of == table]
    if table not in read.tables:
        return f"The query does not read {spelt}: JOIN it"
    if len(aliases) == 1 and aliases[0] != table.lower():
        return f"The query calls {spelt} {aliases[0]}"
    return f"{spelt} is read elsewhere in the query, not here: JOIN it"


def _tables_read(sql: str, tables: Sequence[str]) -> _Read:
    spelt = {table.lower(): table for table in tables}
    called: dict[str, set[str]] = {}
    tokens = tokenize(sql)
    words = [token.text.lower() for token in tokens] + [""] * 3
    in_from = [False]  # for each open parenthesis
    for at, token in enumerate(tokens):
        word, before = words[at], words[at - 1] if at else ""
        begins = in_from[-1] and before in ("from", "join", ",", "(")
        if word == "(":
            in_from.append(begins)
        elif word == ")":
            in_from = in_from[:-1] or [False]
        elif word == "from":
            in_from[-1] = before != "distinct"
        elif word in _AFTER_FROM:
            in_from[-1] = False
        elif begins and token.identifier is not None:
            table = spelt.get(token.identifier, "")
            alias = tokens[at + 1 + (words[at + 1] == "as") :][:1]
            named = alias[0].identifier if alias and words[at + 1] not in _NO_ALIAS else None
            called.setdefault(named or token.identifier, set()).add(table)
    return _Read(
        frozenset(table for meant in called.values() for table in meant),
        {name: next(iter(meant)) for name, meant in called.items() if len(meant) == 1},
    )


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
