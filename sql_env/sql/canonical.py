"""One spelling for every gold query, so that a small model need not learn five.

Datasets write `count( * )`, `"USA"` for a string, `singer_id` for a column DESCRIBE shows as
`Singer.Singer_ID`, and `T2.name` long before they say what T2 is. SFT teaches the spelling
that can be copied from the observations: there every column says which table it is of, so a table
is chosen before its column, and no alias has to be planned ahead. Only what is demonstrated is
rewritten; the gold query that judges stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from sqlglot import exp

from sql_env.core.database import Database
from sql_env.sql.parse import NotAQueryError, parse_query
from sql_env.sql.scope import join_clauses, name_tables_in_full, read_quoted_texts


def canonical_sql(sql: str, database: Database) -> str:
    """`sql` with the schema's own names and one layout, if that returns the same rows.

    Falls back to the query with its white space folded where the rewriting is not safe.
    """
    folded = " ".join(sql.rstrip("; \n\t").split())
    try:
        tree = parse_query(folded)
    except NotAQueryError:
        return folded
    _use_schema_names(tree, database)
    for select in tree.find_all(exp.Select):
        _join_step_by_step(select)
    in_full = tree.copy()
    name_tables_in_full(in_full, database)
    before = database.query(sql)
    for candidate in (in_full, tree):
        rewritten = candidate.sql(dialect="sqlite")
        after = database.query(rewritten)
        if after.ok and before.rows == after.rows:
            return rewritten
    return folded


def tables_in_order(sql: str | exp.Expr, database: Database) -> list[str]:
    """The tables a query reads, in the order in which it names them, as the schema spells them."""
    try:
        tree = parse_query(sql) if isinstance(sql, str) else sql
    except NotAQueryError:
        return []
    schemas = (database.schema(table.name) for table in tree.find_all(exp.Table, bfs=False))
    return list(dict.fromkeys(schema.name for schema in schemas if schema))


class Comparison(NamedTuple):
    """A column that a query compares with a text."""

    table: str
    column: str
    text: str


def comparisons(sql: str, database: Database) -> Iterator[Comparison]:
    """Where a query compares a column with a text: there it pays to look at the values."""
    try:
        tree = parse_query(sql)
    except NotAQueryError:
        return
    for comparison in tree.find_all(exp.EQ, exp.NEQ, exp.Like, exp.In):
        column = comparison.this
        texts = [item for item in comparison.find_all(exp.Literal) if item.is_string]
        if not isinstance(column, exp.Column) or not texts:
            continue
        for table in [column.table, *tables_in_order(tree, database)]:
            schema = database.schema(table)
            if schema is None:
                continue
            names = {item.name.lower(): item.name for item in schema.columns}
            if column.name.lower() in names:
                yield Comparison(schema.name, names[column.name.lower()], texts[0].name)
                break


def _use_schema_names(tree: exp.Expr, database: Database) -> None:
    """Spell names as the schema does; read "x" as a text where no column is called x."""
    by_alias: dict[str, str] = {}
    for table in tree.find_all(exp.Table):
        if re.fullmatch(r"t\d+", table.alias):
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.alias.upper())))
        schema = database.schema(table.name)
        if schema is None:
            continue
        by_alias[(table.alias or table.name).lower()] = schema.name
        table.this.set("this", schema.name)
    spellings: dict[str, dict[str, str]] = {}
    for name in database.table_names:
        schema = database.schema(name)
        if schema is not None:
            spellings[name] = {column.name.lower(): column.name for column in schema.columns}
    read_quoted_texts(tree, {column for table in by_alias.values() for column in spellings[table]})
    for column in tree.find_all(exp.Column):
        if re.fullmatch(r"t\d+", column.table) and column.table in by_alias:
            column.set("table", exp.to_identifier(column.table.upper()))
        lowered = column.name.lower()
        qualifier = column.table.lower()
        tables = [by_alias[qualifier]] if qualifier in by_alias else list(by_alias.values())
        spelling = next((spellings[t][lowered] for t in tables if lowered in spellings[t]), None)
        if spelling is not None and isinstance(column.this, exp.Identifier):
            column.this.set("this", spelling)


def _join_step_by_step(select: exp.Select) -> None:
    """Give every JOIN its own ON, where a dataset piles all conditions up behind the last one."""
    clauses = join_clauses(select)
    if len(clauses) < 3:
        return
    source, *joins = clauses
    if any(join.args.get("side") or join.args.get("kind") for join in joins):
        return
    conditions = [
        condition
        for join in joins
        if join.args.get("on") is not None
        for condition in join.args["on"].flatten()
        if isinstance(condition, exp.EQ)
    ]
    given = sum(len(list(join.args["on"].flatten())) for join in joins if join.args.get("on"))
    if len(conditions) != given or given != len(joins):
        return
    known = {source.this.alias_or_name.lower()}
    plan = []
    for join in joins:
        known.add(join.this.alias_or_name.lower())
        ready = [
            condition
            for condition in conditions
            if {column.table.lower() for column in condition.find_all(exp.Column)} <= known
        ]
        if len(ready) != 1:
            return
        conditions.remove(ready[0])
        plan.append(ready[0].copy())
    for join, condition in zip(joins, plan, strict=True):
        join.set("on", condition)
