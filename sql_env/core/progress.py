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
MAX_CELLS = 10_000
MAX_NUMBERS = 32
_NUMBERS_LOOKED_AT = 256
_HUGE = 1e300  # infinity has no distance


class Profile(NamedTuple):
    """What is compared of a table."""

    rows: int
    columns: int
    values: frozenset[Cell]
    numbers: tuple[float, ...]


def profile(rows: Sequence[Row]) -> Profile:
    """The values of a table, and some of its numbers, sorted."""
    width = len(rows[0]) if rows else 0
    first = rows if len(rows) * width <= MAX_CELLS else rows[: MAX_CELLS // width + 1]
    return Profile(len(rows), width, frozenset(chain.from_iterable(first)), _some_numbers(first))


def closeness(rows: Sequence[Row], wanted: Profile) -> float:
    """1 for gold's own rows, 0 for nothing in common."""
    if not rows or not wanted.rows:
        return float(len(rows) == wanted.rows)
    ours = profile(rows)
    size = _ratio(ours.rows, wanted.rows) * _ratio(ours.columns, wanted.columns)
    shared = len(ours.values & wanted.values)
    overlap = shared / (len(ours.values) + len(wanted.values) - shared)
    score = SIZE_WEIGHT * size + OVERLAP_WEIGHT * overlap
    if not wanted.numbers:
        return score / (SIZE_WEIGHT + OVERLAP_WEIGHT)
    return score + NUMBERS_WEIGHT * _number_closeness(ours.numbers, wanted.numbers)


def _some_numbers(rows: Sequence[Row]) -> tuple[float, ...]:
    cells = islice(chain.from_iterable(rows), _NUMBERS_LOOKED_AT)
    numbers = sorted(v for v in cells if isinstance(v, (int, float)) and -_HUGE < v < _HUGE)
    step = max(1, -(-len(numbers) // MAX_NUMBERS))
    return tuple(numbers[::step])


def _ratio(a: int, b: int) -> float:
    return min(a, b) / max(a, b)


def _number_closeness(ours: Sequence[float], wanted: Sequence[float]) -> float:
    """How near the nearest of our numbers comes to each wanted one, relative to its size."""
    if not ours:
        return 0.0
    total = 0.0
    for number in wanted:
        at = bisect_left(ours, number)
        gap = min(abs(number - near) for near in ours[max(0, at - 1) : at + 1])
        total += max(0.0, 1.0 - gap / max(abs(number), 1.0))
    return total / len(wanted)
