"""What settings of version 0.1 are called now. To be deleted after version 0.2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SETTINGS = {
    "warmup.first": "sft.first",
    "warmup.split": "sft.split",
    "warmup.mix.slip": "sft.mix.corrupt",
    "warmup.mix.survey": "sft.mix.describe_tables",
    "warmup.mix.detour": "sft.mix.extra_table",
    "warmup.mix.look": "sft.mix.list_values",
    "warmup.mix": "sft.mix",
    "warmup.copies": "",
    "warmup.trajectories": "sft.demonstrations",
    "warmup.trajectories_per_question": "sft.split (train*4 plays four of each question)",
    "warmup.recovery_epochs": "sft.dagger_epochs",
    "warmup.recovery_split": "sft.dagger_split",
    "warmup.recovery_questions": "sft.dagger_questions",
    "warmup.recovery_temperature": "",
    "warmup.recovery_rate": "",
    "warmup.recovery_weight": "sft.dagger_weight",
    "warmup.weight_decay": "sft.trl.weight_decay",
    "warmup.max_steps": "sft.trl.max_steps",
    "warmup.gradient_accumulation_steps": "sft.trl.gradient_accumulation_steps",
    "warmup.logging_steps": "sft.trl.logging_steps",
    "warmup.save_steps": "sft.trl.save_steps",
    "warmup": "sft",
    "average_checkpoints": "",
    "temperature": "trl.temperature",
    "top_p": "trl.top_p",
    "steps_per_generation": "trl.steps_per_generation",
    "use_vllm": "trl.use_vllm",
    "enable_thinking": "trl.chat_template_kwargs.enable_thinking",
    "beta": "trl.beta",
    "loss_type": "trl.loss_type",
    "scale_rewards": "trl.scale_rewards",
    "num_iterations": "trl.num_iterations",
    "max_grad_norm": "trl.max_grad_norm",
    "lr_scheduler_type": "trl.lr_scheduler_type",
    "lr_warmup_steps": "trl.warmup_steps",
    "save_total_limit": "trl.save_total_limit",
    "correctness_weight": "trl.reward_weights (of correctness, progress, operational)",
    "progress_weight": "trl.reward_weights (of correctness, progress, operational)",
    "operational_weight": "trl.reward_weights (of correctness, progress, operational)",
    "lora.dropout": "",
    "lora.target_modules": "",
    "allow_last": "",
    "gradient_checkpointing": "trl.gradient_checkpointing",
    "adapter": "actions (text or tools)",
    "transcripts_per_round": "",
    "plot_every": "",
    "max_questions": "",
    "transcript_every": "",
}
"""Settings of training runs; an empty name: there is no such setting any more."""


def renamed_settings(values: Mapping[str, Any]) -> Iterator[str]:
    """A sentence about every setting in `values` that has another name now."""
    for old in _dotted_names(values):
        for beginning in _beginnings(old):
            if beginning in SETTINGS:
                new = SETTINGS[beginning]
                rest = old.removeprefix(beginning)
                yield f"{old} is called {new}{rest} now" if new else f"{old} is gone: leave it out"
                break


def _dotted_names(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        yield from (
            _dotted_names(value, f"{prefix}{name}.")
            if isinstance(value, Mapping) and value
            else [f"{prefix}{name}"]
        )


def _beginnings(name: str) -> Iterator[str]:
    """The longest first: `a.b.c`, `a.b`, `a`."""
    while name:
        yield name
        name = name.rpartition(".")[0]
