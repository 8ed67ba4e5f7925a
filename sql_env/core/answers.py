"""Reads a typed answer: a value, a list or a table, in the forms people and models write.

JSON and Python literals, markdown and pipe tables, comma, semicolon or tab separated lines, bullets
and numbered lists, with or without a header or label, plain or decorated. One text can often be
read in several ways ("1,234" is a number or two of them); the readings that have gold's shape are
offered, and one of them has to match as a whole.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sql_env.core.answer_lines import (
    ROW_GAP,
    Reading,
    line_readings,
    names_columns,
    read_cell,
    split_cells,
    unlisted,
)
from sql_env.core.answer_marks import (
    bind,
    labels_value,
    split_label,
    undecorated,
    undecorated_cell,
    without_stop,
)
from sql_env.core.cells import Bare, TypedCell
from sql_env.core.gold import Gold

MAX_CHARACTERS = 100_000
_HOW = 'write a value, one row per line with " | " between values, a JSON list, or [] for no rows'
_EMPTY = re.compile(
    r"\[\s*(?:\[\s*\]\s*)?\]|\(\s*\)|\{\s*\}|no (?:rows|results)|\((?:no|0) rows\)|0 rows|"
    r"empty|\(empty\)",
    re.IGNORECASE,
)
_QUERY = re.compile(r"(?:select\b.*\bfrom|with\s+\w+\s+as\s*\(\s*select)\b", re.I | re.S)
_FENCE = re.compile(r"```\w*")
_BRACKET = re.compile(r'\\.|["\[\]{}]', re.DOTALL)
_ESCAPE = re.compile(r"""\\(?:[\\'"nrt]|x[\da-fA-F]{2}|u[\da-fA-F]{4})""")
_CLOSING = {"[": "]", "(": ")", "{": "}"}


class AnswerError(ValueError):
    """The text of an ANSWER cannot be used; the message says what to write instead."""


def read_answer(text: str, gold: Gold) -> Iterator[Reading]:
    """The readings of `text` that have gold's shape, or the nearest one where none has.

    Raises:
        AnswerError: whatever gold is, the text is not an answer.
    """
    text = _usable(text)
    offered: list[Reading] = []
    nearest: Reading | None = None
    for reading in _all_readings(text, gold):
        if _distance(reading, gold) == (False, 0):
            if reading not in offered:
                offered.append(reading)
                yield reading
        elif nearest is None or _distance(reading, gold) < _distance(nearest, gold):
            nearest = reading
    if not offered:
        yield Reading([(Bare(text),)]) if nearest is None else nearest


def _distance(reading: Reading, gold: Gold) -> tuple[bool, int]:
    """How badly a reading misses gold's shape: the wrong width is worse than missing rows."""
    rows = reading.rows
    return any(len(row) != gold.width for row in rows), abs(len(rows) - len(gold.rows))


def _usable(text: str) -> str:
    """`text` without fences and outer blanks. Gold must play no part here: a try would be free."""
    text = text.strip()
    if len(text) > MAX_CHARACTERS:
        raise AnswerError(f"an answer of {len(text):,} characters is too long: {_HOW}")
    lines = text.splitlines()
    if len(lines) > 1 and _FENCE.fullmatch(lines[0].strip()) and lines[-1].strip() == "```":
        text = "\n".join(lines[1:-1]).strip()
    if not text:
        raise AnswerError(f"an empty answer: {_HOW}")
    if text[0] in "[{" and not _balanced(text) and _parse_literal(text) is _NOTHING:
        raise AnswerError(f"the brackets of this answer do not close: {_HOW}")
    if _QUERY.match(text):
        raise AnswerError("this answer is a query: run it with QUERY first, then answer its result")
    return text


def _balanced(text: str) -> bool:
    """Whether square brackets and braces outside strings close."""
    counts = {"[": 0, "]": 0, "{": 0, "}": 0}
    inside = False
    for mark in _BRACKET.findall(text):
        if mark == '"':
            inside = not inside
        elif not inside and mark in counts:
            counts[mark] += 1
    return counts["["] == counts["]"] and counts["{"] == counts["}"]


def _all_readings(text: str, gold: Gold) -> Iterator[Reading]:
    """As it stands, then without decoration around the whole, the cells, and without labels."""
    bare = undecorated(text)
    versions = [version for version in dict.fromkeys((bare, without_stop(bare))) if version]
    for version in dict.fromkeys((text, *versions)):
        yield from _decorated_readings(version, gold)
    for version in versions:
        if version[:1] + version[-1:] == "{}":
            version = version[1:-1]
        if len(gold.rows) == 1 < gold.width:
            yield from _labelled_row(version, gold)
        elif gold.width == 1 and (unlabelled := _without_label(version, gold)):
            yield from _decorated_readings(unlabelled, gold)


def _decorated_readings(text: str, gold: Gold) -> Iterator[Reading]:
    for reading in _readings(text, gold):
        yield reading
        yield reading._replace(rows=[tuple(map(undecorated_cell, row)) for row in reading.rows])


def _without_label(text: str, gold: Gold) -> str:
    """What stands behind a label that fits gold's column, once or in each line; else nothing."""
    lines = text.splitlines()
    first = split_label(lines[0]) if lines else None
    if first is None or not labels_value(first[0], gold.columns[0] if gold.columns else ""):
        return ""
    rests = [split[1] for line in lines if (split := split_label(line)) and split[0] == first[0]]
    return "\n".join(rests if len(rests) == len(lines) else [first[1], *lines[1:]]).strip()


def _labelled_row(text: str, gold: Gold) -> Iterator[Reading]:
    """`min: 1, max: 10`, on one line or several, where each label names another column."""
    for separator in ("\n", ", ", ";", "|"):
        lines = [part.strip() for part in text.split(separator) if part.strip()]
        parts = list(map(split_label, unlisted(lines)))
        labelled = [part for part in parts if part is not None and part[1]]
        if len(labelled) == len(parts) == gold.width:
            names = tuple(label.strip(" \"'") for label, _ in labelled)
            if None not in bind(names, gold.columns):
                cells = tuple(read_cell(value) for _, value in labelled)
                yield Reading([cells], names)
                yield Reading([tuple(map(undecorated_cell, cells))], names)


def _readings(text: str, gold: Gold) -> Iterator[Reading]:
    # Pasted back as the environment shows it, an empty result has a header above it.
    if _EMPTY.fullmatch(text) or re.fullmatch(r"[^\n]+\n\(no rows\)", text):
        yield Reading([])
    structured = list(_structured_readings(text, gold))
    yield from structured
    if not (structured and text[0] in "[{"):
        yield from line_readings(text, gold)


# -- JSON and literals -------------------------------------------------------------------------


def _structured_readings(text: str, gold: Gold) -> Iterator[Reading]:
    value = _parse_literal(text)
    if value is not _NOTHING:
        if isinstance(value, dict) and len(value) == 1:  # {"answer": …}
            (only,) = value.values()
            value = only if isinstance(only, list | tuple | dict) else value
        yield from _value_readings(value, gold)
        return
    lines = [_parse_literal(line.strip().rstrip(",;")) for line in text.splitlines()]
    lines = [line for line in lines if line != ""]
    if len(lines) > 1 and all(isinstance(line, list | tuple | dict) for line in lines):
        yield from _value_readings(lines, gold)
    elif text[-1] == _CLOSING.get(text[0]):
        yield from _bracket_readings(text, gold)


_NOTHING = object()


def _parse_literal(text: str) -> Any:
    """A JSON or Python literal; numbers stay as they were typed. `_NOTHING` where it is neither."""
    if not text:
        return ""
    try:
        return json.loads(text, parse_float=Bare, parse_int=Bare, parse_constant=Bare)
    except (ValueError, RecursionError):
        pass
    # Python warns of escapes that it does not know.
    if text[0] not in "[({'\"" or "\\" in _ESCAPE.sub("", text):
        return _NOTHING
    try:
        value = ast.literal_eval(text)
        # A set forgets the order in which it was typed, and what was typed twice.
        return ast.literal_eval(f"[{text[1:-1]}]") if isinstance(value, set) else value
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return _NOTHING


def _value_readings(value: Any, gold: Gold) -> Iterator[Reading]:
    if isinstance(value, dict):
        rows = value.get("rows", value.get("data"))
        if isinstance(value.get("columns"), list) and isinstance(rows, list):
            if all(isinstance(row, list | tuple) for row in rows):
                yield from _table_readings(rows, value["columns"])
            else:
                yield from _value_readings(rows, gold)
        yield from _mapping_readings(value)
    elif not isinstance(value, list | tuple):
        yield from _table_readings([[value]])
    elif value and all(isinstance(row, dict) for row in value):
        if all(row.keys() == value[0].keys() for row in value):
            yield from _table_readings([[row[key] for key in value[0]] for row in value], value[0])
    elif value and all(isinstance(row, list | tuple) for row in value):
        yield from _table_readings(value)
        if all(isinstance(name, str) for name in value[0]) and names_columns(value[0], gold):
            yield from _table_readings(value[1:], value[0])
    else:
        yield from _flat_readings(value, gold)


def _mapping_readings(value: dict[Any, Any]) -> Iterator[Reading]:
    """Columns of lists, a row by column, or pairs."""
    values = list(value.values())
    lists = values and all(isinstance(item, list | tuple) for item in values)
    if lists and len({len(item) for item in values}) == 1:
        yield from _table_readings(list(zip(*values, strict=True)), value)
    else:
        yield from _table_readings([values], value)
        yield from _table_readings(list(value.items()))


def _flat_readings(cells: Sequence[Any], gold: Gold) -> Iterator[Reading]:
    """A flat list is a column; where gold is a single row it may be that row."""
    as_row = len(gold.rows) == 1 and gold.width > 1
    yield from _table_readings([list(cells)] if as_row else [[cell] for cell in cells])


def _table_readings(rows: Sequence[Sequence[Any]], names: Iterable[Any] = ()) -> Iterator[Reading]:
    if all(cell is None or isinstance(cell, _SCALARS) for row in rows for cell in row):
        cells = [tuple(_literal_cell(cell) for cell in row) for row in rows]
        yield Reading(cells, tuple(map(_name, names)))


def _name(name: Any) -> str:
    return name.text if isinstance(name, Bare) else str(name)


_SCALARS = (str, int, float, bytes, Bare)


def _literal_cell(cell: Any) -> TypedCell:
    # Numbers of a Python literal go through their text, which keeps the decimals that were typed.
    if isinstance(cell, int | float):
        return Bare(repr(cell))
    value: TypedCell = cell
    return value


def _bracket_readings(text: str, gold: Gold) -> Iterator[Reading]:
    """Lists whose words have no quotes: [Ann, Bob], [(Ann, 3), (Bob, 4)], (Ann, 3), (Bob, 4)."""
    for inner in (text[1:-1].strip(), text):
        parts = ROW_GAP.split(inner)
        if all(part and _CLOSING.get(part[0]) == part[-1] for part in parts):
            yield Reading([tuple(split_cells(part[1:-1], ",")) for part in parts])
    for separator in (", ", ","):
        yield from _flat_readings(split_cells(text[1:-1], separator), gold)
