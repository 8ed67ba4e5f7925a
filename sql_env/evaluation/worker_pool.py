"""Play episodes in several processes.

Processes and not threads, because SQLite builds its rows under Python's lock. They are spawned, not
forked: a fork would copy open databases and whatever locks the terminal's progress display holds.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from sql_env.agent.episodes import EpisodeResult
from sql_env.agent.playing import PlannedEpisode, play
from sql_env.agent.policies import Policy
from sql_env.environment import SQLEnvironment

LARGEST_CHUNK = 16
CHUNKS_PER_WORKER = 4


class _Job(NamedTuple):
    """What a worker process is told once, when it starts."""

    env: SQLEnvironment
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
    chunks = (plan[start : start + size] for start in range(0, len(plan), size))
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_worker,
        initargs=(_Job(env.another(), policy, seed),),
    )
    try:
        with _interrupts_held_back():
            under_way = {pool.submit(_play_chunk, c) for c in islice(chunks, 2 * workers)}
        while under_way:
            finished, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            under_way |= {pool.submit(_play_chunk, c) for c in islice(chunks, len(finished))}
            for future in finished:
                yield from future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Ctrl-C reaches every process of the terminal, but only the parent knows what it means.

    Processes that are started in here inherit the mask and never hear of it; the parent does, when
    all are there.
    """
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_job: _Job  # of this worker process


def _start_worker(job: _Job) -> None:
    global _job
    _job = job


def _play_chunk(chunk: Sequence[PlannedEpisode]) -> list[EpisodeResult]:
    return [one.episode for one in play(_job.env, _job.policy, chunk, seed=_job.seed)]
