"""Every domain of the package has what makes questions hard, and builds sound databases."""

from __future__ import annotations

import itertools
import sqlite3
from pathlib import Path

import pytest
from made_databases import DOMAINS

from sql_env.worlds.building import build_world
from sql_env.worlds.naming import RESERVED
from sql_env.worlds.schema import Domain
from sql_env.worlds.world import World
from sql_env.worlds.writing import write_database

SEEDS = (1, 2)


@pytest.fixture(params=sorted(DOMAINS))
def domain(request: pytest.FixtureRequest) -> Domain:
    return DOMAINS[request.param]


@pytest.fixture(
    params=itertools.product(sorted(DOMAINS), SEEDS), ids=lambda pair: f"{pair[0]}-{pair[1]}"
)
def world(request: pytest.FixtureRequest) -> World:
    name, seed = request.param
    return build_world(DOMAINS[name], name, seed)


def test_there_are_at_least_twenty() -> None:
    assert len(DOMAINS) >= 20


def test_a_domain_has_what_makes_questions_hard(domain: Domain) -> None:
    assert 3 <= len(domain.tables) <= 8
    assert domain.links
    columns = [column for table in domain.tables for column in table.columns]
    assert any(column.nulls for column in columns), "no NULLs"
    assert any(column.values.kind == "date" for column in columns), "no dates"
    # The same name in several tables, and a name of its own beside the words of the questions.
    assert len({column.key for column in columns}) < len(columns)
    assert sum(bool(column.names) for column in columns) > len(columns) / 2


def test_a_database_is_sound(world: World, tmp_path: Path) -> None:
    assert 3 <= len(world.tables) <= 8
    path = tmp_path / "world.sqlite"
    write_database(world, path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        for table in world.tables.values():
            (rows,) = connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()
            assert rows == table.size
            assert 4 <= rows <= 400


def test_display_names_tell_rows_apart(world: World) -> None:
    for table in world.tables.values():
        if table.display:
            names = list(zip(*(column.values for column in table.display), strict=True))
            assert len(set(names)) == len(names)


def test_names_are_plain_and_not_reserved(world: World) -> None:
    for table in world.tables.values():
        names = [table.name, *(item.name for item in table.order)]
        for name in names:
            assert name.isidentifier(), name
            assert name.lower() not in RESERVED
        assert len({name.lower() for name in names[1:]}) == len(names) - 1


def test_a_domain_makes_different_databases_by_seed() -> None:
    described = {
        seed: [
            (table.name, [item.name for item in table.order])
            for table in build_world(DOMAINS["hospital"], "hospital", seed).tables.values()
        ]
        for seed in range(6)
    }
    assert len({str(value) for value in described.values()}) == 6
