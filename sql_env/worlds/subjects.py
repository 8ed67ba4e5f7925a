"""Noun phrases: what a question speaks of, what narrows it down, and what it has to do with."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from sql_env.worlds.english import Saying, listing, plural
from sql_env.worlds.query import at, literal
from sql_env.worlds.world import Relation, WorldColumn, WorldTable


@dataclass(frozen=True, eq=False)
class Subject:
    """Rows of a table in words: `female doctors from Norway who are older than 50`."""

    table: WorldTable
    noun: str
    sayings: tuple[Saying, ...] = ()

    def __post_init__(self) -> None:
        bound = tuple(saying.about(self.noun) for saying in self.sayings)
        object.__setattr__(self, "sayings", bound)

    def narrowed(self, *sayings: Saying) -> Subject:
        return replace(self, sayings=(*self.sayings, *sayings))

    @property
    def plain(self) -> str:
        """The noun for many, bare."""
        return plural(self.noun)

    def phrase(self, many: bool = True, before: str = "") -> str:
        """The noun with everything said about it; `before` goes where an adjective goes."""
        who = self.table.who
        adjectives = [s.text for s in self.sayings if s.kind in ("adj", "type")]
        rest = [s for s in self.sayings if s.kind not in ("adj", "type")]
        noun = self.plain if many else self.noun
        parts = [before, *adjectives, noun]
        if rest:
            light = sorted(rest, key=lambda s: s.kind not in ("be", "was", "have"))
            parts.append(light[0].modifier(who, many))
            opened = light[0].kind == "verb"
            for i, saying in enumerate(light[1:]):
                joint = "and" if i or opened or light[0].kind == "whose" else ""
                if saying.kind != "whose" and (opened or i):
                    parts += [joint, saying.predicate(many)]
                else:
                    parts += [joint, saying.clause(who, many)]
        return " ".join(part for part in parts if part)

    @property
    def is_short(self) -> bool:
        """Whether the phrase has no relative clause, so that more can follow it."""
        light = [s for s in self.sayings if s.kind in ("be", "was", "have")]
        heavy = [s for s in self.sayings if s.kind in ("verb", "whose")]
        return not heavy and len(light) < 2

    def predicate(self, word: str = "and") -> str:
        """The conditions as said of many: `are from Norway and are older than 50`."""
        return f" {word} ".join(saying.predicate(True) for saying in self.sayings)

    @property
    def words(self) -> dict[str, str]:
        """What sentences call it."""
        words = {
            "np": self.phrase(),
            "one": self.phrase(many=False),
            "noun": self.noun,
            "plain": self.plain,
            "vp": self.predicate(),
            "who": self.table.who,
            "names": names_of(self.table),
            "name": names_of(self.table, False),
        }
        return words | {"short": words["np"]} if self.is_short else words

    def either(self) -> str:
        """The noun with its conditions as alternatives."""
        clauses = " or ".join(
            saying.predicate(True) for saying in self.sayings if saying.kind != "whose"
        )
        return f"{self.plain} {self.table.who} {clauses}"


def names_of(table: WorldTable, many: bool = True) -> str:
    """What the display columns are called: `names`, `first and last names`, `IDs`."""
    display = table.display
    if not display:
        word = table.shown.spec.words[0] if table.shown else table.key_words
        return plural(word) if many else word
    if len(display) == 2:
        return "first and last names" if many else "first and last name"
    word = display[0].spec.words[0]
    return plural(word) if many else word


def display_sql(table: WorldTable, position: int = 0) -> list[str]:
    """The display columns in SQL, or the key where there are none."""
    if not table.display:
        return [at(position, table.shown or table.key_name)]
    return [at(position, column) for column in table.display]


def row_name(table: WorldTable, row: int) -> str:
    """The display name of one row."""
    return " ".join(str(column.values[row]) for column in table.display)


def called(table: WorldTable, row: int, rng: random.Random) -> str:
    """One row in a sentence: `the Cardiology department`, `Ada Berg`, `the book "Dune"`."""
    name = row_name(table, row)
    if table.spec.called:
        return rng.choice(table.spec.called).format(name)
    if table.spec.person:
        return name
    return f"the {table.spec.nouns[0]} {name}"


def is_row(table: WorldTable, row: int, position: int = 0) -> list[str]:
    """SQL conditions that pick one row by its display name."""
    return [f"{at(position, column)} = {literal(column.values[row])}" for column in table.display]


def column_words(columns: list[WorldColumn], rng: random.Random, many: bool = True) -> str:
    """`salaries and ages`."""
    words = [rng.choice(column.spec.words) for column in columns]
    return listing([plural(word) if many else word for word in words])


def partners(relation: Relation, things: str, many: bool) -> str:
    """The targets as said of one source (`its …`) or of many (`their …`).

    A passive verb sounds odd after its object, so it is turned round: not `the readers it has been
    borrowed by` but `the readers who have borrowed it`.
    """
    plural_subject = many or relation.source.spec.person
    if relation.verb.spec == "have|has":
        return f"{'their' if plural_subject else 'its'} {things}"
    if relation.verb.is_passive and relation.back.spec:
        return (
            f"the {things} {relation.target.who} {relation.back.form()} {_object(plural_subject)}"
        )
    subject = "they" if plural_subject else "it"
    return f"the {things} {subject} {relation.verb.form(many=plural_subject)}"


def partner_of(relation: Relation, thing: str, one: str) -> str:
    """The one target of a named source: `department that Ada Berg works in`."""
    if relation.verb.is_passive and relation.back.spec:
        return f"{thing} {relation.target.who} {relation.back.form(many=False)} {one}"
    return f"{thing} that {one} {relation.verb.form(many=False)}"


def partner_of_each(relation: Relation, thing: str, many: bool) -> str:
    """The one target of each source: `department they work in`, `author who has written it`."""
    plural_subject = many or relation.source.spec.person
    if relation.verb.is_passive and relation.back.spec:
        back = relation.back.form(many=False)
        return f"{thing} {relation.target.who} {back} {_object(plural_subject)}"
    subject = "they" if plural_subject else "it"
    return f"{thing} {subject} {relation.verb.form(many=plural_subject)}"


def _object(many: bool) -> str:
    return "them" if many else "it"
