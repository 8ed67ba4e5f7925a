"""Dense reward in three layers that are kept apart: operational, progress, terminal.

Operational: what is seen for the first time, less a price for every step and for repeating oneself.
Progress: how close the best query result so far is to gold, where it shows values that were not
shown before; a right answer is as close as can be.
Terminal: the answer. So the sum over an episode depends on what was seen, on the best result and on
the answer, less a price for every step: whatever shows nothing new only costs. The first two layers
are shaping: their sum stays within bounds so narrow that no episode without a correct answer beats
one with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from sql_env.core.actions import PlayedActions, action_key
from sql_env.core.database import Cell, QueryResult, Row
from sql_env.core.gold import Gold
from sql_env.core.progress import closeness, distinct_values
from sql_env.core.sql_text import literals


@dataclass(frozen=True)
class RewardConfig:
    """The values of the three layers; the defaults are the published ones.

    Attributes:
        exec_ok: each table of which an action that worked read a column for the first time.
        new_information: each column (of a table) that is read for the first time.
        new_information_cap: the most that both earn in one episode.
        repeat: an action that was played before.
        step: every action.
        progress: a query result equal to gold, or a right answer, against none.
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
            raise ValueError(f"progress_bins is {self.progress_bins}: use two levels or more")
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
        seen = self.new_information_cap + self.progress
        return round(self.step + self.repeat, 6), round(max(seen, self.correct + self.progress), 6)

    @property
    def episode_range(self) -> tuple[float, float]:
        """Bounds for the sum of an episode's rewards."""
        shaping = min(self.shaping_max, self.new_information_cap + self.progress)
        return self.shaping_min, round(self.correct + shaping, 6)


class RewardParts(NamedTuple):
    """The reward of one step, layer by layer."""

    operational: float = 0.0
    progress: float = 0.0
    terminal: float = 0.0

    @property
    def total(self) -> float:
        return self.operational + self.progress + self.terminal


# Results of an episode that may earn progress. It bounds what can be found out by guessing.
RESULTS_COMPARED = 5


class RewardTracker:
    """Scores the steps of one episode."""

    def __init__(self, gold: Gold, config: RewardConfig = RewardConfig()) -> None:
        self.gold = gold
        self.config = config
        self.repeated = False  # the last action was played before
        self._played = PlayedActions()
        self._seen_tables: set[str] = set()
        self._seen_columns: set[tuple[str, str]] = set()
        self._seen_earned = 0.0
        self._returned: set[Cell] = set()  # the values of all results so far
        self._compared = 0
        self._potential = 0.0
        self._shaping = 0.0  # the sum so far, before it is kept within bounds
        self._beyond = 0.0  # how far that is outside them

    def copy(self) -> RewardTracker:
        """The same point of the episode, to go on from independently."""
        twin = copy(self)
        twin._played = self._played.copy()
        twin._seen_tables = self._seen_tables.copy()
        twin._seen_columns = self._seen_columns.copy()
        twin._returned = self._returned.copy()
        return twin

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
        key = action_key(kind, argument)
        # An answer that was judged is the first: it ends the episode. What failed was @last without
        # a result, or a text that was none.
        self.repeated = not self._played.add_key(key) and correct is None
        if self.repeated:
            operational += config.repeat
        elif ok and result is not None and (kind != "QUERY" or _shows_values(key[1], result)):
            operational += self._newly_seen(result)
            progress = self._newly_close(result, compared=kind == "QUERY")
        if correct:
            progress = self._risen_to(1.0)
        # What the bounds take away is taken from the operational layer: progress still telescopes.
        self._shaping += operational + progress
        within = config.shaping_min <= self._shaping <= config.shaping_max
        if self._beyond or not within:
            before, self._beyond = self._beyond, self._beyond_bounds()
            operational -= self._beyond - before
        return RewardParts(operational, progress, config.correct if correct else 0.0)

    def _newly_seen(self, result: QueryResult) -> float:
        """What the columns are worth that nothing in this episode has read before."""
        tables = columns = 0
        new = result.reads - self._seen_columns
        self._seen_columns |= new
        for table, column in new:
            if column:  # a table that is read without one, as count(*) does, shows none of it
                columns += 1
                if table not in self._seen_tables:
                    tables += 1
                    self._seen_tables.add(table)
        if not columns:
            return 0.0
        worth = tables * self.config.exec_ok + columns * self.config.new_information
        earned = min(worth, self.config.new_information_cap - self._seen_earned)
        self._seen_earned += earned
        return earned

    def _newly_close(self, result: QueryResult, *, compared: bool) -> float:
        """What a result gains on the best so far; without a value that is new, nothing.

        One that shows nothing new counts as compared, too: put in, it lets no later one earn more.
        """
        if self._potential >= self.config.progress or self._compared == RESULTS_COMPARED:
            return 0.0
        self._compared += compared
        rows, gold = result.rows, self.gold
        is_gold = rows == gold.rows
        values = gold.profile.values if is_gold else distinct_values(rows)
        pays = compared and not values <= self._returned
        if pays and is_gold:
            return self._risen_to(1.0)  # nothing is left to gain, so no value matters any more
        self._returned |= values
        return self._risen_to(self._level(rows, values)) if pays else 0.0

    def _risen_to(self, level: float) -> float:
        """What the best result so far has gained by one at `level`."""
        before, reached = self._potential, self.config.progress * level
        if reached <= before:
            return 0.0
        self._potential = reached
        return reached - before

    def _level(self, rows: Sequence[Row], values: frozenset[Cell]) -> float:
        """Closeness to gold on a scale of a few levels, from 0 to 1."""
        top = self.config.progress_bins - 1
        return int(closeness(rows, self.gold.profile, values) * top + 0.5) / top

    def _beyond_bounds(self) -> float:
        if self._shaping > self.config.shaping_max:
            return self._shaping - self.config.shaping_max
        return min(0.0, self._shaping - self.config.shaping_min)


def _shows_values(query: str, result: QueryResult) -> bool:
    """Whether the result of a query holds a value of the database, and not what the agent wrote.

    Args:
        query: in normal form.
        result: what it returned.
    """
    written, make_values, quoted = literals(query)
    if make_values or not result.reads:
        return False
    if quoted and not quoted <= {name.lower() for read in result.reads for name in read}:
        return False
    return not written.issuperset(chain.from_iterable(result.rows))
