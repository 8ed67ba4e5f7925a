"""The same database under other names: same rows, other words."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sql_env.core.database import Database
from sql_env.questions import load_questions
from sql_env.worlds.renaming import NewNames, drawn_names, renamed_copy, renamed_sql


@pytest.fixture
def path(music_dir: Path) -> Path:
    return music_dir / "databases" / "music" / "music.sqlite"


@pytest.fixture
def database(path: Path) -> Database:
    return Database(path)


PLAIN = NewNames(
    {"singer": "vocalists", "concert": "gigs", "performance": "played_at"},
    {
        ("singer", "age"): "age_in_years",
        ("singer", "singer_id"): "id",
        ("singer", "name"): "called",
        ("singer", "country"): "home",
        ("concert", "concert_id"): "id",
        ("concert", "theme"): "motto",
        ("concert", "year"): "yr",
        ("performance", "singer_id"): "who",
        ("performance", "concert_id"): "gig",
    },
)


@pytest.mark.parametrize(
    ("sql", "renamed"),
    [
        ("SELECT name FROM singer", "SELECT called FROM vocalists"),
        (
            'SELECT t1.NAME FROM Singer AS t1 WHERE country = "France"',
            "SELECT t1.called FROM vocalists AS t1 WHERE home = 'France'",
        ),
        (
            "SELECT singer.name FROM singer JOIN performance "
            "ON singer.singer_id = performance.singer_id",
            "SELECT vocalists.called FROM vocalists JOIN played_at ON vocalists.id = played_at.who",
        ),
        (
            "SELECT theme FROM concert WHERE concert_id NOT IN "
            "(SELECT concert_id FROM performance)",
            "SELECT motto FROM gigs WHERE NOT id IN (SELECT gig FROM played_at)",
        ),
        (
            "SELECT country, count(*) AS year FROM singer GROUP BY country ORDER BY year",
            "SELECT home, COUNT(*) AS year FROM vocalists GROUP BY home ORDER BY year",
        ),
    ],
)
def test_every_name_in_a_query_changes(sql: str, renamed: str, database: Database) -> None:
    assert renamed_sql(sql, database, PLAIN) == renamed


def test_a_copy_has_the_rows_the_types_and_the_keys(
    path: Path, database: Database, tmp_path: Path
) -> None:
    renamed_copy(database, path, tmp_path / "copy.sqlite", PLAIN)
    copy = Database(tmp_path / "copy.sqlite")
    assert copy.table_names == ("vocalists", "gigs", "played_at")
    schema = copy.schema("vocalists")
    assert schema is not None
    assert [column.name for column in schema.columns] == ["age_in_years", "id", "called", "home"]
    assert [column.name for column in schema.columns if column.primary_key] == ["id"]
    assert schema.columns[0].type == "INT"
    played = copy.schema("played_at")
    assert played is not None
    assert [(k.column, k.table, k.references) for k in played.foreign_keys] == [
        ("who", "vocalists", "id"),
        ("gig", "gigs", "id"),
    ]
    before = database.query("SELECT age, singer_id, name, country FROM singer").rows
    assert copy.query("SELECT * FROM vocalists").rows == before


def test_a_path_may_look_like_an_address(path: Path, tmp_path: Path) -> None:
    odd = tmp_path / "what? 100%#1.sqlite"
    odd.write_bytes(path.read_bytes())
    renamed_copy(Database(odd), odd, tmp_path / "a #copy?.sqlite", PLAIN)
    copy = Database(tmp_path / "a #copy?.sqlite")
    assert copy.query("SELECT count(*) FROM vocalists").rows == ((4,),)
    assert odd.read_bytes() == path.read_bytes()


def test_drawn_names_give_the_same_answers(
    path: Path, database: Database, music_dir: Path, tmp_path: Path
) -> None:
    golds = [record.gold_sql for record in load_questions(music_dir / "questions")]
    spellings = set()
    for number in range(12):
        names = drawn_names(database, random.Random(number))
        renamed_copy(database, path, tmp_path / f"{number}.sqlite", names)
        copy = Database(tmp_path / f"{number}.sqlite")
        for sql in golds:
            renamed = renamed_sql(sql, database, names)
            assert copy.query(renamed).rows == database.query(sql).rows, renamed
        spellings.add(frozenset(names.columns.values()))
    assert len(spellings) > 6


def test_some_databases_have_names_that_cannot_be_guessed(database: Database) -> None:
    """The words of a name stay in it; in about half of the databases others come with them."""
    longer = []
    for number in range(40):
        names = drawn_names(database, random.Random(number))
        spelt = [name.lower().replace("_", "") for name in names.columns.values()]
        ages = [name for name in spelt if "age" in name]
        assert ages, spelt
        longer.append(any(len(name) > len("singerage") for name in spelt if "country" not in name))
    assert 8 < sum(longer) < 32


def test_two_names_that_would_become_one_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "twins.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute('CREATE TABLE t (fullName TEXT, full_name TEXT, "1st %" INT)')
        connection.execute("INSERT INTO t VALUES ('a', 'b', 3)")
        connection.commit()
    database = Database(path)
    for number in range(8):
        names = drawn_names(database, random.Random(number))
        renamed_copy(database, path, tmp_path / f"{number}.sqlite", names)
        sql = renamed_sql('SELECT fullName, full_name, "1st %" FROM t', database, names)
        assert Database(tmp_path / f"{number}.sqlite").query(sql).rows == (("a", "b", 3),)
