"""The words in which a domain is declared: tables, columns, references, links.

A domain says what there is, how a database might call it and how people speak of it. Everything
else (rows, physical names, queries, sentences) is made from these declarations.
"""

from __future__ import annotations

from dataclasses import dataclass

from sql_env.worlds.values import Values


@dataclass(frozen=True)
class Column:
    """A column and the English around it.

    Attributes:
        key: the logical name, in snake_case; also the first candidate for the physical name.
        values: how its values are drawn.
        words: what questions call it; the first is the usual one.
        names: other physical names a database may use.
        nulls: the share of rows without a value.
        over, under: a comparison, e.g. `be older than {}`; see `Saying` for the notation.
        eq: an equality, e.g. `be from {}`, `adj {}`, `live|lives in {}`.
        missing: the absence of a value, e.g. `have no email address`.
        event: for dates, what happened on it: `was hired`, or `joined|joined`.
        counted: for numbers, the things counted: `pages`.
        most, least: superlatives that go before the noun: `oldest`, `youngest`.
        unit: how a value is written, e.g. `{} kg`, `${}`.
        ask: whole questions for the value of one row: `How old is {}?`.
        additive: whether a total makes sense.
        optional: whether some databases may do without it.
    """

    key: str
    values: Values
    words: tuple[str, ...]
    names: tuple[str, ...] = ()
    nulls: float = 0.0
    over: str = ""
    under: str = ""
    eq: str = ""
    missing: str = ""
    event: str = ""
    counted: str = ""
    most: str = ""
    least: str = ""
    unit: str = "{}"
    ask: tuple[str, ...] = ()
    additive: bool = False
    optional: bool = True


@dataclass(frozen=True)
class Ref:
    """A foreign key, with what the child does to the parent and the parent to the child.

    `Ref("department", "work|works in", "employ|employs")` in the table `doctor`.
    """

    target: str
    says: str
    back: str  # empty where no verb sounds right
    key: str = ""  # the role, where it is not the target's name: `captain`
    nulls: float = 0.0


@dataclass(frozen=True)
class Table:
    """A table, what its rows are called and what it holds.

    Attributes:
        key: the logical name, singular, in snake_case.
        items: columns and references, in physical order.
        rows: least and most rows.
        nouns: what questions call a row; empty for a bare link table.
        names: other physical names.
        person: whether rows are `who` or `that`.
        called: how one row is named by its display name: `the {} department`.
        optional: whether some databases may do without it.
    """

    key: str
    items: tuple[Column | Ref, ...]
    rows: tuple[int, int]
    nouns: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    person: bool = False
    called: tuple[str, ...] = ()
    optional: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(item for item in self.items if isinstance(item, Column))

    @property
    def refs(self) -> tuple[Ref, ...]:
        return tuple(item for item in self.items if isinstance(item, Ref))


@dataclass(frozen=True)
class Link:
    """What two tables have to do with each other through a table that refers to both.

    `Link("enrolment", "student", "course", "take|takes", "are|is taken by")`.
    """

    through: str
    left: str
    right: str
    says: str
    back: str


@dataclass(frozen=True)
class Domain:
    """A small part of the world, with parents declared before their children."""

    key: str
    tables: tuple[Table, ...]
    links: tuple[Link, ...] = ()
