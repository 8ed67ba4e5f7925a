"""Reads a typed answer: a value, a list or a table, in the forms people and models write.

JSON and Python literals, markdown and pipe tables, comma, semicolon or tab separated lines, bullets
and numbered lists, with or without a header. One text can often be read in several ways ("1,234" is
a number or two of them); the readings that have gold's shape are offered, and one of them has to
match as a whole.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from sql_env.core.cells import Bare, TypedCell, normalize_text, typed_number
from sql_env.core.gold import Gold

Reading = list[tuple[TypedCell, ...]]

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
_BORDER_CHARACTERS = frozenset(" \t|+:=-")
_ROW_COUNT = re.compile(r"\(\d[\d,]* rows?\b[^()]*\)")
_BULLET = re.compile(r"[-*•]\s+")
_NUMBERING = re.compile(r"(\d{1,6})[.)]\s+")
_ROW_GAP = re.compile(r"(?<=[)\]])\s*(?:[,;]\s*)?(?=[(\[])")
_AND = re.compile(r",?\s+and\s+")
_DOUBLE_QUOTED = re.compile(r"""\s*("(?>(?:[^"\\]|\\.|"")*)")\s*""", re.DOTALL)
_QUOTED = re.compile(r"""\s*("(?>(?:[^"\\]|\\.|"")*)"|'(?>(?:[^'\\]|\\.|'')*)')\s*""", re.DOTALL)
# Malformed quotes are tried this often in one line; then a quote is a character like any other.
_QUOTE_ATTEMPTS = 16
_SEPARATORS = ("|", "\t", ";", ", ", ",", ": ", " - ")
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
    misfits: list[Reading] = []
    for reading in _readings(text, gold):
        right_width = all(len(row) == gold.width for row in reading)
        if len(reading) != len(gold.rows) or not right_width:
            misfits.append(reading)
        elif reading not in offered:
            offered.append(reading)
            yield reading
    if not offered:
        yield min(misfits, key=lambda rows: _distance(rows, gold))


def _distance(rows: Reading, gold: Gold) -> tuple[bool, int]:
    """How badly a reading misses gold's shape: the wrong width is worse than missing rows."""
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
    if text[0] in "[{" and not _balanced(text):
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


def _readings(text: str, gold: Gold) -> Iterator[Reading]:
    lines = text.splitlines()
    headed = len(lines) == 2 and _is_header(lines[0], gold, "|")
    if _EMPTY.fullmatch(lines[-1].strip()) and (len(lines) == 1 or headed):
        yield []
    structured = list(_structured_readings(text, gold))
    yield from structured
    if not (structured and text[0] in "[{"):
        yield from _line_readings(text, gold)


# -- JSON and literals -------------------------------------------------------------------------


def _structured_readings(text: str, gold: Gold) -> Iterator[Reading]:
    value = _parse_literal(text)
    if value is not _NOTHING:
        yield from _value_readings(value, gold)
        return
    lines = [_parse_literal(line.strip().rstrip(",;")) for line in text.splitlines()]
    lines = [line for line in lines if line != ""]
    if len(lines) > 1 and all(isinstance(line, list | tuple | dict) for line in lines):
        yield from _value_readings(lines, gold)
    elif text[0] in "[(" and text[-1] == _CLOSING[text[0]]:
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
    if text[0] not in "[({'\"" or "\\" in text:  # Python warns of escapes it does not know
        return _NOTHING
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return _NOTHING


def _value_readings(value: Any, gold: Gold) -> Iterator[Reading]:
    if isinstance(value, dict):
        yield from _mapping_readings(value, gold)
    elif not isinstance(value, list | tuple):
        yield from _table_readings([[value]])
    elif value and all(isinstance(row, dict) for row in value):
        if all(row.keys() == value[0].keys() for row in value):
            yield from _table_readings([[row[key] for key in value[0]] for row in value])
    elif value and all(isinstance(row, list | tuple) for row in value):
        yield from _table_readings(value)
        if all(isinstance(name, str) for name in value[0]) and _names_columns(value[0], gold):
            yield from _table_readings(value[1:])
    else:
        yield from _flat_readings(value, gold)


def _mapping_readings(value: dict[Any, Any], gold: Gold) -> Iterator[Reading]:
    """{"answer": …}, a row by column, columns of lists, or pairs."""
    values = list(value.values())
    nested = [isinstance(item, list | tuple | dict) for item in values]
    if nested == [True]:
        yield from _value_readings(values[0], gold)
    elif all(nested) and len({len(item) for item in values}) == 1:
        yield from _table_readings(list(zip(*values, strict=True)))
    else:
        yield from _table_readings([values])
        yield from _table_readings(list(value.items()))


def _flat_readings(cells: Sequence[Any], gold: Gold) -> Iterator[Reading]:
    """A flat list is a column; where gold is a single row it may be that row."""
    as_row = len(gold.rows) == 1 and gold.width > 1
    yield from _table_readings([list(cells)] if as_row else [[cell] for cell in cells])


def _table_readings(rows: Sequence[Sequence[Any]]) -> Iterator[Reading]:
    if all(cell is None or isinstance(cell, _SCALARS) for row in rows for cell in row):
        yield [tuple(_literal_cell(cell) for cell in row) for row in rows]


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
        parts = _ROW_GAP.split(inner)
        if all(part and _CLOSING.get(part[0]) == part[-1] for part in parts):
            yield [tuple(_split(part[1:-1], ",")) for part in parts]
    for separator in (", ", ","):
        yield from _flat_readings(_split(text[1:-1], separator), gold)


# -- lines -------------------------------------------------------------------------------------


def _line_readings(text: str, gold: Gold) -> Iterator[Reading]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    tidy, headed = _tidy(lines)
    for version in (lines, tidy) if tidy != lines else (lines,):
        for separator in _SEPARATORS:
            if separator != "|" and separator not in text:
                continue
            body = version
            has_header = _is_header(version[0], gold, separator) if version else False
            if len(version) > 1 and (has_header or (headed and version is tidy)):
                body = version[1:]
            yield from _body_readings(body, separator, gold)
            if body is not version and len(version) == len(gold.rows):
                yield from _body_readings(version, separator, gold)


def _body_readings(lines: Sequence[str], separator: str, gold: Gold) -> Iterator[Reading]:
    rows = [tuple(_split(line, separator)) for line in lines]
    yield [(_cell(line),) for line in lines] if gold.width == 1 else rows
    if len(lines) == 1:
        line = lines[0]
        if gold.width == 1 and separator in line:
            yield [(cell,) for cell in rows[0]]
            yield [(cell,) for cell in _split(_AND.sub(separator, line), separator)]
        elif gold.width == 1:
            yield [(_cell(part),) for part in _AND.split(line)]
        elif separator != ";":
            parts = _ROW_GAP.sub(";", line).split(";")
            yield [tuple(_split(part.strip().strip("()"), separator)) for part in parts]
    if len(gold.rows) == 1 and len(lines) == gold.width:
        yield [tuple(_cell(line) for line in lines)]


def _tidy(lines: list[str]) -> tuple[list[str], bool]:
    """Lines without a table's frame, bullets and row count; whether a rule marks a header."""
    rules = [_is_border(line) for line in lines]
    headed = rules[:2] == [False, True] or (rules[:3] == [True, False, True] and len(lines) > 3)
    body = [line for line, rule in zip(lines, rules, strict=True) if not rule]
    if len(body) > 1 and _ROW_COUNT.fullmatch(body[-1]):
        body.pop()
    if len(body) > 1 and body[0].endswith(":") and _unlisted(body[1:]) != body[1:]:
        body = body[1:]  # "The singers are:" above a list
    if body and all(len(line) > 1 and line[0] == line[-1] == "|" for line in body):
        return [line[1:-1].strip() for line in body], headed
    return _unlisted(body), headed


def _unlisted(lines: list[str]) -> list[str]:
    """Lines without bullets or running numbers, where every line has one."""
    if all(map(_BULLET.match, lines)):
        return [_BULLET.sub("", line, count=1) for line in lines]
    numbers = list(map(_NUMBERING.match, lines))
    if all(match and int(match[1]) == place for place, match in enumerate(numbers, 1)):
        return [_NUMBERING.sub("", line, count=1) for line in lines]
    return lines


def _is_border(line: str) -> bool:
    return "--" in line and _BORDER_CHARACTERS.issuperset(line)


def _is_header(line: str, gold: Gold, separator: str) -> bool:
    cells = _split(line.strip().strip("|") if separator == "|" else line, separator)
    return _names_columns([c.text if isinstance(c, Bare) else str(c) for c in cells], gold)


def _names_columns(cells: Sequence[str], gold: Gold) -> bool:
    """A header repeats gold's names, or stands as words above numbers."""
    names = sorted(map(normalize_text, cells))
    if names == sorted(map(normalize_text, gold.columns)):
        return True
    words = all(typed_number(cell) is None and cell.upper() != "NULL" for cell in cells)
    return words and len(cells) == gold.width and gold.has_numeric_column


def _split(line: str, separator: str) -> list[TypedCell]:
    """The cells of a line; a separator inside a quoted cell does not count."""
    if '"' not in line and "'" not in line:
        return [Bare(part.strip()) for part in line.split(separator)]
    cells: list[TypedCell] = []
    at, attempts = 0, _QUOTE_ATTEMPTS
    # Between bars, as the environment shows rows, an apostrophe is an apostrophe.
    quoted = _DOUBLE_QUOTED if separator == "|" else _QUOTED
    while at <= len(line):
        match = quoted.match(line, at) if attempts else None
        stop = match.end() if match else len(line)
        if match and (stop == len(line) or line.startswith(separator.strip(" "), stop)):
            cells.append(_cell(match[1]))
            at = stop + len(separator.strip(" ") or separator)
            continue
        attempts -= match is not None
        stop = line.find(separator, at)
        stop = len(line) if stop < 0 else stop
        cells.append(_cell(line[at:stop]))
        at = stop + len(separator)
    return cells


def _cell(text: str) -> TypedCell:
    """A quoted cell is a text and nothing else; a bare one is whatever gold has."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text))
        except ValueError:
            return text[1:-1].replace('""', '"')
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return Bare(text)
