"""The rules of the verdict, one by one; the mistakes other verifiers shipped come first."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql_env.core.database import Database
from sql_env.core.gold import Gold, Segment, build_gold
from sql_env.core.verifier import Verdict, verify_rows, verify_text


def gold_of(*rows: tuple[Any, ...]) -> Gold:
    return Gold(tuple(f"c{i}" for i in range(len(rows[0]) if rows else 1)), rows)


def ordered(*rows: tuple[Any, ...]) -> Gold:
    return Gold(gold_of(*rows).columns, rows, True, rows, (Segment(1, 1),) * len(rows))


def correct(rows: list[Any], gold: Gold) -> bool:
    return verify_rows(rows, gold).correct


@pytest.fixture
def shop(tmp_path: Path) -> Any:
    path = tmp_path / "shop.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript("""
        CREATE TABLE item (id INTEGER, name TEXT, price INTEGER, kind TEXT);
        INSERT INTO item VALUES (1, 'cup', 5, 'a'), (2, 'pen', 3, 'a'), (3, 'ink', 3, 'b'),
                                (4, 'mat', 3, 'b'), (5, 'box', 9, 'c'), (6, 'pen', 3, 'a');
    """)
    connection.close()
    return Database(path)


# -- the mistakes others shipped ---------------------------------------------------------------


def test_a_missing_distinct_is_found() -> None:
    assert not correct([("a",), ("a",), ("b",)], gold_of(("a",), ("b",)))


def test_a_superfluous_distinct_is_found() -> None:
    assert not correct([("a",), ("b",)], gold_of(("a",), ("a",), ("b",)))


def test_the_same_number_of_rows_with_another_duplicate_is_found() -> None:
    assert not correct([("a",), ("b",), ("b",)], gold_of(("a",), ("a",), ("b",)))


def test_the_wrong_order_is_found_where_gold_is_ordered() -> None:
    assert not correct([("b",), ("a",)], ordered(("a",), ("b",)))


def test_order_by_inside_a_subquery_does_not_count(shop: Database) -> None:
    sql = "SELECT name FROM item WHERE id IN (SELECT id FROM item ORDER BY price LIMIT 4)"
    gold = build_gold(sql, shop.query)
    assert not gold.ordered
    assert correct(list(gold.rows)[::-1], gold)


def test_columns_sorted_independently_are_found() -> None:
    gold = gold_of(("a", 2), ("b", 1))
    assert not correct([("a", 1), ("b", 2)], gold)
    assert verify_rows([("a", 1), ("b", 2)], gold).reason == (
        "each column's values match, but not row by row"
    )


def test_two_gold_columns_do_not_match_one_column() -> None:
    assert not correct([(1, 7), (2, 7)], gold_of((1, 1), (2, 2)))
    assert not correct([(1, 1), (2, 2)], gold_of((1, 7), (2, 7)))


def test_rows_that_tie_may_swap_and_others_may_not(shop: Database) -> None:
    gold = build_gold("SELECT name FROM item WHERE id < 6 ORDER BY price", shop.query)
    assert correct([("mat",), ("pen",), ("ink",), ("cup",), ("box",)], gold)
    assert not correct([("cup",), ("pen",), ("ink",), ("mat",), ("box",)], gold)


def test_any_of_the_rows_that_tie_at_the_limit_may_stay(shop: Database) -> None:
    gold = build_gold("SELECT name FROM item ORDER BY price LIMIT 1", shop.query)
    for name in ("pen", "ink", "mat"):
        assert correct([(name,)], gold)
    assert not correct([("cup",)], gold)
    assert not correct([("pen",), ("ink",)], gold)


def test_no_tied_row_is_taken_more_often_than_it_is_there(shop: Database) -> None:
    gold = build_gold("SELECT name FROM item ORDER BY price LIMIT 3", shop.query)
    assert correct([("pen",), ("pen",), ("ink",)], gold)
    assert not correct([("ink",), ("ink",), ("pen",)], gold)


@pytest.mark.parametrize("value", [None, "", 0])
@pytest.mark.parametrize("other", [None, "", 0])
def test_null_empty_and_zero_are_three_things(value: Any, other: Any) -> None:
    assert correct([(value,)], gold_of((other,))) == (value is other)


def test_numbers_are_not_compared_as_text() -> None:
    assert correct([(3.0,)], gold_of((3,)))
    assert correct([(0.1 + 0.2,)], gold_of((0.3,)))
    assert correct([("3",)], gold_of((3,)))
    assert correct([(2014,)], gold_of(("2014",)))
    assert verify_text("1,234", gold_of((1234,))).correct


def test_whole_numbers_are_exact_however_large() -> None:
    assert not correct([(10_000_001,)], gold_of((10_000_000,)))
    assert not correct([(10_000_001.0,)], gold_of((10_000_000,)))
    assert not correct([(2**62 + 1,)], gold_of((2**62,)))


def test_a_code_with_leading_zeros_is_not_a_number() -> None:
    assert not correct([("007",)], gold_of(("7",)))
    assert not correct([(7,)], gold_of(("007",)))


def test_an_empty_answer_is_right_only_for_an_empty_gold() -> None:
    assert correct([], gold_of())
    assert not correct([], gold_of((None,)))
    assert not correct([(None,)], gold_of())


def test_a_gold_query_that_does_not_run_is_refused_without_showing_it(shop: Database) -> None:
    with pytest.raises(ValueError, match="gold query does not run") as caught:
        build_gold("SELECT nam FROM item WHERE kind = 'secret'", shop.query)
    assert "secret" not in str(caught.value)


# -- the other rules ---------------------------------------------------------------------------


def test_columns_may_come_in_any_order() -> None:
    gold = gold_of(("a", 1, "x"), ("b", 2, "x"))
    assert correct([("x", "b", 2), ("x", "a", 1)], gold)


def test_one_order_of_columns_has_to_do_for_all_rows() -> None:
    gold = gold_of(("a", "b"), ("a", "b"))
    assert correct([("b", "a"), ("b", "a")], gold)
    assert not correct([("a", "b"), ("b", "a")], gold)


def test_text_ignores_case_outer_blanks_and_quotes() -> None:
    for text in ("Paris", "PARIS", "  paris ", '"Paris"', "'Paris'"):
        assert correct([(text,)], gold_of(("Paris",)))
    assert not correct([("Par is",)], gold_of(("Paris",)))


def test_accents_typed_in_another_form_are_the_same() -> None:
    assert correct([("Jose\u0301",)], gold_of(("Jos\u00e9",)))


def test_blobs_are_equal_byte_by_byte() -> None:
    assert correct([(b"\x00\x01",)], gold_of((b"\x00\x01",)))
    assert not correct([(b"\x00",)], gold_of((b"\x00\x01",)))


def test_infinity_equals_itself() -> None:
    assert correct([(float("inf"),)], gold_of((float("inf"),)))
    assert not correct([(float("-inf"),)], gold_of((float("inf"),)))


@pytest.mark.parametrize(
    ("rows", "gold", "reason"),
    [
        ([("a",), ("b",)], gold_of(("a",), ("b",), ("c",)), "expected 3 rows, got 2"),
        ([("a",)], gold_of(), "expected 0 rows, got 1"),
        ([("a", 1)], gold_of(("a",)), "expected 1 column, got 2"),
        ([("a",)], gold_of(("secret",)), "the value differs"),
        ([("b",), ("a",)], ordered(("a",), ("b",)), "the row order differs"),
        (
            [("a", 1), ("b", 2)],
            gold_of(("a", 1), ("b", 3)),
            "no column of the answer has the values of expected column 2",
        ),
    ],
)
def test_the_verdict_says_why(rows: list[Any], gold: Gold, reason: str) -> None:
    assert verify_rows(rows, gold) == Verdict(False, reason)


def test_ragged_rows_are_refused() -> None:
    assert not correct([("a", 1), ("b",)], gold_of(("a", 1), ("b", 2)))


def test_a_wide_table_of_look_alikes_is_judged_without_trying_every_order() -> None:
    rng = random.Random(5)
    rows = tuple(tuple(rng.randrange(2) for _ in range(24)) for _ in range(300))
    gold = gold_of(*rows)
    order = list(range(24))
    rng.shuffle(order)
    permuted = [tuple(row[i] for i in order) for row in rows]
    assert correct(permuted, gold)
    permuted[0] = tuple(1 - cell for cell in permuted[0])
    assert not correct(permuted, gold)


CELLS = st.one_of(
    st.none(),
    st.integers(-50, 50),
    st.floats(-50, 50, allow_nan=False).map(lambda x: round(x, 3)),
    st.sampled_from(["", "a", "b", "B", "3", "x y"]),
)


@st.composite
def tables(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    width = draw(st.integers(1, 4))
    return draw(st.lists(st.tuples(*[CELLS] * width), min_size=1, max_size=8))


@given(tables(), st.randoms(use_true_random=False))
def test_shuffled_rows_and_columns_are_the_same_answer(rows: list[Any], rng: Any) -> None:
    order = list(range(len(rows[0])))
    rng.shuffle(order)
    shuffled = [tuple(row[i] for i in order) for row in rows]
    rng.shuffle(shuffled)
    assert correct(shuffled, gold_of(*rows))


@given(tables(), tables())
def test_equality_is_symmetric(first: list[Any], second: list[Any]) -> None:
    assert correct(second, gold_of(*first)) == correct(first, gold_of(*second))
