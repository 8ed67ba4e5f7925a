"""Conditions on one table: the SQL, the English, a test, and random ones that keep some rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sql_env.worlds.english import Saying, listing, with_article
from sql_env.worlds.query import at, literal
from sql_env.worlds.speaking import speak_value, threshold
from sql_env.worlds.world import Value, WorldColumn, WorldTable

Test = Callable[[Any], bool]


@dataclass(frozen=True)
class Condition:
    """A property of a row.

    `template` is SQL with `{}` for the column, so that the condition can be put at any position.
    """

    column: WorldColumn
    template: str
    saying: Saying
    test: Test

    def sql(self, position: int = 0) -> str:
        return self.template.replace("{}", at(position, self.column))

    def matches(self) -> list[int]:
        """The positions of the rows that have the property."""
        return [i for i, value in enumerate(self.column.values) if self.test(value)]

    @property
    def share(self) -> float:
        return len(self.matches()) / max(1, len(self.column.values))


def _whose(column: WorldColumn, rng: random.Random, comparison: str, having: str) -> Saying:
    """`whose salary is above 10`, and `have a salary above 10` where a predicate is needed."""
    words = rng.choice(column.spec.words)
    as_have = with_article(f"{words} {having}")
    if rng.random() < 0.5:
        return Saying("have", as_have)
    return Saying("whose", f"{words} is {comparison}", as_have)


def _compared(column: WorldColumn, form: str, value: Any, rng: random.Random) -> Saying:
    """A comparison with one value, in the column's own words where it has some."""
    spec = column.spec
    said = speak_value(column, value, rng)
    if column.kind in ("date", "year") and spec.event:
        word = {"over": "after", "under": "before", "since": "in or after"}[form]
        if column.kind == "date" and str(value).endswith("-01-01") and form == "under":
            return Saying.parse(f"{spec.event} before {str(value)[:4]}")
        return Saying.parse(f"{spec.event} {word} {said}")
    if column.kind in ("date", "year"):
        word = {"over": "after", "under": "before", "since": "no earlier than"}[form]
        words = rng.choice(spec.words)
        return Saying("whose", f"{words} is {word} {said}", with_article(f"{words} {word} {said}"))
    if spec.counted:
        word = {
            "over": "more than",
            "under": "fewer than",
            "at_least": "at least",
            "at_most": "at most",
        }[form]
        return Saying("have", f"{word} {said} {spec.counted}")
    own = {"over": spec.over, "under": spec.under}.get(form)
    if own and rng.random() < 0.75:
        return Saying.parse(own, said)
    comparison, having = {
        "over": rng.choice(
            (("above", "above"), ("greater than", "greater than"), ("more than", "of more than"))
        ),
        "under": rng.choice((("below", "below"), ("less than", "of less than"))),
        "at_least": ("at least", "of at least"),
        "at_most": ("at most", "of at most"),
    }[form]
    return _whose(column, rng, f"{comparison} {said}", f"{having} {said}")


_OPERATORS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "over": (">", lambda a, b: a > b),
    "under": ("<", lambda a, b: a < b),
    "at_least": (">=", lambda a, b: a >= b),
    "at_most": ("<=", lambda a, b: a <= b),
    "since": (">=", lambda a, b: a >= b),
}


def _comparison(form: str) -> Callable[[WorldColumn, random.Random], Condition | None]:
    operator, compare = _OPERATORS[form]

    def make(column: WorldColumn, rng: random.Random) -> Condition | None:
        low, high = (0.3, 0.92) if operator[0] == ">" else (0.08, 0.7)
        value = threshold(column, rng, low, high)
        saying = _compared(column, form, value, rng)
        return Condition(
            column,
            f"{{}} {operator} {literal(value)}",
            saying,
            lambda x: x is not None and compare(x, value),
        )

    return make


def _between(column: WorldColumn, rng: random.Random) -> Condition | None:
    low = threshold(column, rng, 0.05, 0.45)
    high = threshold(column, rng, 0.5, 0.95)
    if not low < high:
        return None
    spec = column.spec
    said = f"between {speak_value(column, low, rng)} and {speak_value(column, high, rng)}"
    if column.kind == "date":
        said = f"between {low} and {high}"
    if spec.event:
        saying = Saying.parse(f"{spec.event} {said}")
    elif spec.counted:
        saying = Saying("have", f"{said} {spec.counted}")
    else:
        saying = _whose(column, rng, said, said)
    sql = f"{{}} BETWEEN {literal(low)} AND {literal(high)}"
    return Condition(column, sql, saying, lambda x: x is not None and low <= x <= high)


def _in_year(column: WorldColumn, rng: random.Random) -> Condition | None:
    year = rng.choice(column.known)[:4]
    spec = column.spec
    if spec.event:
        saying = Saying.parse(f"{spec.event} in {year}")
    else:
        words = rng.choice(spec.words)
        saying = Saying("whose", f"{words} falls in {year}", with_article(f"{words} in {year}"))
    sql = f"{{}} LIKE '{year}%'"
    return Condition(column, sql, saying, lambda x: x is not None and x.startswith(year))


def equality(column: WorldColumn, value: Value, rng: random.Random) -> Saying:
    """That a column has a value, in words."""
    spec = column.spec
    said = speak_value(column, value, rng)
    if spec.eq:
        return Saying.parse(spec.eq, said)
    if spec.event:
        return Saying.parse(f"{spec.event} in {said}")
    words = rng.choice(spec.words)
    return Saying("whose", f"{words} is {said}", f"the {words} {said}")


def _eq(column: WorldColumn, rng: random.Random) -> Condition | None:
    value = rng.choice(sorted(set(column.known)))
    saying = equality(column, value, rng)
    return Condition(column, f"{{}} = {literal(value)}", saying, lambda x: x == value)


def _not_eq(column: WorldColumn, rng: random.Random) -> Condition | None:
    value = (
        Counter(column.known).most_common(1)[0][0]
        if rng.random() < 0.5
        else rng.choice(column.known)
    )
    positive = equality(column, value, rng)
    if positive.kind == "type":
        words, said = rng.choice(column.spec.words), column.spoken(value)
        other = with_article(f"{words} other than {said}")
        positive = Saying("whose", f"{words} is not {said}", other)
        return Condition(column, f"{{}} != {literal(value)}", positive, lambda x: x != value)
    base, _, rest = positive.negated(True).partition(" ")
    one = positive.negated(False).partition(" ")[0]
    saying = Saying("verb", f"{base}|{one} {rest}")
    return Condition(column, f"{{}} != {literal(value)}", saying, lambda x: x != value)


def _in(column: WorldColumn, rng: random.Random) -> Condition | None:
    values = sorted(set(column.known))
    if len(values) < 4:
        return None
    picked = rng.sample(values, rng.choice((2, 2, 3)))
    said = listing([column.spoken(value) for value in picked], "or")
    spec = column.spec
    if spec.eq and not spec.eq.startswith(("adj", "type")):
        saying = Saying.parse(spec.eq, said)
    else:
        words = rng.choice(spec.words)
        saying = Saying("whose", f"{words} is {said}", f"the {words} {said}")
    inside = ", ".join(map(literal, picked))
    return Condition(column, f"{{}} IN ({inside})", saying, lambda x: x in picked)


def _null(column: WorldColumn, rng: random.Random) -> Condition | None:
    words = rng.choice(column.spec.words)
    own = column.spec.missing
    saying = Saying.parse(own) if own else Saying("have", f"no recorded {words}")
    return Condition(column, "{} IS NULL", saying, lambda x: x is None)


def _not_null(column: WorldColumn, rng: random.Random) -> Condition | None:
    own = column.spec.missing
    if own and not own.startswith("have no "):
        return None
    words = own.removeprefix("have no ") if own else f"recorded {rng.choice(column.spec.words)}"
    saying = Saying("have", with_article(words))
    return Condition(column, "{} IS NOT NULL", saying, lambda x: x is not None)


def _like(column: WorldColumn, rng: random.Random) -> Condition | None:
    value = str(rng.choice(column.known))
    words = column.spec.words[0]
    # LIKE ignores case in SQLite, so the test does too.
    pieces = [word for word in value.split() if len(word) > 2 and word.isalpha()]
    kind = rng.choice(("starts", "contains", "ends", "word"))
    if kind == "starts":
        part = value[0]
        said, pattern = f'starts with the letter "{part}"', f"{part}%"
        test: Test = lambda x: x.lower().startswith(part.lower())  # noqa: E731
    elif kind == "ends" and value[-2:].isalpha():
        part = value[-1]
        said, pattern = f'ends with the letter "{part}"', f"%{part}"
        test = lambda x: x.lower().endswith(part.lower())  # noqa: E731
    elif pieces and " " in value and column.kind == "name":
        part = rng.choice(pieces)
        if any(part.lower() in x.lower() and part not in x.split() for x in column.known):
            return None
        said, pattern = f'contains the word "{part}"', f"%{part}%"
        test = lambda x: part.lower() in x.lower()  # noqa: E731
    else:
        start = rng.randrange(max(1, len(value) - 3))
        part = value[start : start + 2].lower()
        if not part.isalpha():
            return None
        said, pattern = f'contains "{part}"', f"%{part}%"
        test = lambda x: part in x.lower()  # noqa: E731
    said_have = with_article(f"{words} that {said}")
    saying = Saying("whose", f"{words} {said}", said_have)
    return Condition(
        column,
        f"{{}} LIKE {literal(pattern)}",
        saying,
        lambda x: x is not None and test(x),
    )


MAKERS: dict[str, Callable[[WorldColumn, random.Random], Condition | None]] = {
    **{form: _comparison(form) for form in _OPERATORS},
    "between": _between,
    "in_year": _in_year,
    "eq": _eq,
    "eq_year": _eq,
    "not_eq": _not_eq,
    "in": _in,
    "null": _null,
    "not_null": _not_null,
    "like": _like,
}


def random_condition(
    table: WorldTable,
    rng: random.Random,
    *,
    forms: tuple[str, ...] = (),
    without: tuple[WorldColumn, ...] = (),
    share: tuple[float, float] = (0.03, 0.7),
) -> Condition | None:
    """A condition that keeps some rows and drops some, or None after a few tries."""
    columns = [c for c in table.columns.values() if c not in without]
    makers: list[tuple[str, WorldColumn]] = [
        (form, column)
        for column in columns
        for form in _forms_of(column)
        if not forms or form in forms
    ]
    if not makers:
        return None
    weights = [_WEIGHTS[form] for form, _ in makers]
    for _ in range(6):
        form, column = rng.choices(makers, weights)[0]
        condition = MAKERS[form](column, rng)
        if condition is not None and share[0] <= condition.share <= share[1]:
            return condition
    return None


def _forms_of(column: WorldColumn) -> tuple[str, ...]:
    null = ("null", "not_null") if column.has_nulls else ()
    if column.kind == "category":
        return ("eq", "in", *(() if column.has_nulls else ("not_eq",)), *null)
    if column.kind == "flag":
        return ("eq", *null)
    if column.kind == "number":
        return ("over", "under", "at_least", "at_most", "between", *null)
    if column.kind == "year":
        return ("over", "under", "between", "since", "eq_year", *null)
    if column.kind == "date":
        return ("over", "under", "between", "in_year", *null)
    if column.kind in ("name", "person"):
        return ("like",)
    return null


_WEIGHTS = {
    "eq": 5.0,
    "not_eq": 0.8,
    "in": 0.9,
    "over": 2.0,
    "under": 1.4,
    "at_least": 0.5,
    "at_most": 0.4,
    "since": 0.5,
    "between": 0.8,
    "in_year": 0.7,
    "eq_year": 0.6,
    "null": 0.7,
    "not_null": 0.4,
    "like": 0.9,
}
