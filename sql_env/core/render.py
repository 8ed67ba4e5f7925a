"""Everything an agent reads is made here: schemas, rows and the errors about tables.

One place, so that evaluation, training, the page and a person at the terminal see the same text.
The form is spare on purpose: small models pay for every token. It is also safe to read back: a cell
never spans lines, a bare "|" only ever separates cells, and "…" only ever marks a cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache

from sql_env.core.database import Cell, QueryResult, Row, TableSchema
from sql_env.core.schema import sql_name
from sql_env.core.suggestions import did_you_mean

ROWS_SHOWN = 20
CELL_CHARACTERS = 200
# Of a whole result, which may have 128 columns, and of what an agent wrote or SQLite says of it.
RESULT_CHARACTERS = 10_000
ECHO_CHARACTERS = 2_000
CUT_MARK = "…"
NO_ROWS = "(no rows)"
_NAME_CHARACTERS = 64
_SHORT = 64  # characters of a text whose form is remembered
# Below this, twelve digits will do: averages without their noise, within the verifier's tolerance.
_FEW_DIGITS = 1e10
# Where a bare word would be read as something else: NULL, the start of a list, of a blob or of a
# query. Only words that begin with one of these characters are looked at that closely.
_SUSPECTS = frozenset(" [{`nNxXsSwW")
_MISLEADING = re.compile(r"[\s\[{`]|(?:null|none)\Z|x'|select\b|with\b", re.IGNORECASE)


def render_cell(value: Cell) -> str:
    """One value as text: numbers, NULL and blobs bare, texts bare where that is unambiguous."""
    if isinstance(value, str):
        return _short_text(value) if len(value) <= _SHORT else _guarded(value)
    if isinstance(value, int):
        return str(value)
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return _number(value)
    shown = value[: CELL_CHARACTERS // 2]
    return f"x'{shown.hex()}'" + (CUT_MARK if len(shown) < len(value) else "")


def _is_plain(text: str) -> bool:
    """Whether a text can stand bare: plain string operations before any pattern."""
    return (
        text != ""
        and text.isprintable()
        and "|" not in text
        and '"' not in text
        and CUT_MARK not in text
        and text[-1] != " "
        and (text[0] not in _SUSPECTS or _MISLEADING.match(text) is None)
    )


def _number(value: float) -> str:
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return format(value, ".12g") if abs(value) < _FEW_DIGITS else repr(value)


def _guarded(text: str) -> str:
    """A text cut to size and, where it needs it, as a JSON string on one line."""
    shown = text[:CELL_CHARACTERS]
    if not _is_plain(shown):
        shown = json.dumps(shown, ensure_ascii=False)
        if CUT_MARK in shown or not shown.isprintable():
            shown = "".join(
                c if c.isprintable() and c != CUT_MARK else json.dumps(c)[1:-1] for c in shown
            )
    return shown + CUT_MARK if len(text) > CELL_CHARACTERS else shown


# Hot, and the episodes about one database show the same texts again and again.
_short_text = lru_cache(maxsize=10_000)(_guarded)


def render_row(row: Row) -> str:
    """The cells of a row, separated by bars."""
    text = ""
    for cell in row:
        text += f" | {render_cell(cell)}" if text else render_cell(cell)
    return text


# The same queries come again and again; long names would fill the memory.
_short_header = lru_cache(maxsize=1_000)(render_row)
_SHORT_HEADER = 500


def render_rows(columns: tuple[str, ...], rows: Sequence[Row], limit: int = ROWS_SHOWN) -> str:
    """A header and at most `limit` rows; the true count where rows are left out."""
    short = sum(map(len, columns)) <= _SHORT_HEADER
    text = _short_header(columns) if short else render_row(columns)
    for row in rows[:limit]:
        text += f"\n{render_row(row)}"
    if not rows:
        text += f"\n{NO_ROWS}"
    elif len(rows) > limit:
        text += f"\n({len(rows)} rows, the first {limit} shown)"
    return text


def render_query_result(result: QueryResult) -> str:
    """The outcome of a successful query, cut with a note where it is too long to read."""
    text = render_rows(result.columns, result.rows)
    if len(text) <= RESULT_CHARACTERS:
        return text
    most = RESULT_CHARACTERS // 2 - 1  # room for the header and one row
    kept: list[str] = []
    for line in text.split("\n")[: 1 + min(len(result.rows), ROWS_SHOWN)]:
        line = line if len(line) <= most else line[:most] + CUT_MARK
        if sum(map(len, kept)) + len(line) > RESULT_CHARACTERS:
            break
        kept.append(line)
    note = f"({len(result.rows)} rows, the first {len(kept) - 1} shown: select fewer columns)"
    return "\n".join([*kept, note])


def render_echo(text: str) -> str:
    """What an agent wrote, or an error that quotes it, cut with a note where it is very long."""
    if len(text) <= ECHO_CHARACTERS:
        return text
    return f"{text[:ECHO_CHARACTERS]}{CUT_MARK} (cut: {len(text):,} characters)"


def render_schema(schema: TableSchema) -> str:
    """A table's columns, types, keys and size: one line each.

    Names stand there as a query can use them: `table.column`, and a foreign key as the condition of
    the join it is for. A small model copies; it hardly remembers which table a line was under. That
    is worth a tenth more tokens. The space before each name costs none: to a tokenizer ` ports` in
    a query is another word than `ports` at the start of a line, and what has to be copied should
    look the same in both places.
    """
    name = spelt_identifier(schema.name)
    lines = [f"{name} ({schema.row_count} rows)"]
    for column in schema.columns:
        key = " primary key" if column.primary_key else ""
        kind = " ".join(column.type.lower().split())
        lines.append(f" {name}.{spelt_identifier(column.name)} {kind}".rstrip() + key)
    for foreign in schema.foreign_keys:
        key = f"{name}.{spelt_identifier(foreign.column)}"
        target = spelt_identifier(foreign.table)
        if foreign.references:
            lines.append(f" {key} = {target}.{spelt_identifier(foreign.references)}")
        else:  # SQLite leaves it to the other table's primary key
            lines.append(f" {key} -> {target}")
    return "\n".join(lines)


def spelt_identifier(name: str) -> str:
    """A name the way a query has to spell it, on one line."""
    spelt = sql_name(name)
    return spelt if spelt.isprintable() else _guarded(name)


def unknown_table(name: str, tables: Sequence[str]) -> str:
    """The error for a table that is not there, with the nearest name and all the names."""
    name = name if len(name) <= _NAME_CHARACTERS else name[:_NAME_CHARACTERS] + CUT_MARK
    return f"there is no table {name!r}.{did_you_mean(name, tables)} Tables: {', '.join(tables)}"
