"""Worlds read from SQLite files that others made."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from made_databases import SCHOOL, database

from sql_env.core.database import DatabaseOpenError
from sql_env.worlds.introspection import MOST_ROWS, world_of
from sql_env.worlds.world import World


@pytest.fixture
def school(tmp_path: Path) -> World:
    return world_of(database(tmp_path, SCHOOL))


def test_tables_get_nouns(school: World) -> None:
    nouns = {table.name: table.spec.nouns for table in school.tables.values()}
    assert nouns["Ref_Course_Types"] == ("course type",)
    assert nouns["Courses"] == ("course",)
    assert nouns["Takes"] == ()
    assert school.tables["student"].spec.person


def test_columns_have_words_and_kinds(school: World) -> None:
    said = {
        (table.name, column.spec.words[0]): column.kind
        for table in school.tables.values()
        for column in table.columns.values()
    }
    assert said["Courses", "name"] == "name"
    assert said["Courses", "number of hours"] == "number"
    assert said["Student", "first name"] == said["Student", "last name"] == "person"
    assert said["Student", "age"] == "number"
    assert said["Student", "resident"] == "flag"
    assert said["Student", "sex"] == "category"
    assert said["Ref_Course_Types", "description"] == "name"


def test_keys_are_not_measured(school: World) -> None:
    numbers = [
        column.name
        for table in school.tables.values()
        for column in table.columns.values()
        if column.kind == "number"
    ]
    assert sorted(numbers) == ["Age", "Number_hours"]


def test_references_are_declared_or_guessed(school: World) -> None:
    found = {
        (table.name, ref.name, ref.target.name)
        for table in school.tables.values()
        for ref in table.references
    }
    assert found == {
        ("Courses", "type_code", "Ref_Course_Types"),
        ("Takes", "StuID", "Student"),
        ("Takes", "course_id", "Courses"),
    }


def test_a_link_relates_its_ends(school: World) -> None:
    ends = {(r.source.name, r.target.name) for r in school.relations if len(r.hops) == 2}
    assert ends == {("Student", "Courses"), ("Courses", "Student")}


def test_text_and_number_keys_may_meet(tmp_path: Path) -> None:
    world = world_of(
        database(
            tmp_path,
            """CREATE TABLE club (club_id INT PRIMARY KEY, name TEXT);
            CREATE TABLE player (player_id INT PRIMARY KEY, name TEXT, club_id TEXT,
              FOREIGN KEY (club_id) REFERENCES club (club_id));
            INSERT INTO club VALUES (1, 'A'), (2, 'B');
            INSERT INTO player VALUES (1, 'X', '1'), (2, 'Y', '1'), (3, 'Z', '2');""",
        )
    )
    (down,) = [r for r in world.relations if r.many]
    assert set(down.pairs) == {(1, 1), (1, 2), (2, 3)}


def test_a_row_may_go_on_in_another_table(tmp_path: Path) -> None:
    world = world_of(
        database(
            tmp_path,
            """CREATE TABLE people (People_ID INT PRIMARY KEY, Name TEXT, Height REAL);
            CREATE TABLE player (Player_ID INT PRIMARY KEY, People_ID INT, Earnings REAL,
              FOREIGN KEY (People_ID) REFERENCES people (People_ID));
            INSERT INTO people VALUES (1, 'A', 180), (2, 'B', 190), (3, 'C', 170);
            INSERT INTO player VALUES (1, 2, 50), (2, 1, 70);""",
        )
    )
    assert [(r.source.name, r.target.name) for r in world.kin] == [("player", "people")]
    assert not world.relations


def test_numbers_kept_as_text_are_compared_only_where_sqlite_sorts_them(tmp_path: Path) -> None:
    world = world_of(
        database(
            tmp_path,
            """CREATE TABLE car (id INTEGER PRIMARY KEY, mpg TEXT, doors TEXT, year TEXT);
            INSERT INTO car VALUES (1, '9', '2', '1970'), (2, '18', '4', '1971'),
              (3, 'null', '4', '1972'), (4, '22.5', '5', '1970');""",
        )
    )
    kinds = {column.name: column.kind for column in world.tables["car"].columns.values()}
    assert kinds == {"mpg": "text", "doors": "number", "year": "year"}


def test_only_so_many_rows_are_read(tmp_path: Path) -> None:
    path = database(tmp_path, "CREATE TABLE reading (reading_id INTEGER PRIMARY KEY, value REAL)")
    with closing(sqlite3.connect(path)) as connection:
        rows = ((i, i / 7) for i in range(MOST_ROWS + 100))
        connection.executemany("INSERT INTO reading VALUES (?, ?)", rows)
        connection.commit()
    assert world_of(path).tables["reading"].size == MOST_ROWS


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatabaseOpenError, match=r"none\.sqlite"):
        world_of(tmp_path / "none.sqlite")
