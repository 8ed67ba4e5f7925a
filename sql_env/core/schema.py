"""What a database's tables look like: columns, types, keys, size."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import NamedTuple

import apsw

from sql_env.core.sql_text import Size, lowered, size


class Column(NamedTuple):
    """A column of a table."""

    name: str
    type: str
    primary_key: bool


class ForeignKey(NamedTuple):
    """`column` refers to `table.references`."""

    column: str
    table: str
    references: str


class TableSchema(NamedTuple):
    """A table or a view."""

    name: str
    columns: tuple[Column, ...]
    foreign_keys: tuple[ForeignKey, ...]
    row_count: int


# SQLite has more keywords and takes the others for names where a name stands.
_NO_BARE_NAMES = """\
add all alter and as autoincrement between case cast check collate commit constraint create
current_date current_time current_timestamp default deferrable delete distinct drop else escape
except exists foreign from group having in index insert intersect into is isnull join limit not
nothing notnull null on or order primary raise references returning select set table then to
transaction union unique update using values when where"""
_QUOTED = frozenset(_NO_BARE_NAMES.split())


def quote_identifier(name: str) -> str:
    """`name` as an SQL identifier, whatever characters it holds."""
    return '"' + name.replace('"', '""') + '"'


def sql_name(name: str) -> str:
    """`name` the way a query has to spell it: in quotes only where it needs them."""
    plain = name.isascii() and name.isidentifier() and name.lower() not in _QUOTED
    return name if plain else quote_identifier(name)


# SQLite's planner is blind to deadlines, and so is what finds out what the columns of nested
# queries mean. That takes the longer the more columns there are.
_MOST = Size(joined=16, selects=64)
_FEWEST_SELECTS = 8
_MOST_COLUMNS = 8_192  # of all SELECTs together
_SECONDS_FOR_A_VIEW = 1.0
_SECONDS_FOR_VIEWS = 10.0


def largest_statement(widest_table: int) -> Size:
    """What a statement may be, so that compiling it takes little."""
    most = min(_MOST.selects, _MOST_COLUMNS // max(1, widest_table))
    return _MOST._replace(selects=max(_FEWEST_SELECTS, most))


def read_schemas(connection: apsw.Connection, views: Mapping[str, Size]) -> list[TableSchema]:
    """The schemas of the tables and views that an agent can read, in the order of creation.

    Left out are SQLite's own tables, virtual tables and their shadows, and views that do not run,
    join too many tables or take more than a second.

    Args:
        connection: to the database.
        views: what `read_views` says of it.

    Raises:
        apsw.Error: the database is damaged.
    """
    found = connection.execute(
        "SELECT m.name, l.type FROM sqlite_master AS m JOIN pragma_table_list AS l "
        "ON l.schema = 'main' AND l.name = m.name WHERE m.type IN ('table', 'view') "
        "AND l.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
        "ORDER BY m.rowid"
    ).fetchall()
    schemas = [_read_schema(connection, str(name)) for name, kind in found if kind == "table"]
    end = monotonic() + _SECONDS_FOR_VIEWS
    for name in (str(name) for name, kind in found if kind == "view"):
        if views[lowered(name)].exceeds(_MOST):
            continue
        deadline = min(monotonic() + _SECONDS_FOR_A_VIEW, end)
        connection.set_progress_handler(partial(_is_over, deadline), 1000)
        with suppress(apsw.SQLError, apsw.InterruptError):
            schemas.append(_read_schema(connection, name))
    return schemas


def read_views(connection: apsw.Connection) -> dict[str, Size]:
    """The size of each view, by its name as `lowered`; of what is too much, only that."""
    texts = {
        lowered(str(name)): str(sql)
        for name, sql in connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'view' ORDER BY rowid"
        )
    }
    sizes: dict[str, Size] = {}
    while True:  # a view may use one that was created after it
        before = sizes.copy()
        for name, sql in texts.items():
            found = size(sql, sizes)
            sizes[name] = Size(
                min(found.joined, _MOST.joined + 1), min(found.selects, _MOST.selects + 1)
            )
        if sizes == before:
            return sizes


def _is_over(deadline: float) -> bool:
    return monotonic() > deadline


def _read_schema(connection: apsw.Connection, name: str) -> TableSchema:
    quoted = quote_identifier(name)
    columns = tuple(
        Column(row[1], row[2] or "", bool(row[5]))
        for row in connection.execute(f"PRAGMA table_xinfo({quoted})")  # with generated columns
    )
    keys = [
        # A foreign key that names no column refers to the other table's primary key.
        ForeignKey(row[3], row[2], row[4] or _primary_key(connection, row[2], row[1]))
        for row in connection.execute(f"PRAGMA foreign_key_list({quoted})")
    ]
    ((count,),) = connection.execute(f"SELECT count(*) FROM {quoted}")
    return TableSchema(name, columns, tuple(reversed(keys)), count)  # SQLite lists the last first


def _primary_key(connection: apsw.Connection, table: str, position: int) -> str:
    """The column at `position` of the primary key of `table`; empty where there is none."""
    rows = connection.execute(f"PRAGMA table_info({quote_identifier(table)})")
    return next((row[1] for row in rows if row[5] == position + 1), "")


def table_name(argument: str) -> str:
    """Models write `singer`, "singer", [singer] and singer; for the same table."""
    return argument.rstrip(";").strip().strip("`\"'[]")
