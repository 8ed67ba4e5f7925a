"""What an intent is, how it is registered, and the tools it works with.

An intent is one thing a person may want to know. It builds a query from what the database offers
and hands back the words for its sentences; one of at least six sentences is then chosen.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from sql_env.worlds.conditions import Condition, random_condition
from sql_env.worlds.english import Saying, plural, sentence
from sql_env.worlds.query import Query
from sql_env.worlds.subjects import Subject
from sql_env.worlds.world import Relation, World, WorldColumn, WorldTable

T = TypeVar("T")
ORDERABLE = ("number", "date", "year")


class NotOffered(Exception):
    """The database does not offer what an intent needs."""


def need(found: T | None) -> T:
    """What was found; where nothing was, the intent cannot ask here.

    Raises:
        NotOffered: it is None.
    """
    if found is None:
        raise NotOffered
    return found


@dataclass(frozen=True)
class Draft:
    """A query and the words for its sentence.

    Attributes:
        differs: queries whose result must differ, or the condition would say nothing.
        ties: a query of the sort keys with one row more than the LIMIT; equal keys are a tie.
    """

    sql: str
    words: dict[str, str]
    differs: tuple[str, ...] = ()
    ties: str = ""
    limit: int = 0
    canonical: str = ""  # the query before its tables were put in another order

    def __post_init__(self) -> None:
        object.__setattr__(self, "canonical", self.canonical or self.sql)


@dataclass(frozen=True)
class Intent:
    """One thing a person may want to know, with the ways of asking it."""

    name: str
    level: str
    phrasings: tuple[str, ...]
    make: Callable[[Asker], Draft]
    may_be_empty: bool = False


@dataclass(frozen=True)
class Candidate:
    """A question that still has to pass the checks."""

    question: str
    sql: str
    intent: Intent
    phrasing: int
    draft: Draft


INTENTS: dict[str, Intent] = {}
EXISTING_INTENTS: dict[str, Intent] = {}
"""What only existing databases are asked, so that what domains are asked stays what it is."""

Make = Callable[..., Draft]


def add_intent(
    name: str,
    level: str,
    phrasings: tuple[str, ...],
    make: Make,
    *,
    may_be_empty: bool = False,
    register: dict[str, Intent] = INTENTS,
    **choices: Any,
) -> None:
    """Register an intent that mostly yields queries of `level`: `make` with these `choices`."""
    if name in register:
        raise ValueError(f"two intents are called {name}")
    register[name] = Intent(name, level, phrasings, partial(make, **choices), may_be_empty)


def intent(level: str, *phrasings: str, **about: Any) -> Callable[[Make], Make]:
    """Register a function as an intent of its own name; see `add_intent`."""

    def register(make: Make) -> Make:
        add_intent(make.__name__, level, phrasings, make, **about)
        return make

    return register


add_existing = partial(add_intent, register=EXISTING_INTENTS)
existing_intent = partial(intent, register=EXISTING_INTENTS)


def _fields(phrasing: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(phrasing) if name}


def propose(chosen: Intent, asker: Asker) -> Candidate | None:
    """Let an intent build a question; None where the database does not offer what it needs."""
    try:
        draft = chosen.make(asker)
    except NotOffered:
        return None
    usable = [
        i for i, phrasing in enumerate(chosen.phrasings) if _fields(phrasing) <= draft.words.keys()
    ]
    index = asker.rng.choice(usable)
    question = sentence(chosen.phrasings[index].format(**draft.words))
    return Candidate(question, draft.sql, chosen, index, draft)


@dataclass
class Asker:
    """One database and one generator: the choices every intent makes."""

    world: World
    rng: random.Random

    # -- tables and columns ------------------------------------------------------------------

    def table(self, *, named: bool = False, kinds: Sequence[str] = ()) -> WorldTable | None:
        """A table people speak of, with a display name or a column of some kind if asked for."""
        tables = [
            table
            for table in self.world.tables.values()
            if table.spec.nouns
            and (table.display or not named)
            and (not kinds or any(c.kind in kinds for c in table.columns.values()))
        ]
        if not tables:
            return None
        return self.rng.choices(tables, [1 + len(table.columns) for table in tables])[0]

    def column(
        self,
        table: WorldTable,
        *kinds: str,
        full: bool = False,
        without: Sequence[WorldColumn] = (),
    ) -> WorldColumn | None:
        """A column of one of the kinds; `full` means that no value is missing."""
        found = [
            c
            for c in table.columns.values()
            if c.kind in kinds
            and c not in without
            and not (full and c.has_nulls)
            and len(set(c.known)) > 1
        ]
        return self.rng.choice(found) if found else None

    def subject(self, table: WorldTable, *sayings: Saying) -> Subject:
        return Subject(table, self.rng.choice(table.spec.nouns), sayings)

    # -- conditions --------------------------------------------------------------------------

    def condition(
        self,
        table: WorldTable,
        *,
        forms: tuple[str, ...] = (),
        without: Sequence[WorldColumn] = (),
        share: tuple[float, float] = (0.03, 0.7),
    ) -> Condition | None:
        return random_condition(table, self.rng, forms=forms, without=tuple(without), share=share)

    def narrowed(
        self,
        query: Query,
        subject: Subject,
        *,
        without: Sequence[WorldColumn] = (),
        share: tuple[float, float] = (0.03, 0.7),
    ) -> tuple[Subject, list[str]]:
        """Put a condition into a query and its words; also the query that must then differ."""
        condition = need(self.condition(subject.table, without=without, share=share))
        before = query.sql
        query.where.append(condition.sql())
        return subject.narrowed(condition.saying), [before]

    # -- relations ---------------------------------------------------------------------------

    def relation(
        self,
        *,
        many: bool | None = None,
        hops: int | None = None,
        named_source: bool = False,
        named_target: bool = False,
        complete: bool = False,
    ) -> Relation | None:
        found = [
            r
            for r in self.world.relations
            if (many is None or r.many == many)
            and (hops is None or len(r.hops) == hops)
            and (not named_source or r.source.display)
            and (not named_target or r.target.display)
            and (not complete or r.complete)
            and r.source.spec.nouns
            and r.target.spec.nouns
        ]
        return self.rng.choice(found) if found else None

    def linked_row(self, relation: Relation, low: int = 1, high: int = 20) -> int | None:
        """The position of a target that has between `low` and `high` sources."""
        counts: dict[int, int] = {}
        for _, target in set(relation.pairs):
            counts[target] = counts.get(target, 0) + 1
        rows = [
            i for i, key in enumerate(relation.target.keys) if low <= counts.get(key, 0) <= high
        ]
        return self.rng.choice(rows) if rows else None

    # -- writing -----------------------------------------------------------------------------

    def draft(
        self,
        query: Query,
        subject: Subject | None = None,
        /,
        *,
        differs: Sequence[str] = (),
        **words: str,
    ) -> Draft:
        """Finish a query, with the probe for ties where it has a LIMIT.

        Args:
            subject: what it asks about; its own words count where `words` has no others.
        """
        canonical = query.sql
        query.flip(self.rng)
        ties, limit = "", 0
        if query.limit is not None:
            keys = [key.removesuffix(" DESC").removesuffix(" ASC") for key in query.order]
            ties = replace(query, select=keys, distinct=False, limit=query.limit + 1).sql
            limit = query.limit
        every = {**subject.words, **words} if subject else words
        return Draft(query.sql, every, tuple(differs), ties, limit, canonical)

    def one_of(self, *options: str) -> str:
        return self.rng.choice(options)


def superlative(column: WorldColumn, subject: Subject, top: bool, many: bool = False) -> str:
    """`oldest doctor from Norway`, `doctor with the highest salary`, without the article."""
    spec = column.spec
    own = spec.most if top else spec.least
    if own:
        return subject.phrase(many, before=own)
    if spec.counted:
        return f"{subject.phrase(many)} with the {'most' if top else 'fewest'} {spec.counted}"
    if column.kind in ("date", "year"):
        first, _, rest = spec.event.partition(" ")
        if first == "was" and not subject.sayings:
            return f"{subject.phrase(many)} {rest} {'most recently' if top else 'earliest'}"
        word = "latest" if top else "earliest"
    else:
        word = "highest" if top else "lowest"
    words = plural(spec.words[0]) if many else spec.words[0]
    return f"{subject.phrase(many)} with the {word} {words}"


def direction_words(column: WorldColumn, down: bool) -> str:
    """How an order is said: `from oldest to youngest`, `by salary, highest first`."""
    spec = column.spec
    if spec.most and spec.least:
        ends = (spec.most, spec.least) if down else (spec.least, spec.most)
        return f"from {ends[0]} to {ends[1]}"
    words = spec.words[0]
    if column.kind in ("date", "year"):
        return f"by {words}, {'latest' if down else 'earliest'} first"
    if down:
        return f"in descending order of {words}"
    return f"in ascending order of {words}"
