"""SQLEnv as a taskset of verifiers 0.4: one task a question, the four actions as tools.

    vf-eval sql-env-v1 -m MODEL --client.base-url http://localhost:8000/v1 --no-push
    vf-eval sql-env-v1 --env.taskset.dataset data/spider --env.taskset.split eval -n 20 …

One tool server serves all rollouts. It keeps nothing: what was played in a rollout is its state,
and every call plays it again in a fresh episode. So the verdict, too, is the environment's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import verifiers.v1 as vf
from pydantic import Field, model_validator
from verifiers.v1.harnesses.null import NullHarnessConfig

from sql_env.agent.prompts import (
    Prompt,
    format_outcome,
    format_question,
    format_steps_left,
)
from sql_env.environment import SQLEnvironment
from sql_env.models import DIFFICULTIES, SQLAction, SQLObservation
from sql_env.questions import Dataset, filter_questions

__all__ = ["SQLEpisodes", "SQLTaskset"]


class SQLState(vf.State):
    """What was played in a rollout, shared by the tool server and the task."""

    question_id: str = ""
    actions: list[tuple[str, str]] = Field(default_factory=list)
    done: bool = False


class SQLData(vf.TaskData):
    """A question, without its gold query and answer."""

    database: str
    difficulty: str


class Rules(vf.SharedToolsetConfig):
    """What the tool server has to know of the taskset."""

    dataset: Path | None = None
    step_budget: int = 15
    allow_last: bool = True


class SQLTaskConfig(vf.TaskConfig):
    """The rules, for the verdict."""

    rules: Rules = Rules()


class SQLTasksetConfig(vf.TasksetConfig):
    """Which questions, and by which rules they are played."""

    task: SQLTaskConfig = SQLTaskConfig()
    dataset: Path | None = None
    """A dataset folder; the embedded data where it is not set."""
    split: str = "eval"
    step_budget: int = Field(15, ge=1)
    allow_last: bool = True

    @model_validator(mode="after")
    def _has_questions(self) -> Self:
        """Said while options are read, where verifiers makes one message of it."""
        Dataset.at(self.dataset).load_split(self.split)
        return self


class SQLTools(vf.Toolset[Rules, SQLState]):
    """The four actions; each returns what a model reads in training."""

    TOOL_PREFIX = None  # the tools' names are those of the environment

    @vf.tool
    async def describe(self, table: str) -> str:
        """Show a table's columns and keys."""
        return await self._play("DESCRIBE", table)

    @vf.tool
    async def sample(self, table: str) -> str:
        """Show some rows of a table."""
        return await self._play("SAMPLE", table)

    @vf.tool
    async def query(self, sql: str) -> str:
        """Run one read-only SELECT statement."""
        return await self._play("QUERY", sql)

    @vf.tool
    async def answer(self, value: str) -> str:
        """Answer and end the episode: the value, [] for no rows, or @last for the last result."""
        return await self._play("ANSWER", value)

    async def _play(self, kind: str, argument: str) -> str:
        state = self.state
        if state.done:
            return "The episode is over."
        state.actions.append((kind, argument))
        # In a thread: a query may take as long as its deadline.
        seen = await asyncio.to_thread(_replay, self.config, state)
        state.done = seen.done
        read = format_outcome(SQLAction(action_type=kind, argument=argument), seen)
        return "\n".join(filter(None, (read, format_steps_left(seen))))


class SQLTask(vf.Task[SQLData, SQLState, SQLTaskConfig]):
    """One question. The reward is the verdict, everything else a metric."""

    @property
    def key(self) -> str:
        return str(self.data.id)

    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        trace.state.question_id = self.data.id

    @vf.stop
    async def episode_is_over(self, trace: vf.Trace) -> bool:
        return bool(trace.state.done)

    @vf.reward
    async def correct(self, trace: vf.Trace) -> float:
        return self._outcome(trace)["correct"]

    @vf.metric
    async def episode(self, trace: vf.Trace) -> dict[str, float]:
        outcome = self._outcome(trace)
        return {name: value for name, value in outcome.items() if name != "correct"}

    def _outcome(self, trace: vf.Trace) -> dict[str, float]:
        rules, state = self.config.rules, trace.state
        parts = dict.fromkeys(("operational", "progress", "terminal"), 0.0)
        correct = False
        with _environment(rules).another() as env:
            env.reset(question_id=state.question_id)
            for kind, argument in state.actions:
                metadata = env.step(SQLAction(action_type=kind, argument=argument)).metadata
                correct = metadata.get("correct", False)
                for part in parts:
                    parts[part] += metadata["reward_parts"][part]
        return {
            "correct": float(correct),
            "steps": float(len(state.actions)),
            "answered": float(bool(state.actions) and state.actions[-1][0] == "ANSWER"),
            "difficulty": float(DIFFICULTIES.index(self.data.difficulty) + 1),
            **parts,
        }


class SQLTaskset(vf.Taskset[SQLTask, SQLTasksetConfig]):
    """The questions of one split."""

    def load(self) -> Iterator[SQLTask]:
        rules = _rules(self.config)
        task_config = self.config.task.model_copy(update={"rules": rules})
        system = Prompt(actions="tools").system
        with _environment(rules).another() as env:
            for record in filter_questions(env.questions, split=self.config.split):
                about = SQLData(
                    id=record.question_id,
                    prompt=format_question(env.reset(question_id=record.question_id)),
                    system_prompt=system,
                    database=record.database_name,
                    difficulty=record.difficulty,
                )
                yield SQLTask(about, task_config)

    @classmethod
    def toolsets(cls, config: SQLTasksetConfig) -> list[vf.Toolset]:
        return [SQLTools(_rules(config))]


class SQLEpisodesConfig(vf.EnvConfig):
    """The model plays on this machine: it runs no code of its own."""

    player: vf.AgentConfig = vf.AgentConfig(
        harness=NullHarnessConfig(id="null"), runtime=vf.SubprocessConfig()
    )


class SQLEpisodes(vf.Env[SQLEpisodesConfig]):
    """One episode a rollout."""

    async def run(self, task: vf.Task[Any, Any, Any], agents: vf.Agents) -> None:
        await agents.player.run(task)


def _rules(config: SQLTasksetConfig) -> Rules:
    dataset = config.dataset and config.dataset.resolve()
    return Rules(dataset=dataset, step_budget=config.step_budget, allow_last=config.allow_last)


def _environment(rules: Rules) -> SQLEnvironment:
    return _template(rules.dataset, rules.step_budget, rules.allow_last)


@lru_cache(maxsize=8)
def _template(dataset: Path | None, step_budget: int, allow_last: bool) -> SQLEnvironment:
    """Questions are read once in a process."""
    data = Dataset.at(dataset)
    return SQLEnvironment(data.questions_path, data.db_dir, step_budget, allow_last=allow_last)


def _replay(rules: Rules, state: SQLState) -> SQLObservation:
    actions = [SQLAction(action_type=kind, argument=text) for kind, text in state.actions]
    with _environment(rules).another() as env:
        return env.reset(question_id=state.question_id, actions=actions)


if __name__ == "__main__":
    SQLTools.run()
