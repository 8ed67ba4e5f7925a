"""What is wrong with a query by its words: read once more, before a step is spent on it.

Not whether it can run (`KnownSchema` asks SQLite) but whether what it finds can be meant: numbers
compared with words, tables joined on columns that have nothing to do with each other, conditions
that no row can meet, a number of the question that was left out. Only what the episode was shown is
used. Right queries are hardly ever among those found fault with; the tests count how many.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TypeVar

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from sql_env.evaluation.known_schema import DescribedTable, folded

Tables = Mapping[str, DescribedTable]
"""By their folded names."""

Place = tuple[str, str]
"""The folded names of a table and a column."""

_Item = TypeVar("_Item", bound=Hashable)

_OF_NUMBERS = re.compile(
    r"\b(?:tiny|small|medium|big)?(?:int|real|floa|doub|num|dec)", re.IGNORECASE
)
_LETTER = re.compile(r"[^\W\d_]")
_NUMBER_IN_WORDS = re.compile(r"(?<![\w.,-])\d+(?:\.\d+)?(?![\w-]|[.,]\w)")
QUOTED = re.compile(r"""(?<!\w)["'“]([^"'“”]+)["'”](?!\w)""")
_WORD = re.compile(r"\b\w{1,4}")
_SELECT = re.compile(r"[\s(]*SELECT\b", re.IGNORECASE)
# What sqlglot reads in two ways each, so that the time doubles with every one of them.
_AMBIGUOUS = re.compile(
    r"\bjoin\b|\b(?:date|time|datetime|timestamp|char|text|int|real|decimal|json|struct)\s*\(",
    re.IGNORECASE,
)
_READABLE = 4000  # characters
_READABLE_PARTS = 8


def parsed(query: str) -> exp.Expr | None:
    """A query as a tree; None where it is not one that is understood."""
    if not _SELECT.match(query) or len(query) > _READABLE:
        return None
    if len(_AMBIGUOUS.findall(query)) > _READABLE_PARTS:
        return None
    try:
        tree = parse_one(query, read="sqlite")
        tree.sql("sqlite")  # what cannot be written again is of no use
    except (SqlglotError, RecursionError):
        return None
    # Tables of its own may be called like one that was described.
    return None if tree.find(exp.With) else tree


def faults(tree: exp.Expr, tables: Tables, seen: str = "") -> Iterator[exp.Expr]:
    """The parts of a query that cannot be right.

    Args:
        seen: what results have shown. A text from there may look as it likes.
    """
    yield from _numbers_compared_with_words(tree, tables)
    yield from _joined_by_chance(tree, tables)
    yield from _met_by_no_row(tree, tables, seen)


def forgets(tree: exp.Expr, query: str, question: str) -> bool:
    """Whether a query leaves out a number that the question names, or a text it has in quotes.

    Of a text a word is enough, and of that its beginning: it may be stored otherwise. A query that
    only lists what a table holds leaves nothing out: it is a look at the values.
    """
    if not any(tree.find(kind) for kind in (exp.Where, exp.Group, exp.Order, exp.AggFunc)):
        return False
    words = query.lower()
    texts = [_WORD.findall(text.lower()) for text in QUOTED.findall(question)]
    return any(number not in query for number in _NUMBER_IN_WORDS.findall(question)) or any(
        beginnings and not any(beginning in words for beginning in beginnings)
        for beginnings in texts
    )


def place_of(node: exp.Expr | None, tables: Tables) -> Place | None:
    """The described column that a node is; None where that is not known."""
    if not isinstance(node, exp.Column):
        return None
    name = folded(node.name)
    select = node.find_ancestor(exp.Select)
    while select is not None:
        read = sources(select)
        if node.table:
            found = [read[folded(node.table)]] if folded(node.table) in read else []
        else:
            found = [table for table in read.values() if name in _columns(table, tables)]
        if found:
            known = len(found) == 1 and name in _columns(found[0], tables)
            return (found[0], name) if known else None
        if not _all_described(select, tables):
            return None  # it may be a column of what is not known
        select = select.find_ancestor(exp.Select)  # of which the inner query may use columns
    return None


def read_by(select: exp.Select) -> list[exp.Expr]:
    """What a SELECT reads: tables, and queries in their place."""
    sides = [select.args.get("from_"), *(select.args.get("joins") or [])]
    return [side.this for side in sides if side is not None]


def sources(select: exp.Select) -> dict[str, str]:
    """The tables that a SELECT reads: alias to table, folded."""
    return {
        folded(item.alias_or_name): folded(item.name)
        for item in read_by(select)
        if isinstance(item, exp.Table)
    }


def _all_described(select: exp.Select, tables: Tables) -> bool:
    read = read_by(select)
    return all(isinstance(item, exp.Table) and folded(item.name) in tables for item in read)


def _columns(table: str, tables: Tables) -> Iterable[str]:
    return tables[table].types if table in tables else ()


def _numbers_compared_with_words(tree: exp.Expr, tables: Tables) -> Iterator[exp.Expr]:
    for node in tree.find_all(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like):
        text, place = node.expression, place_of(node.this, tables)
        if not (place and isinstance(text, exp.Literal) and text.is_string) or is_negated(node):
            continue
        table, column = place
        if _OF_NUMBERS.search(tables[table].types[column]) and _LETTER.search(text.name):
            yield node


def is_negated(node: exp.Expr) -> bool:
    """NOT LIKE, in the two ways that sqlglot has for it."""
    return bool(node.args.get("negate")) or isinstance(node.parent, exp.Not)


def _joined_by_chance(tree: exp.Expr, tables: Tables) -> Iterator[exp.Expr]:
    """Columns taken for the same that are not: no foreign key leads from one to the other.

    Of two tables that no keys link at all nothing is said: there a query has to guess.
    """
    keys = list(foreign_keys(tables))
    ways = [(a, b) for (a, _), (b, _) in keys]
    for node in tree.find_all(exp.EQ, exp.In):
        ours, theirs = place_of(node.this, tables), place_of(_other_side(node), tables)
        if ours is None or theirs is None or ours[0] == theirs[0] or ours[1] == theirs[1]:
            continue
        if theirs not in _reached(ours, keys) and theirs[0] in _reached(ours[0], ways):
            yield node


def foreign_keys(tables: Tables) -> Iterator[tuple[Place, Place]]:
    """Which column refers to which."""
    for name, table in tables.items():
        for column, other, its_column in table.links:
            keys = [its_column] if its_column else tables[other].key if other in tables else []
            yield from (((name, column), (other, key)) for key in keys)


def _other_side(node: exp.Expr) -> exp.Expr | None:
    """A column, perhaps the one that an inner query yields."""
    other = node.args.get("query") if isinstance(node, exp.In) else node.args.get("expression")
    if not isinstance(other, exp.Subquery):
        return other
    chosen = other.this.expressions if isinstance(other.this, exp.Select) else []
    return chosen[0] if len(chosen) == 1 else None


def _reached(start: _Item, links: list[tuple[_Item, _Item]]) -> set[_Item]:
    """What links lead to, in either direction and over others."""
    found, waiting = {start}, [start]
    while waiting:
        here = waiting.pop()
        near = {b for a, b in links if a == here} | {a for a, b in links if b == here}
        waiting += near - found
        found |= near
    return found


def _met_by_no_row(tree: exp.Expr, tables: Tables, seen: str) -> Iterator[exp.Expr]:
    for both in tree.find_all(exp.Intersect, exp.Except):
        if isinstance(both.left, exp.Select) and _is_one_number(both.left):
            yield both  # a count has nothing in common with another but by chance
    for either in tree.find_all(exp.And, exp.Or):
        if any(isinstance(side, exp.Literal) and side.is_string for side in either.flatten()):
            yield either  # 'Brazil' AND 'Ireland'
    for all_of in tree.find_all(exp.And):
        yield from _two_values_at_once(all_of)
    for compared in tree.find_all(exp.EQ, exp.Like):
        text = compared.expression
        if not (isinstance(text, exp.Literal) and text.is_string) or text.name in seen:
            continue
        if text.name != text.name.strip():
            yield compared  # nobody stores a blank before or after a text, unless it was seen
    for beyond in tree.find_all(exp.GT, exp.LT):
        if _is_beyond_all(beyond, tables):
            yield beyond
    for select in tree.find_all(exp.Select):
        if _counts_single_rows(select, tables):
            yield select.args["group"]


def _is_one_number(select: exp.Select) -> bool:
    aggregates = [isinstance(item.unalias(), exp.AggFunc) for item in select.expressions]
    return any(aggregates) and not select.args.get("group")


def _two_values_at_once(both: exp.And) -> Iterator[exp.Expr]:
    """a = 1 AND a = 2."""
    if isinstance(both.parent, exp.And):
        return  # the outermost has all of them
    found: dict[str, str] = {}
    for part in both.flatten():
        if isinstance(part, exp.EQ) and isinstance(part.expression, exp.Literal):
            column, value = folded(part.this.sql()), part.expression.name
            if not same_value(found.setdefault(column, value), value):
                yield both
                return


def same_value(one: str, other: str) -> bool:
    """As texts, or as numbers."""
    with suppress(ValueError):
        if float(one) == float(other):
            return True
    return one == other


def _is_beyond_all(node: exp.Binary, tables: Tables) -> bool:
    """a > (SELECT MAX(a) FROM all)."""
    inner = node.right.this if isinstance(node.right, exp.Subquery) else None
    place = place_of(node.left, tables)
    if place is None or not isinstance(inner, exp.Select) or len(inner.expressions) != 1:
        return False
    extreme = inner.expressions[0]
    return (
        isinstance(extreme, exp.Max if isinstance(node, exp.GT) else exp.Min)
        and place_of(extreme.this, tables) == place
        and not any(inner.args.get(part) for part in ("where", "group", "joins"))
    )


def _counts_single_rows(select: exp.Select, tables: Tables) -> bool:
    """Groups the rows of one table by its key, and asks how many there are in each."""
    group, having, source = (select.args.get(part) for part in ("group", "having", "from_"))
    if not (group and having and source) or select.args.get("joins"):
        return False
    places = [place_of(item, tables) for item in group.expressions]
    if len(places) != 1 or places[0] is None or not having.find(exp.Count):
        return False
    if having.find(exp.Select):
        return False  # perhaps something else is counted
    table, column = places[0]
    return tables[table].key == [column]
