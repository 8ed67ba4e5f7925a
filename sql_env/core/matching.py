"""Finds one order of the answer's columns under which its rows are rows that gold allows.

Columns are matched one after the other, and after each the rows so far are compared as multisets,
segment by segment: sorting columns independently would accept tables scrambled across rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sql_env.core.cells import ColumnIndex, Rounding, TypedCell, number_of
from sql_env.core.gold import Gold

Column = Sequence[TypedCell]
# Cells looked at before the search gives up (about a second): only tables made of dozens of
# look-alike columns come near it, and they are then judged wrong.
WORK_LIMIT = 4_000_000


class ColumnMatcher:
    """The search for one answer.

    Args:
        columns: the answer, column by column, as many as gold has.
        gold: what it is compared with; both have the same number of rows.
        roundings: how the numbers of each answer column were rounded.
        bound: for each answer column the gold column that its name means, where it has one.
        ignore_order: forget gold's order, to find out whether it is what went wrong.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        gold: Gold,
        roundings: Sequence[Rounding | None] = (),
        *,
        bound: Sequence[int | None] = (),
        ignore_order: bool = False,
    ) -> None:
        self._columns = columns
        self._gold = gold
        self._roundings = roundings or (None,) * len(columns)
        self._bound = bound or (None,) * len(columns)
        rows = len(gold.rows)
        self._answer_start = [0] * rows if ignore_order else gold.answer_segments
        self._gold_start = [0] * len(gold.pool) if ignore_order else gold.pool_segments
        self._rounded: dict[tuple[int, Rounding], ColumnIndex] = {}
        self._encoded: dict[tuple[int, int], list[int] | None] = {}
        self._work = 0

    def matches(self) -> bool:
        """Whether some order of the columns fits."""
        as_they_are = range(self._gold.width)
        if (
            all(column in (None, i) for i, column in enumerate(self._bound))
            and all(self._encode(i, i) is not None for i in as_they_are)
            and self._fits(as_they_are)
        ):
            return True
        candidates: list[list[int]] = []
        for i in as_they_are:
            candidates.append(self._candidates(i))
            if not candidates[-1]:
                return False
        if all(len(found) == 1 for found in candidates):
            order = [found[0] for found in candidates]
            return len(set(order)) == len(order) and self._fits(order)
        # Columns with the fewest candidates first; the rest is settled row by row.
        plan = sorted(zip(as_they_are, candidates, strict=True), key=lambda item: len(item[1]))
        return self._search(plan, frozenset(), self._answer_start, self._gold_start)

    def unmatched_column(self) -> int | None:
        """The first gold column whose values no answer column has."""
        return next((i for i in range(self._gold.width) if not self._candidates(i)), None)

    def _candidates(self, i: int) -> list[int]:
        """The answer columns that hold gold column `i`'s values, looked at by themselves."""
        found: list[int] = []
        for j in range(len(self._columns)):
            if self._bound[j] != i and (self._bound[j] is not None or i in self._bound):
                continue
            encoded = self._encode(i, j) if self._work < WORK_LIMIT else None
            if encoded is not None:
                self._work += len(encoded)
                if Counter(encoded) <= Counter(self._index(i, j).ids):
                    found.append(j)
        return found

    def _fits(self, order: Sequence[int]) -> bool:
        """Whether gold allows the rows with answer column `order[i]` as gold column `i`."""
        encoded = [self._encode(i, j) or [] for i, j in enumerate(order)]
        ids = [self._index(i, j).ids for i, j in enumerate(order)]
        answer = Counter(zip(self._answer_start, *encoded, strict=True))
        allowed = Counter(zip(self._gold_start, *ids, strict=True))
        return dict.__eq__(answer, allowed) or answer <= allowed

    def _search(
        self,
        plan: Sequence[tuple[int, list[int]]],
        used: frozenset[int],
        answer: list[int],
        pool: list[int],
    ) -> bool:
        if not plan:
            return True
        (i, candidates), rest = plan[0], plan[1:]
        tried: list[Column] = []
        for j in candidates:
            if j in used or self._work > WORK_LIMIT or self._columns[j] in tried:
                continue
            extended = self._extend(i, j, answer, pool)
            if extended is not None and self._search(rest, used | {j}, *extended):
                return True
            tried.append(self._columns[j])
        return False

    def _extend(
        self, i: int, j: int, answer: list[int], pool: list[int]
    ) -> tuple[list[int], list[int]] | None:
        """The rows so far with gold column `i` read from answer column `j`, renumbered."""
        index = self._index(i, j)
        encoded = self._encode(i, j)
        if encoded is None:
            return None
        self._work += len(answer) + len(pool)
        numbers: dict[tuple[int, int], int] = {}
        new_pool = [
            numbers.setdefault(pair, len(numbers)) for pair in zip(pool, index.ids, strict=True)
        ]
        new_answer = [numbers.get(pair, -1) for pair in zip(answer, encoded, strict=True)]
        allowed = Counter(new_pool)
        if any(count > allowed[number] for number, count in Counter(new_answer).items()):
            return None
        return new_answer, new_pool

    def _encode(self, i: int, j: int) -> list[int] | None:
        if (i, j) not in self._encoded:
            index = self._index(i, j)
            encoded = index.encode(self._columns[j])
            if encoded and self._roundings[j] is not None:
                whole = [n for n in map(number_of, self._columns[j]) if isinstance(n, int)]
                if not self._gold.indexes[i].holds_all(whole):
                    encoded = None  # 100 is not 99.996 rounded, but 100.0 may be
            self._encoded[i, j] = encoded
            self._work += index.size + len(self._columns[j])
        return self._encoded[i, j]

    def _index(self, i: int, j: int) -> ColumnIndex:
        """Gold column `i`, rounded like answer column `j`."""
        rounding = self._roundings[j]
        if rounding is None:
            return self._gold.indexes[i]
        if (i, rounding) not in self._rounded:
            self._rounded[i, rounding] = self._gold.rounded_index(i, rounding)
        return self._rounded[i, rounding]
