"""Connections are shared, bounded, and safe among threads and processes."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from sql_env.core import database as module
from sql_env.core.database import MOST_CONNECTIONS, Database, Limits

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT max(i) FROM n"
EXPLOSION = "SELECT x FROM t"
for _ in range(5):
    EXPLOSION = f"SELECT {'+'.join('x' * 25)} AS x FROM ({EXPLOSION})"


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """More databases than there may be connections; each knows its own number."""
    folder = tmp_path_factory.mktemp("pool")
    made = [folder / f"{i}.sqlite" for i in range(MOST_CONNECTIONS + 20)]
    for number, path in enumerate(made):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            connection.executescript(f"CREATE TABLE t(x); INSERT INTO t VALUES ({number});")
    return made


@pytest.fixture(autouse=True)
def empty_pool() -> Iterator[None]:
    module._POOL.clear()
    yield
    module._POOL.clear()


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")


@needs_proc
def test_a_connection_is_used_again(paths: list[Path]) -> None:
    before = open_descriptors()
    for i in range(50):
        assert Database(paths[0]).query(f"SELECT x, {i} FROM t").rows == ((0, i),)
    assert open_descriptors() == before + 1


@needs_proc
def test_idle_connections_are_bounded(paths: list[Path]) -> None:
    before = open_descriptors()
    for _ in range(2):
        for number, path in enumerate(paths):
            assert Database(path).query("SELECT x FROM t").rows == ((number,),)
    assert open_descriptors() - before == MOST_CONNECTIONS


@needs_proc
def test_connections_that_have_seen_much_are_replaced(paths: list[Path]) -> None:
    database = Database(paths[0])
    before = open_descriptors()
    statements = [f"SELECT x, {i} FROM t --{'x' * 9_000}" for i in range(200)]
    for sql in statements:
        result = database.query(sql)
        assert result.reads == {("t", "x")}
    assert open_descriptors() <= before + 1


@needs_proc
def test_files_are_bounded_and_a_retired_one_still_answers(paths: list[Path]) -> None:
    pool = module._Pool(connections=4, files=3)
    files = [pool.open(module.FileIdentity.at(path)) for path in paths[:10]]
    before = open_descriptors()
    for _ in range(3):
        for number, file in enumerate(files):
            sandbox = pool.take(file)
            answer = sandbox.query("SELECT x FROM t", Limits(), time.monotonic() + 1)
            pool.give(file, sandbox)
            assert answer.rows == ((number,),)
    assert open_descriptors() - before == 3
    pool.clear()
    assert open_descriptors() == before


def test_threads_get_their_own_answers(paths: list[Path]) -> None:
    databases = [Database(path) for path in paths[:8]]

    def ask(i: int) -> bool:
        number = i % len(databases)
        result = databases[number].query(f"SELECT x, {i} FROM t")
        return result.rows == ((number, i),) and result.reads == {("t", "x")}

    with ThreadPoolExecutor(16) as threads:
        assert all(threads.map(ask, range(3_000)))


def test_a_slow_query_does_not_hold_up_another(paths: list[Path]) -> None:
    slow = Database(paths[0], Limits(seconds=1.0))
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(slow.query, ENDLESS)
        done = 0
        while not running.done():
            assert Database(paths[0]).query("SELECT x FROM t").rows == ((0,),)
            done += 1
    assert done > 20


def test_deadlines_hold_for_many_threads_at_once(paths: list[Path]) -> None:
    database = Database(paths[0], Limits(seconds=0.2))
    with ThreadPoolExecutor(8) as threads:
        kinds = {result.error_kind for result in threads.map(database.query, [ENDLESS] * 8)}
    assert kinds == {"timeout"}


def test_after_the_heap_was_full_everything_works_again(paths: list[Path]) -> None:
    databases = [Database(path) for path in paths[:30]]
    for database in databases:
        assert database.query("SELECT x FROM t").ok
    assert databases[0].query(EXPLOSION).error_kind == "too_large"
    assert [database.query("SELECT x FROM t").rows for database in databases] == [
        ((number,),) for number in range(30)
    ]


def test_connections_do_not_cross_a_fork(paths: list[Path]) -> None:
    database = Database(paths[0])
    assert database.query("SELECT x FROM t").ok
    child = os.fork()
    if child == 0:
        alone = not database._file.idle
        answers = [opened.query("SELECT x FROM t").ok for opened in (database, Database(paths[0]))]
        os._exit(0 if alone and all(answers) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_control_c_ends_a_query_and_the_program(paths: list[Path]) -> None:
    program = textwrap.dedent(
        """
        import sys
        from sql_env.core.database import Database, Limits
        database = Database(sys.argv[1], Limits(seconds=60))
        print("ready", flush=True)
        database.query(sys.argv[2])
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(paths[0]), ENDLESS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in errors
