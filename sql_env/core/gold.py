"""The gold result, with every choice that its query leaves open.

An answer is right when the gold query may return it. Without ORDER BY the rows may come in any
order; rows that tie on the order keys may swap; where LIMIT cuts through tied rows, any of them may
be the ones that stay. So gold is a sequence of segments: from each, `take` rows of a pool, in any
order. What cannot be found out soundly is not left open: then gold's own order stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from sql_env.core.cells import ColumnIndex, Rounding, rounded
from sql_env.core.database import Cell, QueryResult, Row
from sql_env.core.progress import Profile, profile
from sql_env.core.sql_text import OrderTerm, SelectText, parse_select

RunQuery = Callable[[str], QueryResult]
# Rows looked at beyond a LIMIT. More rows than this that tie there are not all in the pool: then
# some right choices are missed, and no wrong one is taken.
ROWS_BEYOND_LIMIT = 2_000


class Segment(NamedTuple):
    """`take` rows of the next `size` rows of the pool, in any order."""

    take: int
    size: int


@dataclass(frozen=True)
class Gold:
    """The result of a gold query.

    `rows` is what the query returned; `pool` and `segments` say what else it might have returned.
    Left empty, they stand for the rows themselves in any order.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    ordered: bool = False
    pool: tuple[Row, ...] = ()
    segments: tuple[Segment, ...] = ()
    # What the progress reward compares a result with: at every step, so it is made beforehand.
    profile: Profile = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "profile", profile(self.rows))
        if not self.segments and self.rows:
            object.__setattr__(self, "pool", self.rows)
            object.__setattr__(self, "segments", (Segment(len(self.rows), len(self.rows)),))

    @property
    def width(self) -> int:
        return len(self.rows[0]) if self.rows else len(self.columns)

    @cached_property
    def indexes(self) -> tuple[ColumnIndex, ...]:
        """An index for each column of the pool."""
        return tuple(ColumnIndex(column) for column in zip(*self.pool, strict=True))

    def rounded_index(self, number: int, rounding: Rounding) -> ColumnIndex:
        """The index of one column with its numbers rounded; not kept, agents choose `rounding`."""
        return ColumnIndex([rounded(row[number], rounding) for row in self.pool])

    @cached_property
    def has_numeric_column(self) -> bool:
        """Whether some column holds nothing but numbers (and NULL)."""
        return any(
            all(cell is None or isinstance(cell, int | float) for cell in column)
            for column in zip(*self.pool, strict=True)
        )

    @cached_property
    def has_fractions(self) -> bool:
        """Whether some number is not whole."""
        return any(
            isinstance(cell, float) and not cell.is_integer() for row in self.pool for cell in row
        )

    @cached_property
    def answer_segments(self) -> list[int]:
        """The segment of each row of a right answer."""
        return [i for i, segment in enumerate(self.segments) for _ in range(segment.take)]

    @cached_property
    def pool_segments(self) -> list[int]:
        """The segment of each row of the pool."""
        return [i for i, segment in enumerate(self.segments) for _ in range(segment.size)]


def build_gold(sql: str, run: RunQuery) -> Gold:
    """Run a gold query (through the sandbox) and find out what its order means.

    Raises:
        ValueError: the gold query does not run.
    """
    result = run(sql)
    if not result.ok:
        # Without the query: this text may reach an agent.
        raise ValueError(f"the gold query does not run: {result.error}")
    select = parse_select(sql)
    if select is None or not (select.order_terms or select.limited):
        return Gold(result.columns, result.rows)
    ordered = bool(select.order_terms)
    candidates = _candidates(select, result, run)
    choice = candidates and _choices(candidates, select, result.rows)
    if choice:
        return Gold(result.columns, result.rows, ordered, *choice)
    strict = (Segment(1, 1),) * len(result.rows) if ordered else ()
    return Gold(result.columns, result.rows, ordered, result.rows if ordered else (), strict)


class _Candidate(NamedTuple):
    row: Row
    key: Row


def _candidates(select: SelectText, result: QueryResult, run: RunQuery) -> list[_Candidate] | None:
    """The rows of the query beyond its LIMIT, with their order keys; None: not to be had."""
    width = len(result.columns)
    places = [_output_column(term, select, result.columns) for term in select.order_terms]
    hidden = [term for term, at in zip(select.order_terms, places, strict=True) if at is None]
    keys = "".join(f", ({term.text})" for term in hidden)
    limit = ""
    if select.limit is not None:
        limit = f" LIMIT {select.offset + select.limit + ROWS_BEYOND_LIMIT}"
    body, end = select.body, select.list_end
    extended = run(f"{body[:end]}{keys}{body[end:]}{limit}")
    if not extended.ok and hidden:
        # Terms made of output names ("ORDER BY total / n") can be evaluated around the query.
        inner, order = select.unordered_body, select.order_clause
        extended = run(f"SELECT *{keys} FROM ({inner}) {order}{limit}")
    if not extended.ok or len(extended.columns) != width + len(hidden):
        return None
    if hidden and select.distinct:
        # A key outside the list splits rows that DISTINCT makes one, unless each row has one key.
        plain = run(f"{body}{limit}")
        if Counter(plain.rows) != Counter(row[:width] for row in extended.rows):
            return None
    spare = iter(range(width, width + len(hidden)))
    at = [next(spare) if place is None else place for place in places]
    collations = [term.collation for term in select.order_terms]
    return [
        _Candidate(
            row[:width], tuple(_collated(row[i], c) for i, c in zip(at, collations, strict=True))
        )
        for row in extended.rows
    ]


def _output_column(term: OrderTerm, select: SelectText, columns: Sequence[str]) -> int | None:
    """The place of an ORDER BY term in the result, by position, name or equal expression."""
    if term.position is not None:
        return term.position - 1
    if term.identifier is not None:
        names = [column.lower() for column in columns]
        if term.identifier in names:
            return names.index(term.identifier)
    for arm in select.arms:
        if len(arm) == len(columns) and term.normalized in arm:
            return arm.index(term.normalized)
    return None


def _collated(cell: Cell, collation: str) -> Cell:
    if isinstance(cell, str) and collation:
        return cell.lower() if collation == "NOCASE" else cell.rstrip(" ")
    return cell


def _choices(
    candidates: Sequence[_Candidate], select: SelectText, rows: Sequence[Row]
) -> tuple[tuple[Row, ...], tuple[Segment, ...]] | None:
    """The pool and segments that LIMIT and OFFSET leave; None where they do not fit `rows`."""
    if not select.limit_is_plain:
        return None
    first = select.offset
    last = len(candidates) if select.limit is None else first + select.limit
    pool: list[Row] = []
    segments: list[Segment] = []
    start, taken = 0, 0
    for _, group in groupby(candidates, key=lambda candidate: candidate.key):
        tied = [candidate.row for candidate in group]
        take = min(start + len(tied), last) - max(start, first)
        start += len(tied)
        if take <= 0:
            continue
        # The query was changed to see its keys: trust that only where it still agrees with gold.
        if Counter(rows[taken : taken + take]) - Counter(tied):
            return None
        taken += take
        pool += rows[taken - take : taken] if take == len(tied) else tied
        segments.append(Segment(take, len(tied)))
    return (tuple(pool), tuple(segments)) if taken == len(rows) else None
