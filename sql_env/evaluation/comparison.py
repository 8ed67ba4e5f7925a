"""Two runs over the same questions, compared in pairs: what was won, what was lost, is it luck?"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

from sql_env.agent.episodes import EpisodeResult
from sql_env.evaluation.metrics import Z_95


class ComparisonError(ValueError):
    """The runs have no question in common."""


@dataclass(frozen=True)
class Comparison:
    """What changed from `before` to `after`, over the questions that both played.

    With one sample per question `p_value` is McNemar's exact test; with several it is the sign test
    over the questions whose success went up or down, which is the same thing for one sample.
    """

    n_questions: int
    rate_before: float
    rate_after: float
    difference: float
    low: float  # of the difference, 95 %
    high: float
    won: tuple[str, ...]
    lost: tuple[str, ...]
    both_right: int
    both_wrong: int
    p_value: float
    only_before: int  # questions that just one of the runs played
    only_after: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def sentence(self) -> str:
        """The comparison for people, in one line."""
        direction = "up" if self.difference > 0 else "down" if self.difference < 0 else "unchanged"
        sure = "more than chance" if self.p_value < 0.05 else "within chance"
        return (
            f"{self.rate_before:.1%} → {self.rate_after:.1%}, {direction} "
            f"{100 * abs(self.difference):.1f} points "
            f"[{100 * self.low:+.1f}, {100 * self.high:+.1f}]: "
            f"{len(self.won)} won, {len(self.lost)} lost of {self.n_questions}, "
            f"p = {self.p_value:.3g} ({sure})"
        )


def compare(before: Sequence[EpisodeResult], after: Sequence[EpisodeResult]) -> Comparison:
    """Pair the episodes of two runs by their questions.

    Raises:
        ComparisonError: there is nothing to pair.
    """
    old, new = _success_by_question(before), _success_by_question(after)
    shared = [question for question in old if question in new]
    if not shared:
        raise ComparisonError(
            "the runs have no question in common: compare runs over the same dataset and split"
        )
    changes = {question: new[question] - old[question] for question in shared}
    won = tuple(question for question in shared if changes[question] > 0)
    lost = tuple(question for question in shared if changes[question] < 0)
    unchanged = [question for question in shared if changes[question] == 0]
    difference = fmean(changes.values())
    spread = stdev(changes.values()) / math.sqrt(len(shared)) if len(shared) > 1 else 0.0
    return Comparison(
        n_questions=len(shared),
        rate_before=fmean(old[question] for question in shared),
        rate_after=fmean(new[question] for question in shared),
        difference=difference,
        low=max(-1.0, difference - Z_95 * spread),
        high=min(1.0, difference + Z_95 * spread),
        won=won,
        lost=lost,
        both_right=sum(old[question] > 0 for question in unchanged),
        both_wrong=sum(old[question] == 0 for question in unchanged),
        p_value=mcnemar(len(won), len(lost)),
        only_before=len(old) - len(shared),
        only_after=len(new) - len(shared),
    )


def mcnemar(won: int, lost: int) -> float:
    """Exact two-sided p: how likely so uneven a split is by the toss of a coin."""
    changed = won + lost
    tail = sum(math.comb(changed, i) for i in range(min(won, lost) + 1))
    p_value: float = 2 * tail / 2**changed
    return min(1.0, p_value)


def _success_by_question(episodes: Iterable[EpisodeResult]) -> dict[str, float]:
    outcomes: dict[str, list[bool]] = defaultdict(list)
    for episode in episodes:
        outcomes[episode.question_id].append(episode.correct)
    return {question: fmean(correct) for question, correct in outcomes.items()}
