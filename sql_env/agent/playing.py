"""Play planned episodes, one after the other or many side by side, and record them."""

from __future__ import annotations

import logging
import re
from collections.abc import Generator, Iterable, Sequence
from functools import partial
from time import perf_counter
from typing import NamedTuple

from sql_env.agent.episodes import EpisodeResult, Step, shortened_gold
from sql_env.agent.policies import BatchPolicy, FrugalPolicy, Policy, SeededPolicy
from sql_env.environment import SQLEnvironment
from sql_env.models import QuestionRecord, SQLAction, SQLObservation

logger = logging.getLogger(__name__)

BROKE_OFF = "error"
EnvironmentMaker = partial[SQLEnvironment]
_QUOTED = re.compile(r"""('[^']*'|"[^"]*")""")


def spelling(action: SQLAction | Step) -> tuple[str, str]:
    """An action by its words: the same twice is a repetition, however it is spaced.

    Nor do capitals make it another, except in quotes, where a comparison may hang on them.
    """
    parts = _QUOTED.split(" ".join(action.argument.split()))
    parts[::2] = map(str.lower, parts[::2])
    return action.action_type, "".join(parts)


class PlannedEpisode(NamedTuple):
    """A question to be played, and which of its samples this is."""

    record: QuestionRecord
    sample: int

    @property
    def key(self) -> tuple[str, int]:
        return self.record.question_id, self.sample


class RunningEpisode:
    """An episode under way: an environment, its last observation, and the record so far."""

    def __init__(self, env: SQLEnvironment, planned: PlannedEpisode, seed: int) -> None:
        self.env = env
        self.planned = planned
        self._seed = seed
        self._steps: list[Step] = []
        self._environment_seconds = 0.0
        self._policy_seconds = 0.0
        self.observation: SQLObservation  # from `begin` on

    def begin(self) -> None:
        started = perf_counter()
        self.observation = self.env.reset(question_id=self.planned.record.question_id)
        self._environment_seconds = perf_counter() - started

    def advance(self, action: SQLAction, policy_seconds: float) -> None:
        """Play `action`, which took the policy `policy_seconds` to choose."""
        started = perf_counter()
        self.observation = seen = self.env.step(action)
        self._environment_seconds += perf_counter() - started
        self._policy_seconds += policy_seconds
        metadata = seen.metadata
        parts = metadata["reward_parts"]
        self._steps.append(
            Step(
                action.action_type,
                action.argument,
                seen.result,
                seen.error,
                metadata.get("error_kind"),
                parts["operational"],
                parts["progress"],
                parts["terminal"],
                action.metadata,
            )
        )

    @property
    def repeats_itself(self) -> bool:
        """The last action was played before."""
        played = [spelling(step) for step in self._steps]
        return bool(played) and played[-1] in played[:-1]

    def finish(
        self, error: BaseException | None = None, *, stop_reason: str = BROKE_OFF
    ) -> EpisodeResult:
        """The record.

        Args:
            error: what broke the episode off.
            stop_reason: of an episode that the environment did not end.
        """
        record = self.planned.record
        metadata = self.observation.metadata if error is None else {}
        return EpisodeResult(
            question_id=record.question_id,
            question=record.question_text,
            database=record.database_name,
            difficulty=record.difficulty,
            answer_type=record.answer_type,
            gold_sql=record.gold_sql,
            gold_answer=shortened_gold(record),
            sample=self.planned.sample,
            seed=self._seed,
            steps=tuple(self._steps),
            correct=metadata.get("correct", False),
            verdict=metadata.get("verdict", ""),
            stop_reason=metadata.get("stop_reason", stop_reason),
            error="" if error is None else f"{type(error).__name__}: {error}",
            environment_seconds=self._environment_seconds,
            policy_seconds=self._policy_seconds,
        )


def play_in_turn(
    env: SQLEnvironment, policy: Policy, plan: Iterable[PlannedEpisode], seed: int
) -> Generator[EpisodeResult, None, None]:
    """One episode after the other."""
    begin_episode = policy.begin_episode if isinstance(policy, SeededPolicy) else None
    select_action = policy.select_action
    for planned in plan:
        episode = RunningEpisode(env, planned, seed)
        try:
            if begin_episode is not None:
                begin_episode(f"{seed}/{planned.record.question_id}/{planned.sample}")
            episode.begin()
            while not episode.observation.done:
                started = perf_counter()
                action = select_action(episode.observation)
                episode.advance(action, perf_counter() - started)
        # Whatever a policy or a database gets wrong must cost one episode, not the evaluation.
        except Exception as error:
            yield episode.finish(error)
        else:
            yield episode.finish()


def play_together(
    env: SQLEnvironment,
    policy: BatchPolicy,
    plan: Sequence[PlannedEpisode],
    seed: int,
    batch_size: int,
) -> Generator[EpisodeResult, None, None]:
    """Up to `batch_size` episodes side by side; one that ends makes room for the next.

    Where the memory does not hold so many, those under way begin again, half as many at a time.
    """
    make = environment_maker(env)
    waiting = list(enumerate(plan))[::-1]
    live: dict[int, RunningEpisode] = {}

    def leave(number: int, error: Exception | None = None) -> EpisodeResult:
        episode = live.pop(number)
        episode.env.close()
        return episode.finish(error)

    while waiting or live:
        while waiting and len(live) < batch_size:
            number, planned = waiting.pop()
            live[number] = RunningEpisode(make(questions=[planned.record]), planned, seed)
            try:
                live[number].begin()
            except Exception as error:  # as in play_in_turn
                yield leave(number, error)
        numbers = list(live)
        started = perf_counter()
        too_many = False
        try:
            actions = policy.select_actions([live[n].observation for n in numbers], numbers)
        except Exception as error:
            too_many = len(numbers) > 1 and ran_out_of_memory(error)
            if not too_many:  # the batch is lost; resuming the run plays it again
                for number in numbers:
                    yield leave(number, error)
                continue
        if too_many:  # no longer where the error is handled, for it holds on to what was too much
            batch_size = len(numbers) // 2
            logger.warning(
                "too little memory for %d episodes at once: they begin again, %d at a time",
                len(numbers),
                batch_size,
            )
            for number in reversed(numbers):
                episode = live.pop(number)
                episode.env.close()
                waiting.append((number, episode.planned))
            if isinstance(policy, FrugalPolicy):
                policy.make_room()
            continue
        seconds = (perf_counter() - started) / len(numbers)
        for number, action in zip(numbers, actions, strict=True):
            if isinstance(action, Exception):
                yield leave(number, action)
                continue
            try:
                live[number].advance(action, seconds)
            except Exception as error:
                yield leave(number, error)
            else:
                if live[number].observation.done:
                    yield leave(number)


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether it is Python's error, torch's, or what torch says on a CPU.

    Known by their names, for torch is not imported here.
    """
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return bool(kinds & {"MemoryError", "OutOfMemoryError"}) or (
        "can't allocate memory" in str(error)
    )


def environment_maker(env: SQLEnvironment) -> EnvironmentMaker:
    """Makes environments with the rules and databases of `env`, for episodes beside it.

    Picklable, so that it can be sent to another process.
    """
    return partial(
        SQLEnvironment,
        db_dir=env.db_dir,
        step_budget=env.step_budget,
        reward=env.reward_config,
        limits=env.limits,
        allow_last=env.allow_last,
    )
