"""The same database and the same queries under other names.

    names = drawn_names(database, random.Random(1))
    renamed_copy(database, path, other_path, names)
    renamed_sql("SELECT StuID FROM Student", database, names)    # SELECT STUDENT_ID FROM STUDENTS

A model that meets a schema a hundred times knows its names by heart and never learns to read them.
Under new names the same question has the same rows, but its query has to be copied from the schema.
Half of the databases also get parts that mean nothing (`tbl_students`, `name_veka`), as real ones
have: nobody can guess those, and a tokenizer cuts them into pieces that must all be copied.
"""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlglot import exp

from sql_env.core.database import Database, TableSchema, quote_identifier
from sql_env.sql.parse import parse_query
from sql_env.sql.scope import columns_and_tables, read_quoted_texts
from sql_env.worlds.english import plural
from sql_env.worlds.humanising import singular, words_of
from sql_env.worlds.naming import Style

_FRONT_PARTS = ("tbl", "ref", "dim", "app", "src", "my", "new", "all", "x", "t")
_BACK_PARTS = ("info", "rec", "data", "tab", "list", "val", "entry", "log", "set", "v2")
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"
_PIECES = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True)
class NewNames:
    """What tables and columns are to be called, in the order in which they are to come.

    Keys are the old names in lower case.
    """

    tables: dict[str, str]
    columns: dict[tuple[str, str], str]


def drawn_names(database: Database, draw: random.Random) -> NewNames:
    """New names for everything in `database`, all in one style; their order is drawn as well."""
    style = Style.drawn(draw)
    written_out = draw.random() < 0.5  # `last_name` for LName, or `lname`
    prefixed = draw.random() < 0.15  # `student_name` for `name`
    adorned = draw.random() < 0.5  # `tbl_students`, `name_veka`
    tables: dict[str, str] = {}
    columns: dict[tuple[str, str], str] = {}
    for name in _some_order(database.table_names, draw):
        words = _words(name, written_out) or [name]
        noun = singular(words[-1])
        words[-1] = plural(noun) if style.plural_tables else noun
        words = _adorned(words, draw) if adorned else words
        tables[name.lower()] = _unused(style.spelled(words), name, tables.values())
        own: list[str] = []
        for column in _some_order([c.name for c in _schema(database, name).columns], draw):
            words = _words(column, written_out)
            if prefixed and noun not in words:
                words = [noun, *words]
            words = _adorned(words, draw) if adorned else words
            own.append(_unused(style.spelled(words), column, own))
            columns[name.lower(), column.lower()] = own[-1]
    return NewNames(tables, columns)


def _adorned(words: list[str], draw: random.Random) -> list[str]:
    """As they are, or with a part in front or behind that means nothing."""
    kind = draw.random()
    if kind < 0.5:
        return words
    syllables = (draw.choice(_CONSONANTS) + draw.choice(_VOWELS) for _ in range(2))
    made_up = "".join(syllables) if kind < 0.75 else None
    if draw.random() < 0.5:
        return [made_up or draw.choice(_FRONT_PARTS), *words]
    return [*words, made_up or draw.choice(_BACK_PARTS)]


def _some_order(names: Sequence[str], draw: random.Random) -> list[str]:
    """As they are, or shuffled."""
    return draw.sample(names, len(names)) if draw.random() < 0.5 else list(names)


def _words(name: str, written_out: bool) -> list[str]:
    if written_out:
        return [word.lower() for word in words_of(name)]
    return [word for word in _PIECES.sub("_", name).lower().split("_") if word]


def _unused(wanted: str, old: str, taken: Iterable[str]) -> str:
    """`wanted`, or the first of `old`, `old_2`, … that no neighbour has."""
    lowered = {name.lower() for name in taken}
    usable = bool(wanted) and not wanted[0].isdigit()
    choices = [wanted] * usable + [old] + [f"{old}_{number}" for number in range(2, 99)]
    return next(name for name in choices if name.lower() not in lowered)


def renamed_copy(database: Database, source: Path, target: Path, names: NewNames) -> None:
    """Write the tables of `source` with their rows to `target`, under `names`.

    Raises:
        sqlite3.Error: a table cannot be read or written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(target, uri=True)) as connection:  # a URI can be read-only
        connection.execute("ATTACH ? AS old", (f"{source.resolve().as_uri()}?mode=ro",))
        for name, new in names.tables.items():
            schema = _schema(database, name)
            connection.execute(_definition(schema, names))
            old = ", ".join(quote_identifier(old) for table, old in names.columns if table == name)
            connection.execute(
                f"INSERT INTO main.{quote_identifier(new)} "
                f"SELECT {old} FROM old.{quote_identifier(schema.name)}"
            )
        connection.commit()


def _definition(schema: TableSchema, names: NewNames) -> str:
    """CREATE TABLE, with the types and the keys of the old one."""
    table = schema.name.lower()
    types = {column.name.lower(): column.type for column in schema.columns}
    keys = [column.name.lower() for column in schema.columns if column.primary_key]
    new = {old: name for (owner, old), name in names.columns.items() if owner == table}
    lines = [
        f"{quote_identifier(name)} {types[old]}" + (" PRIMARY KEY" if keys == [old] else "")
        for old, name in new.items()
    ]
    if len(keys) > 1:
        lines.append(f"PRIMARY KEY ({', '.join(quote_identifier(new[key]) for key in keys)})")
    for key in schema.foreign_keys:
        other = names.tables.get(key.table.lower())
        column = names.columns.get((key.table.lower(), key.references.lower()))
        own = names.columns.get((table, key.column.lower()))
        if other and column and own:
            lines.append(
                f"FOREIGN KEY ({quote_identifier(own)}) "
                f"REFERENCES {quote_identifier(other)} ({quote_identifier(column)})"
            )
    return f"CREATE TABLE {quote_identifier(names.tables[table])} ({', '.join(lines)})"


def renamed_sql(sql: str, database: Database, names: NewNames) -> str:
    """`sql` as the database would be asked under `names`.

    Raises:
        NotAQueryError: `sql` cannot be parsed.
    """
    tree = parse_query(sql)
    read_quoted_texts(tree, {column for _, column in names.columns})
    for column, table, _ in list(columns_and_tables(tree, database)):
        new = names.columns.get((table.name.lower(), column.name.lower()))
        if column.table and not table.alias:
            column.set("table", exp.to_identifier(names.tables[table.name.lower()]))
        if new is not None:
            column.set("this", exp.to_identifier(new))
    for table in tree.find_all(exp.Table):
        new = names.tables.get(table.name.lower())
        if new is not None:
            table.set("this", exp.to_identifier(new))
    return tree.sql(dialect="sqlite")


def _schema(database: Database, name: str) -> TableSchema:
    schema = database.schema(name)
    if schema is None:
        raise KeyError(name)
    return schema
