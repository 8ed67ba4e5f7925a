"""The text of queries: what is the same query, and where its clauses are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql_env.core.sql_text import (
    Size,
    bare_statement,
    normalize_sql,
    parse_select,
    size,
    tokenize,
)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("SELECT 1", "select   1 ;"),
        ("SELECT a FROM t", "select A\nfrom T -- the end"),
        ("SELECT a/* x */FROM t", "SELECT a FROM t"),
        ("SELECT count(*) FROM t WHERE a='X'", "select COUNT( * ) from t where a = 'X'"),
        ("SELECT `A b` FROM t", "SELECT `a B` FROM t"),
        ("SELECT [A] FROM t", ";select [a] from T;;"),
        ("SELECT x'AB'", "SELECT X'AB'"),
        ("SELECT a FROM t", "/* x */ SELECT a -- 'y'\nFROM t"),
        ("[", "[ "),
    ],
)
def test_blanks_case_and_comments_make_no_other_query(first: str, second: str) -> None:
    assert normalize_sql(first) == normalize_sql(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("SELECT 'a'", "SELECT 'A'"),
        ("SELECT 'a b'", "SELECT 'a  b'"),
        ("SELECT '-- x'", "SELECT ''"),
        ("SELECT ab", "SELECT a b"),
        ("SELECT 1", "SELECT 2"),
        ('SELECT a FROM t WHERE a = "daniel"', 'SELECT a FROM t WHERE a = "Daniel"'),
        ("SELECT É FROM t", "SELECT é FROM t"),  # to SQLite two names
    ],
)
def test_another_value_or_name_makes_another_query(first: str, second: str) -> None:
    assert normalize_sql(first) != normalize_sql(second)


@given(st.text(alphabet="ab'\"`[]()-/*;, \n1.x", max_size=60))
def test_tokens_are_the_text_without_blanks_and_comments(sql: str) -> None:
    at = 0
    for token in tokenize(sql):
        assert token.start >= at
        assert sql[token.start : token.end] == token.text
        at = token.end
    normalize_sql(sql)


def test_an_order_by_is_read_term_by_term() -> None:
    select = parse_select(
        "SELECT a, f(b, c) x FROM t ORDER BY f(b, c) DESC NULLS LAST, 2, n COLLATE nocase LIMIT 3"
    )
    assert select is not None
    assert [term.text for term in select.order_terms] == ["f(b, c)", "2", "n"]
    assert [term.position for term in select.order_terms] == [None, 2, None]
    assert [term.collation for term in select.order_terms] == ["", "", "NOCASE"]
    assert select.limit == 3
    assert select.body.endswith("nocase")


def test_is_distinct_from_does_not_end_the_list() -> None:
    select = parse_select("SELECT a IS DISTINCT FROM b, c FROM t")
    assert select is not None
    assert select.arms == (("a is distinct from b", "c"),)


def test_a_values_list_is_no_select() -> None:
    assert parse_select("VALUES (1), (2)") is None


# Quadratic time would be hours here.
@pytest.mark.timeout(60)
@pytest.mark.parametrize("unit", ["[", "'", '"', "`", "/*", "(", "x'", "a["])
def test_a_text_of_half_a_million_marks_is_read_in_linear_time(unit: str) -> None:
    tokenize(unit * (500_000 // len(unit)))


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT 1, 2, 3", 0),
        ("SELECT a, max(b, c) FROM t ORDER BY a, b", 1),
        ("SELECT a FROM t JOIN u USING (a, b) LEFT JOIN v ON t.a IN (1, 2), w", 4),
        ("SELECT a FROM (t, (u JOIN v ON 1)), w", 4),
        ("SELECT a FROM t WHERE a IS NOT DISTINCT FROM 3", 1),
        ("SELECT a FROM t, u UNION SELECT a FROM v, w, x", 3),
        ("SELECT (SELECT a FROM t, u) FROM v WHERE a IN (SELECT b FROM w, x, y)", 3),
        ("SELECT a FROM t, (SELECT b FROM u, v) AS w, x", 4),
        ("SELECT a FROM t WHERE ((EXISTS (SELECT 1 FROM u)) AND (NOT EXISTS(SELECT 1 FROM v)))", 3),
        ("WITH c AS (SELECT a FROM t, u) SELECT 1 FROM c JOIN c AS d ON 1, v", 5),
        ("WITH c(x, y) AS NOT MATERIALIZED (SELECT a FROM t, u) SELECT 1 FROM 'c', [C], `c`", 6),
        ("WITH c AS (SELECT 1 FROM b, b), b AS (SELECT 1 FROM t, t, t) SELECT 1 FROM c, c", 12),
        ("WITH b AS (SELECT 1 FROM t, u), c AS (SELECT 1 FROM b, b) SELECT 1 FROM c, c", 8),
        ("WITH RECURSIVE n AS (SELECT 1 UNION ALL SELECT i + 1 FROM n, t) SELECT 1 FROM n", 2),
        ("WITH \u00a0 AS (SELECT a FROM t, u) SELECT 1 FROM \u00a0, \u00a0", 4),
        ("WITH \u00e9 AS (SELECT a FROM t, u) SELECT 1 FROM \ufeff\u00e9, \ufeff\ufeff\u00e9", 4),
        ("WITH b\ufeff AS (SELECT a FROM t, u) SELECT 1 FROM b, b\ufeff", 3),
        # Letters and digits of any alphabet are letters of a name; only A to Z have another case.
        ("WITH \u0663$c AS (SELECT a FROM t, u) SELECT 1 FROM \u0663$c, \u0663$C", 4),
        ("WITH \u212a AS (SELECT a FROM t, u), k AS (SELECT 1) SELECT 1 FROM \u212a, \u212a", 4),
        ("WITH \u017fight AS (SELECT 1 FROM sight, t) SELECT 1 FROM \u017fight", 6),
        # What a parameter swallows is no string, no name and no comment.
        ("SELECT $a(') FROM t, u, v WHERE $b('a, b)", 3),
        ('SELECT @a("), :b(`), #c([), $d::e(/*), $f(--) FROM t, u, v, w', 4),
        ("SELECT ?1, ?, :a, @b, $c FROM t, u", 2),
        ("WITH materialized AS MATERIALIZED (SELECT a FROM t, u) SELECT 1 FROM materialized", 2),
        ("SELECT 1 FROM t window, u, v WHERE 1", 3),
        ("SELECT 1 FROM t WINDOW sight AS (ORDER BY (SELECT 1 FROM sight))", 5),
        ("WITH sight AS (SELECT 1 FROM main.sight) SELECT 1 FROM t", 5),
        ('WITH "a""b" AS (SELECT a FROM t, u) SELECT 1 FROM [a"b], [a"b]', 4),
        ("SELECT 1 FROM Sight, main.sight /* , t, t, t */ -- , t, t", 10),
        ("SELECT 1 FROM t, ')', ((((", 3),
    ],
)
def test_tables_are_counted_with_what_is_merged_into_a_join(sql: str, tables: int) -> None:
    assert size(sql, {"sight": Size(5, 1)}).joined == tables


@pytest.mark.parametrize(
    ("sql", "selects"),
    [
        ("SELECT 1", 1),
        ("VALUES (1), (2)", 1),
        ("SELECT * FROM (SELECT * FROM (SELECT * FROM t))", 3),
        ("SELECT 1 UNION SELECT 2 UNION ALL VALUES (3)", 3),
        ("SELECT (SELECT 1) + (SELECT 2) WHERE a IN (SELECT 3) AND EXISTS (SELECT 4)", 5),
        ("WITH c AS (SELECT 1) SELECT * FROM c, c AS d JOIN main.c", 3),
        ("WITH c AS (SELECT 1), d AS (SELECT * FROM c WHERE a IN c) SELECT * FROM d", 4),
        ("WITH sight AS (SELECT 1 FROM main.sight) SELECT * FROM sight, t", 5),
        ("SELECT * FROM sight WHERE a IN sight OR b IN main.sight", 10),
        ("WITH c AS (SELECT 1 AS c) SELECT c.c, c.c FROM c WHERE c.c > 1", 2),
        ("WITH RECURSIVE n AS (SELECT 1 UNION ALL SELECT i + 1 FROM n, n) SELECT 1 FROM n", 3),
    ],
)
def test_selects_are_counted_as_often_as_they_are_used(sql: str, selects: int) -> None:
    assert size(sql, {"sight": Size(5, 3)}).selects == selects


@pytest.mark.parametrize(
    "end", ["", ";", " -- x", "; -- ;x", "; /* open", ";;\n/* a */ ; ", "\ufeff;"]
)
@pytest.mark.parametrize("start", ["", " ; ", "/* a; */ "])
def test_what_stands_around_a_statement_is_no_part_of_it(start: str, end: str) -> None:
    assert bare_statement(f"{start}SELECT 'a;'{end}") == "SELECT 'a;'"


_NAMES = [
    "c",
    "join1",
    "\u0663$",
    "\u212a",
    "\u00e9",
    "window",
    "materialized",
    "[from(]",
    '"a\'("',
    "`,`",
]
_NOISE = [" ", "\n", " /* ' ( */ ", ' -- ` " [\n', " \ufeff", "\t/* -- */"]


@st.composite
def _statements(draw: st.DrawFn) -> tuple[str, int, int]:
    """A statement with the tables that its widest FROM joins, and its SELECTs."""
    sizes = {"t": (1, 0), "u": (1, 0)}
    links = []

    def select(depth: int) -> tuple[str, int, int]:
        texts, tables, selects, most = [], 0, 1, 0
        for _ in range(draw(st.integers(1, 3))):
            if depth and draw(st.booleans()):
                text, joined, inner = select(depth - 1)
                texts.append(f"({text})")
            else:
                name = draw(st.sampled_from(sorted(sizes)))
                joined, inner = sizes[name]
                texts.append(name.upper() if name.isascii() and draw(st.booleans()) else name)
            tables, selects = tables + joined, selects + inner
        text = "SELECT 1 FROM " + draw(st.sampled_from([" , ", " JOIN ", " LEFT JOIN "])).join(
            texts
        )
        if depth and draw(st.booleans()):
            inside, joined, inner = select(depth - 1)
            exists = draw(st.booleans())
            text += f" WHERE {'EXISTS' if exists else '1 IN'} ({inside})"
            tables, most, selects = tables + exists * joined, joined, selects + inner
        return text, max(tables, most), selects

    for name in draw(st.lists(st.sampled_from(_NAMES), unique=True, max_size=4)):
        text, *counts = select(2)
        links.append(f"{name} AS ( {text} )")
        sizes[name] = (counts[0], counts[1])
    text, tables, selects = select(2)
    if links:
        text = f"WITH {' , '.join(links)} {text}"
    words = text.split(" ")
    noise = draw(st.lists(st.sampled_from(_NOISE), min_size=len(words), max_size=len(words)))
    return "".join(map("".join, zip(noise, words, strict=True))), tables, selects


@given(_statements())
def test_a_statement_is_never_taken_for_a_smaller_one(made: tuple[str, int, int]) -> None:
    sql, tables, selects = made
    found = size(sql, {})
    assert found.joined >= tables
    assert found.selects >= selects


def test_a_name_that_is_given_twice_is_never_taken_for_a_recursion() -> None:
    within = "SELECT 1 FROM c, c"
    assert size(f"WITH c AS (WITH c AS (SELECT 1 FROM t, u) {within}) {within}", {}).joined >= 8


def test_expressions_that_are_used_before_they_are_defined_are_not_followed_for_ever() -> None:
    links = [f"c{i} AS (SELECT 1 FROM c{i + 1}, c{i + 1})" for i in range(20)]
    found = size(f"WITH {', '.join(links)} SELECT 1 FROM c0", {})
    assert min(found) > 16
