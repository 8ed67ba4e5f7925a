"""One database in memory: tables, columns, references and what they have to do with each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sql_env.worlds.english import Verb
from sql_env.worlds.naming import Style
from sql_env.worlds.schema import Column, Domain, Ref, Table
from sql_env.worlds.values import Choice
from sql_env.worlds.words import COUNTRIES_WITH_ARTICLE

Value = None | int | float | str


@dataclass(eq=False)
class WorldColumn:
    """A column of one database, with all its values."""

    spec: Column
    name: str
    values: list[Value]
    choice: Choice | None = None  # what this database made of the spec's choice

    @property
    def kind(self) -> str:
        return self.spec.values.kind

    @property
    def has_nulls(self) -> bool:
        return None in self.values

    @property
    def known(self) -> list[Any]:
        """The values that are there."""
        return [value for value in self.values if value is not None]

    def spoken(self, value: Value) -> str:
        """A value as people say it."""
        if self.choice is not None:
            return self.choice.spoken(value)
        return f"the {value}" if value in COUNTRIES_WITH_ARTICLE else str(value)

    @property
    def sqlite_type(self) -> str:
        if any(isinstance(value, float) for value in self.values):
            return "REAL"
        if any(isinstance(value, int) for value in self.values):
            return "INTEGER"
        return "DATE" if self.kind == "date" else "TEXT"


@dataclass(eq=False)
class WorldReference:
    """A foreign key of one database."""

    spec: Ref
    name: str
    target: WorldTable
    values: list[Any]


@dataclass(eq=False)
class WorldTable:
    """A table of one database."""

    spec: Table
    name: str
    key_name: str
    keys: list[Any]  # whole numbers, but for databases that others made
    has_key: bool = True  # a bare link table may do without a key of its own
    key_words: str = "ID"
    shown: WorldColumn | None = None  # what is listed where rows have neither a name nor a key
    columns: dict[str, WorldColumn] = field(default_factory=dict)
    references: list[WorldReference] = field(default_factory=list)
    order: list[WorldColumn | WorldReference] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.keys)

    @property
    def display(self) -> tuple[WorldColumn, ...]:
        """The columns by which people tell rows apart; empty where only the key does."""
        columns = self.columns.values()
        people = [column for column in columns if column.kind == "person"]
        return tuple(people or [column for column in columns if column.kind == "name"][:1])

    @property
    def who(self) -> str:
        return "who" if self.spec.person else "that"


@dataclass(frozen=True)
class Hop:
    """One step of a join: left.column = right.column."""

    left: WorldTable
    left_column: str
    right: WorldTable
    right_column: str


@dataclass(frozen=True, eq=False)
class Relation:
    """What rows of one table have to do with rows of another."""

    source: WorldTable
    target: WorldTable
    hops: tuple[Hop, ...]
    verb: Verb
    back: Verb
    many: bool  # a source may have several targets
    pairs: tuple[tuple[Any, Any], ...]  # (source key, target key)

    @property
    def complete(self) -> bool:
        """Every source has a target."""
        return {source for source, _ in self.pairs} >= set(self.source.keys)

    @property
    def distinct_pairs(self) -> bool:
        return len(set(self.pairs)) == len(self.pairs)


def link_relations(
    through: WorldTable,
    left: WorldReference,
    right: WorldReference,
    says: Verb,
    back: Verb,
    pairs: tuple[tuple[Any, Any], ...],
) -> list[Relation]:
    """What the two ends of a link table have to do with each other, in both directions."""
    flipped = tuple((b, a) for a, b in pairs)
    relations = []
    for near, far, verb, other, some in (
        (left, right, says, back, pairs),
        (right, left, back, says, flipped),
    ):
        hops = (
            Hop(near.target, near.target.key_name, through, near.name),
            Hop(through, far.name, far.target, far.target.key_name),
        )
        relations.append(Relation(near.target, far.target, hops, verb, other, True, some))
    return relations


@dataclass(eq=False)
class World:
    """One database of a domain."""

    name: str
    domain: Domain
    style: Style
    tables: dict[str, WorldTable]
    relations: list[Relation]
    kin: list[Relation] = field(default_factory=list)  # one row for one row, as others design
