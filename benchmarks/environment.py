"""What the sandbox and the environment cost, beside plain SQLite and SkyRL-Gym's SQL environment.

Five ways to run the same gold queries, one after the other in every round, on the same machine:

* sqlite3: a pooled, read-only connection of Python's own per database, `execute(sql).fetchall()`;
* apsw: the same with the SQLite that the sandbox uses;
* sandboxed: `Database.query(sql)`;
* step: `SQLEnvironment.step(QUERY)`: sandbox, reward, text of the observation;
* skyrl-gym: `SQLEnv.step("<sql>…</sql>")` of the peer that is nearest in kind (`skyrl` extra).

Only the calls are timed, not the resets between them nor what makes the action: an `SQLAction`
here, a text in tags there, which SkyRL-Gym takes apart inside its step. Its step runs SQLite on a
connection and a thread of its own and returns the text; ours also scores. Every query is gold,
whose result needs no closer comparison with gold: of another, the step takes some microseconds
more.

A round visits every query once, so that a statement comes back only after all the others.
"Repeated" rounds use the same texts again, as the rollouts of one question do, and let caches work:
of compiled statements, for raw connections and ours alike, and of our texts' normal forms. In "new"
rounds every text is new. Of every query the fastest of the rounds counts: the rest is what the
machine did besides. The targets are for "repeated".

    .venv/bin/python benchmarks/environment.py
    .venv/bin/python benchmarks/environment.py --soak 100000

The second form plays that many steps and compares file descriptors, threads and memory after the
first tenth of them (but not before every question was played) with those at the end. The Spider
copy beside the checkout is used when there is one (or in $SQL_ENV_SPIDER), else the embedded data.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from sql_env import QuestionRecord, SQLAction, SQLEnvironment
from sql_env.core.database import Database
from sql_env.questions import Dataset, load_questions

CHECKOUT = Path(__file__).resolve().parent.parent
SPIDER = Path(os.environ.get("SQL_ENV_SPIDER", CHECKOUT.parent / "shared" / "spider"))
TARGETS = {
    "sandboxed / apsw": 0.90,
    "sandboxed / sqlite3": 1.2,
    "step / sqlite3": 0.60,
    "step / skyrl-gym": 12.0,
}
MOST_MEGABYTES = 5.0  # what the soak may grow by: noise of the allocator, not a leak
Run = Callable[[QuestionRecord, str], object]
Times = dict[str, float]


def load_records() -> tuple[str, list[QuestionRecord], Path]:
    """The name of the data, its distinct gold queries, and the folder of the databases."""
    if not (SPIDER / "dev.json").is_file():
        data = Dataset.embedded()
        records = {
            (record.database_name, record.gold_sql): record
            for record in load_questions(data.questions_path)
        }
        return "embedded data", list(records.values()), data.db_dir
    records = {
        (item["db_id"], item["query"]): QuestionRecord(
            question_id=f"dev_{number}",
            question_text=item["question"],
            database_name=item["db_id"],
            gold_sql=item["query"],
            gold_answer=None,
            answer_type="table",
            difficulty="easy",
            tables_involved=[],
            split="dev",
        )
        for number, item in enumerate(json.loads((SPIDER / "dev.json").read_text()))
    }
    return "Spider dev", list(records.values()), SPIDER / "database"


# -- the four ways ---------------------------------------------------------------------------


def plain(connect: Callable[[str], Any], records: list[QuestionRecord], db_dir: Path) -> Run:
    connections = {
        name: connect(f"{(db_dir / name / f'{name}.sqlite').as_uri()}?mode=ro&immutable=1")
        for name in {record.database_name for record in records}
    }
    return lambda record, sql: connections[record.database_name].execute(sql).fetchall()


def connect_sqlite3(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, check_same_thread=False)


def connect_apsw(uri: str) -> apsw.Connection:
    return apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def sandboxed(records: list[QuestionRecord], db_dir: Path) -> Run:
    databases = {
        name: Database(db_dir / name / f"{name}.sqlite")
        for name in {record.database_name for record in records}
    }
    return lambda record, sql: databases[record.database_name].query(sql)


class OurStep:
    def __init__(self, records: list[QuestionRecord], db_dir: Path) -> None:
        self.environment = SQLEnvironment(questions=records, db_dir=db_dir)

    def prepare(self, record: QuestionRecord, sql: str) -> None:
        self.environment.reset(question_id=record.question_id)
        self.action = SQLAction(action_type="QUERY", argument=sql)

    def __call__(self, record: QuestionRecord, sql: str) -> object:
        return self.environment.step(self.action)


class SkyRLStep:
    def __init__(self, db_dir: Path, folder: Path) -> None:
        from skyrl_gym.envs.sql.env import SQLEnv, Text2SQLEnvConfig

        (folder / "spider").mkdir()
        (folder / "spider" / "database").symlink_to(db_dir)
        self.make = SQLEnv
        self.config = Text2SQLEnvConfig(db_path=str(folder))

    def prepare(self, record: QuestionRecord, sql: str) -> None:
        self.environment = self.make(
            self.config,
            {
                "db_id": record.database_name,
                "reward_spec": {"ground_truth": record.gold_sql},
                "data": "spider",
            },
        )
        self.action = f"<sql>{sql}</sql>"

    def __call__(self, record: QuestionRecord, sql: str) -> object:
        return self.environment.step(self.action)


# -- measuring -------------------------------------------------------------------------------


def measure(ways: dict[str, Run], records: list[QuestionRecord], rounds: int, new: bool) -> Times:
    """The fastest call for every query, by way. The ways take turns."""
    serial = count()
    fastest = {way: [float("inf")] * len(records) for way in ways}
    for _ in range(rounds):
        for way, run in ways.items():
            prepare = getattr(run, "prepare", None)
            for number, record in enumerate(records):
                sql = f"{record.gold_sql} -- {next(serial)}" if new else record.gold_sql
                if prepare:
                    prepare(record, sql)
                begun = time.perf_counter()
                run(record, sql)
                seconds = time.perf_counter() - begun
                fastest[way][number] = min(fastest[way][number], seconds)
    return {way: sum(times) for way, times in fastest.items()}


def compare(rounds: int) -> bool:
    """Print the table; whether every target is met."""
    data, records, db_dir = load_records()
    with tempfile.TemporaryDirectory() as folder:
        ways: dict[str, Run] = {
            "sqlite3": plain(connect_sqlite3, records, db_dir),
            "apsw": plain(connect_apsw, records, db_dir),
            "sandboxed": sandboxed(records, db_dir),
            "step": OurStep(records, db_dir),
        }
        try:
            ways["skyrl-gym"] = SkyRLStep(db_dir.resolve(), Path(folder))
        except ImportError as error:
            print(f"without skyrl-gym ({error}): pip install -e '.[skyrl]'", file=sys.stderr)
        results = {
            "repeated": measure(ways, records, rounds, new=False),
            "new": measure(ways, records, rounds, new=True),
        }
    print(f"{data}: {len(records)} distinct gold queries, the fastest of {rounds} rounds\n")
    heads = f"{'queries/s':>12}{'of sqlite3':>12}{'of apsw':>9}{'x skyrl-gym':>13}"
    print(f"{'statements':<12}{'way':<12}{heads}")
    for name, times in results.items():
        for way, seconds in times.items():
            peer = f"{times['skyrl-gym'] / seconds:.2f}" if "skyrl-gym" in times else "-"
            shares = f"{times['sqlite3'] / seconds:>12.2f}{times['apsw'] / seconds:>9.2f}"
            print(f"{name:<12}{way:<12}{len(records) / seconds:>12,.0f}{shares}{peer:>13}")
    print()
    met = True
    for target, least in TARGETS.items():
        way, other = target.split(" / ")
        if other in ways:
            reached = results["repeated"][other] / results["repeated"][way]
            met &= reached >= least
            print(f"{target}: {reached:.2f}, target {least:.2f}")
    return met


# -- many steps ------------------------------------------------------------------------------


def actions(record: QuestionRecord, tables: list[str], number: int) -> list[tuple[str, str]]:
    """An episode that meets everything: exploring, mistakes, attacks, a new text every time."""
    return [
        ("DESCRIBE", tables[number % len(tables)]),
        ("SAMPLE", tables[-1]),
        ("QUERY", record.gold_sql),
        ("QUERY", f"{record.gold_sql} -- {number}"),
        ("QUERY", f"SELECT nope{number} FROM {tables[0]}"),
        ("QUERY", "DROP TABLE x"),
        ("DESCRIBE", "no such table"),
        ("QUERY", f"SELECT replace(hex(hex('{number}')), '3', '{'x' * 900}')"),
        ("DANCE", ""),
        ("ANSWER", "@last" if number % 2 else "42"),
    ]


class Usage(NamedTuple):
    """What the process holds, as Linux counts it."""

    descriptors: int
    threads: int
    megabytes: float

    @classmethod
    def now(cls) -> Usage:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        megabytes = pages * os.sysconf("SC_PAGESIZE") / 2**20
        threads = len(os.listdir("/proc/self/task"))
        return cls(len(os.listdir("/proc/self/fd")), threads, megabytes)


def soak(steps: int) -> bool:
    """Play `steps` steps; whether nothing has grown since the first tenth."""
    data, records, db_dir = load_records()
    environment = SQLEnvironment(questions=records, db_dir=db_dir)
    done = 0
    early: Usage | None = None
    begun = time.monotonic()
    for number in count():
        record = records[number % len(records)]
        tables = environment.reset(question_id=record.question_id).table_names
        for kind, argument in actions(record, tables, number):
            environment.step(SQLAction(action_type=kind, argument=argument))
            done += 1
        if early is None and done >= steps / 10 and number >= len(records):
            early = Usage.now()
        if early is not None and done >= steps:
            break
    assert early is not None
    late = Usage.now()
    elapsed = time.monotonic() - begun
    print(f"{data}: {done:,} steps in {elapsed:.0f} s ({done / elapsed:,.0f} a second)")
    for name, first, last in zip(Usage._fields, early, late, strict=True):
        print(f"{name:<14}{first:>8.1f} after the first tenth{last:>8.1f} at the end")
    return (
        late.descriptors <= early.descriptors
        and late.threads <= early.threads
        and late.megabytes < early.megabytes + MOST_MEGABYTES
    )


def compare_fork(rounds: int) -> None:
    """Print what a fork costs, beside the reset and the step that a replay is made of."""
    _, records, db_dir = load_records()
    environment = SQLEnvironment(questions=records, db_dir=db_dir)
    fastest = dict.fromkeys(("reset", "step", "fork"), float("inf"))
    for record in records * rounds:
        moments = [time.perf_counter()]
        environment.reset(question_id=record.question_id)
        moments.append(time.perf_counter())
        environment.step(SQLAction(action_type="QUERY", argument=record.gold_sql))
        moments.append(time.perf_counter())
        environment.fork()
        moments.append(time.perf_counter())
        for way, begun, ended in zip(fastest, moments, moments[1:], strict=False):
            fastest[way] = min(fastest[way], ended - begun)
    print(f"fork: {fastest['fork'] * 1e6:.1f} microseconds", end="")
    for way in ("reset", "step"):
        print(f", {fastest['fork'] / fastest[way]:.2f} of a {way}", end="")
    print()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--soak", type=int, metavar="STEPS", help="play this many steps instead")
    options = parser.parse_args()
    if options.soak:
        return 0 if soak(options.soak) else 1
    met = compare(options.rounds)
    compare_fork(options.rounds)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
