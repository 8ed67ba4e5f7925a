"""Hardness from the SQL alone, against hand-counted cases and against Spider's own labels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sql_env.sql.hardness import count_components, hardness
from sql_env.sql.parse import NotAQueryError, parse_query


@pytest.mark.parametrize(
    ("sql", "level"),
    [
        ("SELECT count(*) FROM singer", "easy"),
        ("SELECT name FROM singer WHERE age > 20", "easy"),
        ("SELECT name, age FROM singer", "medium"),
        ("SELECT name FROM singer ORDER BY age LIMIT 1", "medium"),
        ("SELECT a.x FROM a JOIN b ON a.id = b.id WHERE b.y = 1", "medium"),
        ("SELECT a.x FROM a JOIN b ON a.id = b.id WHERE b.y = 1 ORDER BY a.x", "hard"),
        ("SELECT x FROM a WHERE id IN (SELECT id FROM b)", "hard"),
        ("SELECT x FROM a UNION SELECT x FROM b", "hard"),
        ("SELECT x FROM a WHERE y > (SELECT avg(y) FROM a) AND z = 1", "extra"),
        ("SELECT a.x FROM a JOIN b ON a.i = b.i GROUP BY a.x ORDER BY count(*) LIMIT 1", "extra"),
    ],
)
def test_a_query_has_spiders_level(sql: str, level: str) -> None:
    assert hardness(sql) == level


@pytest.mark.parametrize(
    ("sql", "counts"),
    [
        ("SELECT x FROM a WHERE y = 1 OR z = 2", (2, 0, 1)),
        ("SELECT x FROM a WHERE y LIKE '%k%'", (2, 0, 0)),
        ("SELECT max(x), min(x) FROM a", (0, 0, 2)),
        ("SELECT max(x, y) FROM a", (0, 0, 0)),  # two arguments: not an aggregate
        ("SELECT x FROM a WHERE y NOT IN (1) AND z NOT IN (2)", (1, 0, 2)),  # NOTs count so
        ("SELECT x FROM a GROUP BY x, y HAVING count(*) > 1 AND sum(z) > 2", (1, 0, 1)),
        ("SELECT x FROM a INTERSECT SELECT x FROM b EXCEPT SELECT x FROM c", (0, 1, 0)),
        ("SELECT x FROM a, b, c", (2, 0, 0)),
        ("SELECT x FROM a WHERE y BETWEEN 1 AND 5", (1, 0, 0)),
        ("WITH t AS (SELECT 1 AS x) SELECT x FROM t", (0, 1, 0)),
        ("SELECT (SELECT max(x) FROM a) FROM b", (0, 1, 0)),
        ("SELECT x FROM a WHERE EXISTS (SELECT 1 FROM b)", (1, 1, 0)),
    ],
)
def test_the_components_are_counted_as_spider_does(sql: str, counts: tuple[int, int, int]) -> None:
    found = count_components(parse_query(sql))
    assert (found.clauses, found.nested, found.extras) == counts


@pytest.mark.parametrize("text", ["", "SELEC name", "DELETE FROM a", "SELECT 1; SELECT 2"])
def test_what_is_no_query_has_no_hardness(text: str) -> None:
    with pytest.raises(NotAQueryError):
        hardness(text)


@pytest.mark.spider
def test_agreement_with_spiders_own_labels(
    spider_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = spider_dir / "hardness.json"
    if not path.exists():
        pytest.skip(f"no labels at {path}")
    labels = json.loads(path.read_text())
    agreed = compared = 0
    for part, expected in labels.items():
        records = json.loads((spider_dir / f"{part}.json").read_text())
        for record, label in zip(records, expected, strict=True):
            if label is not None:
                compared += 1
                agreed += hardness(record["query"]) == label
    with capsys.disabled():
        print(f"\nhardness: {agreed} of {compared} Spider labels agree ({agreed / compared:.2%})")
    assert compared > 7000
    assert agreed / compared >= 0.98
