"""The green agent: plays a policy over a set of questions and keeps what happened.

    result = evaluate(env, RandomPolicy(), 50, seed=0)
    print(result.success_rate, result.summary.success)

Episodes are independent of each other: each is one question, and a policy that draws at random is
seeded anew for each. So the same seed gives the same episodes with any number of workers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cached_property

from sql_env.agent.episodes import EpisodeResult
from sql_env.agent.playing import PlannedEpisode, play
from sql_env.agent.policies import BatchPolicy, Policy
from sql_env.environment import SQLEnvironment
from sql_env.evaluation.metrics import Summary, summarize
from sql_env.evaluation.worker_pool import play_in_processes
from sql_env.models import QuestionRecord

__all__ = [
    "BatchPolicy",
    "EpisodeResult",
    "EvaluationResult",
    "Policy",
    "evaluate",
    "plan_episodes",
]


Elsewhere = Callable[[Sequence[PlannedEpisode]], Generator[EpisodeResult, None, None]]
"""Plays a plan; the episodes come as they are finished."""


@dataclass(frozen=True)
class EvaluationResult:
    """The episodes in the order of the plan, and what they add up to.

    `n_episodes` were planned; `episodes` were played; `n_completed` of those ended by themselves,
    the others broke off with an error. A broken episode counts as a failure.
    """

    episodes: tuple[EpisodeResult, ...]
    n_episodes: int
    interrupted: bool = False

    @cached_property
    def summary(self) -> Summary:
        return summarize(self.episodes, planned=self.n_episodes)

    @property
    def n_completed(self) -> int:
        return self.summary.n_completed

    @property
    def success_rate(self) -> float:
        return self.summary.success.rate

    @property
    def avg_reward(self) -> float:
        return self.summary.avg_reward

    @property
    def avg_steps(self) -> float:
        return self.summary.avg_steps


def plan_episodes(
    questions: Sequence[QuestionRecord], n_episodes: int | None, *, seed: int, samples: int = 1
) -> list[PlannedEpisode]:
    """Which questions to play: all, or `n_episodes` drawn with `seed`, each `samples` times.

    More than there are questions: they are played again, as further samples.
    """
    if not questions:
        raise ValueError("there are no questions to play: is the split empty?")
    count = len(questions) if n_episodes is None else n_episodes
    if count < 1 or samples < 1:
        raise ValueError(f"nothing to play: {count} questions, {samples} samples of each")
    rounds, rest = divmod(count, len(questions))
    chosen = sorted(random.Random(seed).sample(range(len(questions)), rest))
    return [
        PlannedEpisode(record, turn * samples + sample)
        for turn in range(rounds + 1)
        for record in (questions if turn < rounds else [questions[i] for i in chosen])
        for sample in range(samples)
    ]


def evaluate(
    env: SQLEnvironment,
    policy: Policy | BatchPolicy | None,
    n_episodes: int | None = None,
    *,
    seed: int = 0,
    progress_callback: Callable[[int, int], None] | None = None,
    on_episode: Callable[[EpisodeResult], None] | None = None,
    samples: int = 1,
    workers: int = 1,
    batch_size: int | None = None,
    done: Sequence[EpisodeResult] = (),
    play_elsewhere: Elsewhere | None = None,
) -> EvaluationResult:
    """Play `policy` over the questions of `env`.

    An episode that raises is kept with its error, and the others go on. Ctrl-C ends the evaluation
    and keeps what is done.

    Args:
        env: says which questions, databases and rules; a batch of episodes or another process
            plays in copies of it.
        policy: one action at a time, or a `BatchPolicy` that chooses for many episodes at once.
        n_episodes: how many questions; default: all of them.
        seed: draws the questions where not all are played, and seeds the policy.
        progress_callback: called with (played, planned) after every episode.
        on_episode: called with every episode as soon as it is over.
        samples: how many times each question is played.
        workers: processes to play in; a batch policy always plays in this one.
        batch_size: how many episodes a batch policy plays together; default: all.
        play_elsewhere: plays the episodes instead of this machine; then there is no `policy`.
        done: episodes of an earlier evaluation that need not be played again.
    """
    plan = plan_episodes(env.questions, n_episodes, seed=seed, samples=samples)
    earlier = {episode.key: episode for episode in done if not episode.error}
    played = {item.key: earlier[item.key] for item in plan if item.key in earlier}
    missing = [item for item in plan if item.key not in played]
    if play_elsewhere is not None:
        source = play_elsewhere(missing)
    elif policy is None:
        raise ValueError("there is no policy: give one")
    elif workers > 1 and not isinstance(policy, BatchPolicy):
        source = play_in_processes(env, policy, missing, seed, workers)
    else:
        source = (
            done.episode for done in play(env, policy, missing, seed=seed, together=batch_size)
        )

    interrupted = False
    try:
        for episode in source:
            played[episode.key] = episode
            if on_episode is not None:
                on_episode(episode)
            if progress_callback is not None:
                progress_callback(len(played), len(plan))
    except KeyboardInterrupt:
        interrupted = True
    finally:
        source.close()
    episodes = tuple(played[item.key] for item in plan if item.key in played)
    return EvaluationResult(episodes, len(plan), interrupted)
