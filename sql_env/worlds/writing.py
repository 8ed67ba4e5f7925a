"""A world as an SQLite file, byte for byte the same wherever it is written."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from sql_env.worlds.world import World, WorldColumn, WorldTable

# SQLite stamps its own version into the header; one number keeps the bytes the same everywhere.
_VERSION_OFFSET = 96
_VERSION = 3_040_001


def write_database(world: World, path: Path) -> None:
    """Write the SQLite file; the same world gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA page_size = 4096")
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("BEGIN")
        for table in world.tables.values():
            connection.execute(create_statement(table))
            cells: list[Sequence[object]] = [item.values for item in table.order]
            if table.has_key:
                cells.insert(0, table.keys)
            marks = ", ".join("?" * len(cells))
            rows = zip(*cells, strict=True)
            connection.executemany(f"INSERT INTO {table.name} VALUES ({marks})", rows)
        connection.execute("COMMIT")
    finally:
        connection.close()
    with path.open("r+b") as file:
        file.seek(_VERSION_OFFSET)
        file.write(_VERSION.to_bytes(4, "big"))


def create_statement(table: WorldTable) -> str:
    """The table's DDL, laid out for reading."""
    lines = [f"{table.key_name} INTEGER PRIMARY KEY"] if table.has_key else []
    lines += [
        f"{item.name} {item.sqlite_type if isinstance(item, WorldColumn) else 'INTEGER'}"
        for item in table.order
    ]
    if not table.has_key:
        lines.append(f"PRIMARY KEY ({', '.join(ref.name for ref in table.references)})")
    lines += [
        f"FOREIGN KEY ({ref.name}) REFERENCES {ref.target.name} ({ref.target.key_name})"
        for ref in table.references
    ]
    return f"CREATE TABLE {table.name} (\n  " + ",\n  ".join(lines) + "\n)"
