"""From a domain and a seed to one database: names, rows, relations, an SQLite file."""

from __future__ import annotations

import random
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sql_env.worlds.english import Verb
from sql_env.worlds.naming import Style
from sql_env.worlds.schema import Column, Domain, Link, Ref, Table
from sql_env.worlds.values import Choice

Value = None | int | float | str
# SQLite stamps its own version into the header; one number keeps the bytes the same everywhere.
_VERSION_OFFSET, _VERSION = 96, 3_040_001


@dataclass(eq=False)
class WorldColumn:
    """A column of one database, with all its values."""

    spec: Column
    name: str
    values: list[Value]
    choice: Choice | None = None  # what this database made of the spec's choice

    @property
    def kind(self) -> str:
        return self.spec.values.kind

    @property
    def has_nulls(self) -> bool:
        return None in self.values

    @property
    def known(self) -> list[Any]:
        """The values that are there."""
        return [value for value in self.values if value is not None]

    def spoken(self, value: Value) -> str:
        """A value as people say it."""
        if self.choice is not None:
            return self.choice.spoken(value)
        return str(value)

    @property
    def sqlite_type(self) -> str:
        if any(isinstance(value, float) for value in self.values):
            return "REAL"
        if any(isinstance(value, int) for value in self.values):
            return "INTEGER"
        return "DATE" if self.kind == "date" else "TEXT"


@dataclass(eq=False)
class WorldReference:
    """A foreign key of one database."""

    spec: Ref
    name: str
    target: WorldTable
    values: list[int | None]


@dataclass(eq=False)
class WorldTable:
    """A table of one database."""

    spec: Table
    name: str
    key_name: str
    keys: list[int]
    has_key: bool = True  # a bare link table may do without a key of its own
    columns: dict[str, WorldColumn] = field(default_factory=dict)
    references: list[WorldReference] = field(default_factory=list)
    order: list[WorldColumn | WorldReference] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.keys)

    @property
    def display(self) -> tuple[WorldColumn, ...]:
        """The columns by which people tell rows apart; empty where only the key does."""
        named = [c for c in self.columns.values() if c.kind in ("name", "person")]
        return tuple(named)

    @property
    def who(self) -> str:
        return "who" if self.spec.person else "that"


@dataclass(frozen=True)
class Hop:
    """One step of a join: left.column = right.column."""

    left: WorldTable
    left_column: str
    right: WorldTable
    right_column: str


@dataclass(frozen=True, eq=False)
class Relation:
    """What rows of one table have to do with rows of another."""

    source: WorldTable
    target: WorldTable
    hops: tuple[Hop, ...]
    verb: Verb
    back: Verb
    many: bool  # a source may have several targets
    pairs: tuple[tuple[int, int], ...]  # (source key, target key)

    @property
    def complete(self) -> bool:
        """Every source has a target."""
        return {source for source, _ in self.pairs} >= set(self.source.keys)

    @property
    def distinct_pairs(self) -> bool:
        return len(set(self.pairs)) == len(self.pairs)


@dataclass(eq=False)
class World:
    """One database of a domain."""

    name: str
    domain: Domain
    style: Style
    tables: dict[str, WorldTable]
    relations: list[Relation]


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
    world.relations = [*_reference_relations(world), *_link_relations(world)]
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
    table = WorldTable(spec, style.table(base), "", [first_key + i for i in range(size)])
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
            _add_person(table, column, values, style, used, rng)
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
    rng: random.Random,
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
            if not ref.spec.says:
                continue
            pairs = tuple(
                (key, value)
                for key, value in zip(table.keys, ref.values, strict=True)
                if value is not None
            )
            up = Hop(table, ref.name, ref.target, ref.target.key_name)
            down = Hop(ref.target, ref.target.key_name, table, ref.name)
            flipped = tuple((b, a) for a, b in pairs)
            relations.append(Relation(table, ref.target, (up,), says, back, False, pairs))
            relations.append(Relation(ref.target, table, (down,), back, says, True, flipped))
    return relations


def _link_relations(world: World) -> list[Relation]:
    relations = []
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
        for near, far, verb, other, some in (
            (left, right, says, back, pairs),
            (right, left, back, says, tuple((b, a) for a, b in pairs)),
        ):
            hops = (
                Hop(near.target, near.target.key_name, through, near.name),
                Hop(through, far.name, far.target, far.target.key_name),
            )
            relations.append(Relation(near.target, far.target, hops, verb, other, True, some))
    return relations


def _ends(through: WorldTable, link: Link) -> tuple[WorldReference, WorldReference]:
    by_role = {ref.spec.key or ref.spec.target: ref for ref in through.references}
    by_target = {ref.spec.target: ref for ref in through.references}
    left = by_role.get(link.left) or by_target[link.left]
    right = by_role.get(link.right) or by_target[link.right]
    return left, right


def write_database(world: World, path: Path) -> None:
    """Write the SQLite file; the same world gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA page_size = 4096")
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("BEGIN")
        for table in world.tables.values():
            connection.execute(create_statement(table))
            cells = [item.values for item in table.order]
            if table.has_key:
                cells.insert(0, table.keys)
            marks = ", ".join("?" * len(cells))
            rows = zip(*cells, strict=True)
            connection.executemany(f"INSERT INTO {table.name} VALUES ({marks})", rows)
        connection.execute("COMMIT")
    finally:
        connection.close()
    with path.open("r+b") as file:
        file.seek(_VERSION_OFFSET)
        file.write(_VERSION.to_bytes(4, "big"))


def create_statement(table: WorldTable) -> str:
    """The table's DDL, laid out for reading."""
    lines = [f"{table.key_name} INTEGER PRIMARY KEY"] if table.has_key else []
    lines += [
        f"{item.name} {item.sqlite_type if isinstance(item, WorldColumn) else 'INTEGER'}"
        for item in table.order
    ]
    if not table.has_key:
        lines.append(f"PRIMARY KEY ({', '.join(ref.name for ref in table.references)})")
    lines += [
        f"FOREIGN KEY ({ref.name}) REFERENCES {ref.target.name} ({ref.target.key_name})"
        for ref in table.references
    ]
    return f"CREATE TABLE {table.name} (\n  " + ",\n  ".join(lines) + "\n)"
