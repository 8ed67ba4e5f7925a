"""Reads typed lines: tables drawn with bars, commas or tabs, lists with bullets, headers or not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sql_env.core.answer_marks import undecorated_cell
from sql_env.core.cells import Bare, TypedCell, normalize_text, typed_number
from sql_env.core.gold import Gold

Rows = list[tuple[TypedCell, ...]]


class Reading(NamedTuple):
    """One way to read a text: rows, and the names above them where there are any."""

    rows: Rows
    names: tuple[str, ...] = ()


# Between the rows of a table typed on one line: (Ann, 3), (Bob, 4).
ROW_GAP = re.compile(r"(?<=[)\]])\s*(?:[,;]\s*)?(?=[(\[])")
_BORDER_CHARACTERS = frozenset(" \t|+:=-")
_ROW_COUNT = re.compile(r"\(\d[\d,]* rows?\b[^()]*\)")
_NULLS = ("NULL", "NONE")
_BULLET = re.compile(r"[-*•]\s+")
_NUMBERING = re.compile(r"(\d{1,6})[.)]\s+")
_AND = re.compile(r",?(?<!\s)\s+and\s+")  # a run of blanks is tried from its first only
# Around a quoted cell blanks are skipped, but no tab: that may be what separates the cells.
_DOUBLE_QUOTED = re.compile(r"""[^\S\t]*("(?>(?:[^"\\]|\\.|"")*)")[^\S\t]*""", re.DOTALL)
_QUOTED = re.compile(
    r"""[^\S\t]*("(?>(?:[^"\\]|\\.|"")*)"|'(?>(?:[^'\\]|\\.|'')*)')[^\S\t]*""", re.DOTALL
)
# Malformed quotes are tried this often in one line; then a quote is a character like any other.
_QUOTE_ATTEMPTS = 16
_SEPARATORS = ("|", "\t", ";", ", ", ",", ": ", " - ")


def line_readings(text: str, gold: Gold) -> Iterator[Reading]:
    """The tables that `text` may stand for, line by line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    tidy, headed = _tidy(lines)
    for version in (lines, tidy) if tidy and tidy != lines else (lines,):
        for separator in _SEPARATORS:
            if separator != "|" and separator not in text:
                continue
            body = version
            ruled = headed and version is tidy
            names: tuple[str, ...] = ()
            if len(version) > 1 and (ruled or _is_header(version[0], gold, separator)):
                body, names = version[1:], _header(version[0], separator)
            for rows in _body_readings(body, separator, gold):
                yield Reading(rows, names)
            if body is not version and len(version) == len(gold.rows):
                for rows in _body_readings(version, separator, gold):
                    yield Reading(rows)


def _body_readings(lines: Sequence[str], separator: str, gold: Gold) -> Iterator[Rows]:
    rows = [tuple(split_cells(line, separator)) for line in lines]
    yield [(read_cell(line),) for line in lines] if gold.width == 1 else rows
    if len(lines) == 1:
        line = lines[0]
        if gold.width == 1 and separator in line:
            yield [(cell,) for cell in rows[0]]
            yield [(cell,) for cell in split_cells(_AND.sub(separator, line), separator)]
        elif gold.width == 1:
            yield [(read_cell(part),) for part in _AND.split(line)]
        elif separator != ";":
            gap = ", " if separator == ": " and ";" not in line else ";"
            parts = ROW_GAP.sub(";", line).split(gap)
            yield [tuple(split_cells(part.strip().strip("(){}"), separator)) for part in parts]
    if len(gold.rows) == 1 and len(lines) == gold.width:
        yield [tuple(read_cell(line) for line in lines)]


def _tidy(lines: list[str]) -> tuple[list[str], bool]:
    """Lines without a table's frame, bullets and row count; whether a rule marks a header."""
    rules = [_is_border(line) for line in lines]
    headed = rules[:2] == [False, True] or (rules[:3] == [True, False, True] and len(lines) > 3)
    body = [line for line, rule in zip(lines, rules, strict=True) if not rule]
    if len(body) > 1 and _ROW_COUNT.fullmatch(body[-1]):
        body.pop()
    if len(body) > 1 and body[0].endswith(":") and unlisted(body[1:]) != body[1:]:
        body = body[1:]  # "The singers are:" above a list
    if body and all(len(line) > 1 and line[0] == line[-1] == "|" for line in body):
        return [line[1:-1].strip() for line in body], headed
    return unlisted(body), headed


def unlisted(lines: list[str]) -> list[str]:
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
    return names_columns(_header(line, separator), gold)


def _header(line: str, separator: str) -> tuple[str, ...]:
    cells = split_cells(line.strip().strip("|") if separator == "|" else line, separator)
    return tuple(map(_text, cells))


def _text(cell: TypedCell) -> str:
    return cell.text if isinstance(cell, Bare) else str(cell)


def names_columns(cells: Sequence[str], gold: Gold) -> bool:
    """A header repeats gold's names, or stands as words above numbers."""
    names = sorted(map(normalize_text, cells))
    if names == sorted(map(normalize_text, gold.columns)):
        return True
    bare = [_text(undecorated_cell(Bare(cell))) for cell in cells]
    words = all(
        typed_number(cell) is None and cell.upper() not in _NULLS and cell[:1] not in ("(", "[")
        for cell in bare
    )
    return words and len(cells) == gold.width and gold.has_numeric_column


def split_cells(line: str, separator: str) -> list[TypedCell]:
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
            cells.append(read_cell(match[1]))
            at = stop + len(separator.strip(" ") or separator)
            continue
        attempts -= match is not None
        stop = line.find(separator, at)
        stop = len(line) if stop < 0 else stop
        cells.append(read_cell(line[at:stop]))
        at = stop + len(separator)
    return cells


def read_cell(text: str) -> TypedCell:
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
