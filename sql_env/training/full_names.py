"""Queries without aliases: every column is written as `table.column`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sqlglot import exp

from sql_env.core.database import Database


def name_tables_in_full(tree: exp.Expr, database: Database) -> None:
    """Write `table.column` for every column of a table, and drop the aliases nobody needs.

    A table that is joined with itself keeps its aliases, and so does one that an inner query refers
    to while it reads the same table again. What cannot be told apart is left as it is.
    """
    tables = {id(select): _tables_of(select) for select in tree.find_all(exp.Select)}
    owners: list[tuple[exp.Column, exp.Table]] = []
    kept = {id(table) for own in tables.values() for table in _joined_with_itself(own)}
    for column in tree.find_all(exp.Column):
        passed: list[exp.Table] = []
        for select in _enclosing(column):
            owner = _owner(column, select, tables[id(select)], database)
            if owner is not None:
                owners.append((column, owner))
                if owner.name.lower() in {table.name.lower() for table in passed}:
                    kept.add(id(owner))
                break
            passed += tables[id(select)]
    for column, owner in owners:
        if id(owner) not in kept:
            column.set("table", exp.to_identifier(owner.name))
        elif owner.alias:
            column.set("table", exp.to_identifier(owner.alias))
    for own in tables.values():
        for table in own:
            if id(table) not in kept:
                table.set("alias", None)


def _tables_of(select: exp.Select) -> list[exp.Table]:
    """The tables a SELECT itself reads, without those of its inner queries."""
    source = select.args.get("from_") or select.args.get("from")
    read = [source, *(select.args.get("joins") or [])] if source else []
    return [item.this for item in read if isinstance(item.this, exp.Table)]


def _joined_with_itself(tables: list[exp.Table]) -> list[exp.Table]:
    times = Counter(table.name.lower() for table in tables)
    return [table for table in tables if times[table.name.lower()] > 1]


def _enclosing(column: exp.Column) -> Iterator[exp.Select]:
    """The SELECT a column stands in, the one around that, and so on."""
    select = column.find_ancestor(exp.Select)
    while select is not None:
        yield select
        select = select.find_ancestor(exp.Select)


def _owner(
    column: exp.Column, select: exp.Select, tables: list[exp.Table], database: Database
) -> exp.Table | None:
    """The table of `select` that `column` is of; None where it is another's, or nobody's."""
    if column.table:
        named = [t for t in tables if t.alias_or_name.lower() == column.table.lower()]
        return named[0] if len(named) == 1 else None
    if column.name.lower() in {item.alias.lower() for item in select.expressions if item.alias}:
        return None  # the name of a result, not of a column
    having = [table for table in tables if _has(table, column.name, database)]
    return having[0] if len(having) == 1 else None


def _has(table: exp.Table, column: str, database: Database) -> bool:
    schema = database.schema(table.name)
    return schema is not None and column.lower() in {c.name.lower() for c in schema.columns}
