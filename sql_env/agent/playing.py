"""The one loop that plays episodes: evaluation, rollouts, demonstrations and `sql-env play` use it.

    for played in play(env, policy, plan_of(env.questions)):
        print(played.episode.correct)

A policy chooses one action at a time for one episode, or for many episodes side by side. In the
second case it need not answer for all of them at once: whoever is still thinking is asked again
together with the others' next turns, so that one long turn or one slow request keeps nobody
waiting. Where the memory does not hold all episodes, those under way begin again, half as many at
a time.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import NamedTuple

from sql_env.agent.conversation import Conversation
from sql_env.agent.episodes import EpisodeResult, Step, shortened_gold
from sql_env.agent.policies import (
    BatchPolicy,
    BoundedPolicy,
    ContinuingPolicy,
    Policy,
    SeededBatchPolicy,
    SeededPolicy,
)
from sql_env.environment import SQLEnvironment
from sql_env.models import QuestionRecord, SQLAction, SQLObservation

logger = logging.getLogger(__name__)

BROKE_OFF = "error"  # why an episode ended that the policy or the environment broke off
REPEATED = "repeated"  # why an episode ended under `end_on_repeat`

Watcher = Callable[[SQLObservation, SQLAction | None], None]
"""Told what every episode begins with, and then every action with what came of it."""


class PlannedEpisode(NamedTuple):
    """A question to be played, and which of its samples this is.

    Attributes:
        turns: what a model wrote in its first turns, as tokens: they are played again, and the
            episode goes on from there.
    """

    record: QuestionRecord
    sample: int = 0
    turns: Sequence[Sequence[int]] = ()

    @property
    def key(self) -> tuple[str, int]:
        return self.record.question_id, self.sample


class Played(NamedTuple):
    """An episode that is over.

    Attributes:
        number: its place in the plan.
        conversation: what a model said in it.
        cause: what broke it off; the record has it as text.
    """

    number: int
    episode: EpisodeResult
    conversation: Conversation | None
    cause: Exception | None


def plan_of(records: Iterable[QuestionRecord]) -> list[PlannedEpisode]:
    """One episode for every record; one that comes again is another sample of its question."""
    plan: list[PlannedEpisode] = []
    times: dict[str, int] = {}
    for record in records:
        sample = times.get(record.question_id, 0)
        times[record.question_id] = sample + 1
        plan.append(PlannedEpisode(record, sample))
    return plan


def play(
    env: SQLEnvironment,
    policy: Policy | BatchPolicy,
    plan: Iterable[PlannedEpisode],
    *,
    seed: int = 0,
    together: int | None = None,
    end_on_repeat: bool = False,
    watch: Watcher | None = None,
) -> Iterator[Played]:
    """Play the episodes of `plan`; each is yielded as soon as it is over.

    An episode whose policy or database raises ends with that error; the others go on.

    Args:
        env: says which questions, databases and rules; the episodes play in copies of it.
        seed: is recorded, and seeds a policy that draws at random, anew for every episode.
        together: how many episodes a batch policy plays side by side; default: all.
        end_on_repeat: end an episode at an action that was played before.
        watch: is told every step.
    """
    return _Loop(env, policy, list(plan), seed, together, end_on_repeat, watch).run()


class _Loop:
    def __init__(
        self,
        env: SQLEnvironment,
        policy: Policy | BatchPolicy,
        plan: list[PlannedEpisode],
        seed: int,
        together: int | None,
        end_on_repeat: bool,
        watch: Watcher | None,
    ) -> None:
        self._env = env
        if isinstance(policy, BatchPolicy):
            self._policy: BatchPolicy = policy
            self._together = together or len(plan)
            if isinstance(policy, BoundedPolicy) and policy.room is not None:
                self._together = min(self._together, policy.room)
        else:  # such a policy may remember the last observation
            self._policy = OneByOne(policy)
            self._together = 1
        self._plan = plan
        self._waiting = deque(range(len(plan)))
        self._live: dict[int, RunningEpisode] = {}
        self._new: dict[int, SQLObservation] = {}  # what the policy has not heard yet
        self._idle: list[SQLEnvironment] = []
        self._seed = seed
        self._end_on_repeat = end_on_repeat
        self._watch = watch

    def run(self) -> Iterator[Played]:
        try:
            while self._waiting or self._live:
                yield from self._begin_episodes()
                if self._live:
                    yield from self._play_turns()
        finally:
            for env in [*self._idle, *(episode.env for episode in self._live.values())]:
                env.close()

    def _begin_episodes(self) -> Iterator[Played]:
        while self._waiting and len(self._live) < self._together:
            number = self._waiting.popleft()
            env = self._idle.pop() if self._idle else self._env.another()
            episode = RunningEpisode(env, self._plan[number], self._seed)
            self._live[number] = episode
            if isinstance(self._policy, SeededBatchPolicy):
                question_id, sample = episode.planned.key
                self._policy.seed_episode(number, f"{self._seed}/{question_id}/{sample}")
            if episode.planned.turns:
                assert isinstance(self._policy, ContinuingPolicy), "only a model continues episodes"
                self._policy.continue_from(number, episode.planned.turns)
            try:
                episode.begin()
            # Whatever is wrong with one question's database costs one episode, not all.
            except Exception as error:
                yield self._leave(number, error)
            else:
                self._tell(number)

    def _play_turns(self) -> Iterator[Played]:
        started = perf_counter()
        failed: Exception | None = None
        actions: Mapping[int, SQLAction | Exception] = {}
        try:
            actions = self._policy.act(self._new)
        except Exception as error:
            if len(self._live) == 1 or not ran_out_of_memory(error):
                failed = error
        else:
            self._new = {}
            yield from self._advance(actions, perf_counter() - started)
            return
        if failed is not None:  # nobody can say which episode it was: resuming plays them again
            for number in list(self._live):
                yield self._leave(number, failed)
        else:
            # Not where the error is handled: it holds on to what was too much.
            self._begin_again()

    def _advance(
        self, actions: Mapping[int, SQLAction | Exception], seconds: float
    ) -> Iterator[Played]:
        for episode in self._live.values():
            episode.policy_seconds += seconds / len(self._live)
        for number, action in actions.items():
            episode = self._live[number]
            if isinstance(action, Exception):
                yield self._leave(number, action)
                continue
            try:
                episode.advance(action)
            except Exception as error:  # as in `_begin_episodes`
                yield self._leave(number, error)
                continue
            seen = episode.observation
            if seen.done or (self._end_on_repeat and seen.metadata.get("repeated")):
                if self._watch is not None:
                    self._watch(seen, action)
                yield self._leave(number)
            else:
                self._tell(number, action)

    def _tell(self, number: int, action: SQLAction | None = None) -> None:
        self._new[number] = self._live[number].observation
        if self._watch is not None:
            self._watch(self._new[number], action)

    def _leave(self, number: int, error: Exception | None = None) -> Played:
        episode = self._live.pop(number)
        self._new.pop(number, None)
        self._idle.append(episode.env)
        return Played(number, episode.finish(error), self._policy.end(number), error)

    def _begin_again(self) -> None:
        numbers = list(self._live)
        self._together = len(numbers) // 2
        logger.warning(
            "too little memory for %d episodes at once: they begin again, %d at a time",
            len(numbers),
            self._together,
        )
        for number in reversed(numbers):
            self._idle.append(self._live.pop(number).env)
            self._policy.end(number)
            self._waiting.appendleft(number)
        self._new = {}
        self._policy.release()


class OneByOne:
    """A policy for one episode at a time, in the shape of one for many."""

    def __init__(self, policy: Policy) -> None:
        self._select_action = policy.select_action
        self._begin_episode = policy.begin_episode if isinstance(policy, SeededPolicy) else None

    def seed_episode(self, episode: int, seed: str) -> None:
        if self._begin_episode is not None:
            self._begin_episode(seed)

    def act(self, new: Mapping[int, SQLObservation]) -> dict[int, SQLAction | Exception]:
        return {number: self._select_action(seen) for number, seen in new.items()}

    def end(self, episode: int) -> None:
        pass

    def release(self) -> None:
        pass


class RunningEpisode:
    """An episode under way: an environment, its last observation, and the record so far."""

    def __init__(self, env: SQLEnvironment, planned: PlannedEpisode, seed: int) -> None:
        self.env = env
        self.planned = planned
        self.policy_seconds = 0.0
        self._seed = seed
        self.steps: list[Step] = []
        self._environment_seconds = 0.0
        self.observation: SQLObservation  # from `begin` on

    def begin(self) -> None:
        started = perf_counter()
        self.observation = self.env.reset(question_id=self.planned.record.question_id)
        self._environment_seconds = perf_counter() - started

    def advance(self, action: SQLAction) -> None:
        """Play `action` and record what came of it."""
        started = perf_counter()
        self.observation = seen = self.env.step(action)
        self._environment_seconds += perf_counter() - started
        metadata = seen.metadata
        parts = metadata["reward_parts"]
        shown = seen.shown
        self.steps.append(
            Step(
                action.action_type,
                action.argument,
                seen.result,
                seen.error,
                metadata.get("error_kind"),
                len(shown.rows) if shown is not None and shown.columns else None,
                parts["operational"],
                parts["progress"],
                parts["terminal"],
                action.metadata,
            )
        )

    def finish(self, error: Exception | None = None) -> EpisodeResult:
        """The record; `error` is what broke the episode off."""
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
            steps=tuple(self.steps),
            correct=metadata.get("correct", False),
            verdict=metadata.get("verdict", ""),
            stop_reason=metadata.get("stop_reason", BROKE_OFF if error else REPEATED),
            error="" if error is None else f"{type(error).__name__}: {error}",
            environment_seconds=self._environment_seconds,
            policy_seconds=self.policy_seconds,
        )


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether it is Python's error, torch's, or what torch says on a CPU.

    Known by their names, for torch is not imported here.
    """
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return bool(kinds & {"MemoryError", "OutOfMemoryError"}) or (
        "can't allocate memory" in str(error)
    )
