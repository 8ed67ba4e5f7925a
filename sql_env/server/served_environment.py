"""The environment as OpenEnv serves it: one instance per session, and a list of its tasks.

It adds three things to `SQLEnvironment`: the Task API, reset options for a person who chooses a
question (`difficulty`, `database`), and `details`, with which an observation also carries the
result as a grid and, after the last step, the gold answer. And it takes one away: no message that
leaves it names a file of this machine.
"""

from __future__ import annotations

import logging
import math
import random
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sql_env import __version__
from sql_env.core.database import Cell, Row, TableSchema
from sql_env.models import QuestionRecord, SQLAction, SQLObservation, SQLState
from sql_env.questions import filter_questions
from sql_env.server.sql_environment import EpisodeError, SQLEnvironment, UnknownQuestionError

ENV_NAME = "sql_env"
DESCRIPTION = (
    "A question about a SQL database whose schema is hidden. DESCRIBE and SAMPLE tables, QUERY "
    "them read-only, ANSWER once; every step is scored."
)
GRID_ROWS = 200
_EXACT_IN_JAVASCRIPT = 2**53

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


class ServedEnvironment(SQLEnvironment, Environment[SQLAction, SQLObservation, SQLState]):  # type: ignore[type-var]
    """One session's environment.

    Args:
        questions: the records, shared by all sessions.
        db_dir: where their databases lie.
        hide_gold: never show the gold answer, not even after the episode.
    """

    def __init__(
        self, questions: Sequence[QuestionRecord], db_dir: Path, *, hide_gold: bool = False
    ) -> None:
        Environment.__init__(self)
        SQLEnvironment.__init__(self, db_dir=db_dir, questions=questions)
        self._hide_gold = hide_gold
        self._details = False
        self._retired = False

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
        if self._retired:
            raise EpisodeError("this session is closed: connect again")
        chosen = _parse_options({"seed": seed, "episode_id": episode_id, **options})
        question_id = chosen.question_id
        if chosen.difficulty is not None or chosen.database is not None:
            question_id = self._draw(chosen)
        self._details = chosen.details
        try:
            observation = super().reset(
                chosen.seed,
                chosen.episode_id,
                question_id=question_id,
                split=chosen.split,
                index=chosen.index,
            )
        except (OSError, sqlite3.Error, ValueError) as error:
            # Their messages name files of this machine, or quote the gold query.
            _log.exception("reset(%s) failed", chosen)
            raise EpisodeError(
                "this question cannot be played: its database or gold query does not work here; "
                "the server's log has the details"
            ) from error
        return self._with_details(observation)

    def step(self, action: SQLAction, timeout_s: float | None = None, **_: Any) -> SQLObservation:
        """Play one action; see `SQLEnvironment.step`."""
        return self._with_details(super().step(action, timeout_s), action)

    def close(self) -> None:
        """End the session for good: its place is given to somebody else."""
        self._retired = True
        super().close()

    def _draw(self, chosen: ResetOptions) -> str:
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
        current = self._question
        fresh = [record for record in pool if record is not current]
        return random.Random(chosen.seed).choice(fresh or pool).question_id

    def _with_details(
        self, observation: SQLObservation, action: SQLAction | None = None
    ) -> SQLObservation:
        if not self._details:
            return observation
        details: dict[str, Any] = {}
        shown = self.shown_result
        if action is not None and action.action_type.strip().upper() == "DESCRIBE":
            details["schemas"] = [
                _schema(schema) for name in self._described if (schema := self._db.schema(name))
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


def grid(columns: Sequence[str], rows: Sequence[Row]) -> dict[str, Any]:
    """A result as a page draws it: the first rows, cells that survive JSON, the true count."""
    return {
        "columns": list(columns),
        "rows": [[_json_cell(cell) for cell in row] for row in rows[:GRID_ROWS]],
        "row_count": len(rows),
    }


def _json_cell(cell: Cell) -> int | float | str | None:
    if isinstance(cell, bytes):
        return f"x'{cell[:32].hex()}{'…' if len(cell) > 32 else ''}'"
    if isinstance(cell, int) and abs(cell) > _EXACT_IN_JAVASCRIPT:
        return str(cell)
    if isinstance(cell, float) and not math.isfinite(cell):
        return str(cell)
    return cell


def _schema(schema: TableSchema) -> dict[str, Any]:
    return {
        "table": schema.name,
        "row_count": schema.row_count,
        "columns": [column._asdict() for column in schema.columns],
        "foreign_keys": [key._asdict() for key in schema.foreign_keys],
    }


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
