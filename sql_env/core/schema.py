"""What a database's tables look like: columns, types, keys, size."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple


class Column(NamedTuple):
    """A column of a table."""

    name: str
    type: str
    primary_key: bool
    not_null: bool


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


def quote_identifier(name: str) -> str:
    """`name` as an SQL identifier, whatever characters it holds."""
    return '"' + name.replace('"', '""') + '"'


def table_names(connection: sqlite3.Connection, kind: str) -> list[str]:
    """The names of the tables (`kind` "table") or views ("view"), in the order of creation."""
    # Shadow tables of full-text indexes and SQLite's own tables say nothing to an agent.
    return [
        name
        for (name,) in connection.execute(
            "SELECT m.name FROM sqlite_master AS m JOIN pragma_table_list AS l "
            "ON l.schema = 'main' AND l.name = m.name "
            "WHERE m.type = ? AND l.type IN ('table', 'view') "
            "AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY m.rowid",
            (kind,),
        )
    ]


def read_schema(connection: sqlite3.Connection, name: str, row_count: int) -> TableSchema:
    """The schema of one table.

    A foreign key that names no column refers to the other table's primary key.
    """
    quoted = quote_identifier(name)
    columns = tuple(
        Column(row[1], row[2] or "", bool(row[5]), bool(row[3]))
        for row in connection.execute(f"PRAGMA table_info({quoted})")
    )
    keys = tuple(
        ForeignKey(row[3], row[2], row[4] or _primary_key(connection, row[2], row[1]))
        for row in connection.execute(f"PRAGMA foreign_key_list({quoted})")
    )
    return TableSchema(name, columns, tuple(reversed(keys)), row_count)


def _primary_key(connection: sqlite3.Connection, table: str, position: int) -> str:
    """The column at `position` of the primary key of `table`; empty where there is none."""
    names = {
        row[5]: row[1]
        for row in connection.execute(f"PRAGMA table_info({quote_identifier(table)})")
    }
    return names.get(position + 1, "")
