"""Ways to spoil a table: each yields tables that are mostly, but not always, wrong answers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

Rows = list[tuple[Any, ...]]


def changed(value: Any, rng: random.Random) -> Any:
    """Another value, and no longer an equal one."""
    if value is None:
        return rng.choice(["", 0])
    if value == "" or value == 0:
        return rng.choice([None, "" if value == 0 else 0, 1])
    if isinstance(value, int):
        return value + rng.choice([-1, 1])
    if isinstance(value, float):
        return value * 1.01 + 0.5
    if isinstance(value, bytes):
        return value + b"!"
    return rng.choice([value + "x", value[1:], "x" + value, value + " " + value])


def mutations(rows: Rows, rng: random.Random) -> Iterator[tuple[str, Rows]]:
    """Each way once, at random places of the table."""
    if not rows:
        yield "invented row", [(None,)]
        yield "invented row", [(0,)]
        return
    size, width = len(rows), len(rows[0])
    at = rng.randrange(size)
    column = rng.randrange(width)
    yield "dropped row", rows[:at] + rows[at + 1 :]
    yield "duplicated row", [*rows, rows[at]]
    if size > 1:
        other = rng.choice([i for i in range(size) if i != at])
        yield (
            "a row in place of another",
            [rows[other] if i == at else row for i, row in enumerate(rows)],
        )
        yield "two rows swapped", [rows[{at: other, other: at}.get(i, i)] for i in range(size)]
        yield "two cells swapped", _swap_cells(rows, at, other, column)
        yield "reversed", rows[::-1]
        shuffled = rows[:]
        rng.shuffle(shuffled)
        yield "shuffled", shuffled
        cells = [row[column] for row in rows]
        rng.shuffle(cells)
        yield (
            "a column scrambled across rows",
            [_replace(row, column, cell) for row, cell in zip(rows, cells, strict=True)],
        )
        yield (
            "a column sorted by itself",
            [
                _replace(row, column, cell)
                for row, cell in zip(rows, sorted(cells, key=repr), strict=True)
            ],
        )
        yield "no duplicates", list(dict.fromkeys(rows))
    yield (
        "changed row",
        [tuple(changed(c, rng) for c in row) if i == at else row for i, row in enumerate(rows)],
    )
    yield (
        "changed cell",
        [
            _replace(row, column, changed(row[column], rng)) if i == at else row
            for i, row in enumerate(rows)
        ],
    )
    yield "a column too many", [(*row, row[column]) for row in rows]
    yield "no rows", []
    if width > 1:
        yield "lost column", [row[:column] + row[column + 1 :] for row in rows]
        other = rng.choice([i for i in range(width) if i != column])
        yield "a column in place of another", [_replace(row, column, row[other]) for row in rows]
        yield (
            "one row's cells rotated",
            [(*row[1:], row[0]) if i == at else row for i, row in enumerate(rows)],
        )
        yield "columns rotated", [(*row[1:], row[0]) for row in rows]


def _replace(row: tuple[Any, ...], column: int, value: Any) -> tuple[Any, ...]:
    return (*row[:column], value, *row[column + 1 :])


def _swap_cells(rows: Rows, first: int, second: int, column: int) -> Rows:
    swapped = rows[:]
    swapped[first] = _replace(rows[first], column, rows[second][column])
    swapped[second] = _replace(rows[second], column, rows[first][column])
    return swapped
