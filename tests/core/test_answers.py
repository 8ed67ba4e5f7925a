"""Typed answers: the forms people and models write, and what no one can mean."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sql_env.core.answers import MAX_CHARACTERS, AnswerError, read_answer
from sql_env.core.gold import Gold, Segment
from sql_env.core.render import CELL_CHARACTERS, render_row, render_rows
from sql_env.core.verifier import verify_text


def gold_of(*rows: tuple[Any, ...], columns: tuple[str, ...] = ()) -> Gold:
    width = len(rows[0]) if rows else 1
    return Gold(columns or ("name", "age", "town")[:width], rows)


SCALAR = gold_of((42,), columns=("count(*)",))
WORD = gold_of(("Paris",))
PAIR = gold_of(("Ann", 30))
LIST = gold_of(("Ann",), ("Bob",), ("Cy",))
NUMBERS = gold_of((1,), (234,), columns=("n",))
TABLE = gold_of(("Ann", 30), ("Bob", None), ("O'Hara, J.", 1234))
EMPTY = gold_of()
NULL = gold_of((None,))
THIRD = gold_of((100 / 3,), columns=("avg(pay)",))
TEXT_NUMBER = gold_of(("2014",))

RIGHT = [
    # scalars
    (SCALAR, "42"),
    (SCALAR, "42.0"),
    (SCALAR, " 42\n"),
    (SCALAR, "+42"),
    (SCALAR, "4.2e1"),
    (SCALAR, '"42"'),
    (SCALAR, "[42]"),
    (SCALAR, "[[42]]"),
    (SCALAR, "(42,)"),
    (SCALAR, "count(*)\n42"),
    (SCALAR, "total\n42"),
    (SCALAR, '{"count": 42}'),
    (SCALAR, '{"answer": [42]}'),
    (SCALAR, "```\n42\n```"),
    (SCALAR, "```json\n[42]\n```"),
    (WORD, "paris"),
    (WORD, "'Paris'"),
    (WORD, "“Paris”"),
    (WORD, "- Paris"),
    (WORD, "1. Paris"),
    (WORD, "name\nParis"),
    (TEXT_NUMBER, "2014"),
    (TEXT_NUMBER, "2,014"),
    (gold_of(("Paris, France",)), "Paris, France"),
    (gold_of(("a | b",)), '"a | b"'),
    (gold_of((1234567,)), "1,234,567"),
    (gold_of((-1234.5,)), "-1,234.5"),
    (gold_of((-1234.5,)), "\u22121,234.5"),
    (gold_of((b"\x01\xff",)), "x'01FF'"),
    # rounded the way people round, two decimals at least
    (THIRD, "33.333333333333336"),
    (THIRD, "33.33"),
    (THIRD, "33.333"),
    (gold_of((2.7001,)), "2.7"),
    (gold_of((0.625,)), "0.63"),
    (gold_of((0.625,)), "0.62"),
    (gold_of((1 / 3,), (2 / 3,)), "0.33, 0.67"),
    (gold_of((3.141,), (3.144,)), "3.14\n3.14"),
    # NULL and empty
    (NULL, "NULL"),
    (NULL, "null"),
    (NULL, "None"),
    (NULL, "[null]"),
    (gold_of(("",)), '""'),
    (gold_of(("",)), "''"),
    (gold_of(("NULL",)), '"NULL"'),
    (gold_of(("none",)), "none"),
    *[(EMPTY, text) for text in ("[]", "[[]]", "()", "{}", "(no rows)", "no rows", "No results")],
    (EMPTY, "empty"),
    (EMPTY, "name\n(no rows)"),
    (EMPTY, "n | total\n(no rows)"),
    (gold_of(("empty",)), "empty"),
    # one row
    (PAIR, "Ann, 30"),
    (PAIR, "Ann,30"),
    (PAIR, "30 | Ann"),
    (PAIR, "Ann\t30"),
    (PAIR, "Ann: 30"),
    (PAIR, "(Ann, 30)"),
    (PAIR, '["Ann", 30]'),
    (PAIR, "('Ann', 30)"),
    (PAIR, '{"name": "Ann", "age": 30}'),
    (PAIR, "Ann\n30"),
    # lists
    (LIST, "Ann, Bob, Cy"),
    (LIST, "Cy,Ann,Bob"),
    (LIST, "Ann, Bob and Cy"),
    (LIST, "Ann, Bob, and Cy"),
    (LIST, "Ann; Bob; Cy"),
    (LIST, "Ann | Bob | Cy"),
    (LIST, "Ann\nBob\nCy"),
    (LIST, "Ann\n\nBob\n\nCy"),
    (LIST, "- Ann\n- Bob\n- Cy"),
    (LIST, "* Ann\n* Bob\n* Cy"),
    (LIST, "1. Ann\n2. Bob\n3. Cy"),
    (LIST, "1) Ann\n2) Bob\n3) Cy"),
    (LIST, "The names are:\n- Ann\n- Bob\n- Cy"),
    (LIST, '["Ann", "Bob", "Cy"]'),
    (LIST, "['Ann', 'Bob', 'Cy']"),
    (LIST, "[Ann, Bob, Cy]"),
    (LIST, "(Ann, Bob, Cy)"),
    (LIST, '[["Ann"], ["Bob"], ["Cy"]]'),
    (LIST, '[{"name": "Ann"}, {"name": "Bob"}, {"name": "Cy"}]'),
    (LIST, '{"names": ["Ann", "Bob", "Cy"]}'),
    (LIST, '"Ann", "Bob", "Cy"'),
    (LIST, "name\nAnn\nBob\nCy"),
    (LIST, "| name |\n|------|\n| Ann |\n| Bob |\n| Cy |"),
    (gold_of(("Ann",), ("Bob",)), "Ann and Bob"),
    (NUMBERS, "1,234"),
    (NUMBERS, "1, 234"),
    (gold_of((1234,), (5678,)), "1,234, 5,678"),
    (gold_of(("a, b",), ("c",)), '"a, b", c'),
    # tables
    (TABLE, "Ann | 30\nBob | NULL\nO'Hara, J. | 1234"),
    (TABLE, "name | age\nAnn | 30\nBob | NULL\nO'Hara, J. | 1234"),
    (TABLE, "age | name\n30 | Ann\nNULL | Bob\n1,234 | O'Hara, J."),
    (TABLE, "who | years\nAnn | 30\nBob | NULL\nO'Hara, J. | 1234"),
    (TABLE, "| who | years |\n|:---|---:|\n| Ann | 30 |\n| Bob | NULL |\n| O'Hara, J. | 1234 |"),
    (TABLE, "+-----+----+\n| n | a |\n+-----+----+\n| Ann | 30 |\n| Bob | NULL |\n"
            "| O'Hara, J. | 1234 |\n+-----+----+\n(3 rows)"),
    (TABLE, 'Ann,30\nBob,NULL\n"O\'Hara, J.",1234'),
    (TABLE, 'name,age\nAnn,30\nBob,NULL\n"O\'Hara, J.",1234'),
    (TABLE, '[["Ann", 30], ["Bob", null], ["O\'Hara, J.", 1234]]'),
    (TABLE, '[["name", "age"], ["Ann", 30], ["Bob", null], ["O\'Hara, J.", 1234]]'),
    (TABLE, "[('Ann', 30), ('Bob', None), (\"O'Hara, J.\", 1234)]"),
    (TABLE, '["Ann", 30]\n["Bob", null]\n["O\'Hara, J.", 1234]'),
    (TABLE, '{"name": ["Ann", "Bob", "O\'Hara, J."], "age": [30, null, 1234]}'),
    (TABLE, '[{"name": "Ann", "age": 30}, {"age": null, "name": "Bob"}, '
            '{"name": "O\'Hara, J.", "age": 1234}]'),
    (TABLE, "Ann\t30\nBob\tNULL\nO'Hara, J.\t1,234"),
    (TABLE, "Ann: 30\nBob: NULL\nO'Hara, J.: 1234"),
    (TABLE, "- Ann | 30\n- Bob | NULL\n- O'Hara, J. | 1234"),
    (gold_of(("a", 1), ("b", 2)), "a, 1; b, 2"),
    (gold_of(("a", 1), ("b", 2)), "(a, 1), (b, 2)"),
    (gold_of(("a", 1), ("b", 2)), "[(a, 1), (b, 2)]"),
    (gold_of(("a", 1), ("b", 2)), '{"a": 1, "b": 2}'),
    (gold_of(("a", 1), ("b", 2)), "a - 1\nb - 2"),
]  # fmt: skip


@pytest.mark.parametrize(("gold", "text"), RIGHT)
def test_each_way_to_type_a_right_answer_is_accepted(gold: Gold, text: str) -> None:
    assert verify_text(text, gold).correct


WRONG = [
    (SCALAR, "43", "the value differs"),
    (SCALAR, "forty-two", "the value differs"),
    (SCALAR, "42 singers", "the value differs"),
    (SCALAR, "42, 42", "the value differs"),
    (SCALAR, "[[42], [42]]", "expected 1 row, got 2"),
    (SCALAR, "41\n42", "expected 1 row, got 2"),
    (SCALAR, "[]", "expected 1 row, got 0"),
    (SCALAR, "0", "the value differs"),
    (THIRD, "33.3", "the value differs"),
    (THIRD, "33", "the value differs"),
    (THIRD, "33.34", "the value differs"),
    (gold_of((0.004,)), "0.00", "the value differs"),
    (gold_of((0.004,)), "0", "the value differs"),
    (gold_of((1234567.5,)), "1234567.51", "the value differs"),
    (NULL, '"NULL"', "the value differs"),
    (NULL, '""', "the value differs"),
    (NULL, "0", "the value differs"),
    (NULL, "None\nNone", "expected 1 row, got 2"),
    (PAIR, '("Ann", 30),\n("Ann", 30),', "no column of the answer"),
    (NULL, "[]", "expected 1 row, got 0"),
    (gold_of(("",)), "NULL", "the value differs"),
    (gold_of((0,)), '""', "the value differs"),
    (EMPTY, "NULL", "expected 0 rows, got 1"),
    *[(EMPTY, t, "expected 0 rows, got 1") for t in ("---", "| --- |", "name", "-", "(3 rows)")],
    (EMPTY, "none", "expected 0 rows, got 1"),
    (EMPTY, "0", "expected 0 rows, got 1"),
    (EMPTY, '""', "expected 0 rows, got 1"),
    (LIST, "Ann, Bob", "expected 3 rows, got 2"),
    (LIST, "Ann\nBob\nCy\nCy", "expected 3 rows, got 4"),
    (LIST, "Ann, Bob, Bob", "no column of the answer has the values of expected column 1"),
    (LIST, "Zoe\nAnn\nBob\nCy", "expected 3 rows, got 4"),
    (PAIR, "Ann", "expected 2 columns, got 1"),
    (PAIR, "Ann | 30 | Rome", "expected 2 columns, got 3"),
    (TABLE, "Ann | 30\nBob | 1234\nO'Hara, J. | NULL", "but not row by row"),
    (TABLE, "Ann | 30\nBob | NULL", "expected 3 rows, got 2"),
    (TABLE, "Ann | 30\nBob |\nO'Hara, J. | 1234", "expected column 2"),
]


@pytest.mark.parametrize(("gold", "text", "reason"), WRONG)
def test_a_wrong_answer_is_refused_with_a_reason(gold: Gold, text: str, reason: str) -> None:
    verdict = verify_text(text, gold)
    assert not verdict.correct
    assert reason in verdict.reason


def test_order_counts_in_a_typed_list_where_gold_is_ordered() -> None:
    rows = (("Ann",), ("Bob",))
    gold = Gold(("name",), rows, True, rows, (Segment(1, 1), Segment(1, 1)))
    assert verify_text("Ann, Bob", gold).correct
    assert verify_text("Bob, Ann", gold).reason == "the row order differs"


UNUSABLE = [
    ("", "empty answer"),
    ("   \n ", "empty answer"),
    ("```\n```", "empty answer"),
    ("[1, 2", "do not close"),
    ('{"a": [1, 2}', "do not close"),
    ("SELECT count(*) FROM singer", "is a query"),
    ("select name\nfrom singer where age > 3;", "is a query"),
    ("WITH t AS (SELECT 1) SELECT * FROM t", "is a query"),
    ("x" * (MAX_CHARACTERS + 1), "too long"),
]


@pytest.mark.parametrize(("text", "message"), UNUSABLE)
@pytest.mark.parametrize("gold", [SCALAR, TABLE, EMPTY, gold_of(("[1, 2",))])
def test_unusable_whatever_gold_is(text: str, message: str, gold: Gold) -> None:
    with pytest.raises(AnswerError, match=message):
        verify_text(text, gold)


def test_what_looks_unusable_can_be_quoted() -> None:
    assert verify_text('"[1, 2"', gold_of(("[1, 2",))).correct
    assert verify_text('"Select me from the crowd"', gold_of(("Select me from the crowd",))).correct


TEXTS = st.text(max_size=20) | st.sampled_from(["NULL", "none", "a | b", "3", "- x", "1. x", "…"])
CELLS = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    TEXTS.filter(
        lambda text: text.isprintable() or not any("\ud800" <= c <= "\udfff" for c in text)
    ),
    st.binary(max_size=8),
)


@st.composite
def tables(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    width = draw(st.integers(1, 4))
    return draw(st.lists(st.tuples(*[CELLS] * width), min_size=1, max_size=6))


@given(tables())
@example([("select a from b",)])
@example([("[x",), ("{y",)])
@example([("\u2028",), ("\x85",), ("\x1c",)])
@example([("```",), ("```",), ("```",)])
@example([("--",), ("--",)])
@example([("(no rows)",)])
@example([("(3 rows)",), ("(2 rows)",)])
@example([("name",), ("age",)])
@example([("'",), ('"',)])
@example([("''", "'")])
@example([("'a", "b'")])
def test_what_is_shown_can_be_typed_back(rows: list[tuple[Any, ...]]) -> None:
    gold = gold_of(*rows, columns=tuple("abcd"[: len(rows[0])]))
    text = render_rows(gold.columns, gold.rows)
    assert verify_text(text, gold).correct
    assert verify_text("\n".join(map(render_row, rows)), gold).correct


@given(tables())
def test_json_can_be_typed_back(rows: list[tuple[Any, ...]]) -> None:
    plain = [tuple(None if isinstance(c, bytes) else c for c in row) for row in rows]
    assert verify_text(json.dumps(plain), gold_of(*plain)).correct
    assert verify_text(json.dumps(plain, ensure_ascii=False), gold_of(*plain)).correct


@given(st.text(alphabet="ab1,|;:-.()[]{}'\"` \n\t…\\é", max_size=80), st.sampled_from(range(6)))
def test_no_text_breaks_the_reader(text: str, which: int) -> None:
    gold = [SCALAR, PAIR, LIST, TABLE, EMPTY, NULL][which]
    try:
        verdict = verify_text(text, gold)
    except AnswerError as error:
        assert str(error)
    else:
        assert verdict.reason


NONSENSE = [
    "(",
    "[",
    "[]",
    "('',",
    "','",
    '"\\"',
    "-",
    "- ",
    "|",
    ") ",
    "a and ",
    "{'a':",
    "1,",
    "'',",
    " ",
    "\t",
]


@pytest.mark.timeout(30)  # a reader that goes back and forth would take minutes
@pytest.mark.parametrize("unit", NONSENSE)
def test_long_nonsense_is_read_in_good_time(unit: str) -> None:
    much = unit * (60_000 // len(unit))
    for gold in (LIST, TABLE):
        for text in (f"x{much}x", much, f'"x, {much}x'):
            with contextlib.suppress(AnswerError):
                list(read_answer(text, gold))


@pytest.mark.parametrize("opening", ["[", "(", '{"a":', "[{'a':", "-", "'a',("])
def test_deep_nesting_is_just_wrong(opening: str) -> None:
    closing = "".join({"[": "]", "(": ")", "{": "}"}.get(c, "") for c in reversed(opening))
    for depth in (150, 900, 5_000):
        assert not verify_text(opening * depth + "1" + closing * depth, SCALAR).correct


def test_a_cut_cell_is_not_the_value() -> None:
    gold = gold_of(("x" * (CELL_CHARACTERS + 1),))
    assert not verify_text(render_row(gold.rows[0]), gold).correct


@pytest.mark.parametrize("answer", ['Ann\t\t"Peru"', '"Ann"\t\t"Peru"', "Ann\t\tPeru"])
def test_a_quoted_cell_leaves_the_tab_before_it_to_separate(answer: str) -> None:
    assert verify_text(answer, gold_of(("Ann", "", "Peru"))).correct
