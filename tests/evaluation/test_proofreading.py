"""Queries that run and cannot be meant, those that may be, and how many right ones are blamed."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from handmade import described

from sql_env.evaluation.mending import with_texts_as_asked
from sql_env.evaluation.proofreading import Tables, faults, forgets, parsed
from sql_env.questions import Dataset

SHOP = """
CREATE TABLE shop (shop_id INTEGER PRIMARY KEY, name TEXT, opened DATE, size REAL);
CREATE TABLE clerk (clerk_id INTEGER PRIMARY KEY, name TEXT, chief INT REFERENCES clerk);
CREATE TABLE hired (shop_id INT REFERENCES shop (shop_id), clerk INT REFERENCES clerk);
CREATE TABLE visit (guest TEXT, place INT REFERENCES shop (shop_id));
CREATE TABLE post (shop INT REFERENCES shop, clerk INT, name TEXT, size INT,
    PRIMARY KEY (shop, clerk));
CREATE TABLE weather (day DATE, city TEXT, shops INT, mood ENUM);
"""


@pytest.fixture(scope="module")
def shop() -> Tables:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SHOP)
        return described(connection)


def blamed(query: str, tables: Tables) -> list[str]:
    tree = parsed(query)
    assert tree is not None
    return [part.sql("sqlite") for part in faults(tree, tables)]


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("SELECT 1 FROM shop WHERE shop.size = 'large'", "shop.size = 'large'"),
        ("SELECT 1 FROM shop WHERE size <> 'large'", "size <> 'large'"),
        ("SELECT 1 FROM clerk AS c WHERE c.clerk_id LIKE '%Ann%'", "c.clerk_id LIKE '%Ann%'"),
        (
            "SELECT 1 FROM shop JOIN clerk ON shop.shop_id = clerk.clerk_id",
            "shop.shop_id = clerk.clerk_id",
        ),
        (
            "SELECT 1 FROM hired JOIN clerk ON hired.shop_id = clerk.clerk_id",
            "hired.shop_id = clerk.clerk_id",
        ),
        (
            "SELECT 1 FROM shop WHERE shop_id IN (SELECT clerk FROM hired)",
            "shop_id IN (SELECT clerk FROM hired)",
        ),
        (
            "SELECT 1 FROM shop WHERE shop.shop_id = (SELECT clerk.clerk_id FROM clerk LIMIT 1)",
            "shop.shop_id = (SELECT clerk.clerk_id FROM clerk LIMIT 1)",
        ),
        (
            "SELECT COUNT(*) FROM shop INTERSECT SELECT COUNT(*) FROM clerk",
            "SELECT COUNT(*) FROM shop INTERSECT SELECT COUNT(*) FROM clerk",
        ),
        ("SELECT 1 FROM clerk WHERE name = 'Ann' AND 'Bob'", "name = 'Ann' AND 'Bob'"),
        (
            "SELECT 1 FROM clerk WHERE name = 'Ann' AND chief > 1 AND name = 'Bob'",
            "name = 'Ann' AND chief > 1 AND name = 'Bob'",
        ),
        ("SELECT 1 FROM clerk WHERE name = ' Ann'", "name = ' Ann'"),
        (
            "SELECT 1 FROM shop WHERE size > (SELECT MAX(size) FROM shop)",
            "size > (SELECT MAX(size) FROM shop)",
        ),
        (
            "SELECT name FROM clerk GROUP BY clerk_id HAVING COUNT(*) > 1",
            " GROUP BY clerk_id",
        ),
    ],
)
def test_what_cannot_be_meant_is_pointed_at(shop: Tables, query: str, fault: str) -> None:
    assert [part.strip() for part in blamed(query, shop)] == [fault.strip()]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1 FROM shop WHERE shop.size = '12.5'",
        "SELECT 1 FROM shop WHERE opened = 'yesterday'",  # a DATE holds what one likes
        "SELECT 1 FROM shop JOIN hired ON shop.shop_id = hired.shop_id",
        "SELECT 1 FROM hired JOIN clerk ON hired.clerk = clerk.clerk_id",  # its key, unnamed
        "SELECT 1 FROM hired JOIN visit ON hired.shop_id = visit.place",  # both of the same shop
        "SELECT 1 FROM clerk AS a JOIN clerk AS b ON a.chief = b.clerk_id",
        "SELECT 1 FROM clerk JOIN visit ON clerk.name = visit.name",  # visit has no name
        "SELECT 1 FROM shop JOIN weather ON shop.size = weather.shops",  # nothing links them
        "SELECT 1 FROM shop JOIN unknown ON shop.shop_id = unknown.clerk_id",
        "SELECT 1 FROM shop AS clerk JOIN hired ON clerk.shop_id = hired.shop_id",
        "WITH shop AS (SELECT 'a' AS size) SELECT 1 FROM shop WHERE size = 'a'",
        "SELECT name FROM clerk INTERSECT SELECT guest FROM visit",
        "SELECT name, COUNT(*) FROM clerk GROUP BY name INTERSECT SELECT guest, 1 FROM visit",
        "SELECT 1 FROM clerk WHERE name = 'Ann' OR name = 'Bob'",
        "SELECT 1 FROM clerk WHERE (name = 'Ann' AND chief = 1) OR (name = 'Bob' AND chief = 2)",
        "SELECT 1 FROM shop WHERE size > (SELECT MAX(size) FROM shop WHERE name = 'Ann')",
        "SELECT 1 FROM shop WHERE size >= (SELECT MAX(size) FROM shop)",
        "SELECT name FROM clerk GROUP BY name HAVING COUNT(*) > 1",
        "SELECT clerk FROM post GROUP BY clerk HAVING COUNT(*) > 1",  # half of its key
        "SELECT name FROM clerk GROUP BY clerk_id HAVING "
        "(SELECT COUNT(*) FROM hired WHERE hired.clerk = clerk.clerk_id) > 1",
        "SELECT 1 FROM post WHERE size > (SELECT MAX(size) FROM shop)",  # of another table
        "SELECT 1 FROM shop WHERE size > (SELECT MAX(size) FROM shop GROUP BY name)",
        "SELECT 1 FROM shop WHERE size > (SELECT MAX(size) FROM shop JOIN hired)",
        "SELECT 1 FROM shop WHERE size > (SELECT)",
        "SELECT 1 FROM shop WHERE name IN (SELECT name FROM elsewhere WHERE size = 'large')",
        "SELECT 1 FROM shop WHERE size NOT LIKE '%a%' AND 1",
        "SELECT 1 FROM shop WHERE size = 60 AND size = 60.0",
        "SELECT 1 FROM weather WHERE mood = 'sunny'",  # an ENUM holds words
        "SELECT 1 FROM clerk JOIN hired ON clerk.chief = clerk.clerk_id",  # of one table
        "SELECT 1 FROM post JOIN shop ON post.name = shop.name",  # called the same
        "SELECT 1 FROM shop WHERE size = 'a'" + " NOT NULL" * 300,
        "SELECT clerk.name FROM clerk JOIN hired ON clerk.clerk_id = hired.clerk "
        "GROUP BY clerk.clerk_id HAVING COUNT(*) > 1",
    ],
)
def test_what_may_be_meant_is_left_alone(shop: Tables, query: str) -> None:
    tree = parsed(query)
    assert tree is None or not list(faults(tree, shop))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT FROM WHERE",
        "(" * 3000,
        "DROP TABLE shop",
        "",
        # These would take minutes, or hours.
        "SELECT 1 FROM shop" + "".join(f" JOIN clerk AS t{n}" for n in range(30)),
        "SELECT " + "DATE(" * 30 + "1" + ")" * 30,
    ],
)
def test_what_is_no_query_is_not_read(shop: Tables, query: str) -> None:
    tree = parsed(query)
    assert tree is None or not list(faults(tree, shop))


def test_a_fault_is_pointed_at_once_however_often_it_is_made(shop: Tables) -> None:
    query = "SELECT 1 FROM shop WHERE " + " AND ".join(f"size = {n}" for n in range(200))
    assert len(blamed(query, shop)) == 1


def test_columns_of_an_outer_query_are_known_too(shop: Tables) -> None:
    query = "SELECT 1 FROM shop WHERE EXISTS (SELECT 1 FROM hired WHERE size = 'large')"
    assert blamed(query, shop) == ["size = 'large'"]


def test_a_blank_is_stored_where_it_was_seen(shop: Tables) -> None:
    tree = parsed("SELECT 1 FROM clerk WHERE name = 'Ann '")
    assert tree is not None
    assert list(faults(tree, shop))
    assert not list(faults(tree, shop, 'name\n"Ann "'))


@pytest.mark.parametrize(
    ("question", "query", "forgotten"),
    [
        ("Shops larger than 300?", "SELECT name FROM shop ORDER BY size", True),
        ("Shops larger than 300?", "SELECT name FROM shop WHERE size > 300", False),
        ("Shops larger than 300?", "SELECT DISTINCT size FROM shop LIMIT 20", False),  # a look
        ("The 2nd shop of 12-14 Main Street", "SELECT name FROM shop ORDER BY size", False),
        ("Shops called 'Corner'?", "SELECT COUNT(*) FROM shop", True),
        ("Shops called 'Corner'?", "SELECT 1 FROM shop WHERE name = 'corners'", False),
        ('Clerks called "Ann Lee"?', "SELECT 1 FROM clerk WHERE name LIKE '%Lee'", False),
        ("The clerk's shops?", "SELECT COUNT(*) FROM shop", False),
    ],
)
def test_a_number_or_a_quoted_text_may_be_forgotten(
    question: str, query: str, forgotten: bool
) -> None:
    tree = parsed(query)
    assert tree is not None
    assert forgets(tree, query, question) is forgotten


def is_blamed(gold: str, question: str, tables: Tables) -> bool:
    gold = gold.replace('"', "'")  # datasets put texts into double quotes
    tree = parsed(gold)
    return tree is not None and (
        any(faults(tree, tables))
        or forgets(tree, gold, question)
        or with_texts_as_asked(gold, question, "") != gold
    )


def tables_of(path: Path) -> Tables:
    with closing(sqlite3.connect(path)) as connection:
        return described(connection)


def test_no_gold_query_of_the_embedded_data_is_blamed() -> None:
    dataset = Dataset.embedded()
    known = {path.stem: tables_of(path) for path in dataset.db_dir.glob("*/*.sqlite")}
    golds = [(q.gold_sql, q.question_text, known[q.database_name]) for q in dataset.load()]
    assert len(golds) > 600
    assert [gold for gold in golds if is_blamed(*gold)] == []


@pytest.mark.spider
def test_hardly_any_gold_query_of_spider_is_blamed(spider_dir: Path) -> None:
    """Those that are: wrong ones, and joins along foreign keys that nobody declared."""
    known = {path.stem: tables_of(path) for path in spider_dir.glob("database/*/*.sqlite")}
    items = json.loads((spider_dir / "train_spider.json").read_text(encoding="utf-8"))
    golds = [(q["query"], q["question"], known[q["db_id"]]) for q in items if q["db_id"] in known]
    assert sum(is_blamed(*gold) for gold in golds) < 0.01 * len(golds)
