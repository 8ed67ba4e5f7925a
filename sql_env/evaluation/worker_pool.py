"""Play episodes in several processes.

Processes and not threads, because SQLite builds its rows under Python's lock. They are spawned, not
forked: a fork would copy open databases and whatever locks the terminal's progress display holds.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import NamedTuple

from sql_env.evaluation.episodes import EpisodeResult
from sql_env.evaluation.playing import (
    EnvironmentMaker,
    PlannedEpisode,
    environment_maker,
    play_in_turn,
)
from sql_env.evaluation.policies import Policy
from sql_env.server.sql_environment import SQLEnvironment

LARGEST_CHUNK = 16
CHUNKS_PER_WORKER = 4


class _Job(NamedTuple):
    """What a worker process is told once, when it starts."""

    make: EnvironmentMaker
    policy: Policy
    seed: int


def play_in_processes(
    env: SQLEnvironment,
    policy: Policy,
    plan: Sequence[PlannedEpisode],
    seed: int,
    workers: int,
) -> Generator[EpisodeResult, None, None]:
    """The episodes of `plan`, as they are finished; `policy` must be picklable."""
    size = max(1, min(LARGEST_CHUNK, len(plan) // (workers * CHUNKS_PER_WORKER)))
    chunks = [plan[start : start + size] for start in range(0, len(plan), size)]
    pool = ProcessPoolExecutor(
        max(1, min(workers, len(chunks))),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_worker,
        initargs=(_Job(environment_maker(env), policy, seed),),
    )
    try:
        for future in as_completed([pool.submit(_play_chunk, chunk) for chunk in chunks]):
            yield from future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


_job: _Job  # of this worker process


def _start_worker(job: _Job) -> None:
    global _job
    _job = job
    # Ctrl-C reaches every process of the terminal; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _play_chunk(chunk: Sequence[PlannedEpisode]) -> list[EpisodeResult]:
    with _job.make(questions=[planned.record for planned in chunk]) as env:
        return list(play_in_turn(env, _job.policy, chunk, _job.seed))
