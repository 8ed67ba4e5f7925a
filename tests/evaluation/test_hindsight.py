"""What real results rule out, and what may still be found."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from sql_env.core.render import render_rows, render_schema
from sql_env.core.schema import read_schemas
from sql_env.evaluation.hindsight import Hindsight
from sql_env.evaluation.known_schema import described_tables
from sql_env.evaluation.proofreading import Tables, parsed

TOWN = """
CREATE TABLE house (id INTEGER PRIMARY KEY, street TEXT, height REAL);
CREATE TABLE owner (name TEXT, house INT REFERENCES house (id));
INSERT INTO house VALUES (1, 'Main', 12.5), (2, 'Oak', 8), (3, NULL, 30);
INSERT INTO owner VALUES ('Ann', 1), ('Bob', 2);
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
    return dict(described_tables("\n\n".join(map(render_schema, read_schemas(town)))))


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
        NOBODY.replace("JOIN", "LEFT JOIN").replace("WHERE", "OR"),
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
    "look",
    [
        "SELECT DISTINCT street FROM house LIMIT 3",  # perhaps there are more
        "SELECT street FROM house WHERE height > 10",
        "SELECT house.street FROM house JOIN owner ON house.id = owner.house",
        "SELECT street, height FROM house",
        "SELECT UPPER(street) FROM house",
        "SELECT street || '" + "x" * 300 + "' AS street FROM house",
    ],
)
def test_where_some_were_seen_nothing_is_said(
    after: Callable[..., Hindsight], tables: Tables, look: str
) -> None:
    assert not wrong(after(look), "SELECT 1 FROM house WHERE street = 'Elm'", tables)
