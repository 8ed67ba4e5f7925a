"""Who plays: the `Policy` protocol and the policies that need no model.

A policy looks at an observation and says what to do next. Constant and random play are the floor
that an honest score must beat; the oracle is the ceiling, and it too reads only observations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar, runtime_checkable
from zlib import crc32

from sql_env.agent.conversation import Conversation
from sql_env.core.query_result import QueryResult
from sql_env.core.render import CUT_MARK, ROWS_SHOWN, render_cell, render_row
from sql_env.core.schema import quote_identifier
from sql_env.environment import LAST_RESULT
from sql_env.models import QuestionRecord, SQLAction, SQLObservation

EMPTY_ANSWER = "[]"

_Item = TypeVar("_Item")


class Policy(Protocol):
    """Chooses one action at a time, for one episode at a time."""

    def select_action(self, observation: SQLObservation) -> SQLAction:
        """The next action, given what the last one brought."""
        ...


@runtime_checkable
class BatchPolicy(Protocol):
    """Chooses for many running episodes, so that a model can generate their turns together."""

    def act(self, new: Mapping[int, SQLObservation]) -> Mapping[int, SQLAction | Exception]:
        """Actions for running episodes, by their numbers.

        Args:
            new: what episodes have observed since the last call; one with `step_count == 0`
                begins its episode.

        Returns:
            Actions by the episodes' numbers. Those that are left out are still thinking, and are
            asked again in the next call. An exception in the place of an action ends that episode
            alone.
        """
        ...

    def end(self, episode: int) -> Conversation | None:
        """Forget an episode that is over, or begins again; what a model said in it."""
        ...

    def release(self) -> None:
        """Give back memory that is held for episodes: there was too little."""
        ...


@runtime_checkable
class BoundedPolicy(Protocol):
    """A batch policy that knows how many episodes at once there is memory for."""

    room: int | None


@runtime_checkable
class WritingPolicy(Protocol):
    """A policy whose turns can be read while they are written."""

    def written(self, episode: int) -> str:
        """What an unfinished turn says so far."""
        ...


@runtime_checkable
class SeededPolicy(Protocol):
    """A policy with randomness: it is told a seed at the start of every episode."""

    def begin_episode(self, seed: str) -> None:
        """Forget the last episode; draw from `seed` from now on."""
        ...


@runtime_checkable
class SeededBatchPolicy(BatchPolicy, Protocol):
    """The same for many episodes: each is told its seed before it begins."""

    def seed_episode(self, episode: int, seed: str) -> None:
        """Draw from `seed` in this episode."""
        ...


@runtime_checkable
class ContinuingPolicy(BatchPolicy, Protocol):
    """The same for episodes that go on from turns which were written before."""

    def continue_from(self, episode: int, turns: Sequence[Sequence[int]]) -> None:
        """Begin this episode with `turns`, as tokens, instead of new ones."""
        ...


class ConstantPolicy:
    """Gives the same answer to every question, without looking."""

    def __init__(self, answer: str = "0") -> None:
        self.answer = answer

    def select_action(self, observation: SQLObservation) -> SQLAction:
        return SQLAction(action_type="ANSWER", argument=self.answer)


class RandomPolicy:
    """Pokes about: random tables, random simple queries, then a guess from what it saw."""

    def __init__(self, seed: int = 0) -> None:
        self.begin_episode(str(seed))

    def begin_episode(self, seed: str) -> None:
        self._state = crc32(seed.encode())

    def select_action(self, observation: SQLObservation) -> SQLAction:
        if observation.budget_remaining <= 1 or self._below(100) < 15:
            return SQLAction(action_type="ANSWER", argument=self._guess(observation))
        table = self._pick(observation.table_names)
        kind = self._pick(("DESCRIBE", "SAMPLE", "QUERY"))
        argument = self._query(table, observation) if kind == "QUERY" else table
        return SQLAction(action_type=kind, argument=argument)

    def _query(self, table: str, observation: SQLObservation) -> str:
        source = quote_identifier(table)
        described = (schema for schema in observation.described if schema.name == table)
        columns = [column.name for schema in described for column in schema.columns]
        if not columns or self._below(10) < 3:
            return f"SELECT count(*) FROM {source}"
        column = quote_identifier(self._pick(columns))
        what = self._pick(("{}", "DISTINCT {}", "count(DISTINCT {})", "max({})", "min({})"))
        return f"SELECT {what.format(column)} FROM {source}"

    def _guess(self, observation: SQLObservation) -> str:
        queried = any(entry.startswith("QUERY: ") for entry in observation.action_history)
        if queried and observation.metadata.get("allow_last", True) and self._below(2):
            return LAST_RESULT
        rows = observation.shown.rows[:ROWS_SHOWN] if observation.shown else ()
        return render_cell(self._pick(self._pick(rows))) if rows else str(self._below(10))

    def _pick(self, items: Sequence[_Item]) -> _Item:
        return items[self._below(len(items))]

    def _below(self, limit: int) -> int:
        """Knuth's MMIX generator. To seed Python's own anew costs as much as some steps do."""
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self._state >> 33) % limit


class OraclePolicy:
    """Knows the gold query, explores what it needs, and answers from what it observed.

    It keeps no state between steps, so episodes may be interleaved at will.

    Args:
        questions: the records it may be asked about.
    """

    def __init__(self, questions: Iterable[QuestionRecord]) -> None:
        self._by_id = {record.question_id: record for record in questions}

    def select_action(self, observation: SQLObservation) -> SQLAction:
        record = self._by_id[observation.metadata["question_id"]]
        budget = observation.step_count + observation.budget_remaining
        # QUERY and ANSWER come first when the budget is too small for everything.
        tables = record.tables_involved[: max(budget - 2, 0)]
        if observation.step_count < len(tables):
            return SQLAction(action_type="DESCRIBE", argument=tables[observation.step_count])
        if observation.step_count == len(tables):
            return SQLAction(action_type="QUERY", argument=record.gold_sql)
        allow_last = observation.metadata.get("allow_last", True)
        if observation.shown is None or not observation.shown.ok:
            return SQLAction(action_type="ANSWER", argument=EMPTY_ANSWER)
        answer = answer_from_result(observation.shown, allow_last=allow_last)
        return SQLAction(action_type="ANSWER", argument=answer)


def answer_from_result(result: QueryResult, *, allow_last: bool = True) -> str:
    """What to answer after a query.

    The rows are typed out where an observation shows all of them in full; else the result is
    referred to.
    """
    if not result.rows:
        return EMPTY_ANSWER
    rows = [render_row(row) for row in result.rows[:ROWS_SHOWN]]
    cut = len(result.rows) > ROWS_SHOWN or any(CUT_MARK in row for row in rows)
    return LAST_RESULT if cut and allow_last else "\n".join(rows)


class HumanPolicy:
    """A person: `ask` shows an observation and returns the line that was typed."""

    def __init__(self, ask: Callable[[SQLObservation], str]) -> None:
        self._ask = ask

    def select_action(self, observation: SQLObservation) -> SQLAction:
        return parse_command(self._ask(observation))


_COMMAND = re.compile(r"\s*(\w*)\s*:?\s*(.*)", re.DOTALL)


def parse_command(line: str) -> SQLAction:
    """`describe singer`, `QUERY: SELECT 1` or bare SQL, as an action."""
    match = _COMMAND.fullmatch(line)
    assert match is not None, "every part of the pattern is optional"
    word, rest = match.groups()
    if word.lower() in ("select", "with", "values"):
        return SQLAction(action_type="QUERY", argument=line.strip())
    return SQLAction(action_type=word.upper(), argument=rest.strip())
