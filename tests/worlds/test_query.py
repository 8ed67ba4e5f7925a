"""Queries are written the way Spider writes them."""

from __future__ import annotations

import pytest
from made_databases import DOMAINS

from sql_env.worlds.building import build_world
from sql_env.worlds.query import Query, at, literal
from sql_env.worlds.world import Relation, World


@pytest.fixture(scope="module")
def world() -> World:
    return build_world(DOMAINS["library"], "library", 1)


def relation(world: World, hops: int) -> Relation:
    return next(r for r in world.relations if len(r.hops) == hops)


def test_literals_are_quoted_for_sql() -> None:
    assert literal("O'Hara") == "'O''Hara'"
    assert literal(3) == "3"
    assert literal(2.5) == "2.5"


def test_one_table_needs_no_alias(world: World) -> None:
    table = world.tables["book"]
    (title,) = table.display
    query = Query([table], [at(0, title)], where=[f"{at(0, title)} = 'x'"])
    assert query.sql == f"SELECT {title.name} FROM {table.name} WHERE {title.name} = 'x'"


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("flipped", [False, True])
def test_joins_number_their_aliases_in_the_order_of_the_tables(
    world: World, hops: int, flipped: bool
) -> None:
    joined = relation(world, hops)
    query = Query([joined.source], ["count(*)"], flipped=flipped)
    query.join(joined)
    names = [joined.source.name, *(hop.right.name for hop in joined.hops)]
    if flipped:
        names.reverse()
    assert query.sql.startswith(
        f"SELECT count(*) FROM {names[0]} AS T1 JOIN {names[1]} AS T2 ON T1."
    )
    assert query.sql.count(" JOIN ") == hops


def test_clauses_come_in_order(world: World) -> None:
    table = world.tables["book"]
    query = Query(
        [table],
        ["a"],
        distinct=True,
        where=["b", "c"],
        group=["d"],
        having=["e"],
        order=["f"],
        limit=3,
    )
    assert query.sql == (
        f"SELECT DISTINCT a FROM {table.name} WHERE b AND c GROUP BY d HAVING e ORDER BY f LIMIT 3"
    )
