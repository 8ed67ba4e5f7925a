"""Corrupted demonstrations: queries near the right one that find nothing.

A value spelt as the question spells it and not as the database does, a value looked for in the
wrong column, tables joined on the wrong one, conditions that no row can meet: each runs without an
error and says nothing about what is wrong. What to do next has to be learned.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from sqlglot import exp

from sql_env.core.database import Database, Row
from sql_env.sql.canonical import Comparison, comparisons, tables_in_order
from sql_env.sql.parse import NotAQueryError, parse_query

_MOSTLY_VALUES = 0.7  # as a small model errs
_SAME_BEGINNING = 3  # letters in which "Asian" and "Asia" agree

_Kind = Callable[[exp.Expr], Iterator[exp.Expr]]
"""Yields every way to change a query in one respect."""


class Corruption(NamedTuple):
    """A query that finds nothing, and what to look into.

    Attributes:
        doubtful: the comparison with a text in the right query that was made otherwise; None
            where it was corrupted in another way.
    """

    query: str
    doubtful: Comparison | None


def corrupt(
    query: str, question: str, database: Database, draw: random.Random
) -> Corruption | None:
    """`query` with one mistake; None where it finds nothing itself, or no mistake makes it so."""
    try:
        tree = parse_query(query)
    except NotAQueryError:
        return None
    if finds_nothing(database.query(query).rows):
        return None
    compared = list(comparisons(query, database))
    of_values: list[_Kind] = [
        lambda tree: _values_respelt(tree, question, draw),
        lambda tree: _values_elsewhere(tree, database),
    ]
    of_shape: list[_Kind] = [lambda tree: _joins_elsewhere(tree, database), _too_much_asked]
    values, shapes = draw.sample(of_values, 2), draw.sample(of_shape, 2)
    for kind in values + shapes if draw.random() < _MOSTLY_VALUES else shapes + values:
        candidates = list(dict.fromkeys(item.sql(dialect="sqlite") for item in kind(tree)))
        for candidate in draw.sample(candidates, min(len(candidates), 4)):
            result = database.query(candidate)
            if result.ok and finds_nothing(result.rows):
                changed = _changed(compared, candidate, database) if kind in of_values else []
                return Corruption(candidate, draw.choice(changed) if changed else None)
    return None


def _changed(compared: list[Comparison], candidate: str, database: Database) -> list[Comparison]:
    """Those of the right query that a candidate makes otherwise."""
    same = set(comparisons(candidate, database))
    return [item for item in compared if item not in same]


def finds_nothing(rows: Sequence[Row]) -> bool:
    """No rows, or what an aggregate makes of none: a single row of zeros and NULLs."""
    return not rows or (len(rows) == 1 and not any(rows[0]))


def _values_respelt(tree: exp.Expr, question: str, draw: random.Random) -> Iterator[exp.Expr]:
    """A text as the question has it, or as a careless person spells it."""
    for number, literal in enumerate(_texts(tree)):
        text = literal.name.strip("%")
        words = [
            word
            for word in re.findall(r"\w+", question)
            if word[:_SAME_BEGINNING].lower() == text[:_SAME_BEGINNING].lower() and word != text
        ]
        careless = [text.lower(), text.upper(), text.title(), f"{text}s", *text.split()]
        for spelling in words or draw.sample(careless, 2):
            changed = tree.copy()
            _texts(changed)[number].set("this", spelling)
            yield changed


def _values_elsewhere(tree: exp.Expr, database: Database) -> Iterator[exp.Expr]:
    """A text compared with another column of the tables that are read."""
    columns = [
        (schema.name, column.name)
        for name in tables_in_order(tree, database)
        if (schema := database.schema(name))
        for column in schema.columns
    ]
    for number, _ in enumerate(_texts(tree)):
        for table, column in columns:
            changed = tree.copy()
            match _texts(changed)[number].parent:
                case exp.EQ(this=exp.Column() as old) | exp.Like(this=exp.Column() as old):
                    if old.name != column:
                        old.replace(exp.column(column, table=table))
                        yield changed


def _joins_elsewhere(tree: exp.Expr, database: Database) -> Iterator[exp.Expr]:
    """Two tables joined on a column that does not refer to the other."""
    for number, joined in enumerate(_join_columns(tree)):
        schema = database.schema(joined.table)
        for column in schema.columns if schema else ():
            if column.name != joined.name and column.name.lower().endswith("id"):
                changed = tree.copy()
                _join_columns(changed)[number].replace(exp.column(column.name, table=joined.table))
                yield changed


def _too_much_asked(tree: exp.Expr) -> Iterator[exp.Expr]:
    """What one row or another does asked of every row: AND for OR, = for >=, INTERSECT in one."""
    for number, _ in enumerate(tree.find_all(exp.Or)):
        changed = tree.copy()
        either = list(changed.find_all(exp.Or))[number]
        either.replace(exp.and_(either.left.copy(), either.right.copy()))
        yield changed
    bounds = (exp.GT, exp.GTE, exp.LT, exp.LTE)
    for number, _ in enumerate(tree.find_all(*bounds)):
        changed = tree.copy()
        bound = list(changed.find_all(*bounds))[number]
        bound.replace(exp.EQ(this=bound.this.copy(), expression=bound.expression.copy()))
        yield changed
    if isinstance(tree, exp.Intersect) and isinstance(tree.left, exp.Select):
        second = tree.right.args.get("where")
        if tree.left.args.get("where") and second:
            yield tree.left.copy().where(second.this.copy())


def _texts(tree: exp.Expr) -> list[exp.Literal]:
    return [item for item in tree.find_all(exp.Literal) if item.is_string and item.name]


def _join_columns(tree: exp.Expr) -> list[exp.Column]:
    return [
        column
        for join in tree.find_all(exp.Join)
        if join.args.get("on")
        for column in join.args["on"].find_all(exp.Column)
    ]
