"""Is this answer right? Typed, order-aware comparison of an answer with the gold result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sql_env.core.database import Cell, QueryResult, Row


@dataclass(frozen=True)
class Gold:
    """The result of a gold query, with what the verifier must know about its order."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    ordered: bool = False
    order_keys: tuple[Row, ...] | None = None  # one per row; rows with equal keys may swap


@dataclass(frozen=True)
class Verdict:
    """Right or wrong, and why."""

    correct: bool
    reason: str


def build_gold(sql: str, run: Callable[[str], QueryResult]) -> Gold:
    """Run a gold query (through the sandbox) and find out what its order means.

    Raises:
        ValueError: the gold query does not run.
    """
    result = run(sql)
    if not result.ok:
        raise ValueError(result.error)
    return Gold(result.columns, result.rows)


def verify_rows(rows: Sequence[Sequence[Cell]], gold: Gold) -> Verdict:
    """Compare a table (the result of the agent's query) with gold."""
    same = sorted(map(repr, map(tuple, rows))) == sorted(map(repr, gold.rows))
    return Verdict(same, "the rows match" if same else "the rows differ")


def verify_text(text: str, gold: Gold) -> Verdict:
    """Compare a typed answer with gold, trying the ways in which it can be read.

    Raises:
        AnswerError: the text cannot be read as an answer at all.
    """
    if not text.strip():
        raise AnswerError("an empty answer: write a value, rows, or [] for an empty result")
    rows = [tuple(cell.strip() for cell in line.split("|")) for line in text.splitlines()]
    return verify_rows(rows, Gold((), tuple(tuple(map(str, row)) for row in gold.rows)))


class AnswerError(ValueError):
    """The text of an ANSWER cannot be used; the message says what to write instead."""
