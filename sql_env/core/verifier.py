"""Is this answer right? Typed, order-aware comparison of an answer with the gold result.

Rows are a multiset, or a sequence where the gold query has a top-level ORDER BY (`core.gold` says
which rows may swap); columns may come in any one order (`core.matching`); values are equal by the
rules of `core.cells`; typed answers are read by `core.answers`. The verdict says why, without
giving gold values away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sql_env.core.answer_marks import bind
from sql_env.core.answers import AnswerError, read_answer
from sql_env.core.cells import ROUNDING_MODES, Rounding, TypedCell, decimals_kept
from sql_env.core.database import Cell
from sql_env.core.gold import Gold, build_gold
from sql_env.core.matching import ColumnMatcher

__all__ = ["AnswerError", "Gold", "Verdict", "build_gold", "verify_rows", "verify_text"]


@dataclass(frozen=True)
class Verdict:
    """Right or wrong, and why."""

    correct: bool
    reason: str


_CORRECT = Verdict(True, "the answer matches")


def verify_rows(rows: Sequence[Sequence[Cell]], gold: Gold) -> Verdict:
    """Compare a table (the result of the agent's successful query) with gold."""
    if tuple(rows) == gold.rows:
        return _CORRECT
    return _compare(rows, gold)


def verify_text(text: str, gold: Gold) -> Verdict:
    """Compare a typed answer with gold, trying the ways in which it can be read.

    Raises:
        AnswerError: the text cannot be read as an answer at all, whatever gold is.
    """
    verdict: Verdict | None = None
    for reading in read_answer(text, gold):
        found = _compare(reading.rows, gold, bind(reading.names, gold.columns))
        if found.correct:
            return found
        verdict = verdict or found
    assert verdict is not None
    return verdict


def _compare(
    rows: Sequence[Sequence[TypedCell]], gold: Gold, bound: Sequence[int | None] = ()
) -> Verdict:
    if len(rows) != len(gold.rows):
        return Verdict(False, f"expected {_count(len(gold.rows), 'row')}, got {len(rows)}")
    if not rows:
        return _CORRECT
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        return Verdict(False, "the rows have different numbers of columns")
    if widths != {gold.width}:
        return Verdict(False, f"expected {_count(gold.width, 'column')}, got {widths.pop()}")
    columns = list(zip(*rows, strict=True))
    if _matches(columns, gold, bound):
        return _CORRECT
    if any(column is not None for column in bound) and _matches(columns, gold, ()):
        return Verdict(False, "the values stand under the wrong names")
    return Verdict(False, _difference(columns, gold))


def _matches(
    columns: Sequence[Sequence[TypedCell]], gold: Gold, bound: Sequence[int | None]
) -> bool:
    """Whether gold matches as it is, or rounded to the decimals that each column has kept."""
    if ColumnMatcher(columns, gold, bound=bound).matches():
        return True
    if not gold.has_fractions:
        return False
    decimals = [decimals_kept(column) for column in columns]
    if all(kept is None for kept in decimals):
        return False
    return any(
        ColumnMatcher(
            columns,
            gold,
            [None if kept is None else Rounding(kept, mode) for kept in decimals],
            bound=bound,
        ).matches()
        for mode in ROUNDING_MODES
    )


def _difference(columns: Sequence[Sequence[TypedCell]], gold: Gold) -> str:
    """Why tables of the same shape differ, without gold's values."""
    if len(columns) == 1 and len(gold.rows) == 1:
        return "the value differs"
    unordered = ColumnMatcher(columns, gold, ignore_order=True)
    if gold.ordered and unordered.matches():
        return "the row order differs"
    column = unordered.unmatched_column()
    if column is None:
        return "each column's values match, but not row by row"
    return f"no column of the answer has the values of expected column {column + 1}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
