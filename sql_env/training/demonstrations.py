"""Demonstrations: whole episodes as an expert plays them who knows the gold query.

They are played through the real environment, so their observations are real. They vary (a table
too many, a list of values, a corrupted query and its correction), because a model that has seen
episodes of one kind only repeats that. A corrupted query is shown but not trained on: its turn
carries no loss.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sql_env.agent.parsing import format_action
from sql_env.agent.playing import PlannedEpisode, play
from sql_env.agent.policies import answer_from_result
from sql_env.agent.prompts import (
    V1,
    Prompt,
    format_observation,
    format_outcome,
    format_question,
    format_steps_left,
)
from sql_env.core.actions import PlayedActions
from sql_env.core.database import Database
from sql_env.core.schema import sql_name
from sql_env.environment import LAST_RESULT, SQLEnvironment
from sql_env.models import QuestionRecord, SQLAction, SQLObservation
from sql_env.questions import database_path
from sql_env.sql.canonical import (
    Comparison,
    canonical_sql,
    comparisons,
    tables_in_order,
)
from sql_env.training.corruption import corrupt

DATA_CHECKED = 0.85  # how often an expert looks at the data after finding nothing


@dataclass(frozen=True)
class Turn:
    """What the agent read, what it did, and whether to learn from that."""

    observation: str
    action: str
    trained: bool = True

    @property
    def texts(self) -> tuple[str, str]:
        return self.observation, self.action


@dataclass(frozen=True)
class Demonstration:
    """An episode that ends in success."""

    question_id: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True)
class DemonstrationMix:
    """How often each variant occurs.

    Attributes:
        describe_tables: how many tables an expert describes who does not know which will do: all
            of a database that has no more, otherwise those the query needs and, up to this many,
            those they refer to or are referred to by. 0 describes what the query needs and nothing
            else.
        extra_table: describes a table that the query does not need, besides.
        list_values: lists a column's values before comparing it with a text that the question
            spells otherwise, or not at all.
        sample: shows some rows where the query compares with a text.
        corrupt: begins with a query that finds nothing, where one is near, mostly looks at the
            data, and corrects it, instead of `list_values` and `sample`. Unless this is 0, it
            always looks at the data before it believes that nothing is the answer.
        typed_answer: plays without `@last`, so that answers are typed out.
    """

    describe_tables: int = 0
    extra_table: float = 0.25
    list_values: float = 0.0
    sample: float = 0.25
    corrupt: float = 0.1
    typed_answer: float = 0.15


class Move(NamedTuple):
    """An action of a script."""

    kind: str
    argument: str
    trained: bool = True


Moves = Generator[Move, SQLObservation, None]
"""What an expert does: it yields moves, and is sent what came of each."""
Script = Callable[[SQLObservation, PlayedActions], Moves]
"""Begins with the first observation; it may ask what was played so far."""


class GaveUpError(Exception):
    """A script came to its end without an answer."""


class Expert:
    """A policy that plays a script and writes down every turn.

    Args:
        script: what it plays.
        prompt: how the model is spoken to that is to learn from it.
    """

    def __init__(self, script: Script, prompt: Prompt = V1) -> None:
        self._script = script
        self._prompt = prompt
        self._played = PlayedActions()
        self._results: list[str] = []  # of the last turn, in a prompt of several actions a turn
        self._last: SQLAction | None = None
        self.turns: list[Turn] = []

    def select_action(self, observation: SQLObservation) -> SQLAction:
        try:
            if self._last is None:
                self._moves = self._script(observation, self._played)
                move = next(self._moves)
            else:
                self._results.append(format_outcome(self._last, observation))
                move = self._moves.send(observation)
        except StopIteration:
            raise GaveUpError from None
        action = SQLAction(action_type=move.kind, argument=move.argument)
        if move.kind == "DESCRIBE" and self._describes(move.trained, observation):
            last = self.turns[-1]
            self.turns[-1] = replace(last, action=f"{last.action}, {move.argument}")
        else:
            reading = self._reading(observation)
            self.turns.append(Turn(reading, format_action(action), move.trained))
            self._results = []
        self._played.add(move.kind, move.argument)
        self._last = action
        return action

    def _describes(self, trained: bool, seen: SQLObservation) -> bool:
        """Whether the last turn is one that another table can be described in."""
        if not self.turns or not self._prompt.several or self._prompt.actions == "tools":
            return False
        last = self.turns[-1]
        same = last.trained == trained and last.action.startswith("DESCRIBE: ")
        return same and not seen.error

    def _reading(self, seen: SQLObservation) -> str:
        if not self._prompt.several:
            return format_observation(seen)
        if not self.turns:
            return format_question(seen)
        near_end = format_steps_left(seen)
        return "\n".join([*self._results, *([near_end] if near_end else [])])


def play_script(
    environment: SQLEnvironment, record: QuestionRecord, script: Script, prompt: Prompt
) -> Demonstration | None:
    """Play one episode by a script; None where it is not won."""
    expert = Expert(script, prompt)
    (played,) = play(environment, expert, [PlannedEpisode(record)])
    if played.cause is not None and not isinstance(played.cause, GaveUpError):
        raise RuntimeError(f"question {record.question_id}: {played.episode.error}")
    won = played.episode.correct
    return Demonstration(record.question_id, tuple(expert.turns)) if won else None


def check_data(
    doubtful: Comparison, played: PlayedActions, draw: random.Random
) -> Generator[Move, SQLObservation, SQLObservation | None]:
    """See what the database holds where a query found nothing, if that is not known yet."""
    checks = [
        ("SAMPLE", doubtful.table),
        ("QUERY", values_query(doubtful.table, doubtful.column)),
    ]
    if new := [check for check in checks if check not in played]:
        return (yield Move(*draw.choice(new)))
    return None


def finish(
    seen: SQLObservation,
    played: PlayedActions,
    query: str,
    doubtful: Comparison | None = None,
) -> Moves:
    """Run the right query and answer with its result.

    Args:
        doubtful: what to see some rows of first, should that be nothing.
    """
    if seen.budget_remaining < 2:
        return
    found = yield Move("QUERY", query)
    assert found.shown is not None
    answer = LAST_RESULT
    if not found.metadata["allow_last"]:
        answer = answer_from_result(found.shown, allow_last=False)
    nothing = found.shown.ok and not found.shown.rows and found.budget_remaining > 1
    if doubtful and nothing and ("SAMPLE", doubtful.table) not in played:
        yield Move("SAMPLE", doubtful.table)  # which leaves the last result as it is
    yield Move("ANSWER", answer)


class Demonstrations:
    """Oracle demonstrations for questions of one dataset.

    Args:
        make_environment: called with `allow_last`; the environments must know the questions.
        mix: how often each variant occurs.
        seed: the same seed gives the same demonstrations.
        prompt: how the model is spoken to that is to learn from them.
    """

    def __init__(
        self,
        make_environment: Callable[[bool], SQLEnvironment],
        mix: DemonstrationMix = DemonstrationMix(),
        seed: int = 42,
        prompt: Prompt = V1,
    ) -> None:
        self._prompt = prompt
        self._with_last = make_environment(True)
        self._typed = make_environment(False)
        self.mix = mix
        self.seed = seed

    def play(self, records: Sequence[QuestionRecord]) -> Iterator[Demonstration]:
        """One for every record that the expert wins; a question that comes again is played anew."""
        played: Counter[str] = Counter()
        for record in records:
            name = record.question_id
            draw = random.Random(f"{self.seed}/{played[name]}/{name}")
            played[name] += 1
            demonstration = self.play_one(record, draw)
            if demonstration is not None:
                yield demonstration

    def play_one(self, record: QuestionRecord, draw: random.Random) -> Demonstration | None:
        """One demonstration, or None where the question cannot be won in this variant."""
        environment = self._typed if draw.random() < self.mix.typed_answer else self._with_last
        database = database_of(environment, record)
        query = canonical_sql(record.gold_sql, database)
        needed = tables_in_order(query, database) or list(record.tables_involved)
        # QUERY and ANSWER need two steps; an error and a look, two more; one is to spare.
        room = max(1, environment.step_budget - 5)
        tables = tables_to_describe(needed, database, min(self.mix.describe_tables, room))
        compared = list(comparisons(query, database))
        corrupted = draw.random() < self.mix.corrupt
        wrong = corrupt(query, record.question_text, database, draw) if corrupted else None
        unspelt = [item for item in compared if not spelt_in(item.text, record.question_text)]

        def script(seen: SQLObservation, played: PlayedActions) -> Moves:
            others = [name for name in seen.table_names if name not in tables]
            if others and draw.random() < self.mix.extra_table:
                tables.insert(draw.randrange(len(tables) + 1), draw.choice(others))
            for table in tables[:room]:
                seen = yield Move("DESCRIBE", table)
            if wrong is not None:
                seen = yield Move("QUERY", wrong.query, trained=False)
                if wrong.doubtful and draw.random() < DATA_CHECKED:
                    seen = (yield from check_data(wrong.doubtful, played, draw)) or seen
            elif unspelt and draw.random() < self.mix.list_values:
                seen = yield Move("QUERY", values_query(unspelt[0].table, unspelt[0].column))
            elif compared and draw.random() < self.mix.sample:
                seen = yield Move("SAMPLE", compared[0].table)
            doubtful = compared[0] if compared and self.mix.corrupt else None
            yield from finish(seen, played, query, doubtful)

        return play_script(environment, record, script, self._prompt)

    def close(self) -> None:
        self._with_last.close()
        self._typed.close()


def database_of(environment: SQLEnvironment, record: QuestionRecord) -> Database:
    """The database of a question."""
    return Database(database_path(environment.db_dir, record.database_name))


def tables_to_describe(needed: Sequence[str], database: Database, most: int) -> list[str]:
    """What an expert describes who may describe `most` tables; see `DemonstrationMix`.

    They come in the order in which the first observation lists them.
    """
    listed = database.table_names
    if most == 0:
        return list(needed)
    if len(listed) <= most:
        return list(listed)
    links = {(name, other) for name in listed for other in _referred_to(name, database)}
    near = [
        name
        for name in listed
        if name not in needed
        and any((name, one) in links or (one, name) in links for one in needed)
    ]
    chosen = {*needed, *near[: max(0, most - len(needed))]}
    return [name for name in listed if name in chosen]


def _referred_to(table: str, database: Database) -> list[str]:
    """The tables that foreign keys of `table` name, spelt as they are listed."""
    schema = database.schema(table)
    named = [database.schema(key.table) for key in schema.foreign_keys] if schema else []
    return [other.name for other in named if other]


def spelt_in(text: str, question: str) -> bool:
    """Whether a query's text can be copied from the question, letter by letter."""
    word = re.escape(text.strip("%"))  # as a word: the F of a code is not the F of "Find"
    return re.search(rf"(?<!\w){word}(?!\w)", question) is not None


def values_query(table: str, column: str) -> str:
    """The query that shows how the values of a column are really spelt."""
    table = sql_name(table)
    return f"SELECT DISTINCT {table}.{sql_name(column)} FROM {table} LIMIT 20"
