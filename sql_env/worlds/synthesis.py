"""Question synthesis: questions about a database that already exists, as many as it has to offer.

asked = synthetic_questions(Path("pets_1.sqlite"), 60, seed=42)
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sql_env.core.database import Database, QueryResult
from sql_env.models import Difficulty
from sql_env.worlds.checks import Judge, hardness_of
from sql_env.worlds.generating import HARDNESS_MIX
from sql_env.worlds.intents import EXISTING_INTENTS, INTENTS, Asker, Candidate, propose
from sql_env.worlds.introspection import NO_KEY, world_of
from sql_env.worlds.words import split_words
from sql_env.worlds.world import World
from sql_env.worlds.writing import Record, make_record

# Their sentences need the care with which a domain's words are chosen.
LEFT_OUT = frozenset(
    split_words(
        """filtered_by_absence nothing_found none_counted beyond_some count_with_zero average_count
        extreme_of_group best_of_group above_own_group exists_such exists_none join_count_distinct
        chain_of_four chain_of_three chain_count chain_aggregate category_either combined_across"""
    )
)
ASKED = {
    name: intent
    for name, intent in sorted((INTENTS | EXISTING_INTENTS).items())
    if name not in LEFT_OUT
}
_ODD = re.compile(
    r'\brecorded\b(?! for)|starts with the letter "[^A-Za-z]|ends with the|contains "'
)
_PATIENCE = 400  # candidates turned down in a row before the mix of hardness is given up
_ROUNDS = 4  # so often, then there is no more to ask


@dataclass(frozen=True)
class Asked:
    """What one database had to offer."""

    records: list[Record]
    leaked: int  # questions turned down because their gold must stay unseen


def synthetic_questions(
    path: Path | str,
    count: int,
    *,
    seed: int = 42,
    unseen: Sequence[str] = (),
    is_unseen: Callable[[str], bool] = lambda sql: False,
) -> Asked:
    """Ask up to `count` questions about the database at `path`.

    Args:
        path: an SQLite file; its stem is the database's name.
        count: how many questions, at most.
        seed: the same seed asks the same questions.
        unseen: gold queries about this database that must not be asked for: none of the questions
            reads the same columns and has the same answer.
        is_unseen: whether a gold query must not be asked for, by its spelling.

    Raises:
        DatabaseOpenError: the file is not there or is no SQLite database.
    """
    path = Path(path)
    world = world_of(path)
    database = Database(path)
    hidden = {_answer(database.query(sql)) for sql in unseen}
    return _ask(world, database, count, seed, hidden, is_unseen)


def _answer(result: QueryResult) -> tuple[object, ...]:
    """What a query reads and finds, in whatever words and order."""
    reads = frozenset((table.lower(), column.lower()) for table, column in result.reads)
    return reads, tuple(sorted(repr(sorted(map(repr, row))) for row in result.rows))


def _ask(
    world: World,
    database: Database,
    count: int,
    seed: int,
    hidden: set[tuple[object, ...]],
    is_unseen: Callable[[str], bool],
) -> Asked:
    rng = random.Random(f"{seed}/{world.name}/practice")
    asker = Asker(world, rng)
    judge = Judge(database, empty_allowed=0)
    open_levels: dict[Difficulty, float] = {
        level: count * share / 100 for level, share in HARDNESS_MIX.items()
    }
    names = {
        level: [name for name, intent in ASKED.items() if intent.level == level]
        for level in HARDNESS_MIX
    }
    used: Counter[str] = Counter()
    records: list[Record] = []
    leaked, turned_down, rounds = 0, 0, 0
    while len(records) < count and rounds < _ROUNDS:
        levels = [level for level, left in open_levels.items() if left > 0] or list(HARDNESS_MIX)
        level = rng.choices(levels, [max(1.0, open_levels[name]) for name in levels])[0]
        name = rng.choices(names[level], [1 / (1 + used[n]) for n in names[level]])[0]
        turned_down += 1
        if turned_down > _PATIENCE:
            # First any hardness will do, then the same query with other values.
            turned_down, rounds = 0, rounds + 1
            judge.copies += rounds > 1
            open_levels = dict.fromkeys(open_levels, float(count))
        candidate = propose(ASKED[name], asker)
        if candidate is None or not _is_sound(candidate):
            continue
        found = database.query(candidate.sql)
        if not found.ok:  # it would take longer or return more than play allows
            continue
        label = hardness_of(candidate.sql)
        if label is None or open_levels[label] <= 0:
            continue
        if _answer(found) in hidden or any(map(is_unseen, _spellings(candidate))):
            leaked += 1
            continue
        result = judge.accept(candidate)
        if result is None:
            continue
        turned_down = 0
        open_levels[label] -= 1
        used[name] += 1
        records.append(make_record(candidate, label, result, database.table_names, world.name))
    return Asked(records, leaked)


def _spellings(candidate: Candidate) -> tuple[str, str]:
    return candidate.sql, candidate.draft.canonical


def _is_sound(candidate: Candidate) -> bool:
    """It needs no key that is not there, and its words mean what its query says."""
    if NO_KEY in candidate.sql or _ODD.search(candidate.question):
        return False
    # A join that finds one row twice counts it twice.
    if _says_the_same_twice(candidate.sql):
        return False
    counts = candidate.sql.startswith("SELECT count(*)")
    return not (counts and "JOIN" in candidate.sql and "LIKE" in candidate.sql)


_JOINED = re.compile(r"T\d+\.(\w+) = T\d+\.(\w+)")
_SAME_WITHIN = re.compile(r"IN \(SELECT (\w+) FROM \w+ WHERE \1 ")


def _says_the_same_twice(sql: str) -> bool:
    """`colors that have products whose color code is 1`: it asks for the column that joins."""
    _, _, where = sql.partition(" WHERE ")
    joined = {name for pair in _JOINED.findall(sql) for name in pair}
    return bool(_SAME_WITHIN.search(sql)) or any(
        re.search(rf"T\d+\.{name} (=|!=|IN) (?!T\d)", where) for name in joined
    )
