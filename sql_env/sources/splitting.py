"""Split questions in two without a leak: equal gold queries stay on one side.

Both sides look alike: by database, by hardness, by the two together, by type of answer and by how
many questions share a gold query.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence

from sql_env.models import QuestionRecord
from sql_env.sources.normalise import normalised_sql
from sql_env.sources.raw import SourceError

EVAL_SHARE = 0.3
_ATTEMPTS = 200


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
        trained_elsewhere: normalised gold queries that other training questions have; they stay
            in train.
    """
    return _split(
        records, lambda record: normalised_sql(record.gold_sql), seed, share, trained_elsewhere
    )


def split_by_database(
    records: Sequence[QuestionRecord], seed: int, share: float = EVAL_SHARE
) -> tuple[list[QuestionRecord], list[QuestionRecord]]:
    """(train, eval): every database on one side only."""
    if len({record.database_name for record in records}) < 2:
        raise SourceError("a split by database needs questions about two databases or more")
    return _split(records, lambda record: record.database_name, seed, share)


def _split(
    records: Sequence[QuestionRecord],
    key: Callable[[QuestionRecord], str],
    seed: int,
    share: float,
    not_for_eval: frozenset[str] = frozenset(),
) -> tuple[list[QuestionRecord], list[QuestionRecord]]:
    groups: dict[str, list[QuestionRecord]] = defaultdict(list)
    for record in records:
        groups[key(record)].append(record)
    candidates = [group for name, group in groups.items() if name not in not_for_eval]
    random.Random(seed).shuffle(candidates)
    chosen = {id(record) for group in _choose(candidates, records, share) for record in group}
    train = [record for record in records if id(record) not in chosen]
    held = [record for record in records if id(record) in chosen]
    return train, held


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
    while wanted > 0:
        fitting = [index for index in left if len(groups[index]) <= wanted]
        if not fitting:
            # Only large groups are left: the nearest miss beats an empty side.
            if chosen:
                break
            fitting = left
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


def hold_out_databases(records: Sequence[QuestionRecord], at_least: int, seed: int) -> set[str]:
    """Databases, drawn by seed, that together have at least so many questions.

    None may hold more than an eighth of them, so that the measure rests on many databases; all
    hardness levels are among them, and no gold query that the other databases have too.

    Raises:
        SourceError: there is no such choice.
    """
    sizes = Counter(record.database_name for record in records)
    largest = max(at_least // 8, min(sizes.values(), default=0))
    pool = sorted(name for name, size in sizes.items() if size <= largest)
    together = sum(sizes[name] for name in pool)
    if together < at_least or len(pool) == len(sizes):
        raise SourceError(
            f"--hold-out {at_least}: the databases of at most {largest} questions have "
            f"{together} of {len(records)} together: ask for fewer"
        )
    queries = [(record, normalised_sql(record.gold_sql)) for record in records]
    levels = {record.difficulty for record in records}
    draw = random.Random(seed)
    for _ in range(_ATTEMPTS):
        draw.shuffle(pool)
        chosen: set[str] = set()
        missing = at_least
        for name in pool:
            if sizes[name] <= missing:
                chosen.add(name)
                missing -= sizes[name]
        if missing:
            chosen.add(min((sizes[name], name) for name in pool if name not in chosen)[1])
        inside = {sql for record, sql in queries if record.database_name in chosen}
        outside = {sql for record, sql in queries if record.database_name not in chosen}
        found = {record.difficulty for record in records if record.database_name in chosen}
        if found == levels and not inside & outside:
            return chosen
    raise SourceError(
        f"--hold-out {at_least}: no choice of databases has every hardness and shares no gold "
        "query with the rest: ask for another number"
    )
