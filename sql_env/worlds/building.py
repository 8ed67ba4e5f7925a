"""From a domain and a seed to one database: names, rows, relations, an SQLite file."""

from __future__ import annotations

import random
from typing import Any

from sql_env.worlds.english import Verb
from sql_env.worlds.naming import Style
from sql_env.worlds.schema import Column, Domain, Link, Ref, Table
from sql_env.worlds.values import Choice
from sql_env.worlds.world import (
    Hop,
    Relation,
    World,
    WorldColumn,
    WorldReference,
    WorldTable,
    link_relations,
)


def build_world(domain: Domain, name: str, seed: int | str) -> World:
    """Make the database `name` of a domain; the same seed makes the same one."""
    rng = random.Random(f"{seed}/{name}/world")
    style = Style.drawn(rng)
    world = World(name, domain, style, {}, [])
    scale = rng.uniform(0.0, 1.0)
    kept = _kept_tables(domain, rng)
    for table in domain.tables:
        if table.key in kept:
            world.tables[table.key] = _build_table(table, world, scale, rng)
    world.relations = [*_reference_relations(world), *_links(world)]
    return world


def _kept_tables(domain: Domain, rng: random.Random) -> set[str]:
    """Some databases do without the optional tables; none goes below three."""
    kept = {table.key for table in domain.tables}
    for table in domain.tables:
        referred = any(
            ref.target == table.key and other.key in kept
            for other in domain.tables
            for ref in other.refs
            if other.key != table.key
        )
        if table.optional and not referred and len(kept) > 3 and rng.random() < 0.25:
            kept.discard(table.key)
    return kept


def _build_table(spec: Table, world: World, scale: float, rng: random.Random) -> WorldTable:
    style = world.style
    low, high = spec.rows
    size = round(low + (high - low) * min(1.0, max(0.0, scale + rng.uniform(-0.2, 0.2))))
    for column in spec.columns:
        if column.values.capacity is not None:
            size = min(size, column.values.capacity)
    base = rng.choice((spec.key, spec.key, *spec.names))
    first_key = rng.choice((1, 1, 1, 101, 1001))
    table = WorldTable(
        spec, style.table(base, bool(spec.nouns)), "", [first_key + i for i in range(size)]
    )
    used: set[str] = set()
    table.key_name = _unused(style.primary_key(base), used)
    if spec.refs and not any(c.values.kind in ("name", "person") for c in spec.columns):
        size = _link_size(spec, world, size)
    table.keys = table.keys[:size]
    table.has_key = bool(spec.nouns) or rng.random() < 0.4
    _draw_references(table, world, used, rng)
    _draw_columns(table, world, used, rng)
    # Physical order: as declared.
    by_spec = {id(item.spec): item for item in table.references}
    for item in spec.items:
        if isinstance(item, Ref) and id(item) in by_spec:
            table.order.append(by_spec[id(item)])
        elif isinstance(item, Column):
            table.order += [
                c
                for c in table.columns.values()
                if c.spec.key == item.key
                or (item.values.kind == "person" and c.spec.key in ("first_name", "last_name"))
            ]
    return table


def _link_size(spec: Table, world: World, size: int) -> int:
    """A bare link cannot hold more rows than two thirds of its pairs."""
    room = 1
    for ref in spec.refs:
        room *= world.tables[ref.target].size if ref.target in world.tables else 1
    return min(size, room * 2 // 3) if not spec.columns else size


def _unused(name: str, used: set[str]) -> str:
    while name.lower() in used:
        name += "_2"
    used.add(name.lower())
    return name


def _draw_references(table: WorldTable, world: World, used: set[str], rng: random.Random) -> None:
    size = table.size
    for ref in table.spec.refs:
        target = table if ref.target == table.spec.key else world.tables[ref.target]
        name = _unused(world.style.reference(ref.key or ref.target), used)
        # Some parents have many children and some none, as in life.
        idle = rng.choice((0.0, 0.0, 0.1, 0.2, 0.3))
        parents = rng.sample(target.keys, max(2, round(target.size * (1 - idle))))
        weights = [rng.expovariate(1.0) + 0.25 for _ in parents]
        values: list[int | None] = [
            None if rng.random() < ref.nulls or (target is table and parent == own) else parent
            for own, parent in zip(table.keys, rng.choices(parents, weights, k=size), strict=True)
        ]
        table.references.append(WorldReference(ref, name, target, values))
    if len(table.references) >= 2 and not table.spec.columns:
        _make_pairs_unique(table, rng)


def _make_pairs_unique(table: WorldTable, rng: random.Random) -> None:
    """A bare link table says each pair once."""
    seen: set[tuple[int | None, ...]] = set()
    for i in range(table.size):
        pair = tuple(ref.values[i] for ref in table.references)
        while pair in seen:
            for ref in table.references:
                ref.values[i] = rng.choice(ref.target.keys)
            pair = tuple(ref.values[i] for ref in table.references)
        seen.add(pair)


def _draw_columns(table: WorldTable, world: World, used: set[str], rng: random.Random) -> None:
    style, spec = world.style, table.spec
    kept = [c for c in spec.columns if not c.optional or rng.random() >= 0.15]
    if len(kept) < min(2, len(spec.columns)):
        kept = list(spec.columns)
    choices = {c.key: c.values.varied(rng) for c in spec.columns if isinstance(c.values, Choice)}
    drawn: dict[str, list[Any]] = {c.key: [] for c in spec.columns}
    seen: dict[str, set[Any]] = {c.key: set() for c in spec.columns}
    memory: dict[str, Any] = {}
    for _ in range(table.size):
        row: dict[str, Any] = {"#table": memory}
        for column in spec.columns:
            source = choices.get(column.key, column.values)
            value = source.draw(rng, row)
            if column.values.capacity is not None:
                while value in seen[column.key]:
                    value = source.draw(rng, row)
                seen[column.key].add(value)
            if column.values.kind == "person":
                row["#person"] = value
            elif rng.random() < column.nulls:
                value = None
            row[column.key] = value
            drawn[column.key].append(value)
    for column in kept:
        values = drawn[column.key]
        if column.values.kind == "person":
            _add_person(table, column, values, style, used)
            continue
        base = rng.choice((column.key, column.key, *column.names))
        if column.values.kind == "name" and style.prefixed_names and base in ("name", "title"):
            base = f"{spec.key}_{base}"
        name = _unused(style.column(base), used)
        table.columns[column.key] = WorldColumn(column, name, values, choices.get(column.key))


def _add_person(
    table: WorldTable,
    column: Column,
    values: list[tuple[str, str]],
    style: Style,
    used: set[str],
) -> None:
    prefix = f"{table.spec.key}_" if style.prefixed_names else ""
    if not style.split_names:
        name = _unused(style.column(prefix + "name"), used)
        table.columns["name"] = WorldColumn(column, name, [" ".join(value) for value in values])
        return
    for position, key in enumerate(("first_name", "last_name")):
        spec = Column(key, column.values, (key.replace("_", " "),), optional=False)
        name = _unused(style.column(prefix + key), used)
        table.columns[key] = WorldColumn(spec, name, [value[position] for value in values])


def _reference_relations(world: World) -> list[Relation]:
    relations = []
    for table in world.tables.values():
        if not table.spec.nouns:
            continue
        for ref in table.references:
            says, back = Verb(ref.spec.says), Verb(ref.spec.back)
            pairs = tuple(
                (key, value)
                for key, value in zip(table.keys, ref.values, strict=True)
                if value is not None
            )
            up = Hop(table, ref.name, ref.target, ref.target.key_name)
            down = Hop(ref.target, ref.target.key_name, table, ref.name)
            flipped = tuple((b, a) for a, b in pairs)
            relations.append(Relation(table, ref.target, (up,), says, back, False, pairs))
            if ref.spec.back:
                relations.append(Relation(ref.target, table, (down,), back, says, True, flipped))
    return relations


def _links(world: World) -> list[Relation]:
    relations: list[Relation] = []
    for link in world.domain.links:
        if not {link.through, link.left, link.right} <= set(world.tables):
            continue
        through = world.tables[link.through]
        left, right = _ends(through, link)
        pairs = tuple(
            (a, b)
            for a, b in zip(left.values, right.values, strict=True)
            if a is not None and b is not None
        )
        says, back = Verb(link.says), Verb(link.back)
        relations += link_relations(through, left, right, says, back, pairs)
    return relations


def _ends(through: WorldTable, link: Link) -> tuple[WorldReference, WorldReference]:
    by_role = {ref.spec.key or ref.spec.target: ref for ref in through.references}
    by_target = {ref.spec.target: ref for ref in through.references}
    left = by_role.get(link.left) or by_target[link.left]
    right = by_role.get(link.right) or by_target[link.right]
    return left, right
