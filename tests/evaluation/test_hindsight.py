"""What real results rule out, and what may still be found."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from handmade import described

from sql_env.core.render import render_rows
from sql_env.evaluation.hindsight import Hindsight
from sql_env.evaluation.proofreading import Tables, parsed

TOWN = """
CREATE TABLE house (id INTEGER PRIMARY KEY, street TEXT, height REAL);
CREATE TABLE owner (name TEXT, house INT REFERENCES house (id));
INSERT INTO house VALUES (1, 'Main', 12.5), (2, 'Oak', 8), (3, NULL, 30);
CREATE TABLE yard (keeper TEXT, name TEXT, house INT, height REAL);
INSERT INTO owner VALUES ('Ann', 1), ('Bob', 2);
INSERT INTO yard VALUES ('Ann', 'Front', 3, 1), ('Bob', 'Back', 3, NULL);
"""
NOBODY = (
    "SELECT owner.name FROM owner JOIN house ON owner.house = house.id WHERE house.street = 'Elm'"
)


@pytest.fixture
def town() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(TOWN)
        yield connection


@pytest.fixture
def tables(town: sqlite3.Connection) -> Tables:
    return described(town)


@pytest.fixture
def after(town: sqlite3.Connection, tables: Tables) -> Callable[..., Hindsight]:
    """What is known after these queries were answered."""

    def ask(*queries: str) -> Hindsight:
        hindsight = Hindsight()
        for query in queries:
            answer = town.execute(query)
            columns = [column[0] for column in answer.description]
            tree = parsed(query)
            assert tree is not None
            hindsight.add(tree, tables, render_rows(columns, answer.fetchall()))
        return hindsight

    return ask


def in_vain(hindsight: Hindsight, query: str, tables: Tables) -> bool:
    tree = parsed(query)
    assert tree is not None
    return hindsight.in_vain(tree, tables)


@pytest.mark.parametrize(
    "query",
    [
        NOBODY.replace("SELECT", "SELECT DISTINCT"),
        NOBODY + " ORDER BY owner.name",
        NOBODY + " AND house.height > 10",
        NOBODY.replace("owner.name", "house.height, owner.house"),
        "SELECT name FROM house JOIN owner ON house.id = owner.house WHERE street = 'Elm'",
        f"{NOBODY} INTERSECT SELECT name FROM owner",
        f"{NOBODY} GROUP BY owner.name HAVING COUNT(*) > 1",
    ],
)
def test_what_was_not_there_is_not_there(
    after: Callable[..., Hindsight],
    town: sqlite3.Connection,
    tables: Tables,
    query: str,
) -> None:
    assert in_vain(after(NOBODY), query, tables)
    assert not in_vain(after(), query, tables)
    assert town.execute(query).fetchall() == []


@pytest.mark.parametrize(
    "query",
    [
        NOBODY.replace("Elm", "Oak"),
        NOBODY.replace("JOIN", "LEFT JOIN").replace("WHERE", "AND"),
        "SELECT COUNT(*) FROM house WHERE house.street = 'Elm'",
        NOBODY.replace("owner.name FROM", "COUNT(*) FROM"),  # none is a number
        f"{NOBODY} UNION SELECT name FROM owner",
        "SELECT name FROM owner WHERE NOT house IN (SELECT id FROM house WHERE street = 'Elm')",
    ],
)
def test_something_else_may_be(
    after: Callable[..., Hindsight], town: sqlite3.Connection, tables: Tables, query: str
) -> None:
    assert not in_vain(after(NOBODY), query, tables)
    assert town.execute(query).fetchall() != []


@pytest.mark.parametrize(
    ("empty", "found"),
    [
        (
            NOBODY.replace("WHERE", "AND"),
            NOBODY.replace("JOIN", "LEFT JOIN").replace("WHERE", "AND"),
        ),
        ("SELECT name FROM owner LIMIT 0", "SELECT name FROM owner"),
        ("SELECT name FROM owner ORDER BY name LIMIT 1 OFFSET 9", "SELECT house FROM owner"),
        (
            "SELECT height FROM owner NATURAL JOIN yard",
            "SELECT height FROM owner JOIN yard ON owner.name = yard.keeper",
        ),
        (
            "SELECT t1.name FROM owner AS t1 WHERE t1.house > 2",
            "SELECT t1.height FROM yard AS t1 JOIN owner AS t2 ON t2.name = t1.keeper "
            "WHERE t1.house > 2",
        ),
        (
            "SELECT house FROM owner WHERE owner.house = owner.name AND owner.name = 'Bob'",
            "SELECT a.house FROM owner AS a JOIN owner AS b ON a.house <> b.house "
            "WHERE b.name = 'Bob'",
        ),
        (
            "SELECT name, COUNT(*) AS n FROM owner GROUP BY name HAVING n > 1",
            "SELECT name, SUM(house) AS n FROM owner GROUP BY name HAVING n > 1",
        ),
        (
            "SELECT house FROM owner GROUP BY name HAVING name = 'ann'",
            "SELECT house FROM owner GROUP BY name HAVING name = 'Ann'",
        ),
        (
            "SELECT name FROM owner WHERE house = 9",
            "SELECT TOTAL(house) FROM owner WHERE house = 9",
        ),
    ],
)
def test_nothing_here_is_something_there(
    after: Callable[..., Hindsight],
    town: sqlite3.Connection,
    tables: Tables,
    empty: str,
    found: str,
) -> None:
    assert town.execute(empty).fetchall() == []
    assert town.execute(found).fetchall() != []
    assert not in_vain(after(empty), found, tables)


def test_of_groups_only_the_same_are_known(after: Callable[..., Hindsight], tables: Tables) -> None:
    none = "SELECT name FROM owner GROUP BY owner.name HAVING COUNT(*) > 1"
    hindsight = after(none)
    assert in_vain(hindsight, none.replace("SELECT name", "SELECT COUNT(*)"), tables)
    assert not in_vain(hindsight, none.replace("> 1", "= 1"), tables)
    assert not in_vain(hindsight, none.replace("GROUP", "WHERE house = 1 GROUP"), tables)


def wrong(hindsight: Hindsight, query: str, tables: Tables) -> list[str]:
    tree = parsed(query)
    assert tree is not None
    return [part.sql("sqlite") for part in hindsight.wrong_values(tree, tables)]


def test_where_all_values_were_seen_another_is_wrong(
    after: Callable[..., Hindsight], tables: Tables
) -> None:
    seen = after(
        "SELECT DISTINCT house.street FROM house LIMIT 20", "SELECT height FROM house LIMIT 20"
    )
    streets = "SELECT id FROM house WHERE street = 'Elm' OR street = 'Oak' OR street LIKE '%ain'"
    assert wrong(seen, streets, tables) == ["street = 'Elm'"]
    assert wrong(seen, "SELECT 1 FROM house WHERE street LIKE 'e_m'", tables)
    assert not wrong(seen, "SELECT 1 FROM house WHERE street LIKE 'O_K'", tables)
    assert wrong(seen, "SELECT 1 FROM house AS h WHERE h.height = 9", tables)
    assert not wrong(seen, "SELECT 1 FROM house WHERE height = '8.0' OR height = 12.50", tables)
    assert not wrong(seen, "SELECT 1 FROM house WHERE height > 9 OR id = 9", tables)


@pytest.mark.parametrize(
    ("condition", "right"),
    [
        ("street = 'With Trees'", True),  # which results show in quotes
        ("street LIKE 'say%'", True),
        ("street = ''", True),
        ("street = 'a|b'", True),
        ("street = 'oak'", True),  # how a column compares is not shown
        ("street NOT LIKE '%zzz%'", True),
        ("street LIKE '50!%' ESCAPE '!'", True),
        ("street LIKE '" + "%" * 60 + "zzz%'", False),
        ("street LIKE '" + "%a" * 60 + "'", False),
        ("street = 'With Tree'", False),
    ],
)
def test_what_results_show_is_read_as_it_is_stored(
    after: Callable[..., Hindsight],
    town: sqlite3.Connection,
    tables: Tables,
    condition: str,
    right: bool,
) -> None:
    odd = ["With Trees", 'say "hi"', "", "a|b", "50%", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]
    town.executemany("INSERT INTO house (street) VALUES (?)", [(text,) for text in odd])
    seen = after("SELECT DISTINCT house.street FROM house LIMIT 20")
    query = f"SELECT 1 FROM house WHERE {condition}"
    assert (wrong(seen, query, tables) == []) is right
    assert not right or town.execute(query).fetchall() or "oak" in condition


@pytest.mark.parametrize(
    "look",
    [
        "SELECT DISTINCT street FROM house LIMIT 3",  # perhaps there are more
        "SELECT street FROM house WHERE height > 10",
        "SELECT house.street FROM house JOIN owner ON house.id = owner.house",
        "SELECT street, height FROM house",
        "SELECT UPPER(street) FROM house",
        "SELECT DISTINCT street FROM house FETCH",  # an alias, to SQLite
        "SELECT DISTINCT street FROM house LIMIT 10-7",
        "SELECT DISTINCT street FROM house LIMIT 20 OFFSET 2",
        "SELECT street FROM house GROUP BY street HAVING COUNT(*) > 0",
    ],
)
def test_where_some_were_seen_nothing_is_said(
    after: Callable[..., Hindsight], tables: Tables, look: str
) -> None:
    assert not wrong(after(look), "SELECT 1 FROM house WHERE street = 'Elm'", tables)


def test_nor_where_one_was_cut_short_or_there_are_many(
    after: Callable[..., Hindsight], town: sqlite3.Connection, tables: Tables
) -> None:
    look, query = "SELECT street FROM house", "SELECT 1 FROM house WHERE street = 'Elm'"
    assert wrong(after(look), query, tables)
    town.execute("INSERT INTO house (street) VALUES (?)", ("x" * 300,))
    assert not wrong(after(look), query, tables)
    town.execute("DELETE FROM house")
    town.executemany("INSERT INTO house (street) VALUES (?)", [(f"{n}th",) for n in range(20)])
    assert not wrong(after(look), query, tables)
