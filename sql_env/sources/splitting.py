"""Split questions in two without a leak: equal gold queries stay on one side.

Both sides look alike: by database, by hardness, by the two together, by type of answer and by how
many questions share a gold query.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence

from sql_env.models import QuestionRecord
from sql_env.sources.raw import SourceError
from sql_env.sql.leak_key import leak_key

EVAL_SHARE = 0.3
_ATTEMPTS = 200
_DRAWS = 20_000


def split_by_question(
    records: Sequence[QuestionRecord],
    seed: int,
    share: float = EVAL_SHARE,
    trained_elsewhere: frozenset[str] = frozenset(),
) -> tuple[list[QuestionRecord], list[QuestionRecord]]:
    """(train, eval): all databases on both sides, no gold query on both.

    Args:
        records: what to split.
        seed: breaks ties.
        share: how much of it goes to eval.
        trained_elsewhere: the keys of gold queries that other training questions have; they stay
            in train.
    """
    groups: dict[str, list[QuestionRecord]] = defaultdict(list)
    for record in records:
        groups[leak_key(record.gold_sql)].append(record)
    candidates = [group for sql, group in groups.items() if sql not in trained_elsewhere]
    random.Random(seed).shuffle(candidates)
    chosen = {id(record) for group in _choose(candidates, records, share) for record in group}
    return (
        [record for record in records if id(record) not in chosen],
        [record for record in records if id(record) in chosen],
    )


def split_by_database(
    records: Sequence[QuestionRecord], seed: int, share: float = EVAL_SHARE
) -> tuple[list[QuestionRecord], list[QuestionRecord]]:
    """(train, eval): every database on one side only.

    Of many draws the one whose eval side comes nearest to its share, of every hardness too.
    """
    sizes = Counter(record.database_name for record in records)
    if len(sizes) < 2:
        raise SourceError("a split by database needs questions about two databases or more")
    levels = Counter(record.difficulty for record in records)
    wanted = max(round(share * len(records)), min(sizes.values()))

    def distance(chosen: set[str]) -> float:
        held = Counter(r.difficulty for r in records if r.database_name in chosen)
        uneven = sum(abs(held[level] - share * count) for level, count in levels.items())
        return uneven + abs(held.total() - share * len(records)) + len(_shared(records, chosen))

    draw = random.Random(seed)
    names = sorted(sizes)
    draws = [_fill(draw.sample(names, len(names)), sizes, wanted)[0] for _ in range(_ATTEMPTS)]
    chosen = min(draws, key=distance)
    return (
        [record for record in records if record.database_name not in chosen],
        [record for record in records if record.database_name in chosen],
    )


def _fill(names: Sequence[str], sizes: Counter[str], wanted: int) -> tuple[set[str], int]:
    """Databases in this order, as many as fit; and how many questions are still missing."""
    chosen = set()
    for name in names:
        if sizes[name] <= wanted:
            chosen.add(name)
            wanted -= sizes[name]
    return chosen, wanted


def _shared(records: Sequence[QuestionRecord], chosen: set[str]) -> set[str]:
    """Gold queries that the chosen databases have in common with the others."""
    inside = {leak_key(r.gold_sql) for r in records if r.database_name in chosen}
    outside = {leak_key(r.gold_sql) for r in records if r.database_name not in chosen}
    return inside & outside


def _clashes(
    records: Sequence[QuestionRecord], also: Sequence[QuestionRecord]
) -> dict[str, set[str | None]]:
    """For every database those that share a gold query with it; None is one of `also`."""
    homes: dict[str, set[str | None]] = defaultdict(set)
    for record in records:
        homes[leak_key(record.gold_sql)].add(record.database_name)
    for record in also:
        homes[leak_key(record.gold_sql)].add(None)
    clashes: dict[str, set[str | None]] = defaultdict(set)
    for names in homes.values():
        for name in names - {None}:
            clashes[name] |= names  # type: ignore[index]
    return clashes


def _choose(
    groups: list[list[QuestionRecord]], records: Sequence[QuestionRecord], share: float
) -> list[list[QuestionRecord]]:
    """Take the group that helps the balance most, again and again, until the share is reached."""
    features = [
        Counter(trait for record in group for trait in _traits(record, group)) for group in groups
    ]
    total = sum(features, Counter[Hashable]())
    missing = {trait: share * count for trait, count in total.items()}
    wanted = round(share * len(records))
    chosen: list[list[QuestionRecord]] = []
    left = list(range(len(groups)))
    while fitting := [index for index in left if len(groups[index]) <= wanted]:
        best = max(
            fitting,
            key=lambda index: (
                sum(n * (2 * missing[item] - n) for item, n in features[index].items())
                / len(groups[index])
            ),
        )
        left.remove(best)
        chosen.append(groups[best])
        wanted -= len(groups[best])
        for item, n in features[best].items():
            missing[item] -= n
    return chosen


def _traits(record: QuestionRecord, group: list[QuestionRecord]) -> list[Hashable]:
    """What the two sides should have in the same proportion."""
    return [
        ("database", record.database_name),
        ("hardness", record.difficulty),
        ("both", record.database_name, record.difficulty),
        ("answer", record.answer_type),
        ("group size", min(len(group), 4)),
    ]


def hold_out_databases(
    records: Sequence[QuestionRecord],
    at_least: int,
    seed: int,
    *,
    option: str = "--hold-out",
    leak_free: bool = True,
    also: Sequence[QuestionRecord] = (),
) -> set[str]:
    """Databases, drawn by seed, that together have at least so many questions.

    None may hold more than an eighth of them, so that the measure rests on many databases; all
    hardness levels are among them, and no gold query that the other databases have too.

    Args:
        option: what asked for them, for messages.
        leak_free: False lets golds be shared, where nothing is measured on these databases.
        also: questions about still other databases, whose golds they must not have either.

    Raises:
        SourceError: there is no such choice.
    """
    asked = f"{option} {at_least}"
    sizes = Counter(record.database_name for record in records)
    largest = max(at_least // 8, min(sizes.values(), default=0))
    pool = sorted(name for name, size in sizes.items() if size <= largest)
    together = sum(sizes[name] for name in pool)
    if together < at_least:
        raise SourceError(
            f"{asked}: the databases of at most {largest} questions have only "
            f"{together} together: ask for fewer"
        )
    levels = {record.difficulty for record in records}
    clashes = _clashes(records, also) if leak_free else {}
    draw = random.Random(seed)
    for _ in range(_DRAWS):
        draw.shuffle(pool)
        chosen, missing = _fill(pool, sizes, at_least)
        if missing:
            chosen.add(min((sizes[name], name) for name in pool if name not in chosen)[1])
        found = {record.difficulty for record in records if record.database_name in chosen}
        apart = all(clashes.get(name, chosen) <= chosen for name in chosen)
        if chosen != {*sizes} and found == levels and apart:
            return chosen
    raise SourceError(
        f"{asked}: no choice of databases has every hardness"
        f"{' and shares no gold query with the rest' if leak_free else ''}: ask for another number"
    )
