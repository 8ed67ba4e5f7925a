"""Dense reward in three layers that are kept apart: operational, progress, terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sql_env.core.database import QueryResult
from sql_env.core.verifier import Gold


@dataclass(frozen=True)
class RewardConfig:
    """The published values."""

    exec_ok: float = 0.02
    new_information: float = 0.01
    new_information_cap: float = 0.10
    repeat: float = -0.01
    step: float = -0.005
    progress: float = 0.15
    progress_bins: int = 5
    shaping_min: float = -0.2
    shaping_max: float = 0.5
    correct: float = 1.0

    @classmethod
    def binary(cls) -> RewardConfig:
        """Nothing but the terminal reward."""
        return cls(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


class RewardParts(NamedTuple):
    operational: float = 0.0
    progress: float = 0.0
    terminal: float = 0.0

    @property
    def total(self) -> float:
        return self.operational + self.progress + self.terminal


class RewardTracker:
    """Scores the steps of one episode."""

    def __init__(self, gold: Gold, config: RewardConfig = RewardConfig()) -> None:
        self.gold = gold
        self.config = config
        self._seen_actions: set[str] = set()
        self._seen_information: set[tuple[str, str]] = set()

    def step(
        self,
        action: str,
        *,
        result: QueryResult | None = None,
        ok: bool,
        is_query: bool = False,
        correct: bool | None = None,
    ) -> RewardParts:
        """Score one step.

        Args:
            action: the action as it stands in the history ("QUERY: SELECT 1").
            result: what the sandbox returned, with the columns it read.
            ok: the action did what it was meant to do.
            is_query: progress is measured on queries, not on DESCRIBE or SAMPLE.
            correct: the verdict, on ANSWER.
        """
        terminal = self.config.correct if correct else 0.0
        operational = self.config.step + (self.config.exec_ok if ok else 0.0)
        return RewardParts(operational, 0.0, terminal)
