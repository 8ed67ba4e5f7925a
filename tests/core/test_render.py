"""The text that agents read: spare, and never ambiguous."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql_env.core.database import Column, ForeignKey, QueryResult, TableSchema
from sql_env.core.render import (
    CELL_CHARACTERS,
    CUT_MARK,
    render_cell,
    render_query_result,
    render_row,
    render_rows,
    render_schema,
    unknown_table,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (3, "3"),
        (-(2**63), "-9223372036854775808"),
        (3.0, "3"),
        (-0.0, "0"),
        (0.1 + 0.2, "0.3"),
        (100 / 3, "33.3333333333"),
        (1234567.891, "1234567.891"),
        (12345678901.25, "12345678901.25"),
        (1e300, "1e+300"),
        (1e-7, "1e-07"),
        (float("inf"), "inf"),
        (b"", "x''"),
        (b"\x00\xff", "x'00ff'"),
        ("Ann", "Ann"),
        ("O'Hara, J.", "O'Hara, J."),
        ("Zürich 東京", "Zürich 東京"),
        ("007", "007"),
        # quoted where a bare word would be something else
        ("", '""'),
        ("NULL", '"NULL"'),
        ("null", '"null"'),
        ("None", '"None"'),
        (" x", '" x"'),
        ("x ", '"x "'),
        ("a | b", '"a | b"'),
        ('say "hi"', '"say \\"hi\\""'),
        ("two\nlines", '"two\\nlines"'),
        ("tab\there", '"tab\\there"'),
        ("\x00\x1b[31m", '"\\u0000\\u001b[31m"'),
        ("a\u2028b", '"a\\u2028b"'),
        ("a\u202eb", '"a\\u202eb"'),
        ("wait…", '"wait\\u2026"'),
        ("[1, 2]", '"[1, 2]"'),
        ("x'00'", "\"x'00'\""),
        ("SELECT a FROM b", '"SELECT a FROM b"'),
        ("selection", "selection"),
        ("nullable", "nullable"),
    ],
)
def test_a_cell_is_rendered_without_ambiguity(value: Any, text: str) -> None:
    assert render_cell(value) == text


def test_a_long_text_is_cut_with_a_mark() -> None:
    assert render_cell("x" * CELL_CHARACTERS) == "x" * CELL_CHARACTERS
    assert render_cell("x" * 10_000) == "x" * CELL_CHARACTERS + CUT_MARK
    assert render_cell("|" + "x" * 10_000) == f'"|{"x" * (CELL_CHARACTERS - 1)}"' + CUT_MARK
    assert render_cell(b"\x01" * 10_000) == f"x'{'01' * (CELL_CHARACTERS // 2)}'" + CUT_MARK


CELLS = st.one_of(
    st.none(), st.integers(), st.floats(allow_nan=False), st.binary(max_size=300),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
)  # fmt: skip


@given(CELLS)
def test_a_cell_is_one_printable_line(value: Any) -> None:
    assert render_cell(value).isprintable()


@given(CELLS)
def test_the_mark_says_cut_and_nothing_else(value: Any) -> None:
    size = len(value) * (2 if isinstance(value, bytes) else 1) if hasattr(value, "__len__") else 0
    assert (CUT_MARK in render_cell(value)) == (size > CELL_CHARACTERS)


@given(st.lists(CELLS, min_size=1, max_size=5))
def test_bars_outside_quotes_separate_cells(row: list[Any]) -> None:
    text = render_row(tuple(row))
    bars = 0
    inside = False
    escaped = False
    for character in text:
        if escaped or character == "\\":
            escaped = inside and not escaped
            continue
        if character == '"':
            inside = not inside
        bars += character == "|" and not inside
    assert bars == len(row) - 1


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=CELL_CHARACTERS))
def test_a_quoted_text_is_json(text: str) -> None:
    shown = render_cell(text)
    assert shown == text or json.loads(shown) == text


def test_rows_have_a_header() -> None:
    assert render_rows(("name", "age"), (("Ann", 30), ("Bob", None))) == (
        "name | age\nAnn | 30\nBob | NULL"
    )


def test_no_rows_are_said_so() -> None:
    assert render_rows(("name",), ()) == "name\n(no rows)"


def test_rows_left_out_are_counted() -> None:
    lines = render_rows(("n",), tuple((i,) for i in range(21))).split("\n")
    assert len(lines) == 22
    assert lines[-1] == "(21 rows, the first 20 shown)"
    assert "shown" not in render_rows(("n",), tuple((i,) for i in range(20)))


def test_a_hostile_alias_stays_in_its_cell() -> None:
    result = QueryResult(("a\nb", "c | d"), ((1, 2),))
    assert render_query_result(result) == '"a\\nb" | "c | d"\n1 | 2'


def test_a_schema_is_one_line_per_column_and_key() -> None:
    schema = TableSchema(
        "singer",
        (
            Column("id", "INTEGER", True),
            Column("Home Town", "VARCHAR(20)", False),
            Column("stadium_id", "", False),
            Column("From", "INT", False),
            Column("label", "TEXT", False),
        ),
        (ForeignKey("stadium_id", "stadium", "id"), ForeignKey("label", "label", "")),
        7,
    )
    assert render_schema(schema) == (
        "singer (7 rows)\n"
        " singer.id integer primary key\n"
        ' singer."Home Town" varchar(20)\n'
        " singer.stadium_id\n"
        ' singer."From" int\n'
        " singer.label text\n"
        " singer.stadium_id = stadium.id\n"
        " singer.label -> label"
    )


def test_a_hostile_column_name_keeps_to_its_line() -> None:
    columns = (Column('a\n"b', "TEXT\nNOT", False),)
    assert len(render_schema(TableSchema("t", columns, (), 0)).split("\n")) == 2


def test_an_unknown_table_gets_the_nearest_name_and_all_names() -> None:
    assert unknown_table("singers", ["singer", "song"]) == (
        "there is no table 'singers'. Did you mean singer? Tables: singer, song"
    )
    assert "Did you mean" not in unknown_table("xyzzy", ["singer", "song"])


def test_a_huge_name_is_not_repeated() -> None:
    assert len(unknown_table("x" * 1_000_000, ["singer"])) < 200


def test_long_headers_are_not_remembered() -> None:
    tracemalloc.start()
    for number in range(100):
        render_rows((f"{number:0>90000}",), [])
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_000_000
