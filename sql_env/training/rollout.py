"""Whole episodes for a batch of prompts, all live ones generated together in every turn.

`rollout_func` plays and returns one dict per prompt; `TRLRollout` is the same with the signature
that TRL's `GRPOTrainer(rollout_func=…)` wants. A prompt is a list of chat messages whose user
message carries the `question_id`; the environment then says what the first turn looks like.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sql_env.agent.conversation import ChatLayout, Conversation
from sql_env.agent.episodes import EpisodeResult
from sql_env.agent.generation import (
    Backend,
    Completion,
    TrainerBackend,
    choose_backend,
    layout_of,
)
from sql_env.agent.parsing import parse_model_output
from sql_env.agent.playing import PlannedEpisode, RunningEpisode
from sql_env.agent.prompts import format_observation, get_system_prompt
from sql_env.environment import SQLEnvironment
from sql_env.models import QuestionRecord, SQLAction
from sql_env.questions import load_questions

if TYPE_CHECKING:
    from trl import GRPOTrainer

    from sql_env.training.config import GRPOConfig

__all__ = ["Rollout", "TRLRollout", "parse_model_output", "play_questions", "rollout_func"]

Message = Mapping[str, Any]
PLAYED_TOGETHER = 512
REPEATED = "repeated"  # why an episode ended under `end_on_repeat`


class PromptError(ValueError):
    """A prompt that does not say which question it is about."""


@dataclass(frozen=True)
class Rollout:
    """An episode that was played: its tokens and its record."""

    conversation: Conversation
    episode: EpisodeResult
    progress_scale: float

    @property
    def metadata(self) -> dict[str, Any]:
        """What the reward functions and the logs read."""
        steps = self.episode.steps
        return {
            "correctness": float(self.episode.correct),
            "progress": normalised_progress(
                sum(step.progress for step in steps), self.progress_scale
            ),
            "operational": sum(step.operational for step in steps),
            "steps": len(steps),
            "stop_reason": self.episode.stop_reason,
            "env_reward": self.episode.reward,
        }


def normalised_progress(total: float, scale: float) -> float:
    """The progress layer's sum as a share of what it can pay; 0 where it pays nothing."""
    return min(1.0, max(0.0, total / scale)) if scale else 0.0


def rollout_func(
    prompts: Sequence[Sequence[Message]],
    model: Any,
    tokenizer: Any,
    config: GRPOConfig,
) -> list[dict[str, Any]]:
    """Play one episode per prompt with `model`.

    Returns:
        For each prompt `prompt_ids`, `completion_ids`, `env_mask` and `logprobs` (token ids to
        train on), `completion` (their text), `question_id`, the metadata that the rewards read
        (`correctness`, `progress`, `operational`, `steps`, `stop_reason`, `env_reward`), and the
        whole record as `episode`.
    """
    layout = layout_of(tokenizer, config)
    backend = choose_backend(model, tokenizer, config)
    table = questions_by_id(config)
    records = [table[question_id_of(prompt)] for prompt in prompts]
    return [as_row(rollout) for rollout in play(records, layout, backend, config)]


def play_questions(
    records: Sequence[QuestionRecord], model: Any, tokenizer: Any, config: GRPOConfig
) -> list[list[SQLAction]]:
    """Play each question once and return the actions."""
    backend = choose_backend(model, tokenizer, config)
    layout = layout_of(tokenizer, config)
    return [
        [
            SQLAction(action_type=step.action_type, argument=step.argument)
            for step in rollout.episode.steps
        ]
        for start in range(0, len(records), PLAYED_TOGETHER)
        for rollout in play(records[start : start + PLAYED_TOGETHER], layout, backend, config)
    ]


class TRLRollout:
    """Rollouts for `GRPOTrainer(rollout_func=…)`: one row per prompt, as TRL wants them.

    TRL takes one row per prompt. An episode that outgrew its window has several segments; the
    row is the last, which ends with the answer (see `Conversation`).

    Args:
        config: the run's configuration.
        on_rollouts: called with every batch that was played, for logs and live plots.

    Attributes:
        seconds: what was spent so far in `generate`, in the `environment` and in `other` work.
    """

    def __init__(
        self,
        config: GRPOConfig,
        on_rollouts: Callable[[list[Rollout]], None] | None = None,
    ) -> None:
        self.config = config
        self.seconds = {"generate": 0.0, "environment": 0.0, "other": 0.0}
        self._on_rollouts = on_rollouts
        self._questions = questions_by_id(config)
        self._layout: ChatLayout | None = None
        self._backend: Backend | None = None

    def __call__(self, prompts: list[list[Message]], trainer: GRPOTrainer) -> dict[str, Any]:
        if self._layout is None or self._backend is None:
            self._layout = layout_of(trainer.processing_class, self.config)
            self._backend = self._backend_of(trainer)
        records = [self._questions[question_id_of(prompt)] for prompt in prompts]
        rollouts = play(records, self._layout, self._backend, self.config, self.seconds)
        if isinstance(self._backend, TrainerBackend):
            self._backend.keep_company()
        if self._on_rollouts is not None:
            self._on_rollouts(rollouts)
        talks = [rollout.conversation for rollout in rollouts]
        metadata = [rollout.metadata for rollout in rollouts]
        return {
            "prompt_ids": [talk.prompt_ids for talk in talks],
            "completion_ids": [talk.completion_ids for talk in talks],
            "env_mask": [talk.env_mask for talk in talks],
            # TRL wants them for vLLM's importance sampling and for nothing else.
            "logprobs": [talk.logprobs for talk in talks] if trainer.use_vllm else None,
            **{name: [row[name] for row in metadata] for name in metadata[0]},
        }

    def _backend_of(self, trainer: GRPOTrainer) -> Backend:
        sharded = trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled
        if self.config.engine == "generate" or trainer.use_vllm or sharded:
            return TrainerBackend(trainer, self.config.max_new_tokens)
        model = trainer.accelerator.unwrap_model(trainer.model_wrapped)
        return choose_backend(model, trainer.processing_class, self.config)


def play(
    records: Sequence[QuestionRecord],
    layout: ChatLayout,
    backend: Backend,
    config: GRPOConfig,
    seconds: dict[str, float] | None = None,
) -> list[Rollout]:
    """Play one episode per record, generating for all that are still running together.

    Episodes whose turn the backend leaves unfinished stay in it while the others go on.

    Args:
        seconds: where the time goes is added here.
    """
    seconds = seconds if seconds is not None else {}
    clock = _Stopwatch(seconds)
    reward = config.reward_config
    make = partial(
        SQLEnvironment,
        db_dir=config.dataset.db_dir,
        step_budget=config.step_budget,
        reward=reward,
        allow_last=config.allow_last,
    )
    episodes = [
        RunningEpisode(make(questions=[record]), PlannedEpisode(record, sample), config.seed)
        for sample, record in enumerate(records)
    ]
    for episode in episodes:
        episode.begin()
    clock.lap("environment")
    talks = [
        Conversation(
            layout,
            get_system_prompt(),
            format_observation(episode.observation),
            max_tokens=config.max_context_tokens,
            reserve=config.max_new_tokens,
        )
        for episode in episodes
    ]
    backend.begin()
    live = list(range(len(episodes)))
    thought = [0.0] * len(episodes)
    begun: dict[int, Completion] = {}  # turns that are not finished yet
    while live:
        contexts = [
            talks[i].context_ids + begun[i].ids if i in begun else talks[i].context_ids
            for i in live
        ]
        clock.lap("other")
        written = backend.generate(contexts)
        each = clock.lap("generate") / len(live)
        for i, part in zip(live, written, strict=True):
            begun[i] = begun[i].then(part) if i in begun else part
            thought[i] += each
        turns = {i: begun.pop(i) for i in live if begun[i].finished}
        actions = {
            i: _understand(talks[i].add_completion(turn.ids, turn.logprobs))
            for i, turn in turns.items()
        }
        clock.lap("other")
        for i, action in actions.items():
            episodes[i].advance(action, thought[i])
            thought[i] = 0.0
        clock.lap("environment")
        over = {
            i
            for i in actions
            if episodes[i].observation.done or (config.end_on_repeat and episodes[i].repeats_itself)
        }
        live = [i for i in live if i not in over]
        for i in actions.keys() - over:
            talks[i].add_observation(format_observation(episodes[i].observation))
    for episode in episodes:
        episode.env.close()
    clock.lap("other")
    return [
        Rollout(talk, episode.finish(stop_reason=REPEATED), reward.progress)
        for talk, episode in zip(talks, episodes, strict=True)
    ]


def as_row(rollout: Rollout) -> dict[str, Any]:
    """A rollout as a plain dict."""
    talk = rollout.conversation
    return {
        "prompt_ids": talk.prompt_ids,
        "completion_ids": talk.completion_ids,
        "env_mask": talk.env_mask,
        "logprobs": talk.logprobs,
        "completion": talk.layout.decode(talk.completion_ids),
        "question_id": rollout.episode.question_id,
        **rollout.metadata,
        "episode": rollout.episode,
    }


def questions_by_id(config: GRPOConfig) -> dict[str, QuestionRecord]:
    """Every question of the configured dataset."""
    return {record.question_id: record for record in load_questions(config.dataset.questions_path)}


def question_id_of(prompt: Sequence[Message]) -> str:
    """The question a prompt is about.

    TRL passes no dataset columns to a rollout function, so the id lies on the user message.
    """
    for message in prompt:
        question_id = message.get("question_id")
        if question_id is not None:
            return str(question_id)
    raise PromptError(
        f"no message of the prompt {list(prompt)!r:.200} has a 'question_id': build prompts with "
        "load_question_prompts()"
    )


def _understand(text: str) -> SQLAction:
    action = parse_model_output(text)
    return action.model_copy(update={"metadata": {"raw": text, "parsed": True} | action.metadata})


class _Stopwatch:
    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds
        self._last = time.perf_counter()

    def lap(self, name: str) -> float:
        """Book the time since the last lap under `name`."""
        now = time.perf_counter()
        passed, self._last = now - self._last, now
        self._seconds[name] = self._seconds.get(name, 0.0) + passed
        return passed
