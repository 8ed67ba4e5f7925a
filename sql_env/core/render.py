"""Everything an agent reads is made here: schemas, rows, errors, and a whole observation.

One place, so that evaluation, training, the page and a person at the terminal see the same text.
The form is spare on purpose: small models pay for every token.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import get_close_matches

from sql_env.core.database import Cell, QueryResult, Row, TableSchema

ROWS_SHOWN = 20
CELL_CHARACTERS = 200
_PLAIN_FLOAT_DIGITS = 10


def render_cell(value: Cell) -> str:
    """One value as text that can be told apart from any other value's text."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    text = str(value)
    if len(text) > CELL_CHARACTERS:
        text = text[:CELL_CHARACTERS] + "…"
    # Quoted where a bare word would be read as something else.
    if not text or text != text.strip() or text.upper() == "NULL" or any(c in text for c in '|\n\r"'):
        return json.dumps(text, ensure_ascii=False)
    return text


def render_row(row: Row) -> str:
    return " | ".join(map(render_cell, row))


def render_rows(columns: Sequence[str], rows: Sequence[Row], limit: int = ROWS_SHOWN) -> str:
    """A header and at most `limit` rows; the true count where rows are left out."""
    if not rows:
        return f"{' | '.join(columns)}\n(no rows)"
    lines = [" | ".join(columns), *map(render_row, rows[:limit])]
    if len(rows) > limit:
        lines.append(f"({len(rows)} rows, the first {limit} shown)")
    return "\n".join(lines)


def render_schema(schema: TableSchema) -> str:
    """A table's columns, types, keys and size."""
    lines = [f"{schema.name} ({schema.row_count} rows)"]
    for column in schema.columns:
        key = " primary key" if column.primary_key else ""
        lines.append(f"{column.name} {column.type.lower()}".rstrip() + key)
    lines += [
        f"{key.column} -> {key.table}.{key.references}".rstrip(".") for key in schema.foreign_keys
    ]
    return "\n".join(lines)


def render_query_result(result: QueryResult) -> str:
    return render_rows(result.columns, result.rows)


def unknown_table(name: str, tables: Sequence[str]) -> str:
    """The error for a table that is not there, with the nearest name and all the names."""
    lowered = {table.lower(): table for table in tables}
    near = get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    guess = f" Did you mean {lowered[near[0]]}?" if near else ""
    return f"there is no table {name!r}.{guess} Tables: {', '.join(tables)}"
