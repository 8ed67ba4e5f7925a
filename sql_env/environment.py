"""The environment: a question, a database, a budget of steps. Orchestration only.

The sandbox runs the SQL, the verifier judges, the tracker scores, the renderer writes the text;
this module decides what follows what.

    env = SQLEnvironment()
    observation = env.reset(seed=7)
    observation = env.step(SQLAction(action_type="DESCRIBE", argument=observation.table_names[0]))
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, get_args

from sql_env.core.database import (
    Database,
    FileIdentity,
    Limits,
    QueryResult,
    Row,
)
from sql_env.core.render import (
    render_echo,
    render_query_result,
    render_schema,
    unknown_table,
)
from sql_env.core.reward import RewardConfig, RewardParts, RewardTracker
from sql_env.core.schema import TableSchema, table_name
from sql_env.core.sql_errors import explain_sql_error
from sql_env.core.verifier import AnswerError, Gold, Verdict, build_gold, verify_rows, verify_text
from sql_env.models import (
    QuestionRecord,
    SQLAction,
    SQLObservation,
    SQLState,
    made_observation,
)
from sql_env.questions import Dataset, database_path, load_questions

SAMPLE_ROWS = 5
LAST_RESULT = "@last"
GOLD_PATIENCE = 10  # times the limit of an agent's query
Rewards = Literal["dense", "end"]
ACTION_TYPES = ("DESCRIBE", "SAMPLE", "QUERY", "ANSWER")


class StopReason(StrEnum):
    """Why an episode ended."""

    CORRECT = "correct"
    WRONG = "wrong_answer"
    BUDGET = "out_of_budget"


class EpisodeError(RuntimeError):
    """Something was asked that the state of the episode does not allow."""


class UnknownQuestionError(KeyError):
    """There is no such question, split or index; the message says what there is."""

    def __str__(self) -> str:  # a KeyError shows its message in quotes
        return str(self.args[0])


class GoldAnswer(NamedTuple):
    """What would have been right: shown to a person after the episode, never during it."""

    sql: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


@lru_cache(maxsize=4096)
def _database_path(db_dir: Path, name: str) -> Path:
    """Joining paths takes longer than the rest of a reset."""
    return database_path(db_dir, name)


@lru_cache(maxsize=8192)
def _gold_for(file: FileIdentity, sql: str, limits: Limits) -> Gold:
    """Gold results are needed again and again (16 rollouts of one question): run each once.

    A database that was replaced is another file and has another gold. It is trusted, and a question
    must not be lost to a busy machine: it may take longer than an agent's query.
    """
    database = Database(file.path, replace(limits, seconds=GOLD_PATIENCE * limits.seconds))
    return build_gold(sql, database.query)


class SQLEnvironment:
    """Explore a database step by step, answer, be scored.

    Args:
        questions_path: a question file or a folder of them; default: the embedded data.
        db_dir: the folder with `<name>/<name>.sqlite`; default: the embedded data.
        step_budget: how many actions an episode may take, ANSWER included.
        reward: the values of the reward's layers.
        rewards: "dense" pays every step; "end" pays nothing before the episode is over, then all of
            it, so that nobody who plays can find out about the answer from what a step was worth.
        limits: what one query may cost.
        allow_last: accept `ANSWER: @last`; without it an answer must be typed out.
        questions: records that are already loaded, instead of `questions_path`.
    """

    # OpenEnv reads this: every session has its own instance and shares nothing mutable.
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(
        self,
        questions_path: Path | str | None = None,
        db_dir: Path | str | None = None,
        step_budget: int = 15,
        *,
        reward: RewardConfig = RewardConfig(),
        rewards: Rewards = "dense",
        limits: Limits = Limits(),
        allow_last: bool = True,
        questions: Sequence[QuestionRecord] | None = None,
    ) -> None:
        if step_budget < 1:
            raise ValueError(f"step_budget is {step_budget}: an episode needs at least one step")
        if rewards not in get_args(Rewards):
            raise ValueError(
                f"rewards is {rewards!r}: choose one of {', '.join(get_args(Rewards))}"
            )
        default = Dataset.embedded()
        self.db_dir = Path(db_dir or default.db_dir)
        self.questions = list(
            questions
            if questions is not None
            else load_questions(questions_path or default.questions_path)
        )
        self.step_budget = step_budget
        self.reward_config = reward
        self.rewards: Rewards = rewards
        self.limits = limits
        self.allow_last = allow_last
        self._by_id = {record.question_id: record for record in self.questions}
        self._database: Database | None = None
        self._question: QuestionRecord | None = None
        self._done = True

    # -- the episode -------------------------------------------------------------------------

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        *,
        question_id: str | None = None,
        split: str | None = None,
        index: int | None = None,
        actions: Sequence[SQLAction] = (),
        **_: Any,
    ) -> SQLObservation:
        """Begin an episode: by `question_id`, by `split` and `index`, or drawn with `seed`.

        Args:
            actions: are played at once; the observation is what the last of them brought.

        Raises:
            UnknownQuestionError: there is no such question; the message says what there is.
            EpisodeError: the episode is over before the last of `actions`.
        """
        question = self._pick(seed, question_id, split, index)
        path = _database_path(self.db_dir, question.database_name)
        self._database = Database(path, self.limits)
        self._question = question
        self._gold = _gold_for(self._db.identity, question.gold_sql, self.limits)
        self._tracker = RewardTracker(self._gold, self.reward_config)
        self._episode_id = episode_id or f"{question.question_id}#{seed if seed is not None else 0}"
        self._about = self._metadata_of(question)
        self._described: tuple[TableSchema, ...] = ()
        self._schema_info = ""
        self._history: list[str] = []
        self._last_result: QueryResult | None = None
        self._shown_result: QueryResult | None = None
        self._withheld = RewardParts()
        self._done = False
        observation = self._observe()
        for action in actions:
            observation = self.step(action)
        return observation

    def step(self, action: SQLAction, timeout_s: float | None = None, **_: Any) -> SQLObservation:
        """Play one action. Whatever the agent got wrong comes back as `observation.error`.

        Raises:
            EpisodeError: there is no running episode.
        """
        if self._question is None:
            raise EpisodeError("no episode is running: call reset() before step()")
        if self._done:
            raise EpisodeError("the episode is over: call reset() to begin another")
        kind = action.action_type.strip().upper()
        argument = action.argument.strip()
        self._history.append(render_echo(f"{kind}: {argument}"))

        result: QueryResult | None = None
        verdict: Verdict | None = None
        text, error = "", ""
        if kind not in ACTION_TYPES:
            error = f"unknown action {action.action_type!r}: use one of {', '.join(ACTION_TYPES)}"
        elif not argument:
            error = f"{kind} needs an argument: {_EXAMPLES[kind]}"
        elif kind == "DESCRIBE":
            text, error, result = self._describe(argument)
        elif kind == "SAMPLE":
            text, error, result = self._sample(argument)
        elif kind == "QUERY":
            result = self._query(argument)
            if not result.error:
                self._last_result = result
                text = render_query_result(result)
            else:
                error = explain_sql_error(
                    result.error, argument, self._db.table_names, self._described_columns()
                )
        else:
            verdict, error = self._judge(argument)
            if verdict:
                text = "Correct." if verdict.correct else "Not correct."

        self._shown_result = result
        parts = self._tracker.step(
            kind,
            argument,
            result=result,
            ok=not error,
            correct=verdict.correct if verdict else None,
        )
        stop: StopReason | None = None
        if verdict:
            stop = StopReason.CORRECT if verdict.correct else StopReason.WRONG
        elif len(self._history) >= self.step_budget:
            stop = StopReason.BUDGET
        self._done = stop is not None
        if self.rewards == "end":
            earned = RewardParts(*map(sum, zip(self._withheld, parts, strict=True)))
            self._withheld, parts = (RewardParts(), earned) if stop else (earned, RewardParts())
        error_kind = result.error_kind if result else None
        return self._observe(text, error, parts, stop, verdict, error_kind)

    @property
    def state(self) -> SQLState:
        """The episode's progress, free of anything an agent should not know."""
        if self._question is None:
            return SQLState(done=True)
        return SQLState(
            episode_id=self._episode_id,
            step_count=len(self._history),
            question_id=self._question.question_id,
            database_name=self._question.database_name,
            budget_remaining=self.step_budget - len(self._history),
            described_tables=[schema.name for schema in self._described],
            done=self._done,
        )

    @property
    def shown_result(self) -> QueryResult | None:
        """What the sandbox returned for the last action, whatever the action was."""
        return self._shown_result if self._question else None

    def reveal(self) -> GoldAnswer:
        """The gold query and its result, once the episode is over.

        Raises:
            EpisodeError: the episode is still running, or none was begun.
        """
        if self._question is None or not self._done:
            raise EpisodeError("the gold answer is shown after the episode: play it to its end")
        return GoldAnswer(self._question.gold_sql, self._gold.columns, self._gold.rows)

    def close(self) -> None:
        """End the episode. The environment can be reset again afterwards."""
        self._database, self._question, self._done = None, None, True

    def fork(self) -> Self:
        """An environment at the same point of the same episode, to be played on independently.

        What changes in an episode is copied; questions, database and gold are shared.
        """
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        if self._question is not None:
            twin._tracker = self._tracker.copy()
            twin._history = self._history.copy()
        return twin

    def another(self) -> Self:
        """An environment with the same questions, databases and rules, for an episode beside this.

        Without an episode it holds no connection, so it can be sent to another process.
        """
        twin = copy(self)
        twin._database, twin._question, twin._done = None, None, True
        return twin

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the actions -------------------------------------------------------------------------

    def _describe(self, table: str) -> tuple[str, str, QueryResult | None]:
        schema = self._db.schema(table_name(table))
        if schema is None:
            return "", unknown_table(table, self._db.table_names), None
        text = render_schema(schema)
        if schema not in self._described:
            self._described += (schema,)
            self._schema_info += f"\n\n{text}" if self._schema_info else text
        reads = frozenset((schema.name, column.name) for column in schema.columns)
        return text, "", QueryResult(reads=reads)

    def _sample(self, table: str) -> tuple[str, str, QueryResult | None]:
        schema = self._db.schema(table_name(table))
        if schema is None:
            return "", unknown_table(table, self._db.table_names), None
        result = self._first_rows(schema.name)
        return (render_query_result(result) if result.ok else ""), result.error, result

    # Whatever runs in the sandbox for an agent runs here; a server may have run it already.

    def _query(self, sql: str) -> QueryResult:
        assert self._database is not None
        return self._database.query(sql)

    def _first_rows(self, table: str) -> QueryResult:
        return self._db.sample(table, SAMPLE_ROWS)

    def _judge(self, answer: str) -> tuple[Verdict | None, str]:
        if answer.lower() != LAST_RESULT:
            try:
                return verify_text(answer, self._gold), ""
            except AnswerError as error:
                return None, str(error)
        if not self.allow_last:
            return None, f"{LAST_RESULT} is switched off here: type the answer out"
        if self._last_result is None:
            return None, f"{LAST_RESULT} needs a successful QUERY before it"
        return verify_rows(self._last_result.rows, self._gold), ""

    def _described_columns(self) -> dict[str, list[str]]:
        return {
            schema.name: [column.name for column in schema.columns] for schema in self._described
        }

    # -- inside ------------------------------------------------------------------------------

    @property
    def _db(self) -> Database:
        assert self._database is not None
        return self._database

    def _pick(
        self, seed: int | None, question_id: str | None, split: str | None, index: int | None
    ) -> QuestionRecord:
        if question_id is not None:
            if question_id not in self._by_id:
                raise UnknownQuestionError(
                    f"no question {question_id!r} among {len(self._by_id)} loaded"
                )
            return self._by_id[question_id]
        pool: list[QuestionRecord] = self.questions
        if split is not None:
            pool = [record for record in self.questions if record.split == split]
        if not pool:
            raise UnknownQuestionError(f"no questions in split {split!r}: there are {self.splits}")
        if index is None:
            return random.Random(seed).choice(pool)
        if not 0 <= index < len(pool):
            raise UnknownQuestionError(
                f"index {index} is outside 0..{len(pool) - 1} of split {split!r}"
            )
        return pool[index]

    @property
    def splits(self) -> list[str]:
        """The splits that the loaded questions belong to."""
        return sorted({record.split for record in self.questions})

    def _metadata_of(self, question: QuestionRecord) -> dict[str, Any]:
        about = {
            "question_id": question.question_id,
            "database_name": question.database_name,
            "difficulty": question.difficulty,
            "allow_last": self.allow_last,
        }
        return about | {"hint": question.hint} if question.hint else about

    def _observe(
        self,
        text: str = "",
        error: str = "",
        parts: RewardParts | None = None,
        stop: StopReason | None = None,
        verdict: Verdict | None = None,
        error_kind: str | None = None,
    ) -> SQLObservation:
        assert self._question is not None and self._database is not None
        metadata = self._about.copy()
        if parts is not None:
            operational, progress, terminal = parts
            metadata["reward_parts"] = {
                "operational": operational,
                "progress": progress,
                "terminal": terminal,
            }
            if self._tracker.repeated:
                metadata["repeated"] = True
        if error_kind is not None:
            metadata["error_kind"] = str(error_kind)
        if stop is not None:
            metadata["stop_reason"] = str(stop)
            metadata["correct"] = stop is StopReason.CORRECT
        if verdict is not None:
            metadata["verdict"] = verdict.reason
        return made_observation(
            {
                "question": self._question.question_text,
                "table_names": list(self._database.table_names),
                "schema_info": self._schema_info,
                "result": text,
                "error": render_echo(error),
                "step_count": len(self._history),
                "budget_remaining": self.step_budget - len(self._history),
                "action_history": self._history.copy(),
                "done": stop is not None,
                "reward": parts.total if parts is not None else None,
                "metadata": metadata,
            },
            self._described,
            self._shown_result,
        )


_EXAMPLES = {
    "DESCRIBE": "the name of a table",
    "SAMPLE": "the name of a table",
    "QUERY": "one SELECT statement",
    "ANSWER": "the answer, [] for an empty result, or @last for the last query's result",
}
