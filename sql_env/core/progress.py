"""How close is a query's result to gold? A cheap number between 0 and 1 for the progress reward.

A weighted mean of three views: the size of the table, the values it shares with gold, and how near
its numbers come. It steers exploration and decides nothing: correctness is the verifier's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import chain, islice
from typing import NamedTuple

from sql_env.core.database import Cell, Row

SIZE_WEIGHT = 0.25
OVERLAP_WEIGHT = 0.50
NUMBERS_WEIGHT = 0.25
# Bounds on the work for one result; a result of this size has cost SQLite more already.
MAX_CELLS = 30_000
MAX_NUMBERS = 32
_NUMBERS_LOOKED_AT = 256
_HUGE = 1e300  # infinity has no distance


class Profile(NamedTuple):
    """What is compared of gold."""

    rows: int
    columns: int
    values: frozenset[Cell]
    numbers: tuple[float, ...]


def profile(rows: Sequence[Row]) -> Profile:
    """Gold's size, its values and some of its numbers."""
    return Profile(
        len(rows), len(rows[0]) if rows else 0, distinct_values(rows), _some_numbers(rows)
    )


def closeness(rows: Sequence[Row], wanted: Profile, values: frozenset[Cell] | None = None) -> float:
    """1 for gold's own rows, 0 for nothing in common; `values` are those of `rows`, where known."""
    if not rows or not wanted.rows:
        return float(len(rows) == wanted.rows)
    size = _ratio(len(rows), wanted.rows) * _ratio(len(rows[0]), wanted.columns)
    values = distinct_values(rows) if values is None else values
    shared = len(values & wanted.values)
    overlap = shared / (len(values) + len(wanted.values) - shared)
    score = SIZE_WEIGHT * size + OVERLAP_WEIGHT * overlap
    if not wanted.numbers:
        return score / (SIZE_WEIGHT + OVERLAP_WEIGHT)
    # The numbers are among the values: where none of those is missing, none of these is.
    numbers = wanted.numbers if shared < len(wanted.values) else ()
    missing = [number for number in numbers if number not in values]
    near = float(len(wanted.numbers) - len(missing))
    if missing:
        near += _nearness(_some_numbers(rows), missing)
    return score + NUMBERS_WEIGHT * near / len(wanted.numbers)


def distinct_values(rows: Sequence[Row]) -> frozenset[Cell]:
    """What stands in the cells of a result, as far as it is looked at."""
    if rows and len(rows) * len(rows[0]) > MAX_CELLS:
        rows = rows[: MAX_CELLS // len(rows[0])]
    return frozenset(chain.from_iterable(rows))


def _some_numbers(rows: Sequence[Row]) -> tuple[float, ...]:
    cells = islice(chain.from_iterable(rows), _NUMBERS_LOOKED_AT)
    numbers = sorted(v for v in cells if isinstance(v, (int, float)) and -_HUGE < v < _HUGE)
    return tuple(numbers[:: -(-len(numbers) // MAX_NUMBERS) or 1])


def _ratio(a: int, b: int) -> float:
    return a / b if a < b else b / a


def _nearness(ours: Sequence[float], wanted: Sequence[float]) -> float:
    """The sum, over the wanted numbers, of how near the nearest of ours comes, from 0 to 1."""
    if not ours:
        return 0.0
    total = 0.0
    for number in wanted:
        at = bisect_left(ours, number)
        gap = min(abs(number - near) for near in ours[max(0, at - 1) : at + 1])
        total += max(0.0, 1.0 - gap / max(abs(number), 1.0))
    return total
