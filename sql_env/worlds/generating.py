"""Databases with questions, by the hundred: quotas, checks, the split and the files.

generate_dataset(Path("data"), databases=10, questions=676, seed=4)
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import get_args

from sql_env.core.database import Database, QueryResult
from sql_env.core.errors import UserError
from sql_env.models import Difficulty
from sql_env.worlds.building import build_world
from sql_env.worlds.checks import Judge, hardness_of
from sql_env.worlds.domain_files import DomainError, own_domains, read_domain
from sql_env.worlds.intents import INTENTS, Asker, Candidate, propose
from sql_env.worlds.writing import (
    Record,
    make_record,
    split_records,
    write_database,
    write_questions,
)

# Spider's mix, in percent.
HARDNESS_MIX: dict[Difficulty, int] = {"easy": 22, "medium": 41, "hard": 18, "extra": 19}
EMPTY_SHARE = 0.03
_PARALLEL_FROM = 2_000  # questions; below this, starting processes costs more than it saves
_PATIENCE = 400  # candidates turned down in a row before literals alone may differ


class GenerationError(UserError, RuntimeError):
    """The data asked for cannot be made; the message says why and what to try."""


@dataclass(frozen=True)
class Summary:
    """What was written."""

    databases: int
    questions: dict[str, int]  # by split
    difficulty: dict[str, int]
    empty: int
    bytes: int


@dataclass(frozen=True)
class _Task:
    domain: Path
    database: str
    quotas: dict[Difficulty, int]
    seed: int
    folder: Path


Map = Callable[[Callable[[_Task], list[Record]], Sequence[_Task]], Iterable[list[Record]]]


def generate_dataset(
    out: Path | str,
    *,
    databases: int = 10,
    questions: int = 676,
    seed: int = 4,
    eval_fraction: float = 0.3,
    hardness_mix: Mapping[Difficulty, int] = HARDNESS_MIX,
    domains: Sequence[Path] = (),
    workers: int | None = None,
    map_elsewhere: Map | None = None,
    progress: Callable[[int], None] | None = None,
) -> Summary:
    """Write a dataset: `out/databases/` and `out/questions/questions_{train,eval}.json`.

    Args:
        out: the folder; what it holds under those two names is replaced, and only at the end.
        databases: how many; a domain comes again, as a different database, when all had their turn.
        questions: how many over all databases.
        seed: the same seed writes the same bytes.
        eval_fraction: the share of questions kept for evaluation.
        hardness_mix: how many of a hundred questions are of each hardness; easy takes the rest.
        domains: domain files to make them from; by default those of the package.
        workers: processes; by default one for small jobs and one per core for large ones.
        map_elsewhere: makes the databases in place of this machine's processes, as `map` would;
            whoever makes them writes them to `out`.
        progress: called with the number of questions made since the last call.

    Raises:
        GenerationError: the counts make no sense, or the files cannot be written.
        DomainError: a domain file cannot be used.
    """
    _check_request(databases, questions, eval_fraction)
    files: dict[str, Path] = {}
    for path in domains:
        read_domain(path)
        if files.setdefault(path.stem, path) != path:
            raise DomainError(f"{path}: {files[path.stem]} is called the same: rename one of them")
    files = files or own_domains()
    out = Path(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".making-", dir=out))
    except OSError as error:
        raise GenerationError(f"cannot write to {out}: {error}") from error
    try:
        tasks = _tasks(files, databases, questions, seed, folder, hardness_mix)
        records: list[Record] = []
        work = map_elsewhere or partial(_map, workers=workers, questions=questions)
        for made in work(_make_database, tasks):
            records += made
            if progress is not None:
                progress(len(made))
        split_records(records, eval_fraction, seed)
        (folder / "questions").mkdir()
        for split in ("train", "eval"):
            chosen = [record for record in records if record["split"] == split]
            if chosen:
                write_questions(folder / "questions" / f"questions_{split}.json", chosen)
        summary = _summary(records, databases, folder)
        for part in ("databases", "questions"):
            shutil.rmtree(out / part, ignore_errors=True)
            (folder / part).rename(out / part)
    except (OSError, sqlite3.Error) as error:
        raise GenerationError(
            f"cannot write to {out}: {error}; free some space or choose another folder"
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return summary


def _check_request(databases: int, questions: int, eval_fraction: float) -> None:
    if databases < 1:
        raise GenerationError(f"databases is {databases}: ask for at least one")
    if questions < databases:
        raise GenerationError(
            f"{questions} questions over {databases} databases: ask for at least one per database"
        )
    if not 0 <= eval_fraction < 1:
        raise GenerationError(f"eval_fraction is {eval_fraction}: it must be in [0, 1)")


def _tasks(
    files: Mapping[str, Path],
    databases: int,
    questions: int,
    seed: int,
    folder: Path,
    mix: Mapping[Difficulty, int],
) -> list[_Task]:
    """Which domain makes which database, and how many questions of each hardness it asks."""
    order = list(files)
    random.Random(f"{seed}/domains").shuffle(order)
    tasks = []
    levels = get_args(Difficulty)
    # Cumulative rounding: every database is near the mix and the totals are exact.
    given = dict.fromkeys(levels, 0)
    for i in range(databases):
        domain = order[i % len(order)]
        turn = i // len(order)
        share = questions * (i + 1) // databases - questions * i // databases
        upto = questions * (i + 1) // databases
        quotas: dict[Difficulty, int] = {}
        for level in levels[1:]:
            quotas[level] = max(0, round(mix.get(level, 0) * upto / 100) - given[level])
        while sum(quotas.values()) > share:
            quotas[max(quotas, key=lambda level: quotas[level])] -= 1
        quotas["easy"] = share - sum(quotas.values())
        for level in levels:
            given[level] += quotas[level]
        name = domain if turn == 0 else f"{domain}_{turn + 1}"
        tasks.append(_Task(files[domain], name, quotas, seed, folder))
    return tasks


def _map(
    make: Callable[[_Task], list[Record]],
    tasks: Sequence[_Task],
    workers: int | None,
    questions: int,
) -> Iterator[list[Record]]:
    if workers is None:
        workers = (os.cpu_count() or 1) if questions >= _PARALLEL_FROM else 1
    if workers == 1:
        yield from map(make, tasks)
        return
    # Spawned, not forked: the caller may hold threads (a progress bar, a trainer).
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(tasks)), mp_context=context) as pool:
        yield from pool.map(make, tasks)


def _make_database(task: _Task) -> list[Record]:
    """One database and its questions, in a process of its own if need be."""
    world = build_world(read_domain(task.domain), task.database, task.seed)
    path = task.folder / "databases" / task.database / f"{task.database}.sqlite"
    write_database(world, path)
    database = Database(path)
    total = sum(task.quotas.values())
    judge = Judge(database, empty_allowed=int(total * EMPTY_SHARE + 0.5))
    asker = Asker(world, random.Random(f"{task.seed}/{task.database}/questions"))
    records = [
        make_record(candidate, level, result, database.table_names, task.database)
        for candidate, level, result in _ask(asker, judge, task)
    ]
    # Mixed, so that ids do not follow hardness.
    random.Random(f"{task.seed}/{task.database}/order").shuffle(records)
    for number, record in enumerate(records, 1):
        record["question_id"] = f"{task.database}_{number:04d}"
    return records


def _ask(
    asker: Asker, judge: Judge, task: _Task
) -> Iterator[tuple[Candidate, Difficulty, QueryResult]]:
    """Propose and judge until every hardness has its number."""
    left = dict(task.quotas)
    used: Counter[str] = Counter()
    turned_down = 0
    rng = asker.rng
    # Sorted, so that moving an intent to another module changes no data.
    by_level = {
        level: sorted(name for name, intent in INTENTS.items() if intent.level == level)
        for level in left
    }
    while any(left.values()):
        open_levels = [level for level, count in left.items() if count]
        level = rng.choices(open_levels, [left[name] for name in open_levels])[0]
        names = by_level[level]
        name = rng.choices(names, [1 / (1 + used[name]) for name in names])[0]
        candidate = propose(INTENTS[name], asker)
        turned_down += 1
        if turned_down % _PATIENCE == 0:
            judge.copies += 1
            if turned_down > 40 * _PATIENCE:
                raise GenerationError(
                    f"{task.database} has no more questions to offer ({_still(left)} missing): "
                    "ask for fewer questions or more databases, or declare more columns"
                )
        if candidate is None:
            continue
        label = hardness_of(candidate.sql)
        if label is None or not left[label]:
            continue
        result = judge.accept(candidate)
        if result is None:
            continue
        turned_down = 0
        left[label] -= 1
        used[name] += 1
        yield candidate, label, result


def _still(left: Mapping[Difficulty, int]) -> str:
    return ", ".join(f"{count} {level}" for level, count in left.items() if count)


def _counted(records: list[Record], key: str, order: Sequence[str]) -> dict[str, int]:
    counts = Counter(record[key] for record in records)
    return {name: counts[name] for name in order}


def _summary(records: list[Record], databases: int, folder: Path) -> Summary:
    empty = sum(record["gold_answer"] in ([], 0, [[0]]) for record in records)
    return Summary(
        databases=databases,
        questions=_counted(records, "split", ("train", "eval")),
        difficulty=_counted(records, "difficulty", get_args(Difficulty)),
        empty=empty,
        bytes=sum(path.stat().st_size for path in folder.rglob("*.sqlite")),
    )
