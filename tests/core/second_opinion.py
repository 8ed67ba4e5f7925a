"""A second opinion on answers that shares no code with the verifier.

Slow and simple: sqlglot reads the query, every order of the columns is tried, rows are compared as
multisets of canonical values, group by group of equal order keys. It says True, False, or None
where it cannot know what the query's order leaves open.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby, permutations
from typing import Any

import sqlglot
from sqlglot import exp

MAX_WIDTH = 5

Rows = list[tuple[Any, ...]]


def runner(path: str) -> Callable[[str], Rows]:
    """Runs SQL on the plain sqlite3 module."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return lambda sql: connection.execute(sql).fetchall()


class SecondOpinion:
    """What one gold query may return."""

    def __init__(self, sql: str, run: Callable[[str], Rows]) -> None:
        self.rows = run(sql)
        self.width = len(self.rows[0]) if self.rows else 0
        self.groups: list[tuple[int, Rows]] | None = [(len(self.rows), self.rows)]
        self.ordered = False
        tree = sqlglot.parse_one(sql, read="sqlite")
        order, limit = tree.args.get("order"), tree.args.get("limit")
        self.ordered = order is not None
        if order is None and limit is None:
            return
        keyed = _with_keys(tree)
        self.groups = None if keyed is None else _groups(keyed, tree, run, self.width)

    def accepts(self, rows: Sequence[Sequence[Any]], *, named: bool = False) -> bool | None:
        """Whether `rows` may be the query's result; `named`: with its columns where they stand."""
        if self.groups is None or self.width > MAX_WIDTH:
            return None
        if len(rows) != len(self.rows):
            return False
        if not rows:
            return True
        if any(len(row) != self.width for row in rows):
            return False
        answer = [tuple(map(canonical, row)) for row in rows]
        groups = [(n, [tuple(map(canonical, row)) for row in pool]) for n, pool in self.groups]
        return any(
            _fits([tuple(row[i] for i in order) for row in answer], groups)
            for order in ([range(self.width)] if named else permutations(range(self.width)))
        )


def canonical(value: Any) -> tuple[str, Any]:
    """A value in a form that equals the form of equal values."""
    if value is None:
        return ("null", None)
    if isinstance(value, bytes):
        return ("blob", value)
    if isinstance(value, str):
        text = value.strip()
        if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"`":
            text = text[1:-1].strip()
        if not re.fullmatch(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]+)?", text):
            return ("text", text.casefold())
        value = float(text) if "." in text else int(text)
    if isinstance(value, float) and not value.is_integer():
        return ("number", float(f"{value:.10g}"))
    return ("number", int(value))


def _fits(answer: list[tuple[Any, ...]], groups: list[tuple[int, list[tuple[Any, ...]]]]) -> bool:
    at = 0
    for size, pool in groups:
        if Counter(answer[at : at + size]) - Counter(pool):
            return False
        at += size
    return at == len(answer)


def _with_keys(tree: exp.Expression) -> exp.Expression | None:
    """The query without LIMIT and with its order keys as further columns."""
    copy = tree.copy()
    copy.set("limit", None)
    copy.set("offset", None)
    order = tree.args.get("order")
    if order is None:
        return copy
    outputs = tree.selects
    for term in order.expressions:
        key = term.this
        if isinstance(key, exp.Literal) and not key.is_string:
            key = outputs[int(key.this) - 1].unalias()
        elif isinstance(key, exp.Column) and not key.table:
            for output in outputs:
                if isinstance(output, exp.Alias) and output.alias.lower() == key.name.lower():
                    key = output.unalias()
        in_list = any(output.unalias() == key for output in outputs)
        if not isinstance(tree, exp.Select) or (tree.args.get("distinct") and not in_list):
            return None
        copy = copy.select(exp.alias_(key.copy(), f"order_key_{len(copy.selects)}"))
    return copy


def _groups(
    keyed: exp.Expression, tree: exp.Expression, run: Callable[[str], Rows], width: int
) -> list[tuple[int, Rows]]:
    rows = run(keyed.sql("sqlite"))
    limit, offset = tree.args.get("limit"), tree.args.get("offset")
    first = int(offset.expression.this) if offset else 0
    last = first + int(limit.expression.this) if limit else len(rows)
    groups, at = [], 0
    for _, tied in groupby(rows, key=lambda row: row[width:]):
        pool = [row[:width] for row in tied]
        size = max(0, min(at + len(pool), last) - max(at, first))
        at += len(pool)
        if size:
            groups.append((size, pool))
    return groups
