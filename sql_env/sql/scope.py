"""Queries without aliases: every column is written as `table.column`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from sqlglot import exp

from sql_env.core.database import Database


def name_tables_in_full(tree: exp.Expr, database: Database) -> None:
    """Write `table.column` for every column of a table, and drop the aliases nobody needs.

    A table that is joined with itself keeps its aliases, and so does one that an inner query refers
    to while it reads the same table again. What cannot be told apart is left as it is.
    """
    found = list(columns_and_tables(tree, database))
    kept = {id(owner) for _, owner, hidden in found if hidden}
    for select in tree.find_all(exp.Select):
        kept |= {id(table) for table in _joined_with_itself(tables_of(select))}
    for column, owner, _ in found:
        if id(owner) not in kept:
            column.set("table", exp.to_identifier(owner.name))
        elif owner.alias:
            column.set("table", exp.to_identifier(owner.alias))
    for select in tree.find_all(exp.Select):
        for table in tables_of(select):
            if id(table) not in kept:
                table.set("alias", None)


def columns_and_tables(
    tree: exp.Expr, database: Database
) -> Iterator[tuple[exp.Column, exp.Table, bool]]:
    """Every column whose table can be told, and that table.

    The third is whether a query in between reads a table of the same name, so that the name alone
    would mean that one.
    """
    for column in tree.find_all(exp.Column):
        passed: set[str] = set()
        for select in enclosing_selects(column):
            tables = tables_of(select)
            owner = _owner(column, select, tables, database)
            if owner is not None:
                yield column, owner, owner.name.lower() in passed
                break
            passed |= {table.name.lower() for table in tables}


def tables_of(select: exp.Select) -> list[exp.Table]:
    """The tables a SELECT itself reads, without those of its inner queries."""
    return [item.this for item in join_clauses(select) if isinstance(item.this, exp.Table)]


def join_clauses(select: exp.Select) -> list[exp.Expr]:
    """The FROM of a SELECT and its JOINs; nothing where it reads no table."""
    source = select.args.get("from_") or select.args.get("from")
    return [source, *(select.args.get("joins") or [])] if source else []


def read_quoted_texts(tree: exp.Expr, columns: Collection[str]) -> None:
    """Make a text of "x" where no column and no result is called x, as SQLite does.

    Args:
        columns: the names of the columns there are, in lower case.
    """
    results = {item.alias.lower() for item in tree.find_all(exp.Alias)}
    for column in list(tree.find_all(exp.Column)):
        known = column.table or column.name.lower() in columns or column.name.lower() in results
        if column.this.args.get("quoted") and not known:
            column.replace(exp.Literal.string(column.name))


def _joined_with_itself(tables: list[exp.Table]) -> list[exp.Table]:
    times = Counter(table.name.lower() for table in tables)
    return [table for table in tables if times[table.name.lower()] > 1]


def enclosing_selects(column: exp.Column) -> Iterator[exp.Select]:
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
