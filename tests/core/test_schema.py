"""Names as a query has to spell them."""

from __future__ import annotations

from contextlib import closing

import apsw
import pytest

from sql_env.core.schema import quote_identifier, sql_name

WAYS = (
    "SELECT {0}.{0} FROM {0}",
    "SELECT {0} FROM {0} WHERE {0} = 41 ORDER BY {0} DESC",
    "SELECT {0}, count(*) FROM {0} GROUP BY {0} HAVING {0} > 3",
    "SELECT T1.{0} FROM {0} AS T1 JOIN {0} AS T2 ON T1.{0} = T2.{0}",
    "SELECT max({0}) FROM {0} WHERE {0}.{0} IN (SELECT {0} FROM {0})",
)


@pytest.mark.parametrize("name", ["Country_Code", "key", "match", "_1"])
def test_a_plain_name_stands_bare(name: str) -> None:
    assert sql_name(name) == name


@pytest.mark.parametrize(
    ("name", "spelt"),
    [("Order", '"Order"'), ("first name", '"first name"'), ('a"b', '"a""b"'), ("1st", '"1st"')],
)
def test_a_name_that_needs_quotes_has_them(name: str, spelt: str) -> None:
    assert sql_name(name) == spelt


@pytest.mark.parametrize("word", sorted(apsw.keywords))
def test_a_keyword_can_be_copied_into_a_query(word: str) -> None:
    with closing(apsw.Connection(":memory:")) as database:
        quoted = quote_identifier(word.lower())
        database.execute(f"CREATE TABLE {quoted} ({quoted}); INSERT INTO {quoted} VALUES (41)")
        for way in WAYS:
            query = way.format(sql_name(word.lower()))
            assert database.execute(query).fetchone()[0] == 41, query  # type: ignore[index]
