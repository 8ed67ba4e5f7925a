"""Which orders a gold query leaves open: top-level ORDER BY, ties, LIMIT, DISTINCT, compounds."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from sql_env.core.database import Database
from sql_env.core.gold import Gold, Segment, build_gold


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    path: Path = tmp_path_factory.mktemp("gold") / "gold.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript("""
        CREATE TABLE t (id INTEGER, name TEXT, n INTEGER, kind TEXT);
        INSERT INTO t VALUES (1, 'a', 1, 'x'), (2, 'B', 1, 'x'), (3, 'b', 2, 'y'),
                             (4, 'c', 2, 'y'), (5, 'd', 2, 'z'), (6, 'd', NULL, 'z');
        CREATE TABLE big (id INTEGER, n INTEGER);
        WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 12000)
        INSERT INTO big SELECT i, i % 3 FROM c;
    """)
    connection.close()
    return Database(path)


def sizes(gold: Gold) -> list[tuple[int, int]]:
    return [tuple(segment) for segment in gold.segments]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        # without ORDER BY everything may move
        ("SELECT id FROM t", [(6, 6)]),
        ("SELECT id FROM (SELECT id FROM t ORDER BY n)", [(6, 6)]),
        ("SELECT id, 'x ORDER BY id' FROM t", [(6, 6)]),
        ("SELECT id FROM t -- ORDER BY id", [(6, 6)]),
        ("SELECT id FROM t /* ORDER BY id */", [(6, 6)]),
        ('SELECT id AS "order by id" FROM t', [(6, 6)]),
        ("SELECT row_number() OVER (ORDER BY n, id) FROM t", [(6, 6)]),
        ("WITH s AS (SELECT id FROM t ORDER BY n) SELECT id FROM s", [(6, 6)]),
        # keys in the list, by name, alias, position, qualified or equal expression
        ("SELECT id FROM t ORDER BY id", [(1, 1)] * 6),
        ("SELECT n FROM t ORDER BY n", [(1, 1), (2, 2), (3, 3)]),
        ("SELECT name, n AS k FROM t ORDER BY k DESC", [(3, 3), (2, 2), (1, 1)]),
        ("SELECT name, n FROM t ORDER BY 2;", [(1, 1), (2, 2), (3, 3)]),
        ("SELECT T.name, t.n FROM t ORDER BY T . N ASC", [(1, 1), (2, 2), (3, 3)]),
        ("SELECT n + 1 FROM t ORDER BY n+1", [(1, 1), (2, 2), (3, 3)]),
        ('SELECT "n" FROM t ORDER BY [n]', [(1, 1), (2, 2), (3, 3)]),
        # keys that are not shown
        ("SELECT name FROM t ORDER BY n", [(1, 1), (2, 2), (3, 3)]),
        ("SELECT name FROM t ORDER BY n DESC NULLS FIRST, id", [(1, 1)] * 6),
        ("SELECT name FROM t ORDER BY abs(n - 2), kind", [(1, 1), (2, 2), (1, 1), (2, 2)]),
        ("SELECT kind FROM t GROUP BY kind ORDER BY count(*)", [(3, 3)]),
        ("SELECT kind FROM t GROUP BY kind ORDER BY sum(n) DESC", [(1, 1), (2, 2)]),
        ("SELECT sum(n) AS s, count(*) AS c FROM t GROUP BY kind ORDER BY s / c", [(2, 2), (1, 1)]),
        ("SELECT name FROM t ORDER BY CASE WHEN n = 1 THEN 0 ELSE 1 END", [(2, 2), (4, 4)]),
        ("SELECT name FROM t ORDER BY (SELECT count(*) FROM t u WHERE u.n = t.n)", None),
        # collations tie what they make equal
        ("SELECT name FROM t WHERE n < 3 ORDER BY name COLLATE NOCASE", None),
        # DISTINCT: a key outside the list counts only where each row has one
        ("SELECT DISTINCT n FROM t ORDER BY n", [(1, 1)] * 3),
        ("SELECT DISTINCT kind FROM t ORDER BY upper(kind)", [(1, 1)] * 3),
        ("SELECT DISTINCT kind FROM t WHERE n > 0 ORDER BY n % 1", [(3, 3)]),
        ("SELECT DISTINCT kind FROM t ORDER BY n", [(1, 1)] * 3),
        ("SELECT DISTINCT kind FROM t ORDER BY n LIMIT 3", [(1, 1)] * 3),
        # compounds: keys are output columns
        ("SELECT n FROM t UNION SELECT id FROM t ORDER BY n", [(1, 1)] * 7),
        ("SELECT kind, n FROM t UNION ALL SELECT kind, 7 FROM t ORDER BY 2", None),
        ("SELECT n FROM t EXCEPT SELECT 1", [(2, 2)]),
        # LIMIT: the rows that tie at its edges are a pool
        ("SELECT id FROM t ORDER BY n LIMIT 2", [(1, 1), (1, 2)]),
        ("SELECT id FROM t ORDER BY n LIMIT 2 OFFSET 2", [(1, 2), (1, 3)]),
        ("SELECT id FROM t ORDER BY n LIMIT 2, 1", [(1, 2)]),
        ("SELECT id FROM t ORDER BY n DESC LIMIT 1", [(1, 3)]),
        ("SELECT id FROM t ORDER BY n DESC LIMIT 3", [(3, 3)]),
        ("SELECT id FROM t ORDER BY id LIMIT 100", [(1, 1)] * 6),
        ("SELECT id FROM t ORDER BY n LIMIT -1 OFFSET 4", [(2, 3)]),
        ("SELECT id FROM t ORDER BY n LIMIT 1 + 1", [(1, 1), (1, 1)]),
        ("SELECT id FROM t LIMIT 2", [(2, 6)]),
        ("SELECT n FROM t UNION SELECT id FROM t ORDER BY 1 DESC LIMIT 2", [(1, 1)] * 2),
        ("SELECT id FROM t WHERE id > 99 ORDER BY n LIMIT 1", []),
        # more rows than the sandbox returns: those near the LIMIT are enough
        ("SELECT id FROM big ORDER BY id LIMIT 2", [(1, 1), (1, 1)]),
        ("SELECT id FROM big ORDER BY n LIMIT 2", [(2, 2002)]),
    ],
)
def test_rows_may_swap_where_the_query_leaves_their_order_open(
    database: Database, sql: str, expected: list[tuple[int, int]] | None
) -> None:
    found = sizes(build_gold(sql, database.query))
    if expected is None:
        assert any(take > 1 for take, _ in found), found
        assert len(found) > 1
    else:
        assert found == expected


def test_the_pool_holds_the_rows_that_tie(database: Database) -> None:
    gold = build_gold("SELECT id FROM t ORDER BY n LIMIT 2", database.query)
    assert gold.rows[0] == (6,)
    assert sorted(gold.pool) == [(1,), (2,), (6,)]


def test_a_gold_made_by_hand_is_its_rows_in_any_order() -> None:
    gold = Gold(("a",), ((1,), (2,)))
    assert gold.segments == (Segment(2, 2),)
    assert gold.pool == gold.rows
