"""Two runs over the same questions, compared in pairs: what was won, what was lost, is it luck?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from sql_env.agent.episodes import EpisodeResult
from sql_env.core.errors import UserError
from sql_env.evaluation.statistics import Interval, bootstrap, newcombe, permutation_p


class ComparisonError(UserError, ValueError):
    """The runs have no question in common."""


@dataclass(frozen=True)
class Comparison:
    """What changed from `before` to `after`, over the questions that both played.

    The interval is Newcombe's where every question was played once, and a bootstrap over questions
    where shares of several samples are compared. `p_value` is a permutation test over questions:
    with one sample each it is McNemar's exact test.
    """

    n_questions: int
    rate_before: float
    rate_after: float
    difference: float
    low: float  # of the difference, 95 %
    high: float
    over_databases: Interval | None  # the same, by a bootstrap over databases
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
        databases = self.over_databases
        clustered = f", over databases {_points(*databases)}" if databases else ""
        return (
            f"{self.rate_before:.1%} → {self.rate_after:.1%}, {direction} "
            f"{100 * abs(self.difference):.1f} points {_points(self.low, self.high)}{clustered}: "
            f"{len(self.won)} won, {len(self.lost)} lost of {self.n_questions}, "
            f"p = {self.p_value:.3g} ({sure})"
        )


def _points(low: float, high: float) -> str:
    return f"[{100 * low:+.1f}, {100 * high:+.1f}]"


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
    unchanged = [question for question in shared if changes[question] == 0]
    rates = [[run[question] for question in shared] for run in (old, new)]
    sampled = len(before) > len(old) or len(after) > len(new)
    interval = bootstrap(changes.items()) if sampled else None
    low, high = interval or newcombe(*rates)
    database = {episode.question_id: episode.database for episode in before}
    return Comparison(
        n_questions=len(shared),
        rate_before=fmean(rates[0]),
        rate_after=fmean(rates[1]),
        difference=fmean(changes.values()),
        low=low,
        high=high,
        over_databases=bootstrap((database[name], change) for name, change in changes.items()),
        won=tuple(question for question in shared if changes[question] > 0),
        lost=tuple(question for question in shared if changes[question] < 0),
        both_right=sum(old[question] > 0 for question in unchanged),
        both_wrong=sum(old[question] == 0 for question in unchanged),
        p_value=permutation_p(list(changes.values())),
        only_before=len(old) - len(shared),
        only_after=len(new) - len(shared),
    )


def _success_by_question(episodes: Iterable[EpisodeResult]) -> dict[str, float]:
    outcomes: dict[str, list[bool]] = defaultdict(list)
    for episode in episodes:
        outcomes[episode.question_id].append(episode.correct)
    return {question: fmean(correct) for question, correct in outcomes.items()}
