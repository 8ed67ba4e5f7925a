"""What earlier results say about a query that has not been sent yet.

Where nothing was found, nothing will be found by asking for more, or for other columns of it. Where
all values of a column were seen, comparing with another one is in vain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from sqlglot import exp

from sql_env.core.render import CUT_MARK, NO_ROWS, ROWS_SHOWN
from sql_env.evaluation.known_schema import folded
from sql_env.evaluation.proofreading import Place, Tables, place_of

_BEYOND_ROWS = ("group", "having", "order", "offset", "windows", "qualify")


class _Asked(NamedTuple):
    """What rows a query asks for, whatever it shows of them.

    Attributes:
        tables: that are joined.
        conditions: that the rows have to meet, each in one spelling.
        groups: what becomes of the rows then, if anything.
    """

    tables: frozenset[str]
    conditions: frozenset[str]
    groups: str

    def includes(self, other: _Asked) -> bool:
        """Whether nothing can be found so where nothing is found by asking for `other`."""
        if other.groups:
            return self == other
        return self.tables >= other.tables and self.conditions >= other.conditions


class Hindsight:
    """Of one episode."""

    def __init__(self) -> None:
        self._in_vain: list[_Asked] = []
        self._values: dict[Place, list[str]] = {}

    def add(self, tree: exp.Expr, tables: Tables, result: str) -> None:
        """A query was answered with `result`."""
        _, *rows = result.split("\n")
        if rows == [NO_ROWS]:
            if (asked := _asked(tree, tables)) is not None:
                self._in_vain.append(asked)
        elif (place := _looked_at(tree, tables)) and CUT_MARK not in result:
            all_shown = len(rows) < min(ROWS_SHOWN, _limit(tree))
            self._values |= {place: rows} if all_shown else {}

    def in_vain(self, tree: exp.Expr, tables: Tables) -> bool:
        """Whether a query asks for what was not there, or for more."""
        if isinstance(tree, exp.Intersect | exp.Except):
            return self.in_vain(tree.left, tables)
        asked = _asked(tree, tables)
        return asked is not None and any(map(asked.includes, self._in_vain))

    def wrong_values(self, tree: exp.Expr, tables: Tables) -> Iterator[exp.Expr]:
        """Comparisons with what is not among all the values of a column."""
        for node in tree.find_all(exp.EQ, exp.Like):
            place = place_of(node.this, tables)
            if place in self._values and isinstance(node.expression, exp.Literal):
                wanted = node.expression.name
                matches = _is_like if isinstance(node, exp.Like) else _is_equal
                if not any(matches(value, wanted) for value in self._values[place]):
                    yield node


def _asked(tree: exp.Expr, tables: Tables) -> _Asked | None:
    """None for what is not a plain SELECT over inner joins, or shows something even of no rows."""
    if not isinstance(tree, exp.Select):
        return None
    joins = tree.args.get("joins") or []
    sources = [tree.args.get("from_"), *joins]
    if any(source is None or not isinstance(source.this, exp.Table) for source in sources):
        return None
    grouped = tree.args.get("group") is not None
    of_no_rows = any(item.find(exp.AggFunc) for item in tree.expressions) and not grouped
    if of_no_rows or any(join.side or join.args.get("using") for join in joins):
        return None
    given = [join.args.get("on") for join in joins]
    given += [where.this] if (where := tree.args.get("where")) else []
    parts = [part for item in given if item is not None for part in _conjuncts(item)]
    groups = [tree.args[name].sql() for name in ("group", "having") if tree.args.get(name)]
    return _Asked(
        frozenset(folded(source.this.name) for source in sources if source),
        frozenset(_spelt(part, tables) for part in parts),
        folded(" ".join(groups)),
    )


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(condition, exp.And):
        yield from condition.flatten()
    else:
        yield condition


def _spelt(condition: exp.Expr, tables: Tables) -> str:
    """A condition in one spelling: an equation's sides in order, its columns by their tables."""
    if not isinstance(condition, exp.EQ):
        return condition.sql("sqlite")
    sides = []
    for side in (condition.left, condition.right):
        place = place_of(side, tables)
        sides.append(".".join(place) if place else side.sql("sqlite"))
    return " = ".join(sorted(sides))


def _looked_at(tree: exp.Expr, tables: Tables) -> Place | None:
    """The column whose values a query lists, all of them."""
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1:
        return None
    chosen = any(tree.args.get(part) for part in ("where", "joins", *_BEYOND_ROWS))
    return None if chosen else place_of(tree.expressions[0], tables)


def _limit(tree: exp.Expr) -> float:
    limit = tree.args.get("limit")
    try:
        return int(limit.expression.name) if limit else float("inf")
    except ValueError:
        return 0


def _is_equal(value: str, wanted: str) -> bool:
    with suppress(ValueError):
        return float(value) == float(wanted)
    return value == wanted


def _is_like(value: str, pattern: str) -> bool:
    """As SQLite's LIKE: % for anything, _ for a letter, whatever the capitals."""
    parts = (".*" if c == "%" else "." if c == "_" else re.escape(c) for c in pattern)
    return re.fullmatch("".join(parts), value, re.IGNORECASE | re.DOTALL) is not None
