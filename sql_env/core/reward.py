"""Dense reward in three layers that are kept apart: operational, progress, terminal.

Operational: an action that worked, columns seen for the first time, a price for every step and for
repeating oneself. Progress: how close the latest query's result is to gold, as a potential; a step
earns the change, so what is gained is lost again when left, and a circle earns nothing. Terminal:
the answer. The first two are shaping: their sum over an episode stays within bounds so narrow that
no episode without a correct answer beats one with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sql_env.core.actions import PlayedActions
from sql_env.core.database import QueryResult
from sql_env.core.gold import Gold
from sql_env.core.progress import closeness


@dataclass(frozen=True)
class RewardConfig:
    """The values of the three layers; the defaults are the published ones.

    Attributes:
        exec_ok: an action that worked and was not played before.
        new_information: each column (of a table) that is read for the first time.
        new_information_cap: the most that new information earns in one episode.
        repeat: an action that was played before.
        step: every action.
        progress: a query result equal to gold, against none.
        progress_bins: the levels of closeness that are told apart.
        shaping_min: the least that operational and progress rewards sum up to in an episode.
        shaping_max: the most.
        correct: a correct answer.

    Raises:
        ValueError: the values would let a wrong episode beat a correct one, or reward a repeat.
    """

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

    def __post_init__(self) -> None:
        for name in ("exec_ok", "new_information", "new_information_cap", "progress"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}: it is a bonus, 0 or more")
        for name in ("repeat", "step"):
            if getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}: it is a price, 0 or less")
        if self.progress_bins < 2:
            raise ValueError(f"progress_bins is {self.progress_bins}: two levels are the fewest")
        if not self.shaping_min <= 0 <= self.shaping_max:
            raise ValueError(
                f"shaping_min {self.shaping_min} and shaping_max {self.shaping_max} must enclose 0"
            )
        if self.correct <= self.shaping_max - self.shaping_min:
            raise ValueError(
                f"correct is {self.correct}: more than shaping_max - shaping_min "
                f"({self.shaping_max - self.shaping_min:g}) or a wrong episode can beat a right one"
            )

    @classmethod
    def binary(cls) -> RewardConfig:
        """Nothing but the terminal reward."""
        return cls(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    @property
    def step_range(self) -> tuple[float, float]:
        """Bounds for the reward of any one step."""
        worst = self.step + self.repeat - self.progress
        best = self.exec_ok + self.new_information_cap + self.progress
        return round(worst, 6), round(max(self.correct, best), 6)

    @property
    def episode_range(self) -> tuple[float, float]:
        """Bounds for the sum of an episode's rewards."""
        return self.shaping_min, self.correct + self.shaping_max


class RewardParts(NamedTuple):
    """The reward of one step, layer by layer."""

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
        self._played = PlayedActions()
        self.repeated = False  # the last action was played before
        self._seen_information: set[tuple[str, str]] = set()
        self._information_earned = 0.0
        self._potential = 0.0
        self._shaping = 0.0  # the sum so far, before it is kept within bounds

    def step(
        self,
        kind: str,
        argument: str,
        *,
        result: QueryResult | None = None,
        ok: bool,
        correct: bool | None = None,
    ) -> RewardParts:
        """Score one step.

        Args:
            kind: what was done; progress is measured on QUERY, not on DESCRIBE or SAMPLE.
            argument: what it was done with.
            result: what the sandbox returned, with the columns it read.
            ok: the action did what it was meant to do.
            correct: the verdict, on ANSWER.
        """
        config = self.config
        operational, progress = config.step, 0.0
        self.repeated = not self._played.add(kind, argument)
        if self.repeated:
            # A repeat earns nothing, not even the way back to a better result.
            operational += config.repeat
        else:
            if ok and correct is None:
                operational += config.exec_ok
            if ok and result is not None:
                operational += self._new_information(result)
                if kind == "QUERY" and config.progress:
                    potential = config.progress * self._level(result)
                    progress = potential - self._potential
                    self._potential = potential
        # What the bounds take away is taken from the operational layer: progress still telescopes.
        before = self._beyond_bounds()
        self._shaping += operational + progress
        operational -= self._beyond_bounds() - before
        return RewardParts(operational, progress, config.correct if correct else 0.0)

    def _new_information(self, result: QueryResult) -> float:
        fresh = result.reads - self._seen_information
        if not fresh:
            return 0.0
        self._seen_information |= fresh
        room = self.config.new_information_cap - self._information_earned
        earned = min(len(fresh) * self.config.new_information, room)
        self._information_earned += earned
        return earned

    def _level(self, result: QueryResult) -> float:
        """Closeness to gold on a scale of a few levels, from 0 to 1."""
        top = self.config.progress_bins - 1
        return int(closeness(result.rows, self.gold.profile) * top + 0.5) / top

    def _beyond_bounds(self) -> float:
        bounded = min(max(self._shaping, self.config.shaping_min), self.config.shaping_max)
        return self._shaping - bounded
