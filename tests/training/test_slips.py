"""Queries that find nothing on the way to one that does, on a real database."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from sql_env.core.database import Database
from sql_env.training.slips import Slip, slip_in


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


def slips(query: str, question: str, database: Database) -> list[Slip]:
    found = (slip_in(query, question, database, random.Random(seed)) for seed in range(40))
    return [slip for slip in found if slip]


def test_every_slip_runs_finds_nothing_and_says_where_to_look(database: Database) -> None:
    query = "SELECT Country.Name FROM Country WHERE Country.Continent = 'Asia'"
    found = slips(query, "Which Asian countries are there?", database)
    assert len(found) == 40
    for slip in found:
        result = database.query(slip.query)
        assert result.ok
        assert not result.rows
        assert slip.doubtful is not None
        assert slip.doubtful[:2] == ("Country", "Continent")


def test_what_is_doubtful_is_what_slipped(database: Database) -> None:
    query = (
        "SELECT Country.Country_ID FROM Country "
        "WHERE Country.Name = 'China' AND Country.Continent = 'Asia'"
    )
    found = slips(query, "Which?", database)
    assert {slip.doubtful.column for slip in found if slip.doubtful} == {"Name", "Continent"}
    for slip in found:
        assert slip.doubtful is not None
        right = f"Country.{slip.doubtful.column} = '{slip.doubtful.text}'"
        assert right in query
        assert right not in slip.query


def test_a_value_is_spelt_as_in_the_question_or_looked_for_elsewhere(database: Database) -> None:
    query = "SELECT Country.Name FROM Country WHERE Country.Continent = 'Asia'"
    begin = "SELECT Country.Name FROM Country WHERE "
    found = {slip.query for slip in slips(query, "Which Asian countries are there?", database)}
    assert f"{begin}Country.Continent = 'Asian'" in found
    assert f"{begin}Country.Name = 'Asia'" in found


def test_tables_are_joined_on_the_wrong_column(database: Database) -> None:
    query = "SELECT City.Name FROM City JOIN Country ON City.Home_ID = Country.Country_ID"
    found = {slip.query for slip in slips(query, "Which cities lie in a country?", database)}
    assert found == {query.replace("City.Home_ID", "City.City_ID")}


@pytest.mark.parametrize(
    ("query", "slipped"),
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
def test_of_one_row_is_asked_what_no_row_does(query: str, slipped: str, database: Database) -> None:
    assert {slip.query for slip in slips(query, "Which?", database)} == {slipped}


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
    assert slips(query, "Which?", database) == []
