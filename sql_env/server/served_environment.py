"""The environment as OpenEnv serves it: one instance per session, and a list of its tasks.

It adds three things to `SQLEnvironment`: the Task API, reset options for a person who chooses a
question (`difficulty`, `database`), and `details`, with which an observation also carries the
result as a grid and, after the last step, the gold answer. And it takes one away: no message that
leaves it names a file of this machine.

**Where steps run.** The event loop moves bytes and parses messages; it never compiles, runs or
judges anything. Every reset and step is played in a thread (`Threads`). SQLite leaves the
interpreter to others while it compiles and runs, so a statement that takes its whole deadline keeps
a thread busy and nobody waiting. But many threads that all want the interpreter slow each other
down, so only a few steps begin at once; one that has not ended after a moment is long, counts no
more, and lets the next begin. There are as many threads as connections to databases are kept: a
step waits for one only while that many others run into their deadlines.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sql_env import __version__
from sql_env.core.database import MOST_CONNECTIONS
from sql_env.environment import EpisodeError, Rewards, SQLEnvironment, UnknownQuestionError
from sql_env.models import QuestionRecord, SQLAction, SQLObservation, SQLState
from sql_env.questions import filter_questions
from sql_env.server.details import grid, schema_details

ENV_NAME = "sql_env"
DESCRIPTION = (
    "A question about a SQL database whose schema is hidden. DESCRIBE and SAMPLE tables, QUERY "
    "them read-only, ANSWER once; every step is scored."
)
SHORT_STEPS_AT_ONCE = 4
LONG_SECONDS = 0.02
Name = Annotated[str, Field(max_length=255)]

_log = logging.getLogger(__name__)


class ResetOptionError(ValueError):
    """A reset with an option that does not exist or has the wrong type."""


class ResetOptions(BaseModel):
    """What `reset` takes over the wire."""

    model_config = ConfigDict(extra="forbid")

    seed: int | None = None
    episode_id: Name | None = None
    question_id: Name | None = None
    split: Name | None = None
    index: int | None = None
    difficulty: Name | None = None
    database: Name | None = None
    actions: list[SQLAction] = []
    details: bool = False


class Threads:
    """Where the steps of all sessions are played; see the module."""

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(min(most, MOST_CONNECTIONS), thread_name_prefix="play")
        self._places = asyncio.Semaphore(SHORT_STEPS_AT_ONCE)

    async def play(self, job: Callable[[], SQLObservation]) -> SQLObservation:
        """Run `job` in a thread, when it is its turn."""
        loop = asyncio.get_running_loop()
        await self._places.acquire()
        leaving = [self._places.release]  # taken out by whoever comes first: the clock or the end

        def leave() -> None:
            if leaving:
                leaving.pop()()

        clock = loop.call_later(LONG_SECONDS, leave)
        try:
            return await loop.run_in_executor(self._pool, job)
        finally:
            clock.cancel()
            leave()


class ServedEnvironment(SQLEnvironment, Environment[SQLAction, SQLObservation, SQLState]):
    """One session's environment.

    Args:
        questions: the records, shared by all sessions.
        db_dir: where their databases lie.
        threads: where resets and steps are played.
        hide_gold: never show the gold answer, not even after the episode.
        rewards: "end" pays nothing before the episode is over.
    """

    def __init__(
        self,
        questions: Sequence[QuestionRecord],
        db_dir: Path,
        threads: Threads,
        *,
        hide_gold: bool = False,
        rewards: Rewards = "dense",
    ) -> None:
        Environment.__init__(self)
        SQLEnvironment.__init__(self, db_dir=db_dir, questions=questions, rewards=rewards)
        self._threads = threads
        self._hide_gold = hide_gold
        self._details = False

    # -- the episode -------------------------------------------------------------------------

    # `self` is positional: the names of options come from clients.

    def reset(
        self, /, seed: int | None = None, episode_id: str | None = None, **options: Any
    ) -> SQLObservation:
        """Begin an episode; see `ResetOptions`.

        Raises:
            EpisodeError: the question cannot be played here.
            ResetOptionError: an option is unknown or malformed.
            UnknownQuestionError: nothing matches the options.
        """
        chosen = _parse_options({"seed": seed, "episode_id": episode_id, **options})
        if chosen.difficulty or chosen.database:
            chosen = self._draw(chosen)
        self._details = chosen.details
        try:
            observation = super().reset(
                chosen.seed,
                chosen.episode_id,
                question_id=chosen.question_id,
                split=chosen.split,
                index=chosen.index,
            )
        except (OSError, ValueError) as error:
            # Their messages name files of this machine, or quote the gold query.
            _log.exception("the question of %s cannot be played", chosen)
            self.close()
            raise EpisodeError(
                "this question cannot be played: its database or gold query does not work here; "
                "the server's log has the details"
            ) from error
        return self._play_at_once(chosen.actions) or self._with_details(observation)

    def _play_at_once(self, actions: Sequence[SQLAction]) -> SQLObservation | None:
        """All in one request, so they have the time of one query."""
        observation, started = None, perf_counter()
        for action in actions:
            if perf_counter() - started > self.limits.seconds:
                self.close()
                raise EpisodeError(
                    f"the actions of this reset took longer than {self.limits.seconds:g} seconds: "
                    "play them one by one, with step"
                )
            observation = self.step(action)
        return observation

    async def reset_async(self, /, **options: Any) -> SQLObservation:
        """Begin an episode in a thread."""
        return await self._threads.play(partial(self.reset, **options))

    def step(self, action: SQLAction, timeout_s: float | None = None, **_: Any) -> SQLObservation:
        """Play one action; see `SQLEnvironment.step`."""
        return self._with_details(super().step(action, timeout_s), action)

    async def step_async(self, action: SQLAction, /, **_: Any) -> SQLObservation:
        """Play one action in a thread."""
        return await self._threads.play(partial(self.step, action))

    @property
    def playing(self) -> bool:
        """An episode is under way."""
        return not self._done

    # -- inside ------------------------------------------------------------------------------

    def _draw(self, chosen: ResetOptions) -> ResetOptions:
        pool = filter_questions(
            self.questions,
            split=chosen.split,
            difficulties=[chosen.difficulty] if chosen.difficulty else None,
            databases=[chosen.database] if chosen.database else None,
        )
        if not pool:
            raise UnknownQuestionError(
                f"no question with split={chosen.split!r}, difficulty={chosen.difficulty!r}, "
                f"database={chosen.database!r}: leave one of them out"
            )
        fresh = [record for record in pool if record is not self._question]
        question = random.Random(chosen.seed).choice(fresh or pool)
        return chosen.model_copy(update={"question_id": question.question_id})

    def _with_details(
        self, observation: SQLObservation, action: SQLAction | None = None
    ) -> SQLObservation:
        if not self._details:
            return observation
        details: dict[str, Any] = {}
        shown = self.shown_result
        if action is not None and action.action_type.strip().upper() == "DESCRIBE":
            details["schemas"] = [schema_details(schema) for schema in self._described]
        elif shown is not None and shown.ok and shown.columns:
            details["grid"] = grid(shown.columns, shown.rows)
        if observation.done and not self._hide_gold:
            gold = self.reveal()
            details["gold"] = {"sql": gold.sql, **grid(gold.columns, gold.rows)}
        observation.metadata["details"] = details
        return observation

    # -- what there is to play ---------------------------------------------------------------

    def get_metadata(self) -> EnvironmentMetadata:
        """What this environment is; nothing about the machine it runs on."""
        return EnvironmentMetadata(name=ENV_NAME, description=DESCRIPTION, version=__version__)

    def list_splits(self) -> list[str]:
        """The splits, for `reset(split=…, index=…)`."""
        return self.splits

    def num_tasks(self, split: str) -> int:
        """How many questions a split has."""
        return len(self._in_split(split))

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """Every question of a split, without its answer."""
        return self.get_task_range(split)

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """One question of a split.

        Raises:
            IndexError: there is no such index; OpenEnv answers it with status 400.
        """
        if index < 0:
            raise IndexError(index)
        return _task(self._in_split(split)[index], index)

    def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[dict[str, Any]]:
        """Questions `start` to `stop` of a split."""
        records = self._in_split(split)
        chosen = range(*slice(start, stop).indices(len(records)))
        return [_task(records[index], index) for index in chosen]

    def _in_split(self, split: str) -> list[QuestionRecord]:
        records = filter_questions(self.questions, split=split)
        if not records:
            raise UnknownQuestionError(f"no split {split!r}: there are {', '.join(self.splits)}")
        return records


def _task(record: QuestionRecord, index: int) -> dict[str, Any]:
    return {
        "id": record.question_id,
        "split": record.split,
        "index": index,
        "question": record.question_text,
        "database_name": record.database_name,
        "difficulty": record.difficulty,
    }


def _parse_options(options: dict[str, Any]) -> ResetOptions:
    try:
        return ResetOptions.model_validate(options)
    except ValidationError as error:
        known = ", ".join(ResetOptions.model_fields)
        raise ResetOptionError(
            f"reset cannot use {problems_of(error)}. Its options are {known}"
        ) from error


def problems_of(error: ValidationError) -> str:
    """What is wrong, without repeating what was sent, which may be long."""
    return "; ".join(
        f"{'.'.join(map(str, item['loc']))[:80]}: {item['msg']}" for item in error.errors()[:5]
    )
