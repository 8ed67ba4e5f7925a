"""How close a result is to gold: a number between 0 and 1."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql_env.core.progress import closeness, profile

GOLD = (("Ann", 30), ("Bob", 40), ("Cy", 50))

CELLS = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(max_size=3),
    st.binary(max_size=2),
)  # fmt: skip


@st.composite
def tables(draw: st.DrawFn) -> tuple[tuple[Any, ...], ...]:
    width = draw(st.integers(1, 3))
    return tuple(draw(st.lists(st.tuples(*[CELLS] * width), max_size=6)))


def near(rows: Any) -> float:
    return closeness(rows, profile(GOLD))


@given(tables(), tables())
def test_it_is_between_nothing_and_all(rows: Any, gold: Any) -> None:
    assert 0 <= closeness(rows, profile(gold)) <= 1 + 1e-9
    assert closeness(gold, profile(gold)) == pytest.approx(1)


def test_the_order_of_rows_does_not_matter() -> None:
    assert near(GOLD[::-1]) == pytest.approx(1)


def test_more_of_gold_is_nearer() -> None:
    assert near(()) == 0
    assert near((("Zoe", 9e9),)) < near(GOLD[:1]) < near(GOLD[:2]) < near(GOLD)


def test_a_superset_is_nearer_than_something_else_and_farther_than_gold() -> None:
    superset = (*GOLD, ("Dee", 60))
    assert near((("Dee", 60),) * 4) < near(superset) < near(GOLD)


def test_a_missing_column_is_farther() -> None:
    assert near([(name,) for name, _ in GOLD]) < near(GOLD)


def test_a_near_number_is_nearer_than_a_far_one() -> None:
    wanted = profile(((100,),))
    assert closeness(((1e9,),), wanted) < closeness(((150,),), wanted) < closeness(((99,),), wanted)


def test_empty_is_near_empty_only() -> None:
    assert closeness((), profile(())) == 1
    assert closeness(((1,),), profile(())) == 0


def test_a_large_gold_is_compared_whatever_its_order() -> None:
    rows = tuple((i, f"name {i}") for i in range(4_000))
    assert closeness(rows[::-1], profile(rows)) > 0.9
