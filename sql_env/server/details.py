"""Results and schemas as a page draws them: plain data that survives JSON and JavaScript."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sql_env.core.database import Cell, Row, TableSchema
from sql_env.core.schema import sql_name

GRID_ROWS = 200
GRID_CHARACTERS = 500
_EXACT_IN_JAVASCRIPT = 2**53


def grid(columns: Sequence[str], rows: Sequence[Row]) -> dict[str, Any]:
    """The first rows of a result, and how many there are."""
    return {
        "columns": list(columns),
        "rows": [[_plain(cell) for cell in row] for row in rows[:GRID_ROWS]],
        "row_count": len(rows),
    }


def schema_details(schema: TableSchema) -> dict[str, Any]:
    """A described table."""
    return {
        "table": schema.name,
        "row_count": schema.row_count,
        "columns": [column._asdict() | {"sql": sql_name(column.name)} for column in schema.columns],
        "foreign_keys": [key._asdict() for key in schema.foreign_keys],
    }


def _plain(cell: Cell) -> int | float | str | None:
    if isinstance(cell, bytes):
        return f"x'{cell[:32].hex()}{'…' if len(cell) > 32 else ''}'"
    if isinstance(cell, int) and abs(cell) > _EXACT_IN_JAVASCRIPT:
        return str(cell)
    if isinstance(cell, float) and not math.isfinite(cell):
        return str(cell)
    if isinstance(cell, str) and len(cell) > GRID_CHARACTERS:
        return cell[:GRID_CHARACTERS] + "…"
    return cell
