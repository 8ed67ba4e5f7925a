"""Queries that find nothing on the way to one that does, on a real database."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from sql_env.core.database import Database
from sql_env.training.corruption import Corruption, corrupt


@pytest.fixture
def database(tmp_path: Path) -> Database:
    path = tmp_path / "world.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript(
            """
            CREATE TABLE Country (Country_ID INTEGER PRIMARY KEY, Name TEXT, Continent TEXT);
            CREATE TABLE City (City_ID INTEGER PRIMARY KEY, Home_ID INTEGER, Name TEXT, Size INT);
            INSERT INTO Country VALUES (1, 'China', 'Asia'), (2, 'New Zealand', 'Oceania');
            INSERT INTO City VALUES (71, 1, 'Wuhan', 12), (72, 2, 'Napier', 3), (73, 2, 'Taupo', 5);
            """
        )
    return Database(path)


def corruptions(query: str, question: str, database: Database) -> list[Corruption]:
    found = (corrupt(query, question, database, random.Random(seed)) for seed in range(40))
    return [item for item in found if item]


def test_every_corrupted_query_runs_finds_nothing_and_says_where_to_look(
    database: Database,
) -> None:
    query = "SELECT Country.Name FROM Country WHERE Country.Continent = 'Asia'"
    found = corruptions(query, "Which Asian countries are there?", database)
    assert len(found) == 40
    for wrong in found:
        result = database.query(wrong.query)
        assert result.ok
        assert not result.rows
        assert wrong.doubtful is not None
        assert wrong.doubtful[:2] == ("Country", "Continent")


def test_what_is_doubtful_is_what_was_changed(database: Database) -> None:
    query = (
        "SELECT Country.Country_ID FROM Country "
        "WHERE Country.Name = 'China' AND Country.Continent = 'Asia'"
    )
    found = corruptions(query, "Which?", database)
    assert {wrong.doubtful.column for wrong in found if wrong.doubtful} == {"Name", "Continent"}
    for wrong in found:
        assert wrong.doubtful is not None
        right = f"Country.{wrong.doubtful.column} = '{wrong.doubtful.text}'"
        assert right in query
        assert right not in wrong.query


def test_a_value_is_spelt_as_in_the_question_or_looked_for_elsewhere(database: Database) -> None:
    query = "SELECT Country.Name FROM Country WHERE Country.Continent = 'Asia'"
    begin = "SELECT Country.Name FROM Country WHERE "
    found = {
        wrong.query for wrong in corruptions(query, "Which Asian countries are there?", database)
    }
    assert f"{begin}Country.Continent = 'Asian'" in found
    assert f"{begin}Country.Name = 'Asia'" in found


def test_tables_are_joined_on_the_wrong_column(database: Database) -> None:
    query = "SELECT City.Name FROM City JOIN Country ON City.Home_ID = Country.Country_ID"
    found = {
        wrong.query for wrong in corruptions(query, "Which cities lie in a country?", database)
    }
    assert found == {query.replace("City.Home_ID", "City.City_ID")}


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        (
            "SELECT City.Name FROM City WHERE City.Size = 3 OR City.Size = 5",
            "SELECT City.Name FROM City WHERE City.Size = 3 AND City.Size = 5",
        ),
        (
            "SELECT COUNT(*) FROM City WHERE City.Size > 4",
            "SELECT COUNT(*) FROM City WHERE City.Size = 4",
        ),
        (
            "SELECT Home_ID FROM City WHERE Size = 3 INTERSECT "
            "SELECT Home_ID FROM City WHERE Size = 5",
            "SELECT Home_ID FROM City WHERE Size = 3 AND Size = 5",
        ),
    ],
)
def test_of_one_row_is_asked_what_no_row_does(query: str, wrong: str, database: Database) -> None:
    assert {wrong.query for wrong in corruptions(query, "Which?", database)} == {wrong}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT Name FROM City WHERE Name = 'Atlantis'",
        "SELECT COUNT(*) FROM City WHERE Name = 'Atlantis'",
        "SELECT Name FROM City",
        "SELEC Name FROM City",
    ],
)
def test_where_nothing_is_right_or_near_there_is_none(query: str, database: Database) -> None:
    assert corruptions(query, "Which?", database) == []
