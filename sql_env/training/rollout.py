"""Whole episodes for a batch of prompts, as GRPO wants them.

`rollout_func` plays and returns one dict per prompt; `TRLRollout` is the same with the signature
that TRL's `GRPOTrainer(rollout_func=…)` wants. A prompt is a list of chat messages whose user
message carries the `question_id`; the environment then says what the first turn looks like. The
episodes are played by the loop that evaluation uses (`sql_env.agent.playing`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sql_env.agent.conversation import ChatLayout, Conversation
from sql_env.agent.episodes import EpisodeResult
from sql_env.agent.generation import (
    Completion,
    Generator,
    Sampling,
    conversations_that_fit,
    make_generator,
)
from sql_env.agent.model_policy import ModelPolicy
from sql_env.agent.parsing import parse_model_output
from sql_env.agent.playing import REPEATED, PlannedEpisode, plan_of, play
from sql_env.core.reward import RewardConfig
from sql_env.evaluation.metrics import first_query_failed
from sql_env.models import QuestionRecord, SQLAction
from sql_env.questions import load_questions
from sql_env.training.config import is_sharded
from sql_env.training.settings import ConfigError

if TYPE_CHECKING:
    from trl import GRPOTrainer

    from sql_env.training.config import GRPOConfig

__all__ = ["Rollout", "TRLRollout", "parse_model_output", "play_questions", "rollout_func"]

Message = Mapping[str, Any]
PLAYED_TOGETHER = 512
# Most turns name a table; the few long queries go on beside the next turns of the others.
STRAGGLERS = 0.2
# What an episode loses that `end_on_repeat` ends: as much as all else that it did can cost it.
REPEAT_PRICE = -RewardConfig().shaping_min


class PromptError(ValueError):
    """A prompt that does not say which question it is about."""


@dataclass(frozen=True)
class Rollout:
    """An episode that was played: its tokens and its record."""

    conversation: Conversation
    episode: EpisodeResult
    progress_scale: float

    @property
    def repeated(self) -> bool:
        """Whether `end_on_repeat` ended it."""
        return self.episode.stop_reason == REPEATED

    @property
    def failed_start(self) -> list[list[int]] | None:
        """The turns up to its first query, where that failed or found nothing.

        Not where nothing is the right answer: a policy that goes on from such states learns to
        believe every empty result.
        """
        if not first_query_failed(self.episode) or len(self.conversation.segments) > 1:
            return None
        first = next(step for step in self.episode.steps if step.action_type == "QUERY")
        return self.conversation.turns[: first.trace["turn"]]

    @property
    def metadata(self) -> dict[str, Any]:
        """What the reward functions and the logs read."""
        steps = self.episode.steps
        return {
            "correctness": float(self.episode.correct),
            "progress": normalised_progress(
                sum(step.progress for step in steps), self.progress_scale
            ),
            "operational": sum(step.operational for step in steps) - REPEAT_PRICE * self.repeated,
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
    table = questions_by_id(config)
    records = [table[question_id_of(prompt)] for prompt in prompts]
    policy = model_policy(model, tokenizer, config)
    return [as_row(rollout) for rollout in play_rollouts(records, policy, config)]


def play_questions(
    records: Sequence[QuestionRecord],
    model: Any,
    tokenizer: Any,
    config: GRPOConfig,
    *,
    temperature: float,
) -> list[list[SQLAction]]:
    """Play each question once and return the actions."""
    policy = model_policy(model, tokenizer, config, temperature=temperature)
    return [
        [
            SQLAction(action_type=step.action_type, argument=step.argument)
            for step in rollout.episode.steps
        ]
        for rollout in play_rollouts(records, policy, config)
    ]


def model_policy(
    model: Any, tokenizer: Any, config: GRPOConfig, *, temperature: float | None = None
) -> ModelPolicy:
    """A model in memory as a policy.

    Args:
        temperature: default: that of training episodes.
    """
    sampling = Sampling(
        config.max_new_tokens,
        config.temperature if temperature is None else temperature,
        config.top_p if temperature is None else 1.0,
    )
    generator = make_generator(
        model,
        tokenizer,
        sampling,
        max_length=config.max_context_tokens,
        engine=config.engine == "auto" and not is_sharded(),  # it needs whole weights
        copy_dtype=_copy_dtype(model, config),
        stragglers=STRAGGLERS,
    )
    return _policy(generator, model, tokenizer, config)


def play_rollouts(
    records: Sequence[QuestionRecord], policy: ModelPolicy, config: GRPOConfig
) -> list[Rollout]:
    """One episode for every record, in their order."""
    return play_plan(plan_of(records), policy, config)


def play_plan(
    plan: Sequence[PlannedEpisode], policy: ModelPolicy, config: GRPOConfig
) -> list[Rollout]:
    """The episodes of a plan, in their order."""
    policy.begin()
    questions = list({one.record.question_id: one.record for one in plan}.values())
    with config.environment(questions) as env:
        played = play(
            env,
            policy,
            plan,
            seed=config.seed,
            together=PLAYED_TOGETHER,
            end_on_repeat=config.end_on_repeat,
        )
        rollouts = {}
        for one in played:
            if one.cause is not None:
                raise RolloutError(
                    f"question {one.episode.question_id}: {one.episode.error}"
                ) from one.cause
            assert one.conversation is not None
            scale = config.reward_config.progress
            rollouts[one.number] = Rollout(one.conversation, one.episode, scale)
    return [rollouts[number] for number in range(len(plan))]


def with_retries(
    rollouts: Sequence[Rollout],
    records: Mapping[str, QuestionRecord],
    policy: ModelPolicy,
    config: GRPOConfig,
) -> tuple[list[Rollout], list[Rollout]]:
    """A round in which failed queries are tried again, and those new episodes.

    A group whose episodes end alike teaches nothing. As many of them as `config.retry_groups` says
    give way to groups that go on from a first query of this round that failed or found nothing.
    """
    size = config.num_generations
    groups = [list(rollouts[start : start + size]) for start in range(0, len(rollouts), size)]
    alike = [
        number
        for number, group in enumerate(groups)
        if len({(one.episode.correct, one.repeated) for one in group}) == 1
    ]
    failed: dict[str, list[list[int]]] = {}  # one of every question
    for rollout in rollouts:
        turns = rollout.failed_start
        if turns is not None and rollout.episode.question_id not in failed:
            failed[rollout.episode.question_id] = turns
    starts = list(failed.items())[: min(config.retry_groups, len(alike))]
    plan = [
        PlannedEpisode(records[question_id], sample, turns)
        for question_id, turns in starts
        for sample in range(size)
    ]
    again = play_plan(plan, policy, config) if plan else []
    for place, start in zip(alike, range(0, len(again), size), strict=False):
        groups[place] = again[start : start + size]
    return [rollout for group in groups for rollout in group], again


class RolloutError(RuntimeError):
    """An episode broke off: training on what is left of it would be wrong."""


class TRLRollout:
    """Rollouts for `GRPOTrainer(rollout_func=…)`: one row per prompt, as TRL wants them.

    TRL takes one row per prompt. An episode that outgrew its window has several segments; the
    row is the last, which ends with the answer (see `Conversation`).

    Args:
        config: the run's configuration.
        on_rollouts: called with every batch that was played, for logs and live plots.

    Attributes:
        seconds: what was spent so far in `generate`, in the `environment` and in `other` work.
        play: how the turns of this process's episodes went, one row for each round.
    """

    def __init__(
        self,
        config: GRPOConfig,
        on_rollouts: Callable[[list[Rollout]], None] | None = None,
    ) -> None:
        self.config = config
        self.seconds = {"generate": 0.0, "environment": 0.0, "other": 0.0}
        self.play: list[dict[str, float]] = []
        self._on_rollouts = on_rollouts
        self._questions = questions_by_id(config)
        self._policy: ModelPolicy | None = None
        self._shared: TrainerGenerator | None = None  # where all ranks generate together

    def __call__(self, prompts: list[list[Message]], trainer: GRPOTrainer) -> dict[str, Any]:
        if self._policy is None:
            self._policy = self._policy_of(trainer)
        records = [self._questions[question_id_of(prompt)] for prompt in prompts]
        started = time.perf_counter()
        rollouts = played = play_rollouts(records, self._policy, self.config)
        went = how_turns_went([rollout.episode for rollout in played])
        if self.config.retry_groups:
            rollouts, again = with_retries(played, self._questions, self._policy, self.config)
            went |= {
                "solved": share_solved(played),
                "retries": len(again) / len(played),
                "retries/solved": share_solved(again),
            }
            played = [*played, *again]
        self._book(played, time.perf_counter() - started)
        self.play.append(went)
        if self._shared is not None:
            self._shared.join_others()
        if self._on_rollouts is not None:
            self._on_rollouts(rollouts)
        talks = [rollout.conversation for rollout in rollouts]
        metadata = [rollout.metadata for rollout in rollouts]
        sampled = [talk.logprobs for talk in talks]
        return {
            "prompt_ids": [talk.prompt_ids for talk in talks],
            "completion_ids": [talk.completion_ids for talk in talks],
            "env_mask": [talk.env_mask for talk in talks],
            "logprobs": sampled if trainer.use_vllm or _all_known(sampled) else None,
            **{name: [row[name] for row in metadata] for name in metadata[0]},
        }

    def _policy_of(self, trainer: GRPOTrainer) -> ModelPolicy:
        sharded = trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled
        if self.config.engine == "generate" or trainer.use_vllm or sharded:
            ends = ChatLayout.of(trainer.processing_class, trainer.model).stop_ids
            if self.config.retry_groups:
                raise ConfigError("retry_groups needs the engine: set it to 0 for this run")
            self._shared = TrainerGenerator(trainer, self.config.max_new_tokens, sorted(ends))
            return _policy(self._shared, trainer.model, trainer.processing_class, self.config)
        model = trainer.accelerator.unwrap_model(trainer.model_wrapped)
        return model_policy(model, trainer.processing_class, self.config)

    def _book(self, rollouts: list[Rollout], seconds: float) -> None:
        spent = {
            "generate": sum(rollout.episode.policy_seconds for rollout in rollouts),
            "environment": sum(rollout.episode.environment_seconds for rollout in rollouts),
        }
        spent["other"] = max(0.0, seconds - sum(spent.values()))
        for name, value in spent.items():
            self.seconds[name] += value


class TrainerGenerator:
    """Whatever TRL's trainer is set up with: vLLM, continuous batching or `generate`.

    The only place that calls a private method of TRL.

    Args:
        stop_ids: tokens that end a turn.
    """

    def __init__(self, trainer: GRPOTrainer, max_new_tokens: int, stop_ids: Sequence[int]) -> None:
        self._trainer = trainer
        if trainer.use_vllm:
            vllm = trainer.vllm_generation
            vllm.max_completion_length = max_new_tokens
            vllm.generation_kwargs = {"stop_token_ids": [*stop_ids], **vllm.generation_kwargs}
        else:
            trainer.generation_config.max_new_tokens = max_new_tokens
            trainer.generation_config.eos_token_id = [*stop_ids]
        # Where ranks ask one model, TRL cuts its answer into equal parts, one for each rank.
        shared = trainer.vllm_mode == "server" or trainer.args.vllm_tensor_parallel_size > 1
        self._equal_parts = trainer.use_vllm and shared

    def begin(self) -> None:
        pass

    def release(self) -> None:
        pass

    def generate(self, contexts: Sequence[list[int]]) -> list[Completion]:
        most = self._most(len(contexts))  # asked by every rank, whether it needs to know or not
        missing = most - len(contexts) if self._equal_parts else 0
        ids, logprobs = self._turn([*contexts, *[self._idle] * missing])
        each = logprobs if logprobs is not None else [None] * len(ids)
        turns = zip(ids[: len(contexts)], each[: len(contexts)], strict=True)
        return [Completion(list(turn), known) for turn, known in turns]

    def join_others(self) -> None:
        """Take part in the turns of ranks that still play, until none does.

        Sharded weights and a vLLM server are used by all ranks at once: one that left when its own
        episodes were over would keep the others waiting for ever.
        """
        while most := self._most(0):
            self._turn([self._idle] * (most if self._equal_parts else 1))

    @property
    def _idle(self) -> list[int]:
        return [self._trainer.processing_class.eos_token_id]

    def _turn(self, contexts: list[list[int]]) -> tuple[Any, Any]:
        ids, logprobs = self._trainer._generate_single_turn(contexts, None, {}, 1)
        return ids, logprobs

    def _most(self, here: int) -> int:
        """How many episodes the rank with the most of them plays on."""
        import torch

        accelerator = self._trainer.accelerator
        if accelerator.num_processes == 1:
            return here
        counts = accelerator.gather(torch.tensor([here], device=accelerator.device))
        return int(counts.max().item())


def how_turns_went(episodes: Sequence[EpisodeResult]) -> dict[str, float]:
    """Turns an episode, and the shares of them that were understood, failed and were cut off."""
    steps = [step for episode in episodes for step in episode.steps]
    turns = [step for step in steps if "raw" in step.trace]  # a turn may have several actions
    return {
        "turns": len(turns) / len(episodes),
        "parsed": sum(bool(step.trace.get("parsed")) for step in turns) / len(turns),
        "errors": sum(bool(step.error) for step in steps) / len(steps),
        "completions/clipped_ratio": sum("cut_off" in turn.trace for turn in turns) / len(turns),
    }


def share_solved(rollouts: Sequence[Rollout]) -> float:
    """The share of right answers; 0 where there are no episodes."""
    return sum(rollout.episode.correct for rollout in rollouts) / max(1, len(rollouts))


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


def _all_known(logprobs: list[list[float]]) -> bool:
    return not any(math.isnan(value) for row in logprobs for value in row)


def _policy(generator: Generator, model: Any, tokenizer: Any, config: GRPOConfig) -> ModelPolicy:
    prompt = config.prompt_of_run
    return ModelPolicy(
        generator,
        ChatLayout.of(tokenizer, model, **prompt.for_template, **config.template_kwargs),
        prompt=prompt,
        max_tokens=config.max_context_tokens,
        max_new_tokens=config.max_new_tokens,
        room=conversations_that_fit(model, config.max_context_tokens),
    )


def _copy_dtype(model: Any, config: GRPOConfig) -> Any:
    """On a GPU, weights that training casts in every forward are cast once per rollout."""
    import torch

    wanted = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(config.resolved_precision())
    return wanted if model.device.type == "cuda" and model.dtype != wanted else None
