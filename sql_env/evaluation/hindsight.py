"""What earlier results say about a query that has not been sent yet.

Where nothing was found, nothing will be found by asking for more, or for other columns of it. Where
all values of a column were seen, comparing with another one is in vain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from sqlglot import exp

from sql_env.core.render import CUT_MARK, NO_ROWS, ROWS_SHOWN
from sql_env.evaluation.known_schema import folded
from sql_env.evaluation.proofreading import (
    Place,
    Tables,
    is_negated,
    place_of,
    read_by,
    same_value,
    sources,
)

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
            asked = _asked(tree, tables)
            if asked is not None and _limit(tree) > 0 and not tree.args.get("offset"):
                self._in_vain.append(asked)
        elif (place := _looked_at(tree, tables)) and CUT_MARK not in result:
            all_shown = len(rows) < min(ROWS_SHOWN, _limit(tree))
            self._values |= {place: list(map(_unquoted, rows))} if all_shown else {}

    def in_vain(self, tree: exp.Expr, tables: Tables) -> bool:
        """Whether a query asks for what was not there, or for more."""
        if isinstance(tree, exp.Intersect | exp.Except):
            return self.in_vain(tree.left, tables)
        asked = _asked(tree, tables)
        return asked is not None and any(map(asked.includes, self._in_vain))

    def wrong_values(self, tree: exp.Expr, tables: Tables) -> Iterator[exp.Expr]:
        """Comparisons with what is not among all the values of a column."""
        for node in tree.find_all(exp.EQ, exp.Like):
            if is_negated(node) or isinstance(node.parent, exp.Escape):
                continue
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
    read = read_by(tree)
    names = [folded(table.name) for table in read]
    grouped = tree.args.get("group") is not None
    calls = (exp.AggFunc, exp.Anonymous)  # sqlglot does not know every aggregate
    of_no_rows = any(item.find(*calls) for item in tree.expressions) and not grouped
    if not (
        names
        and all(isinstance(table, exp.Table) for table in read)
        and len(set(names)) == len(names)  # which of two is meant would have to be asked
        and not of_no_rows
        and not any(join.side or join.method or join.args.get("using") for join in joins)
    ):
        return None
    given = [join.args.get("on") for join in joins]
    given += [where.this] if (where := tree.args.get("where")) else []
    parts = [part for item in given if item is not None for part in _conjuncts(item)]
    groups = [tree.args[name].sql() for name in ("group", "having") if tree.args.get(name)]
    named = [item.sql() for item in tree.expressions if isinstance(item, exp.Alias)]
    return _Asked(
        frozenset(names),
        frozenset(_spelt(part, tables) for part in parts),
        " ".join(groups + named) if groups else "",
    )


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(condition, exp.And):
        yield from condition.flatten()
    else:
        yield condition


def _spelt(condition: exp.Expr, tables: Tables) -> str:
    """A condition in one spelling: an equation's sides in order, its columns by their tables."""
    sides = [condition]
    if isinstance(condition, exp.EQ):
        sides = [condition.left, condition.right]
    return " = ".join(sorted(_spelt_side(side, tables) for side in sides))


def _spelt_side(side: exp.Expr, tables: Tables) -> str:
    if place := place_of(side, tables):
        return ".".join(place)
    # An alias may be another table's in the next query.
    select = side.find_ancestor(exp.Select)
    read = sources(select) if select else {}
    columns = [side] if isinstance(side, exp.Column) else list(side.find_all(exp.Column))
    meant = {(folded(c.table), read.get(folded(c.table), "")) for c in columns if c.table}
    return f"{side.sql('sqlite')} {sorted(meant)}"


def _looked_at(tree: exp.Expr, tables: Tables) -> Place | None:
    """The column whose values a query lists, all of them."""
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1:
        return None
    chosen = any(tree.args.get(part) for part in ("where", "joins", *_BEYOND_ROWS))
    return None if chosen else place_of(tree.expressions[0], tables)


def _limit(tree: exp.Expr) -> float:
    limit = tree.args.get("limit")
    if limit is None:
        return float("inf")
    count = limit.args.get("expression")
    return int(count.name) if isinstance(count, exp.Literal) and count.name.isdigit() else 0


def _unquoted(cell: str) -> str:
    """A text as it is stored; see `render_cell`."""
    if not cell.startswith('"'):
        return cell
    try:
        text: str = json.loads(cell)
    except ValueError:
        return cell
    return text


def _is_equal(value: str, wanted: str) -> bool:
    """Whatever the capitals: how a column compares them is not shown."""
    return same_value(value.casefold(), wanted.casefold())


def _is_like(value: str, pattern: str) -> bool:
    """As SQLite's LIKE: % for anything, _ for a letter, whatever the capitals.

    Each part is found where it comes first and not looked for again: every % would else double the
    time.
    """
    first, *others = ("".join(map(_letter, part)) for part in pattern.split("%"))
    if others:
        *between, last = others
        first += "".join(f"(?>.*?{part})" for part in between if part) + f".*{last}"
    return re.fullmatch(first, value, re.IGNORECASE | re.DOTALL) is not None


def _letter(letter: str) -> str:
    return "." if letter == "_" else re.escape(letter)
