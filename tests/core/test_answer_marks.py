"""Names bind, decoration does not count, and one rule says what may be rounded."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mutations import mutations
from second_opinion import SecondOpinion, runner

from sql_env.core.answer_marks import bind, undecorated
from sql_env.core.database import Database
from sql_env.core.gold import Gold, Segment
from sql_env.core.render import CUT_MARK, render_row
from sql_env.core.verifier import build_gold, verify_rows, verify_text
from sql_env.questions import Dataset, load_questions


def gold_of(*rows: tuple[Any, ...], columns: tuple[str, ...] = ()) -> Gold:
    return Gold(columns or ("name", "age", "town")[: len(rows[0])], rows)


COUNT = gold_of((42,), columns=("count(*)",))
WORD = gold_of(("Paris",))
NAMES = gold_of(("Ann",), ("Bob",), ("Cy",))
PAIR = gold_of(("Ann", 30))
PAIRS = gold_of(("Ann", 30), ("Bob", 41))
STOPS = gold_of(("U.S.A.",), ("x_y",))
RANGE = gold_of((1, 10), columns=("min", "max"))
AGES = gold_of((1, 10), columns=("min(age)", "max(T1.age)"))
THIRD = gold_of((100 / 3,), columns=("avg(pay)",))

DECORATED = [
    *[(COUNT, t) for t in ("`42`", "**42**", "*42*", "_42_", "42;", "42.", "**42**.", "42,")],
    *[(COUNT, t) for t in ("count: 42", "Count = 42", "total: 42", "Answer: **42**", "{42}")],
    *[(COUNT, t) for t in ("**Answer:** 42", "The answer is 42.", "number of singers: 42")],
    *[(COUNT, t) for t in ("count(*): 42", "```42```", "| 42", "42 |", "{count: 42}", "“42”")],
    (COUNT, '{"columns": ["n"], "rows": [[42]]}'),
    (COUNT, '{"columns": ["n"], "data": [42], "index": [0]}'),
    *[
        (WORD, t)
        for t in ("Paris.", "**Paris**.", "`Paris`;", "'Paris'.", "name: Paris", "{Paris}")
    ],
    *[(NAMES, t) for t in ("Ann, Bob, Cy.", "Ann,\nBob,\nCy,", "Ann; Bob; Cy;", "Ann,Bob,Cy,")],
    *[(NAMES, t) for t in ("{'Ann', 'Bob', 'Cy'}", "{Ann, Bob, Cy}", "`Ann`, `Bob`, **Cy**")],
    *[(NAMES, t) for t in ("- **Ann**\n- Bob,\n- `Cy`.", "Ann |\nBob |\nCy |", "Ann.\nBob.\nCy.")],
    *[(NAMES, t) for t in ("names: Ann, Bob and Cy.", "names:\nAnn\nBob\nCy", "[Ann, Bob, Cy].")],
    *[(STOPS, t) for t in ("U.S.A. |\nx_y |", "name: x_y, U.S.A.", "x_y; U.S.A.;")],
    (STOPS, "__x_y__ |\n__U.S.A.__ |"),
    *[(gold_of(("Jr.",)), t) for t in ("name: Jr.", "Answer: *Jr.*", "The answer is Jr..", "Jr.;")],
    (gold_of((3, "Jr."), columns=("count(*)", "name")), "- **count(*)**: `3`\n- **name**: Jr."),
    (gold_of(("O'Brien",), ('5" nail',)), "['O\\'Brien', '5\" nail']"),
    (NAMES, "name: Ann\nname: Bob\nname: Cy"),
    (NAMES, '{"columns": ["name"], "rows": [["Ann"], ["Bob"], ["Cy"]]}'),
    *[(PAIR, t) for t in ("Ann | 30 |", "| Ann | 30", "Ann, 30.", "(Ann, 30).", "`Ann`, **30**")],
    *[(PAIR, t) for t in ("age: 30, name: Ann", "- name: Ann\n- age: 30", "name=Ann; age=30")],
    *[(PAIRS, t) for t in ("Ann | 30 |\nBob | 41 |", "Ann, 30,\nBob, 41,", "Ann: 30, Bob: 41")],
    (PAIRS, "{('Ann', 30), ('Bob', 41)}"),
    (PAIRS, '{"columns": ["age", "name"], "rows": [[30, "Ann"], [41, "Bob"]]}'),
    (gold_of(("O'Brien",)), "O\u2019Brien"),
    (gold_of(("O\u2019Brien",)), "O'Brien"),
    # what looks like decoration may be the value
    (gold_of(("Inc.",)), "Inc."),
    (gold_of(("**x**",)), "**x**"),
    (gold_of(("a,",), ("b.",)), "a,\nb."),
]


@pytest.mark.parametrize(("gold", "text"), DECORATED)
def test_decoration_is_not_an_error(gold: Gold, text: str) -> None:
    assert verify_text(text, gold).correct


IN_ORDER = Gold(
    ("name",), (("Ann",), ("Bob",)), True, (("Ann",), ("Bob",)), (Segment(1, 1), Segment(1, 1))
)
STILL_WRONG = [
    *[(COUNT, t) for t in ("`43`", "**4**2", "4**2**", "42 or 43", "not 42", "~42", "42%", "-42")],
    *[(COUNT, t) for t in ("count: 42, 43", "Ann: 42", "max: 42", "{42, 42}", "42..5", "**42** 1")],
    *[(COUNT, t) for t in ("The answer is not 42", "count: -42", "count: 43.", "42 | 42 |")],
    *[(WORD, t) for t in ("Paris..", "Not Paris.", "London: Paris", "**Paris**, France")],
    *[(NAMES, t) for t in ("{'Ann', 'Bob', 'Bob'}", "{'Ann', 'Bob', 'Cy', 'Cy'}", "Ann. Bob. Cy.")],
    *[
        (NAMES, t)
        for t in ("Ann, Bob.", "Ann, Bob, Cy, Cy.", "names: Ann, Bob", "Di: Ann, Bob, Cy")
    ],
    *[(IN_ORDER, t) for t in ("{'Bob', 'Ann'}", "Bob, Ann.", "names: Bob, Ann", "`Bob`\n`Ann`")],
    *[(PAIRS, t) for t in ("Ann | 41 |\nBob | 30 |", "{'Ann', 30, 'Bob', 41}", "Ann | 30 |")],
    (gold_of((None,)), "“NULL”"),
    (gold_of((0,)), "`NULL`"),
]


@pytest.mark.parametrize(("gold", "text"), STILL_WRONG)
def test_decoration_makes_nothing_right(gold: Gold, text: str) -> None:
    assert not verify_text(text, gold).correct


NAMED: list[tuple[str, Callable[[tuple[str, str], tuple[int, int]], str]]] = [
    ("JSON object", lambda names, row: json.dumps(dict(zip(names, row, strict=True)))),
    ("JSON objects", lambda names, row: json.dumps([dict(zip(names, row, strict=True))])),
    ("JSON rows", lambda names, row: json.dumps([names, row])),
    ("JSON columns", lambda n, r: json.dumps({"columns": n, "rows": [r]})),
    ("lists", lambda n, r: json.dumps({n[0]: [r[0]], n[1]: [r[1]]})),
    ("bars", lambda n, r: f"{n[0]} | {n[1]}\n{r[0]} | {r[1]}"),
    ("markdown", lambda n, r: f"| {n[0]} | {n[1]} |\n|---|---|\n| {r[0]} | {r[1]} |"),
    ("CSV", lambda n, r: f"{n[0]},{n[1]}\n{r[0]},{r[1]}"),
    ("tabs", lambda n, r: f"{n[0]}\t{n[1]}\n{r[0]}\t{r[1]}"),
    ("labels", lambda n, r: f"{n[0]}: {r[0]}, {n[1]}: {r[1]}"),
    ("lines", lambda n, r: f"- **{n[0]}**: {r[0]}\n- **{n[1]}**: {r[1]}"),
    ("assignments", lambda n, r: f"{n[0]}={r[0]}; {n[1]}={r[1]}"),
]


@pytest.mark.parametrize("gold", [RANGE, AGES])
@pytest.mark.parametrize(
    "names",
    [("min", "max"), ("MIN", "Max"), ("minimum age", "maximum age"), ("min_age", "max_age")],
)
@pytest.mark.parametrize("form", [form for _, form in NAMED], ids=[name for name, _ in NAMED])
def test_a_value_stands_under_its_name(
    gold: Gold, names: tuple[str, str], form: Callable[..., str]
) -> None:
    turned = names[::-1]
    if gold is AGES or names[0].lower() == "min":
        assert verify_text(form(names, (1, 10)), gold).correct
        assert verify_text(form(turned, (10, 1)), gold).correct
    assert not verify_text(form(turned, (1, 10)), gold).correct
    assert not verify_text(form(names, (10, 1)), gold).correct


def test_names_that_mean_no_column_bind_nothing() -> None:
    assert verify_text("high | low\n10 | 1", RANGE).correct
    assert verify_text('{"b": 10, "a": 1}', RANGE).correct
    assert bind(("name", "name"), ("name", "name")) == (None, None)
    assert bind(("singer name", "town"), ("name", "count(*)")) == (0, None)
    assert bind(("name of the town", "x"), ("name", "town")) == (None, None)


def test_the_reason_speaks_of_names() -> None:
    verdict = verify_text('{"max": 1, "min": 10}', RANGE)
    assert verdict.reason == "the values stand under the wrong names"


# -- rounding ----------------------------------------------------------------------------------

FRACTIONS = st.floats(-1e4, 1e4, allow_nan=False).filter(lambda x: not x.is_integer())


def sqlite_round(value: float, decimals: int) -> float:
    ((found,),) = apsw.Connection(":memory:").execute("SELECT round(?, ?)", (value, decimals))
    assert isinstance(found, float)
    return found


def digits_left(value: float, decimals: int) -> bool:
    return abs(Decimal(repr(value))) >= Decimal(10) ** (1 - decimals)


@given(FRACTIONS, st.integers(2, 8))
def test_two_decimals_or_more_are_right_typed_and_by_reference(value: float, decimals: int) -> None:
    short = sqlite_round(value, decimals)
    assume(digits_left(short, decimals))
    gold = gold_of((value,))
    assert verify_rows([(short,)], gold).correct
    assert verify_text(f"{short:.{decimals}f}", gold).correct
    assert verify_text(repr(short), gold).correct


@given(FRACTIONS, st.integers(0, 1))
def test_fewer_decimals_are_wrong_typed_and_by_reference(value: float, decimals: int) -> None:
    short = sqlite_round(value, decimals)
    assume(abs(short - value) > 0.006)
    gold = gold_of((value,))
    assert not verify_rows([(short,)], gold).correct
    assert not verify_text(f"{short:.{decimals}f}", gold).correct


@given(FRACTIONS, FRACTIONS | st.integers(-1000, 1000), st.integers(0, 10))
def test_typed_and_by_reference_are_judged_alike(value: float, other: float, decimals: int) -> None:
    gold = gold_of((value,))
    for answer in (other, round(value, decimals), float(f"{value:.{decimals + 1}e}")):
        by_reference = verify_rows([(answer,)], gold).correct
        assert verify_text(repr(answer), gold).correct == by_reference
        assert verify_text(json.dumps([answer]), gold).correct == by_reference


@given(st.lists(FRACTIONS, min_size=1, max_size=6), st.integers(2, 6))
def test_a_column_is_rounded_all_alike(values: list[float], decimals: int) -> None:
    short = [sqlite_round(value, decimals) for value in values]
    assume(all(digits_left(value, decimals) for value in short))
    gold = gold_of(*[(value,) for value in values])
    assert verify_rows([(value,) for value in reversed(short)], gold).correct
    assert verify_text("\n".join(map(repr, short)), gold).correct
    short[-1] += 0.02
    assert not verify_rows([(value,) for value in short], gold).correct


@pytest.mark.parametrize("typed", ["1.23e-4", "0.000123", "1.235E-04", "0.00012346"])
def test_an_exponent_is_another_way_to_write_it(typed: str) -> None:
    assert verify_text(typed, gold_of((0.000123456,))).correct
    assert verify_rows([(float(typed),)], gold_of((0.000123456,))).correct


@pytest.mark.parametrize(
    ("value", "answer"),
    [(99.996, 100), (0.004, 0.0), (0.004, 0), (100 / 3, 33), (100 / 3, 33.3), (0.000123456, 1e-4)],
)
def test_what_has_lost_too_much_is_another_number(value: float, answer: float) -> None:
    assert not verify_text(repr(answer), gold_of((value,))).correct
    assert not verify_rows([(answer,)], gold_of((value,))).correct


def test_a_whole_number_is_no_rounding_in_a_column_either() -> None:
    gold = gold_of((33.333,), (99.996,))
    assert verify_rows([(33.33,), (100.0,)], gold).correct
    assert not verify_rows([(33.33,), (100,)], gold).correct
    assert not verify_text("33.33\n100", gold).correct
    assert verify_text("33.33\n100.00", gold).correct
    assert not verify_text("33.33, 100, 100", gold_of((33.333,), (100,), (99.996,))).correct


# -- golds of the embedded data, decorated and spoilt -------------------------------------------

DRESSES: list[tuple[str, Callable[[list[str]], str]]] = [
    ("code", lambda lines: "\n".join(f"`{line}`" for line in lines)),
    ("bold", lambda lines: "\n".join(f"**{line}**" for line in lines)),
    ("commas at the ends", lambda lines: ",\n".join(lines) + ","),
    ("semicolons", lambda lines: "\n".join(f"{line};" for line in lines)),
    ("a stop", lambda lines: "\n".join(lines) + "."),
    ("a bar at the ends", lambda lines: "\n".join(f"{line} |" for line in lines)),
    ("bullets and stops", lambda lines: "\n".join(f"- {line}." for line in lines)),
]


def played_golds(count: int) -> Iterator[tuple[Gold, SecondOpinion]]:
    dataset = Dataset.embedded()
    records = load_questions(dataset.questions_path)
    for record in random.Random(5).sample(records, count):
        path: Path = dataset.db_dir / record.database_name / f"{record.database_name}.sqlite"
        gold = build_gold(record.gold_sql, Database(path).query)
        if 0 < len(gold.rows) <= 20 and CUT_MARK not in "".join(map(render_row, gold.rows)):
            yield gold, SecondOpinion(record.gold_sql, runner(str(path)))


def test_spoilt_golds_stay_wrong_in_every_dress() -> None:
    rng = random.Random(11)
    tally: Counter[str] = Counter()
    for gold, opinion in played_golds(150):
        rows = [tuple(row) for row in gold.rows]
        for table in [rows, *(table for _, table in mutations(rows, rng))]:
            expected = opinion.accepts(table)
            if expected is None or not table:
                continue
            lines = list(map(render_row, table))
            for name, dress in DRESSES:
                if len(table[0]) > 1 and name in ("code", "bold"):
                    continue
                verdict = verify_text(dress(lines), gold)
                assert verdict.correct == expected, (gold, name, dress(lines))
                tally["right" if expected else "wrong"] += 1
    assert tally["wrong"] > 5_000
    assert tally["right"] > 500


def test_columns_under_other_names_stay_wrong() -> None:
    tally: Counter[bool] = Counter()
    rng = random.Random(13)
    for gold, opinion in played_golds(500):
        width = gold.width
        if width == 1 or len({name.lower() for name in gold.columns}) < width:
            continue
        for _ in range(6):
            places = rng.sample(range(width), width)
            table = [tuple(row[i] for i in places) for row in gold.rows]
            expected = opinion.accepts(table, named=True)
            if expected is None:
                continue
            named = {"columns": gold.columns, "rows": table}
            turned = [dict(zip(gold.columns, row, strict=True)) for row in table]
            true_names = [gold.columns[i] for i in places]
            for form in (named, turned, [list(gold.columns), *table]):
                assert verify_text(json.dumps(form), gold).correct == expected, (gold, form)
                tally[expected] += 1
            assert verify_text(json.dumps({"columns": true_names, "rows": table}), gold).correct
    assert tally[False] > 1_000
    assert tally[True] > 500


# Quadratic time would be hours here.
@pytest.mark.timeout(60)
@pytest.mark.parametrize("unit", ["`", "*", "**", "_", "__", "`a", "**a", "|", ",;"])
def test_a_text_of_half_a_million_marks_is_undecorated_in_linear_time(unit: str) -> None:
    undecorated(unit * (500_000 // len(unit)))
