"""DAgger: expert corrections of the model's own errors.

A policy that was only shown flawless episodes has never seen its own errors, and repeats them. So
it plays questions it was not shown; wherever its query fails, or finds nothing although there is
something, the expert takes over: looks at what was missed, corrects the query and answers. Only the
expert's turns are trained on. An episode that failed several times is corrected after each of the
first few: a query that stands in the context twice is the likeliest thing to send a third time,
unless that was shown to be wrong too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

from sql_env.agent.prompts import V1, Prompt
from sql_env.core.actions import PlayedActions
from sql_env.environment import SQLEnvironment
from sql_env.models import QuestionRecord, SQLAction, SQLObservation
from sql_env.sql.canonical import canonical_sql, comparisons, tables_in_order
from sql_env.training.corruption import finds_nothing
from sql_env.training.demonstrations import (
    DATA_CHECKED,
    Demonstration,
    Move,
    Moves,
    check_data,
    database_of,
    finish,
    play_script,
)

FAILURES_CORRECTED = 3  # of one episode
_MISSING_NAMES = ("no_such_column", "no_such_table")


def corrections(
    episodes: Iterable[tuple[QuestionRecord, Sequence[SQLAction]]],
    make_environment: Callable[[bool], SQLEnvironment],
    seed: int = 42,
    prompt: Prompt = V1,
) -> Iterator[Demonstration]:
    """The corrections of every played episode: one after each of its first failures."""
    environment = make_environment(True)
    for number, (record, actions) in enumerate(episodes):
        draw = random.Random(f"{seed}/{number}/{record.question_id}")
        for failures in range(1, FAILURES_CORRECTED + 1):
            corrected = correction_of(
                environment, record, actions, draw, prompt=prompt, failures=failures
            )
            if corrected is None:
                break
            yield corrected
    environment.close()


def correction_of(
    environment: SQLEnvironment,
    record: QuestionRecord,
    actions: Sequence[SQLAction],
    draw: random.Random,
    *,
    prompt: Prompt = V1,
    failures: int = 1,
) -> Demonstration | None:
    """Replay `actions` until so many queries have failed and go on as the expert would.

    Returns None where fewer fail, or too few steps are left to correct the last.
    """

    def script(seen: SQLObservation, played: PlayedActions) -> Moves:
        failed = yield from _until(failures, actions)
        if failed is None or failed.budget_remaining < 2:  # the right query and the answer
            return
        database = database_of(environment, record)
        if finds_nothing(database.query(record.gold_sql).rows):
            return
        query = canonical_sql(record.gold_sql, database)
        tables = tables_in_order(query, database)
        compared = list(comparisons(query, database))
        seen, spare = failed, failed.budget_remaining - 2
        if failed.metadata.get("error_kind") in _MISSING_NAMES:
            described = {schema.name for schema in failed.described}
            for table in [name for name in tables if name not in described][:spare]:
                seen = yield Move("DESCRIBE", table)
        elif not failed.error and compared and spare > 0 and draw.random() < DATA_CHECKED:
            seen = (yield from check_data(draw.choice(compared), played, draw)) or seen
        yield from finish(seen, played, query)

    return play_script(environment, record, script, prompt)


def _until(
    failures: int, actions: Sequence[SQLAction]
) -> Generator[Move, SQLObservation, SQLObservation | None]:
    """Replay `actions` until so many queries have failed; None where fewer do."""
    for action in actions:
        if action.action_type == "ANSWER":
            return None
        seen = yield Move(action.action_type, action.argument, trained=False)
        failures -= action.action_type == "QUERY" and _failed(seen)
        if not failures:
            return seen
    return None


def _failed(seen: SQLObservation) -> bool:
    return bool(seen.error) or (seen.shown is not None and finds_nothing(seen.shown.rows))
