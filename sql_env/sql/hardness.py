"""How hard a query is, by the rules of Spider's own evaluation script.

Spider counts three kinds of components in the outermost SELECT and ranks a query by the counts. The
rules are kept as they are, oddities included (a NOT or a second HAVING condition counts like an
aggregate), because the labels people compare with were made by them. What Spider's grammar cannot
express and wider SQL can (common table expressions, subqueries in the SELECT list, EXISTS) counts
as a nested query.

    >>> hardness("SELECT count(*) FROM singer")
    'easy'
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from sql_env.models import Difficulty
from sql_env.sql.parse import parse_query


@dataclass(frozen=True)
class Components:
    """The counts Spider ranks a query by."""

    clauses: int  # WHERE, GROUP BY, ORDER BY, LIMIT, each join, each OR, each LIKE
    nested: int  # subqueries in conditions, set operations
    extras: int  # several aggregates, several columns, several conditions, several group keys


def hardness(sql: str) -> Difficulty:
    """The hardness level of a query in SQLite's dialect.

    Raises:
        NotAQueryError: the text cannot be read as one query.
    """
    return rank(count_components(parse_query(sql)))


def rank(components: Components) -> Difficulty:
    """Spider's thresholds."""
    clauses, nested, extras = components.clauses, components.nested, components.extras
    if nested == 0:
        if clauses <= 1 and extras == 0:
            return "easy"
        if (clauses <= 1 and extras <= 2) or (clauses <= 2 and extras < 2):
            return "medium"
        if (clauses <= 2 and extras > 2) or (clauses == 3 and extras <= 2):
            return "hard"
        return "extra"
    return "hard" if clauses <= 1 and extras == 0 and nested == 1 else "extra"


def count_components(query: exp.Query) -> Components:
    """Count in the outermost SELECT; of a set operation, in its first SELECT."""
    first, set_operations = _first_select(query)
    where = _conditions(first.args.get("where"))
    having = _conditions(first.args.get("having"))
    joins = first.args.get("joins") or []
    on = [condition for join in joins for condition in _conditions(join.args.get("on"))]
    conditions = [*on, *where, *having]
    group, order = first.args.get("group"), first.args.get("order")
    group_keys = group.expressions if group else []
    order_keys = order.expressions if order else []

    clauses = sum(first.args.get(name) is not None for name in ("where", "group", "order", "limit"))
    clauses += len(joins)
    clauses += sum(condition.joined_by_or for condition in conditions)
    clauses += sum(isinstance(condition.test, exp.Like) for condition in conditions)

    nested = int(set_operations > 0)
    nested += sum(_subqueries(condition.test) for condition in conditions)
    nested += sum(_subqueries(projection) for projection in first.expressions)
    with_clause = query.args.get("with_") or first.args.get("with_")
    nested += len(with_clause.expressions) if with_clause else 0

    aggregates = sum(map(_has_aggregate, [*first.expressions, *group_keys, *order_keys]))
    aggregates += sum(condition.negated for condition in [*where, *having])
    aggregates += max(len(having) - 1, 0)
    extras = sum((aggregates > 1, len(first.expressions) > 1, len(where) > 1, len(group_keys) > 1))
    return Components(clauses, nested, extras)


@dataclass(frozen=True)
class _Condition:
    test: exp.Expr
    negated: bool
    joined_by_or: bool  # an OR stands before it


def _first_select(query: exp.Query) -> tuple[exp.Select, int]:
    """The leftmost SELECT and how many set operations follow it."""
    operations = 0
    node: exp.Expr = query
    while not isinstance(node, exp.Select):
        operations += isinstance(node, exp.SetOperation)
        node = node.this
    return node, operations


def _conditions(clause: exp.Expr | None) -> list[_Condition]:
    """The conditions of a clause, in order, out of their ANDs, ORs, NOTs and parentheses."""
    if clause is None:
        return []
    root = clause.this if isinstance(clause, exp.Where | exp.Having) else clause
    return list(_flatten(root, negated=False, joined_by_or=False))


def _flatten(node: exp.Expr, negated: bool, joined_by_or: bool) -> Iterator[_Condition]:
    if isinstance(node, exp.Paren):
        yield from _flatten(node.this, negated, joined_by_or)
    elif isinstance(node, exp.Not):
        yield from _flatten(node.this, True, joined_by_or)
    elif isinstance(node, exp.And | exp.Or):
        yield from _flatten(node.this, negated, joined_by_or)
        yield from _flatten(node.expression, negated, isinstance(node, exp.Or))
    else:
        yield _Condition(node, negated, joined_by_or)


def _subqueries(node: exp.Expr) -> int:
    """How many queries lie in an expression, those inside other queries not counted."""
    if isinstance(node, exp.Query):
        return 1
    return sum(_subqueries(child) for child in node.iter_expressions())


def _has_aggregate(node: exp.Expr) -> bool:
    if isinstance(node, exp.Query):
        return False
    # In SQLite max(a, b) of two arguments is an ordinary function, not an aggregate.
    if isinstance(node, exp.AggFunc) and not node.expressions:
        return True
    return any(_has_aggregate(child) for child in node.iter_expressions())
