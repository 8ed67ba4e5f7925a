"""Going on with a run under other settings: those that can change are applied and recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import Trainer

from sql_env.training.config import GRPOConfig
from sql_env.training.run_log import (
    CORRECTIONS_FILE,
    DEMONSTRATIONS_FILE,
    MODEL,
    SFT,
    ResumeError,
    RunLog,
)

# What the weights, the optimiser's state or the order of the questions are made of.
_FIXED = (
    *("model_name", "seed", "questions_path", "db_dir", "train_split", "difficulty_filter"),
    *("prompt", "actions", "lora", "trl.optim", "sft.trl.optim", "sft.first"),
)
_SHOWN = ("sft.split", "sft.mix", "sft.demonstrations")
_CORRECTED = ("sft.dagger_split", "sft.dagger_questions")


def change_settings(log: RunLog, config: GRPOConfig) -> dict[str, dict[str, Any]]:
    """Record in what `config` differs from the settings of a run that goes on.

    Returns:
        What each changed setting `was` and `is`.

    Raises:
        ResumeError: names a setting that cannot change any more.
    """
    was, now = _flat(log.config().to_dict()), _flat(config.to_dict())
    changed = {
        name: {"was": was.get(name), "is": now.get(name)}
        for name in sorted(was.keys() | now.keys())
        if was.get(name) != now.get(name) and name != "output_dir"
    }
    for name in changed:
        if why := _why_fixed(log, name):
            raise ResumeError(
                f"{name} cannot change in {log.path}: {why}. Begin another run (--out)"
            )
    if changed:
        log.change(config, changed)
    return changed


def _why_fixed(log: RunLog, name: str) -> str:
    sft = log.path / SFT if (log.path / SFT).is_dir() else log.path
    after_sft = any(session["phase"] == "grpo" for session in log.sessions())
    if _is_one_of(name, _FIXED):
        return "its checkpoints depend on it"
    if name.startswith("sft.") and (after_sft or (sft / MODEL).is_dir()):
        return "its SFT is over"
    if _is_one_of(name, _SHOWN) and (sft / DEMONSTRATIONS_FILE).is_file():
        return "its demonstrations are played"
    if _is_one_of(name, _CORRECTED) and (sft / CORRECTIONS_FILE).is_file():
        return "its corrections are played"
    return ""


def _is_one_of(name: str, settings: tuple[str, ...]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in settings)


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


class KeepsArguments(Trainer):  # type: ignore[misc]  # transformers is untyped
    """A trainer whose arguments count, not those a checkpoint's optimiser was saved with."""

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        wanted = [
            {name: value for name, value in group.items() if name != "params"}
            for group in self.optimizer.param_groups
        ]
        super()._load_optimizer_and_scheduler(checkpoint)
        factors = getattr(self.lr_scheduler, "lr_lambdas", None)
        if checkpoint is None or factors is None:
            return
        scheduler = self.lr_scheduler
        scheduler.base_lrs = [group["initial_lr"] for group in wanted]
        for group, old, factor in zip(self.optimizer.param_groups, wanted, factors, strict=True):
            group.update(old, lr=old["initial_lr"] * factor(scheduler.last_epoch))
        scheduler._last_lr = [group["lr"] for group in self.optimizer.param_groups]
