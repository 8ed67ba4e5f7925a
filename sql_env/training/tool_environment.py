"""The same environment for tool-calling models: TRL's `environment_factory`.

    GRPOTrainer(environment_factory=partial(SQLToolEnvironment, config), reward_funcs=…, …)

TRL makes one instance per episode, calls `reset` with the dataset's row, and offers every public
method as a tool. It has no `done` signal: once the episode is over, the tools say so by raising.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sql_env.agent.prompts import format_observation
from sql_env.environment import SQLEnvironment
from sql_env.models import QuestionRecord, SQLAction, SQLObservation
from sql_env.questions import load_questions
from sql_env.training.rollout import normalised_progress

if TYPE_CHECKING:
    from sql_env.training.config import GRPOConfig


@lru_cache(maxsize=4)
def _questions(path: Path) -> dict[str, QuestionRecord]:
    """Hundreds of instances share one table."""
    return {record.question_id: record for record in load_questions(path)}


class SQLToolEnvironment:
    """An episode whose actions are tools.

    Args:
        config: the run's configuration; it says which data, how many steps, what reward.
    """

    def __init__(self, config: GRPOConfig) -> None:
        self._config = config
        self._environment: SQLEnvironment | None = None
        self._observation: SQLObservation | None = None
        self._parts: list[dict[str, float]] = []

    def reset(self, *, question_id: str, **_: Any) -> str:
        """Begin the episode of a dataset row; the text is appended to the row's question."""
        if self._environment is not None:
            self._environment.close()
        record = _questions(self._config.dataset.questions_path)[question_id]
        self._environment = self._config.environment([record])
        self._parts = []
        self._observation = seen = self._environment.reset(question_id=question_id)
        return format_observation(seen).removeprefix(f"Question: {seen.question}")

    def describe(self, table: str) -> str:
        """
        Show the columns, types and keys of a table.

        Args:
            table: The name of the table.

        Returns:
            The table's schema.
        """
        return self._act("DESCRIBE", table)

    def sample(self, table: str) -> str:
        """
        Show some rows of a table.

        Args:
            table: The name of the table.

        Returns:
            The rows.
        """
        return self._act("SAMPLE", table)

    def query(self, sql: str) -> str:
        """
        Run one read-only SELECT statement.

        Args:
            sql: The SELECT statement.

        Returns:
            The result, or an error.
        """
        return self._act("QUERY", sql)

    def answer(self, value: str) -> str:
        """
        Give the answer to the question and end the episode.

        Args:
            value: The answer, [] for an empty result, or @last for the result of the last query.

        Returns:
            Whether the answer could be read.
        """
        return self._act("ANSWER", value)

    @property
    def reward_parts(self) -> dict[str, float]:
        """What the reward functions read, as the environment decided it."""
        sums = {name: sum(parts[name] for parts in self._parts) for name in _LAYERS}
        seen = self._observation
        correct = seen is not None and bool(seen.metadata.get("correct"))
        return {
            "correctness": float(correct),
            "progress": normalised_progress(sums["progress"], self._config.reward_config.progress),
            "operational": sums["operational"],
        }

    def _act(self, kind: str, argument: str) -> str:
        if self._environment is None or self._observation is None:
            raise ValueError("no episode is running: call reset first")
        if self._observation.done:
            raise ValueError("episode is over")
        self._observation = seen = self._environment.step(
            SQLAction(action_type=kind, argument=str(argument))
        )
        self._parts.append(seen.metadata["reward_parts"])
        if seen.done:
            # The verdict would only colour the model's parting words, which are trained too.
            return "The episode is over."
        return format_observation(seen)


_LAYERS = ("operational", "progress", "terminal")
