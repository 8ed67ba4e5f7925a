"""Random conditions on one table: the SQL, the English and how many rows they let through."""

from __future__ import annotations

import random

from sql_env.worlds.condition_forms import MAKERS, Condition
from sql_env.worlds.world import WorldColumn, WorldTable


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
