"""A GRPO run from beginning to end: a floor to beat, a trainer, and the training itself.

config = GRPOConfig.preset("cpu", output_dir="runs/first")
model, tokenizer = load_for_training(config)
trainer = build_trainer(config, model, tokenizer)
points = run_training_with_metrics(trainer, config)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sql_env.agent.playing import ran_out_of_memory
from sql_env.agent.policies import RandomPolicy
from sql_env.core.errors import UserError
from sql_env.evaluation.green_agent import EvaluationResult, evaluate
from sql_env.models import QuestionRecord
from sql_env.training.config import GRPOConfig
from sql_env.training.data_loading import (
    load_question_prompts,
    load_training_questions,
    schedule_prompts,
)
from sql_env.training.plots import RewardPoint
from sql_env.training.run_log import MODEL, ResumeError, RunLog, checkpoint_step
from sql_env.training.settings import ConfigError

if TYPE_CHECKING:
    from datasets import Dataset as RowDataset
    from transformers import TrainerCallback
    from trl import GRPOTrainer

BASELINE_EPISODES = 8
PLAYED_TOGETHER = 64


class TrainingMemoryError(UserError, MemoryError):
    """The memory was not enough; the message says which numbers to lower."""


def sample_random_baseline(
    config: GRPOConfig, n_episodes: int = BASELINE_EPISODES
) -> EvaluationResult:
    """Random play on the training questions: the floor that training has to leave."""
    with config.environment(load_training_questions(config)) as env:
        return evaluate(env, RandomPolicy(config.seed), n_episodes, seed=config.seed)


def evaluate_model(
    config: GRPOConfig,
    model: Any,
    tokenizer: Any,
    questions: Sequence[QuestionRecord],
    *,
    temperature: float = 0.0,
) -> EvaluationResult:
    """Let a model in memory play each question once; it is left as it was found."""
    import torch

    from sql_env.training.rollout import model_policy

    was_training = model.training
    cuda = [model.device] if model.device.type == "cuda" else []
    with (
        torch.random.fork_rng(devices=cuda),
        torch.no_grad(),
        config.environment(questions) as env,
    ):
        policy = model_policy(model.eval(), tokenizer, config, temperature=temperature)
        result = evaluate(env, policy, seed=config.seed, batch_size=PLAYED_TOGETHER)
    model.train(was_training)
    return result


def build_trainer(
    config: GRPOConfig,
    model: Any,
    tokenizer: Any,
    prompts: RowDataset | None = None,
    *,
    callbacks: Sequence[TrainerCallback] = (),
) -> GRPOTrainer:
    """TRL's `GRPOTrainer`, playing through `rollout_func`.

    Args:
        prompts: the training questions; default: what `load_question_prompts` gives.
        callbacks: besides the one that writes the run folder.

    Raises:
        ConfigError: what TRL refuses, or a vLLM server that does not answer.
    """
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    from sql_env.training.callbacks import RunLogCallback
    from sql_env.training.length_bucketing import BucketedGRPOTrainer, forget_trainers
    from sql_env.training.rewards import REWARD_FUNCTIONS
    from sql_env.training.rollout import TRLRollout

    log_callback = RunLogCallback(RunLog(config.output_dir), config.prompt_of_run)
    log_callback.rollout = TRLRollout(config, on_rollouts=log_callback.add_transcripts)
    forget_trainers(model)
    arguments = config.to_trl()
    try:
        trainer = BucketedGRPOTrainer(
            model=model,
            args=arguments,
            train_dataset=schedule_prompts(
                prompts if prompts is not None else load_question_prompts(config), config
            ),
            processing_class=tokenizer,
            reward_funcs=list(REWARD_FUNCTIONS),
            callbacks=[log_callback, *callbacks],
            rollout_func=log_callback.rollout,
        )
    except (OSError, RuntimeError) as error:
        if not arguments.use_vllm:
            raise
        raise ConfigError(f"trl.use_vllm: {' '.join(str(error).split())}") from error
    trainer.prompt = config.prompt_of_run
    # It would print every log as a dict between the lines of the progress bar.
    from transformers import PrinterCallback

    trainer.remove_callback(PrinterCallback)
    return trainer


def run_training_with_metrics(
    trainer: GRPOTrainer, config: GRPOConfig, *, resume: bool = False
) -> list[RewardPoint]:
    """Train, and return the mean reward of every logged step as (step, reward) pairs.

    The trained model lies in `<output_dir>/model` afterwards.

    Args:
        resume: go on from the last whole checkpoint in `config.output_dir`, with the questions
            that would have come next; after SFT, from the beginning where there is none.

    Raises:
        TrainingMemoryError: says which numbers to lower; the last checkpoint stays as it is.
        ResumeError: there is no checkpoint to resume from.
    """
    log = RunLog(config.output_dir)
    checkpoint: Path | None = None
    if resume:
        checkpoint = log.last_checkpoint()
        # A run that began with SFT has more to lose than its first steps of GRPO.
        if checkpoint is None and not config.sft.first:
            raise ResumeError(
                f"{log.path} holds no whole checkpoint (one is written every {config.save_steps} "
                "steps): start the run again in another folder"
            )
    if trainer.accelerator.is_main_process:
        if resume:
            log.forget_after(checkpoint_step(checkpoint) if checkpoint else 0)
        else:
            log.begin(config)
    trainer.accelerator.wait_for_everyone()
    try:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    except (RuntimeError, MemoryError) as error:
        if not ran_out_of_memory(error):
            raise
        raise TrainingMemoryError(_what_to_lower(config, log)) from error
    if trainer.is_fsdp_enabled:  # checkpoints may be cut up, the model is whole
        trainer.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")
    trainer.save_model(str(log.path / MODEL))
    if trainer.accelerator.is_main_process:
        config.prompt_of_run.save(log.path / MODEL)
    return reward_points(trainer.state.log_history)


def reward_points(rows: Sequence[dict[str, Any]]) -> list[RewardPoint]:
    """The (step, reward) pairs among logged rows."""
    return [RewardPoint(row["step"], row["reward"]) for row in rows if "reward" in row]


def _what_to_lower(config: GRPOConfig, log: RunLog) -> str:
    checkpoint = log.last_checkpoint()
    kept = f"The last checkpoint, {checkpoint}, is whole" if checkpoint else "No checkpoint yet"
    more = [] if config.to_trl().gradient_checkpointing else ["set trl.gradient_checkpointing=true"]
    more += [] if config.lora else ["train an adapter (lora.r=32)"]
    return (
        "out of memory. Lower one of these: "
        f"per_device_train_batch_size (now {config.per_device_train_batch_size}; raise "
        f"gradient_accumulation_steps, now {config.gradient_accumulation_steps}, to keep the "
        f"batch), num_generations (now {config.num_generations}), "
        f"max_context_tokens (now {config.max_context_tokens}), "
        f"max_new_tokens (now {config.max_new_tokens})"
        + "".join(f", or {item}" for item in more)
        + f". {kept}."
    )
