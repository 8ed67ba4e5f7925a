"""Gold queries that give each other away share a key; others do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql_env.sql.leak_key import leak_key

JOIN = "SELECT T1.name, T2.day FROM product AS T1 JOIN sale AS T2 ON T1.id = T2.product_id"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT count(*) FROM singer", "select  COUNT( * ) from Singer ;"),
        ('SELECT a FROM t WHERE b = "x"', "SELECT a FROM t WHERE b = 'x'"),
        ("SELECT T1.a FROM t AS T1", "SELECT a FROM t"),
        (JOIN, JOIN.replace("T1", "p").replace("T2", "s").replace(" AS ", " ")),
        (
            "SELECT a FROM t WHERE id IN (SELECT T1.id FROM u AS T1 JOIN v AS T2 ON T1.id = T2.id)",
            "SELECT a FROM t WHERE id IN (SELECT x.id FROM u AS x JOIN v AS y ON x.id = y.id)",
        ),
        (
            "SELECT a FROM t AS o WHERE b > (SELECT avg(b) FROM t AS i WHERE i.c = o.c)",
            "SELECT a FROM t AS t1 WHERE b > (SELECT avg(b) FROM t AS t2 WHERE t2.c = t1.c)",
        ),
        (
            "SELECT x.a FROM t AS x JOIN t AS y ON x.id = y.parent",
            "SELECT p.a FROM t AS p JOIN t AS q ON p.id = q.parent",
        ),
    ],
)
def test_one_query_in_two_forms_has_one_key(one: str, other: str) -> None:
    assert leak_key(one) == leak_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT a FROM t", "SELECT b FROM t"),
        ("SELECT a FROM t WHERE b = 'x'", "SELECT a FROM t WHERE b = 'y'"),
        ("SELECT a FROM t", "SELECT DISTINCT a FROM t"),
        (
            "SELECT x.a FROM t AS x JOIN t AS y ON x.id = y.parent",
            "SELECT y.a FROM t AS x JOIN t AS y ON x.id = y.parent",
        ),
        (JOIN, JOIN.replace("T2.day", "T2.id")),
    ],
)
def test_two_queries_have_two_keys(one: str, other: str) -> None:
    assert leak_key(one) != leak_key(other)


@given(st.text())
def test_whatever_is_written_has_a_key(text: str) -> None:
    assert leak_key(text) == leak_key(text + " ")


@given(st.sampled_from(["SELECT name FROM singer WHERE age > 20", JOIN]), st.randoms())
def test_case_does_not_matter(sql: str, draw) -> None:
    mixed = "".join(draw.choice((letter.upper(), letter.lower())) for letter in sql)
    assert leak_key(mixed) == leak_key(sql)
