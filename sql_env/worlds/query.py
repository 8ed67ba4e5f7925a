"""A SELECT under construction, written out the way Spider writes its queries."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

from sql_env.worlds.world import Hop, Relation, Value, WorldColumn, WorldTable

_MARK = re.compile("\x01(\\d+)\x01")


def literal(value: Value) -> str:
    """A value as SQL."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


def at(position: int, name: str | WorldColumn) -> str:
    """A column of the table at a position; the alias is filled in when the query is written."""
    return f"\x01{position}\x01{name.name if isinstance(name, WorldColumn) else name}"


def sort_key(term: str, down: bool) -> str:
    """A term of ORDER BY, the largest first where `down`."""
    return f"{term} DESC" if down else term


@dataclass
class Query:
    """One SELECT. Aliases T1, T2, … appear only where several tables are joined.

    The first table is at position 0; `join` returns the position of the table it reaches.
    """

    tables: list[WorldTable]
    select: list[str] = field(default_factory=list)
    distinct: bool = False
    joins: list[tuple[int, Hop, int]] = field(default_factory=list)
    where: list[str] = field(default_factory=list)
    group: list[str] = field(default_factory=list)
    having: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    limit: int | None = None
    flipped: bool = False  # name the tables from the far end of the path
    first_alias: int = 1
    always_alias: bool = False

    def join(self, relation: Relation, start: int = 0) -> int:
        """Follow a relation from the table at `start`."""
        return self.follow(relation.hops, start)

    def follow(self, hops: tuple[Hop, ...], start: int = 0) -> int:
        position = start
        for hop in hops:
            self.tables.append(hop.right)
            self.joins.append((position, hop, len(self.tables) - 1))
            position = len(self.tables) - 1
        return position

    def flip(self, rng: random.Random) -> None:
        """Name the tables in the other order, sometimes; a path reads the same both ways."""
        straight = all(left == right - 1 for left, _, right in self.joins)
        self.flipped = straight and rng.random() < 0.4

    @property
    def sql(self) -> str:
        positions = list(range(len(self.tables)))
        joins = self.joins
        if self.flipped:
            positions.reverse()
            joins = joins[::-1]
        named = len(positions) > 1 or self.always_alias
        aliases = {p: f"T{i}" for i, p in enumerate(positions, self.first_alias)}

        def table(position: int) -> str:
            name = self.tables[position].name
            return f"{name} AS {aliases[position]}" if named else name

        parts = ["SELECT DISTINCT" if self.distinct else "SELECT", ", ".join(self.select)]
        parts += ["FROM", table(positions[0])]
        for left, hop, right in joins:
            sides = [f"{aliases[left]}.{hop.left_column}", f"{aliases[right]}.{hop.right_column}"]
            if self.flipped:
                sides.reverse()
            parts.append(f"JOIN {table(left if self.flipped else right)} ON {' = '.join(sides)}")
        if self.where:
            parts.append("WHERE " + " AND ".join(self.where))
        if self.group:
            parts.append("GROUP BY " + ", ".join(self.group))
        if self.having:
            parts.append("HAVING " + " AND ".join(self.having))
        if self.order:
            parts.append("ORDER BY " + ", ".join(self.order))
        if self.limit is not None:
            parts.append(f"LIMIT {self.limit}")

        def named_column(match: re.Match[str]) -> str:
            return f"{aliases[int(match[1])]}." if named else ""

        return _MARK.sub(named_column, " ".join(parts))
