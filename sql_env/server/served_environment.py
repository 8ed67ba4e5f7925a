"""The environment as OpenEnv serves it: one instance per session, and a list of its tasks.

It adds three things to `SQLEnvironment`: the Task API, reset options for a person who chooses a
question (`difficulty`, `database`), and `details`, with which an observation also carries the
result as a grid and, after the last step, the gold answer. And it takes one away: no message that
leaves it names a file of this machine.

A step takes some 80 microseconds, less than handing it to a thread. So a step that is sure to be
short is played in the server's event loop. Nobody can say beforehand how long a query takes: it is
tried for a millisecond, and only one that needs more goes to a thread, with the whole of its time.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sqlite3
from collections.abc import Sequence
from concurrent.futures import Executor
from copy import copy
from pathlib import Path
from typing import Any

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sql_env import __version__
from sql_env.core.database import (
    Database,
    ErrorKind,
    Limits,
    QueryResult,
)
from sql_env.environment import (
    SAMPLE_ROWS,
    EpisodeError,
    SQLEnvironment,
    UnknownQuestionError,
    table_name,
)
from sql_env.models import QuestionRecord, SQLAction, SQLObservation, SQLState
from sql_env.questions import filter_questions
from sql_env.server.details import grid, schema_details

ENV_NAME = "sql_env"
DESCRIPTION = (
    "A question about a SQL database whose schema is hidden. DESCRIBE and SAMPLE tables, QUERY "
    "them read-only, ANSWER once; every step is scored."
)
# What the event loop may spend on one step.
SHORT = Limits(seconds=0.001, rows=200, bytes=200_000)
SHORT_CHARACTERS = 4_000

_log = logging.getLogger(__name__)


class ResetOptionError(ValueError):
    """A reset with an option that does not exist or has the wrong type."""


class ResetOptions(BaseModel):
    """What `reset` takes over the wire."""

    model_config = ConfigDict(extra="forbid")

    seed: int | None = None
    episode_id: str | None = Field(default=None, max_length=255)
    question_id: str | None = None
    split: str | None = None
    index: int | None = None
    difficulty: str | None = None
    database: str | None = None
    details: bool = False


class ServedEnvironment(SQLEnvironment, Environment[SQLAction, SQLObservation, SQLState]):
    """One session's environment.

    Args:
        questions: the records, shared by all sessions.
        db_dir: where their databases lie.
        threads: where steps are played that may take long; shared, one thread a session at most.
        known: ids of questions whose gold result is at hand; shared, and added to.
        hide_gold: never show the gold answer, not even after the episode.
    """

    def __init__(
        self,
        questions: Sequence[QuestionRecord],
        db_dir: Path,
        threads: Executor,
        known: set[str],
        *,
        hide_gold: bool = False,
    ) -> None:
        Environment.__init__(self)
        SQLEnvironment.__init__(self, db_dir=db_dir, questions=questions)
        self._threads = threads
        self._known = known
        self._hide_gold = hide_gold
        self._details = False
        self._retired = False
        self._tried: QueryResult | None = None

    # -- the episode -------------------------------------------------------------------------

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **options: Any
    ) -> SQLObservation:
        """Begin an episode; see `ResetOptions`.

        Raises:
            EpisodeError: the session was closed, or the question cannot be played here.
            ResetOptionError: an option is unknown or malformed.
            UnknownQuestionError: nothing matches the options.
        """
        chosen = self._choose(seed=seed, episode_id=episode_id, **options)
        return self._begin(chosen)

    async def reset_async(
        self, seed: int | None = None, episode_id: str | None = None, **options: Any
    ) -> SQLObservation:
        """Begin an episode without keeping other sessions waiting."""
        chosen = self._choose(seed=seed, episode_id=episode_id, **options)
        if chosen.question_id in self._known:
            return self._begin(chosen)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._begin, chosen)

    def step(self, action: SQLAction, timeout_s: float | None = None, **_: Any) -> SQLObservation:
        """Play one action; see `SQLEnvironment.step`."""
        return self._with_details(super().step(action, timeout_s), action)

    async def step_async(
        self, action: SQLAction, timeout_s: float | None = None, **_: Any
    ) -> SQLObservation:
        """Play one action without keeping other sessions waiting."""
        if self._is_short(action):
            return self.step(action)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.step, action)

    def close(self) -> None:
        """End the session for good: its place is given to somebody else."""
        self._retired = True
        super().close()

    # -- short steps -------------------------------------------------------------------------

    def _is_short(self, action: SQLAction) -> bool:
        """The step takes a millisecond or two at most. A result found on the way is kept."""
        self._tried = None
        if self._question is None or self._done:
            return True  # an error
        if len(action.argument) > SHORT_CHARACTERS or len(self._gold.pool) > SHORT.rows:
            return False
        kind, argument = action.action_type.strip().upper(), action.argument.strip()
        if kind == "ANSWER":
            return self._last_result is None or len(self._last_result.rows) <= SHORT.rows
        if kind == "QUERY":
            tried = self._brief.query(argument)
        elif kind == "SAMPLE" and (schema := self._db.schema(table_name(argument))):
            tried = self._brief.sample(schema.name, SAMPLE_ROWS)
        else:
            return True
        if tried.error_kind in (ErrorKind.TIMEOUT, ErrorKind.TOO_LARGE):
            return False
        self._tried = tried
        return True

    def _query(self, sql: str) -> QueryResult:
        return self._take_tried() or super()._query(sql)

    def _first_rows(self, table: str) -> QueryResult:
        return self._take_tried() or super()._first_rows(table)

    def _take_tried(self) -> QueryResult | None:
        tried, self._tried = self._tried, None
        return tried

    def _open(self, question: QuestionRecord) -> None:
        before = self._database
        super()._open(question)
        if self._database is not before:
            self._brief: Database = copy(self._db)  # the same file and connections
            self._brief.limits = SHORT

    # -- inside ------------------------------------------------------------------------------

    def _choose(self, **options: Any) -> ResetOptions:
        """The options of a reset with the question they lead to."""
        if self._retired:
            raise EpisodeError("this session is closed: connect again")
        chosen = _parse_options(options)
        if chosen.difficulty is None and chosen.database is None:
            question = self._pick(chosen.seed, chosen.question_id, chosen.split, chosen.index)
        else:
            question = self._draw(chosen)
        return chosen.model_copy(update={"question_id": question.question_id})

    def _draw(self, chosen: ResetOptions) -> QuestionRecord:
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
        return random.Random(chosen.seed).choice(fresh or pool)

    def _begin(self, chosen: ResetOptions) -> SQLObservation:
        try:
            observation = super().reset(
                chosen.seed, chosen.episode_id, question_id=chosen.question_id
            )
        except (OSError, sqlite3.Error, ValueError) as error:
            # Their messages name files of this machine, or quote the gold query.
            _log.exception("the question %s cannot be played", chosen.question_id)
            raise EpisodeError(
                "this question cannot be played: its database or gold query does not work here; "
                "the server's log has the details"
            ) from error
        assert chosen.question_id is not None
        self._known.add(chosen.question_id)
        self._details = chosen.details
        return self._with_details(observation)

    def _with_details(
        self, observation: SQLObservation, action: SQLAction | None = None
    ) -> SQLObservation:
        if not self._details:
            return observation
        details: dict[str, Any] = {}
        shown = self.shown_result
        if action is not None and action.action_type.strip().upper() == "DESCRIBE":
            details["schemas"] = [
                schema_details(schema)
                for name in self._described
                if (schema := self._db.schema(name))
            ]
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
        problems = "; ".join(
            f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()
        )
        known = ", ".join(ResetOptions.model_fields)
        raise ResetOptionError(f"reset cannot use {problems}. Its options are {known}") from error
