"""Demonstrations: whole episodes as an expert plays them who knows the gold query.

They are played through the real environment, so their observations are real. Shapes vary (a table
too many, a look at the values, a corrupted query and its repair), because a model that has seen one
shape only repeats it. A corrupted query is shown but not trained on: its turn carries no loss.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlglot import exp

from sql_env.agent.parsing import format_action
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
from sql_env.core.database import Database, open_database, release
from sql_env.environment import LAST_RESULT, SQLEnvironment
from sql_env.models import QuestionRecord, SQLAction, SQLObservation
from sql_env.sql.canonical import (
    Comparison,
    canonical_sql,
    comparisons,
    tables_in_order,
)
from sql_env.training.corruption import corrupt

LOOK_WHY = 0.85  # how often an expert looks at the data after finding nothing


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
    """How often each shape occurs.

    Attributes:
        survey: how many tables an expert describes who does not know which will do: all of a
            database that has no more, otherwise those the query needs and, up to this many, those
            they refer to or are referred to by. 0 describes what the query needs and nothing else.
        detour: describes a table that the query does not need, besides.
        look: lists a column's values before comparing it with a text that the question spells
            otherwise, or not at all.
        sample: looks at some rows where the query compares with a text.
        corrupt: begins with a query that finds nothing, where one is near, mostly looks why, and
            mends it, instead of `look` and `sample`. Unless this is 0, it always looks before it
            believes that nothing is the answer.
        typed_answer: plays without `@last`, so that answers are typed out.
    """

    survey: int = 0
    detour: float = 0.25
    look: float = 0.0
    sample: float = 0.25
    corrupt: float = 0.1
    typed_answer: float = 0.15


class Expert:
    """Plays one question through an environment and writes down every turn."""

    def __init__(
        self, environment: SQLEnvironment, record: QuestionRecord, prompt: Prompt = V1
    ) -> None:
        self.environment = environment
        self.record = record
        self._prompt = prompt
        self._results: list[str] = []  # of the last turn, in a prompt of several actions a turn
        self.turns: list[Turn] = []
        self._played = PlayedActions()
        self.observation = environment.reset(question_id=record.question_id)

    def act(self, kind: str, argument: str, *, trained: bool = True) -> SQLObservation:
        """Play one action and remember it."""
        action = SQLAction(action_type=kind, argument=argument)
        if kind == "DESCRIBE" and self._describes(trained):
            last = self.turns[-1]
            self.turns[-1] = Turn(last.observation, f"{last.action}, {argument}", trained)
        else:
            self.turns.append(Turn(self._reading(), format_action(action), trained))
            self._results = []
        self._played.add(kind, argument)
        self.observation = seen = self.environment.step(action)
        self._results.append(format_outcome(action, seen))
        return seen

    def _describes(self, trained: bool) -> bool:
        """Whether the last turn is one that another table can be described in."""
        if not self.turns or not self._prompt.several or self._prompt.actions == "tools":
            return False
        last = self.turns[-1]
        same = last.trained == trained and last.action.startswith("DESCRIBE: ")
        return same and not self.observation.error

    def _reading(self) -> str:
        if not self._prompt.several:
            return format_observation(self.observation)
        if not self.turns:
            return format_question(self.observation)
        near_end = format_steps_left(self.observation)
        return "\n".join([*self._results, *([near_end] if near_end else [])])

    def look(self, doubtful: Comparison, draw: random.Random) -> None:
        """See what the database holds where a query found nothing, if that is not known yet."""
        looks = [
            ("SAMPLE", doubtful.table),
            ("QUERY", look_at_values(doubtful.table, doubtful.column)),
        ]
        if new := [look for look in looks if look not in self._played]:
            self.act(*draw.choice(new))

    def finish(self, query: str, doubtful: Comparison | None = None) -> Demonstration | None:
        """Run the right query and answer with its result; None where that does not succeed.

        Args:
            doubtful: what to see some rows of first, should that be nothing.
        """
        if self.observation.budget_remaining < 2:
            return None
        found = self.act("QUERY", query)
        answer = self._answer()
        nothing = (
            found.shown is not None
            and found.shown.ok
            and not found.shown.rows
            and found.budget_remaining > 1
        )
        if doubtful and nothing and ("SAMPLE", doubtful.table) not in self._played:
            self.act("SAMPLE", doubtful.table)  # which leaves the last result as it is
        self.act("ANSWER", answer)
        if not self.observation.metadata.get("correct"):
            return None
        return Demonstration(self.record.question_id, tuple(self.turns))

    def _answer(self) -> str:
        if self.environment.allow_last:
            return LAST_RESULT
        assert self.observation.shown is not None
        return answer_from_result(self.observation.shown, allow_last=False)


class Demonstrations:
    """Oracle demonstrations for questions of one dataset.

    Args:
        make_environment: called with `allow_last`; the environments must know the questions.
        mix: how often each shape occurs.
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
        """One demonstration, or None where the question cannot be won in this shape."""
        environment = self._typed if draw.random() < self.mix.typed_answer else self._with_last
        expert = Expert(environment, record, self._prompt)
        with database_of(environment, record) as database:
            query = canonical_sql(record.gold_sql, database)
            needed = tables_in_order(query, database) or list(record.tables_involved)
            # QUERY and ANSWER need two steps; an error and a look, two more; one is to spare.
            room = max(1, environment.step_budget - 5)
            tables = tables_to_describe(needed, database, min(self.mix.survey, room))
            compared = list(comparisons(query, database))
            corrupted = draw.random() < self.mix.corrupt
            wrong = corrupt(query, record.question_text, database, draw) if corrupted else None
        others = [name for name in expert.observation.table_names if name not in tables]
        if others and draw.random() < self.mix.detour:
            tables.insert(draw.randrange(len(tables) + 1), draw.choice(others))
        for table in tables[:room]:
            expert.act("DESCRIBE", table)
        unspelt = [item for item in compared if not spelt_in(item.text, record.question_text)]
        if wrong is not None:
            expert.act("QUERY", wrong.query, trained=False)
            if wrong.doubtful and draw.random() < LOOK_WHY and not expert.observation.done:
                expert.look(wrong.doubtful, draw)
        elif unspelt and draw.random() < self.mix.look:
            expert.act("QUERY", look_at_values(unspelt[0].table, unspelt[0].column))
        elif compared and draw.random() < self.mix.sample:
            expert.act("SAMPLE", compared[0].table)
        return expert.finish(query, compared[0] if compared and self.mix.corrupt else None)

    def close(self) -> None:
        self._with_last.close()
        self._typed.close()


@contextmanager
def database_of(environment: SQLEnvironment, record: QuestionRecord) -> Iterator[Database]:
    """The database of a question, taken from the pool for a while."""
    name = record.database_name
    database = open_database(environment.db_dir / name / f"{name}.sqlite")
    try:
        yield database
    finally:
        release(database)


def tables_to_describe(needed: Sequence[str], database: Database, survey: int) -> list[str]:
    """What an expert describes who may look at `survey` tables; see `DemonstrationMix`.

    A survey goes through the tables in the order in which the first observation lists them.
    """
    listed = database.table_names
    if survey == 0:
        return list(needed)
    if len(listed) <= survey:
        return list(listed)
    links = {(name, other) for name in listed for other in _referred_to(name, database)}
    near = [
        name
        for name in listed
        if name not in needed
        and any((name, one) in links or (one, name) in links for one in needed)
    ]
    chosen = {*needed, *near[: max(0, survey - len(needed))]}
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


def look_at_values(table: str, column: str) -> str:
    """The query that shows how the values of a column are really spelt."""
    column = exp.to_identifier(column).sql(dialect="sqlite")
    table = exp.to_identifier(table).sql(dialect="sqlite")
    return f"SELECT DISTINCT {table}.{column} FROM {table} LIMIT 20"
