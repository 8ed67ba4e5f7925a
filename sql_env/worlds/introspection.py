"""An existing SQLite file as a world: the same questions can then be asked about it.

world = world_of(Path("data/spider/databases/pets_1/pets_1.sqlite"))

Nouns, kinds of columns and references are guessed from names, types and values. What cannot be
spoken of is left out; a guess too few costs some questions, a wrong one would teach nonsense.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sql_env.core.database import Database, TableSchema, quote_identifier
from sql_env.core.schema import sql_name
from sql_env.worlds.guessing import (
    Found,
    Seen,
    display_columns,
    guess_column,
    spoken_of_people,
    without_rivals,
)
from sql_env.worlds.humanising import column_words, table_noun, vocabulary, words_of
from sql_env.worlds.linking import kin_of, relations_between
from sql_env.worlds.naming import RESERVED, Style
from sql_env.worlds.schema import Column, Domain, Ref, Table
from sql_env.worlds.world import World, WorldColumn, WorldReference, WorldTable

MOST_ROWS = 5_000  # read per table
NO_KEY = "\x02"  # stands where SQL would need a key the table does not have
_STYLE = Style("snake", False, "id", False, False, False, False)


def _spelt(name: str) -> str:
    """A name as SQLite and the SQL reader take it."""
    return quote_identifier(name) if name.lower() in RESERVED else sql_name(name)


@dataclass
class _Read:
    """One table as it lies in the file."""

    schema: TableSchema
    columns: dict[str, list[Any]]  # by lower-case name
    noun: str
    key: str = ""  # the column others refer to, or the primary key; lower case
    references: dict[str, _Read] = field(default_factory=dict)  # by lower-case column


def world_of(path: Path | str) -> World:
    """The world that an SQLite file shows.

    Raises:
        DatabaseOpenError: the file is not there or is no SQLite database.
    """
    path = Path(path)
    database = Database(path)
    schemas = [schema for name in database.table_names if (schema := database.schema(name))]
    known = vocabulary(
        (column.name for schema in schemas for column in schema.columns),
        (schema.name for schema in schemas),
    )
    found = [_read(database, schema, known - {schema.name.lower()}) for schema in schemas]
    tables = {read.schema.name.lower(): read for read in found if read is not None}
    _tell_nouns_apart(list(tables.values()))
    _choose_keys(tables)
    for read in tables.values():
        _find_references(read, tables)
    world = World(path.stem, Domain(path.stem, ()), _STYLE, {}, [])
    for name, read in tables.items():
        world.tables[name] = _table(read)
    for name, read in tables.items():
        _add_references(world, name, read)
    world.kin = kin_of(world)
    world.relations = relations_between(world, MOST_ROWS)
    return world


def _read(database: Database, schema: TableSchema, known: frozenset[str]) -> _Read | None:
    name, noun = schema.name, table_noun(schema.name, known)
    if not noun or not schema.row_count:
        return None
    names = ", ".join(quote_identifier(column.name) for column in schema.columns)
    result = database.query(f"SELECT {names} FROM {quote_identifier(name)} LIMIT {MOST_ROWS}")
    if not result.ok or not result.rows:
        return None
    cells = map(list, zip(*result.rows, strict=True))
    columns = {c.name.lower(): values for c, values in zip(schema.columns, cells, strict=True)}
    return _Read(schema, columns, noun)


def _tell_nouns_apart(tables: list[_Read]) -> None:
    """Two tables with one noun are called by all their words."""
    nouns = Counter(read.noun for read in tables)
    for read in tables:
        if nouns[read.noun] > 1:
            read.noun = " ".join(words_of(read.schema.name))


def _is_unique(values: list[Any]) -> bool:
    return None not in values and len(set(values)) == len(values)


def _choose_keys(tables: dict[str, _Read]) -> None:
    """The column that other tables refer to; else the primary key, or what looks like one."""
    referred: dict[str, Counter[str]] = {name: Counter() for name in tables}
    for read in tables.values():
        for key in read.schema.foreign_keys:
            if key.table.lower() in tables:
                referred[key.table.lower()][key.references.lower()] += 1
    for name, read in tables.items():
        primary = [column.name.lower() for column in read.schema.columns if column.primary_key]
        wanted = [column for column, _ in referred[name].most_common()]
        if len(primary) == 1:
            wanted.insert(0 if not wanted or primary[0] in wanted else len(wanted), primary[0])
        if not primary:
            wanted += [c.name.lower() for c in read.schema.columns[:1] if _ends_in_id(c.name)]
        read.key = next(
            (c for c in wanted if c in read.columns and _is_unique(read.columns[c])), ""
        )


def _ends_in_id(name: str) -> bool:
    return words_of(name)[-1:] == ["ID"]


def _find_references(read: _Read, tables: dict[str, _Read]) -> None:
    """Declared references, and columns that are called like another table's key and lie in it."""
    for key in read.schema.foreign_keys:
        target = tables.get(key.table.lower())
        if target is not None and target.key == key.references.lower():
            _refer(read, key.column.lower(), target)
    for column in read.schema.columns:
        name = column.name.lower()
        if name in read.references or name == "id" or name == read.key:
            continue
        for target in tables.values():
            may = target is not read and target.key and _names_key(column.name, target)
            if may and _refer(read, name, target):
                break


def _names_key(column: str, target: _Read) -> bool:
    """`Stadium_ID` where that is the key's name, `stadium` or `stadium id` for a stadium."""
    key = next(c.name for c in target.schema.columns if c.name.lower() == target.key)
    if column.lower() == key.lower():
        return True
    words = " ".join(words_of(column)).removesuffix(" ID").removesuffix(" code")
    return words == target.noun


def _refer(read: _Read, column: str, target: _Read) -> bool:
    """Note the reference if the values are really there; texts and numbers may meet."""
    if column not in read.columns or not target.key:
        return False
    keys = {str(key) for key in target.columns[target.key]}
    known = [str(value) for value in read.columns[column] if value is not None]
    met = sum(value in keys for value in known)
    if not known or (met < 0.8 * len(known) and target.schema.row_count <= MOST_ROWS):
        return False
    read.references[column] = target
    return True


def _table(read: _Read) -> WorldTable:
    schema = read.schema
    columns = [column for column in schema.columns if column.name.lower() in read.columns]
    seen = [
        Seen(
            column.name,
            _spelt(column.name),
            column.type,
            read.columns[column.name.lower()],
            column.primary_key or column.name.lower() == read.key,
            column.name.lower() in read.references,
        )
        for column in columns
    ]
    person = spoken_of_people(read.noun, [column.name for column in columns])
    guessed = [column for s in seen if (column := guess_column(s, read.noun, person))]
    without_rivals(guessed)
    kind, display = display_columns(guessed, read.noun)
    for column in display:
        column.spec = replace(column.spec, values=Found(kind))
    guessed = [*display, *(column for column in guessed if column not in display)]
    key = next((c.name for c in columns if c.name.lower() == read.key), "")
    count = len(next(iter(read.columns.values())))
    keys = read.columns[read.key] if key else list(range(count))
    spec = Table(schema.name.lower(), (), (count, schema.row_count), (read.noun,), person=person)
    table = WorldTable(
        spec,
        _spelt(schema.name),
        _spelt(key) if key else NO_KEY,
        keys,
        has_key=bool(key),
        key_words=_key_words(read, key),
        shown=None if key else _shown(seen),
        columns={column.spec.key: column for column in guessed},
    )
    return table


def _key_words(read: _Read, key: str) -> str:
    if not key or (_ends_in_id(key) and read.key not in read.references):
        return "ID"
    return column_words(key, "" if read.key in read.references else read.noun)


def _shown(seen: list[Seen]) -> WorldColumn | None:
    """What stands for a row without a name and a key: its own part of the key, or a reference."""
    parts = [s for s in seen if s.key and not s.reference] + [s for s in seen if s.reference]
    for part in parts[:1]:
        words = " ".join(words_of(part.name))
        spec = Column(part.name.lower(), Found("text"), (words,))
        return WorldColumn(spec, part.sql_name, part.values)
    return None


def _add_references(world: World, name: str, read: _Read) -> None:
    table = world.tables[name]
    for column, parent in read.references.items():
        target = world.tables[parent.schema.name.lower()]
        keys = {str(key): key for key in target.keys}
        values = [None if v is None else keys.get(str(v), v) for v in read.columns[column]]
        physical = next(c.name for c in read.schema.columns if c.name.lower() == column)
        ref = Ref(target.spec.key, "belong|belongs to", "have|has", key=column)
        table.references.append(WorldReference(ref, _spelt(physical), target, values))
