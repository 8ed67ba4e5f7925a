"""How a column's values are drawn. Every draw comes from the generator that is handed in."""

from __future__ import annotations

import datetime as dt
import random
import unicodedata
from dataclasses import dataclass
from typing import Any, Protocol

from sql_env.worlds.words import CITIES, FIRST_NAMES, LAST_NAMES

Cells = dict[str, Any]  # the row so far, by logical column; `#table` is the whole table's memory


class Values(Protocol):
    """A source of values of one kind."""

    @property
    def kind(self) -> str:
        """name, person, text, category, flag, number, date or year."""
        ...

    @property
    def capacity(self) -> int | None:
        """How many different values there are, where each row needs its own."""
        ...

    def draw(self, rng: random.Random, row: Cells) -> Any: ...


@dataclass(frozen=True)
class Choice:
    """One of a few values; a pair is (what is stored, what people say)."""

    options: tuple[str | int | tuple[str | int, str], ...]
    weights: tuple[float, ...] | None = None
    kind: str = "category"
    capacity: int | None = None

    def draw(self, rng: random.Random, row: Cells) -> Any:
        option = rng.choices(self.options, self.weights)[0]
        return option[0] if isinstance(option, tuple) else option

    def varied(self, rng: random.Random) -> Choice:
        """What one database makes of it: fewer options, words in place of codes."""
        count = len(self.options)
        kept = sorted(
            rng.sample(range(count), max(min(count, 3), round(count * rng.uniform(0.6, 1))))
        )
        in_words = rng.random() < 0.5
        options = tuple(
            option[1] if in_words and isinstance(option, tuple) else option
            for option in (self.options[i] for i in kept)
        )
        weights = [self.weights[i] if self.weights else rng.uniform(0.4, 2.0) for i in kept]
        return Choice(options, tuple(weights), self.kind)

    def spoken(self, value: Any) -> str:
        """What people say for a stored value."""
        for option in self.options:
            if isinstance(option, tuple) and option[0] == value:
                return option[1]
        return str(value)


@dataclass(frozen=True)
class Number:
    """A whole or decimal number; `peak` in 0..1 says where most of them lie."""

    low: float
    high: float
    digits: int = 0
    peak: float = 0.4
    step: int = 1
    kind: str = "number"
    capacity: int | None = None

    def draw(self, rng: random.Random, row: Cells) -> Any:
        mode = self.low + self.peak * (self.high - self.low)
        value = rng.triangular(self.low, self.high, mode)
        if self.digits:
            return round(value, self.digits)
        return int(value / self.step) * self.step


@dataclass(frozen=True)
class Year:
    """A year, later ones somewhat more often."""

    low: int
    high: int
    kind: str = "year"
    capacity: int | None = None

    def draw(self, rng: random.Random, row: Cells) -> Any:
        return int(
            rng.triangular(self.low, self.high + 0.99, self.low + 0.7 * (self.high - self.low))
        )


@dataclass(frozen=True)
class Date:
    """A day between two years, written as ISO 8601."""

    low: int
    high: int
    kind: str = "date"
    capacity: int | None = None

    def draw(self, rng: random.Random, row: Cells) -> Any:
        first = dt.date(self.low, 1, 1).toordinal()
        last = dt.date(self.high, 12, 31).toordinal()
        return dt.date.fromordinal(rng.randint(first, last)).isoformat()


@dataclass(frozen=True)
class DaysAfter:
    """A day some days after another of the same row; nothing where that one is missing."""

    column: str
    low: int
    high: int
    kind: str = "date"
    capacity: int | None = None

    def draw(self, rng: random.Random, row: Cells) -> Any:
        start = row.get(self.column)
        if start is None:
            return None
        days = rng.randint(self.low, self.high)
        return (dt.date.fromisoformat(start) + dt.timedelta(days=days)).isoformat()


@dataclass(frozen=True)
class Title:
    """A name of its own for every row: from a list, or from a pattern of lists."""

    pools: tuple[tuple[str, ...], ...]
    pattern: str = "{}"
    kind: str = "name"

    @property
    def capacity(self) -> int | None:
        size = 1
        for pool in self.pools:
            size *= len(pool)
        # Drawing without repetition from a pattern needs some room.
        return size if len(self.pools) == 1 else size // 2

    def draw(self, rng: random.Random, row: Cells) -> Any:
        return self.pattern.format(*(rng.choice(pool) for pool in self.pools))


@dataclass(frozen=True)
class Person:
    """A person's name; kept apart in the row so that an email address can follow it."""

    kind: str = "person"
    capacity: int | None = len(FIRST_NAMES) * len(LAST_NAMES) // 2

    def draw(self, rng: random.Random, row: Cells) -> Any:
        return rng.choice(FIRST_NAMES), rng.choice(LAST_NAMES)


@dataclass(frozen=True)
class City:
    """A city; `Country` in the same table follows it."""

    kind: str = "category"
    capacity: int | None = None
    some: int = 9  # a table draws from this many cities, so that they repeat

    def draw(self, rng: random.Random, row: Cells) -> Any:
        return rng.choice(_some_of(sorted(CITIES), "cities", self.some, rng, row))


@dataclass(frozen=True)
class Country:
    """The country of the row's city, or any country where the row has no city."""

    kind: str = "category"
    capacity: int | None = None
    some: int = 8

    def draw(self, rng: random.Random, row: Cells) -> Any:
        if row.get("city"):
            return CITIES[row["city"]]
        countries = sorted(set(CITIES.values()))
        return rng.choice(_some_of(countries, "countries", self.some, rng, row))


@dataclass(frozen=True)
class Email:
    """An address made from the row's person."""

    host: str
    kind: str = "text"
    capacity: int | None = None

    def draw(self, rng: random.Random, row: Cells) -> Any:
        first, last = row["#person"]
        plain = unicodedata.normalize("NFKD", f"{first}.{last}").encode("ascii", "ignore").decode()
        return f"{plain.replace(' ', '').lower()}@{self.host}"


@dataclass(frozen=True)
class Code:
    """Letters for `?`, digits for `#`; the rest as it stands."""

    pattern: str
    kind: str = "text"
    capacity: int | None = None

    def draw(self, rng: random.Random, row: Cells) -> Any:
        letters = "ABCDEFGHJKLMNPRSTUVWXYZ"
        return "".join(
            rng.choice(letters) if c == "?" else rng.choice("0123456789") if c == "#" else c
            for c in self.pattern
        )


def _some_of(pool: list[str], name: str, count: int, rng: random.Random, row: Cells) -> list[str]:
    """The few values a table keeps to, so that they repeat."""
    memory: dict[str, list[str]] = row["#table"]
    if name not in memory:
        memory[name] = rng.sample(pool, count)
    return memory[name]
