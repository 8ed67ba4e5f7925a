"""A condition's SQL lets through exactly the rows that its own test says."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest
from made_databases import DOMAINS

from sql_env.worlds.building import build_world
from sql_env.worlds.conditions import MAKERS, random_condition
from sql_env.worlds.query import Query, at
from sql_env.worlds.writing import write_database

EACH = 25


@pytest.mark.parametrize("form", sorted(MAKERS))
def test_a_condition_holds_for_the_rows_that_its_sql_finds(form: str, tmp_path: Path) -> None:
    rng = random.Random(3)
    seen = 0
    for name in sorted(DOMAINS)[::4]:
        world = build_world(DOMAINS[name], name, 3)
        path = tmp_path / f"{name}.sqlite"
        write_database(world, path)
        connection = sqlite3.connect(path)
        for table in world.tables.values():
            for _ in range(EACH):
                condition = random_condition(table, rng, forms=(form,), share=(0.0, 1.0))
                if condition is None:
                    continue
                query = Query([table], [at(0, table.key_name)], where=[condition.sql()])
                found = {key for (key,) in connection.execute(query.sql)}
                assert found == {table.keys[row] for row in condition.matches()}, query.sql
                seen += 1
        connection.close()
    assert seen > 5
