"""Work on a Ray cluster: `--on ray`, or `--on ray://HOST:PORT`.

Ray starts the workers, sends them what they need once, and does again on another what a worker that
died was at. A worker makes its own policy, so that a model is loaded where it plays.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from sql_env.agent.episodes import EpisodeResult
from sql_env.agent.playing import PlannedEpisode, play
from sql_env.agent.policies import BatchPolicy, Policy
from sql_env.core.errors import UserError
from sql_env.environment import SQLEnvironment

LARGEST_CHUNK = 16
CLIENT_PORT = 10001  # Ray's default
RETRIES = 3  # of work whose worker died

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class ClusterError(UserError, RuntimeError):
    """There is no such cluster; the message says what was tried."""


class Job(NamedTuple):
    """What every worker is told.

    Attributes:
        env: says which questions, databases and rules; the paths must lead there on every machine.
        make_policy: called once in every worker.
        seed: as in `play`.
        together: how many episodes a batch policy plays side by side; so many are sent at once.
        on_gpu: a worker takes a GPU, where the cluster has some.
    """

    env: SQLEnvironment
    make_policy: Callable[[], Policy | BatchPolicy]
    seed: int
    together: int | None = None
    on_gpu: bool = False


def connect(on: str) -> None:
    """Join the cluster that `on` names, unless that is done: `ray` or `ray://HOST:PORT`.

    `ray` is the cluster that Ray finds (`RAY_ADDRESS`), or a new one on this machine.

    Raises:
        ClusterError: there is no such cluster, or Ray is not installed.
    """
    if on != "ray" and not on.startswith("ray://"):
        raise ClusterError(f"unknown --on {on!r}: use ray or ray://HOST:PORT")
    # Ray would print the death of a worker, which it replaces, amid the JSON on standard output.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ClusterError(
            "--on ray needs the ray extra: pip install '.[ray]' in the project's folder"
        ) from error
    if ray.is_initialized():
        return
    address = None if on == "ray" else on
    try:
        if address is not None:  # Ray itself would try for half a minute
            place = urlsplit(address)
            socket.create_connection((place.hostname, place.port or CLIENT_PORT), 10).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # Ray raises that itself where a busy machine takes too long
        said = (str(error).splitlines() or [type(error).__name__])[0]
        raise ClusterError(
            f"no Ray cluster answers at {on} ({said}): start one with `ray start --head`, or "
            "check the address"
        ) from error


def play_on_ray(
    job: Job, plan: Sequence[PlannedEpisode], workers: int | None = None
) -> Generator[EpisodeResult, None, None]:
    """The episodes of `plan`, as they are finished, on the cluster that was joined.

    Args:
        workers: how many play at once; default: as many as the cluster has room for.
    """
    import ray

    gpus = int(job.on_gpu and _room("GPU") > 0)
    workers = workers or max(_room("GPU" if gpus else "CPU"), 1)
    told = [ray.put(job)]  # in a list, so that workers are not sent its value with every chunk
    size = job.together or max(1, min(LARGEST_CHUNK, len(plan) // (workers * 4)))
    chunks = ((told, list(plan[start : start + size])) for start in range(0, len(plan), size))
    for _, episodes in _as_finished(_play_chunk, chunks, workers, gpus):
        yield from episodes


def map_on_ray(
    function: Callable[[_Item], _Result], items: Iterable[_Item], workers: int | None = None
) -> Iterator[_Result]:
    """`map(function, items)` on the cluster that was joined: in the same order.

    Args:
        workers: as in `play_on_ray`.
    """
    arguments = ((item,) for item in items)
    waiting: dict[int, _Result] = {}
    due = 0
    for number, result in _as_finished(function, arguments, workers or max(_room("CPU"), 1)):
        waiting[number] = result
        while due in waiting:
            yield waiting.pop(due)
            due += 1


def _room(kind: str) -> int:
    import ray

    return int(ray.cluster_resources().get(kind, 0))


def _as_finished(
    function: Callable[..., _Result],
    arguments: Iterable[tuple[Any, ...]],
    workers: int,
    gpus: int = 0,
) -> Generator[tuple[int, _Result], None, None]:
    """What the calls return, with their numbers; so many of them at once."""
    import ray

    remote = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)(function)
    calls = ((remote.remote(*given), number) for number, given in enumerate(arguments))
    under_way = dict(islice(calls, workers))
    while under_way:
        (reference,), _ = ray.wait(list(under_way))
        number = under_way.pop(reference)
        under_way.update(islice(calls, 1))
        try:
            yield number, ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.WorkerCrashedError as error:
            raise ClusterError(
                f"workers died {RETRIES + 1} times over the same work: is there enough memory? "
                "Of an evaluation, what was played is kept, and --resume plays the rest"
            ) from error


def _play_chunk(told: list[Any], chunk: Sequence[PlannedEpisode]) -> list[EpisodeResult]:
    job, policy = _begin(told[0])
    played = play(job.env, policy, chunk, seed=job.seed, together=job.together)
    return [one.episode for one in played]


@lru_cache(maxsize=1)
def _begin(reference: Any) -> tuple[Job, Policy | BatchPolicy]:
    """Once in every worker."""
    import ray

    job: Job = ray.get(reference)
    return job, job.make_policy()
