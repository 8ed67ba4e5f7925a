"""Is a dataset fit to play? Every question is tried out, with the parts that will judge agents.

Four things must hold: the gold query runs; the stored answer is what it returns; the verifier
accepts the gold result, as rows and typed out; the oracle answers correctly from what it observes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sql_env.agent.playing import PlannedEpisode, play
from sql_env.agent.policies import EMPTY_ANSWER, OraclePolicy
from sql_env.core.answers import MAX_CHARACTERS
from sql_env.core.cells import same_number
from sql_env.core.database import Database
from sql_env.core.render import CUT_MARK, render_row
from sql_env.core.verifier import AnswerError, Gold, build_gold, verify_rows, verify_text
from sql_env.environment import SQLEnvironment
from sql_env.evaluation.ray_pool import map_on_ray
from sql_env.models import QuestionRecord
from sql_env.questions import answer_of, database_path

PIECE = 100  # questions that a worker of a cluster tries at a time


class Check(StrEnum):
    """What is checked, in this order; a question that fails one is not tried on the next."""

    GOLD = "gold runs"
    ANSWER = "stored answer fits"
    VERIFIER = "verifier accepts it"
    ORACLE = "oracle succeeds"


@dataclass(frozen=True)
class Finding:
    """One question's outcome: the check it failed, and how; or neither."""

    record: QuestionRecord
    failed: Check | None = None
    reason: str = ""


class _CheckFailed(Exception):
    def __init__(self, check: Check, reason: str) -> None:
        super().__init__(reason)
        self.check = check


def validate(
    records: Sequence[QuestionRecord], db_dir: Path, step_budget: int = 15
) -> Iterator[Finding]:
    """Try every question, one finding each.

    Args:
        records: the questions.
        db_dir: the folder of their databases.
        step_budget: how many actions the oracle may take.

    Raises:
        DatabaseOpenError: a database is missing or damaged.
    """
    oracle = OraclePolicy(records)
    with SQLEnvironment(None, db_dir, step_budget, questions=records) as environment:
        for record in records:
            try:
                _check_verifier(_check_gold(record, db_dir))
                _check_oracle(record, environment, oracle)
            except _CheckFailed as failure:
                yield Finding(record, failure.check, str(failure))
            else:
                yield Finding(record)


def validate_on_ray(
    records: Sequence[QuestionRecord], db_dir: Path, workers: int | None = None
) -> Iterator[Finding]:
    """The same findings in the same order, found on the cluster that was joined."""
    pieces = [(records[start : start + PIECE], db_dir) for start in range(0, len(records), PIECE)]
    for findings in map_on_ray(_findings, pieces, workers):
        yield from findings


def _findings(piece: tuple[Sequence[QuestionRecord], Path]) -> list[Finding]:
    return list(validate(*piece))


def _check_gold(record: QuestionRecord, db_dir: Path) -> Gold:
    database = Database(database_path(db_dir, record.database_name))
    try:
        gold = build_gold(record.gold_sql, database.query)
    except ValueError as error:
        raise _CheckFailed(Check.GOLD, str(error)) from error
    answer, answer_type = answer_of(gold.columns, gold.rows)
    if answer_type != record.answer_type:
        raise _CheckFailed(
            Check.ANSWER, f"stored as {record.answer_type}, the query returns {answer_type}"
        )
    if not _same(answer, record.gold_answer):
        raise _CheckFailed(Check.ANSWER, "the query returns something else than what is stored")
    missing = [name for name in record.tables_involved if database.schema(name) is None]
    if missing:
        raise _CheckFailed(Check.ANSWER, f"tables that are not there: {', '.join(missing)}")
    return gold


def _same(answer: object, stored: object) -> bool:
    """Equal, but for the last digit of sums that another SQLite may have taken in another order."""
    if isinstance(answer, list) and isinstance(stored, list):
        return len(answer) == len(stored) and all(map(_same, answer, stored))
    if isinstance(answer, int | float) and isinstance(stored, int | float):
        return same_number(answer, stored)
    return answer == stored


def _check_verifier(gold: Gold) -> None:
    verdict = verify_rows(gold.rows, gold)
    if not verdict.correct:
        raise _CheckFailed(Check.VERIFIER, f"as rows: {verdict.reason}")
    text = "\n".join(map(render_row, gold.rows)) or EMPTY_ANSWER
    if CUT_MARK in text or len(text) > MAX_CHARACTERS:
        return  # nobody can type this out: it is answered with @last
    try:
        verdict = verify_text(text, gold)
    except AnswerError as error:
        raise _CheckFailed(Check.VERIFIER, f"typed out: {error}") from error
    if not verdict.correct:
        raise _CheckFailed(Check.VERIFIER, f"typed out: {verdict.reason}")


def _check_oracle(
    record: QuestionRecord, environment: SQLEnvironment, oracle: OraclePolicy
) -> None:
    (played,) = play(environment, oracle, [PlannedEpisode(record)])
    episode = played.episode
    if not episode.correct:
        actions = "; ".join(f"{step.action_type} {step.argument}" for step in episode.steps)
        reason = episode.error or episode.verdict or episode.steps[-1].error
        raise _CheckFailed(Check.ORACLE, f"{episode.stop_reason}: {reason}: {actions}")
