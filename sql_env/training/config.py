"""`GRPOConfig`: everything a training run can be told, checked when it is built.

    config = GRPOConfig(model_name="smollm2-135m", num_generations=8)
    config = GRPOConfig.load(preset="cpu", file="run.toml", settings=["learning_rate=1e-5"])
    trl_config = config.to_trl()

`.to_trl()` is the only place that knows both this dataclass and TRL's.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sql_env.agent.prompts import Actions, Prompt, PromptVersion, prompt_of_model
from sql_env.core.reward import RewardConfig
from sql_env.environment import SQLEnvironment
from sql_env.models import Difficulty, QuestionRecord
from sql_env.questions import Dataset
from sql_env.training.demonstrations import DemonstrationMix
from sql_env.training.passthrough import build_trl
from sql_env.training.presets import PRESETS
from sql_env.training.renames import renamed_settings
from sql_env.training.settings import (
    ConfigError,
    check_fields,
    from_mapping,
    merge,
    number,
    parse_assignments,
    read_file,
)

if TYPE_CHECKING:
    from peft import LoraConfig
    from trl import GRPOConfig as TRLGRPOConfig
    from trl import SFTConfig as TRLSFTConfig

Precision = Literal["auto", "fp32", "bf16", "fp16"]
REWARD_WEIGHTS = (1.0, 0.15, 1.0)  # of correctness, progress, operational


@dataclass(frozen=True)
class LoraSettings:
    """Train low-rank adapters instead of the whole model.

    Attributes:
        load_in_4bit: keep the model under the adapter in 4 bits (QLoRA); needs bitsandbytes.
    """

    r: int = field(default=32, metadata={"min": 1})
    alpha: int = field(default=64, metadata={"min": 1})
    load_in_4bit: bool = False

    def __post_init__(self) -> None:
        check_fields(self)

    def to_peft(self) -> LoraConfig:
        """The same settings as PEFT wants them."""
        from peft import LoraConfig

        return LoraConfig(
            r=self.r,
            lora_alpha=self.alpha,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
        )


@dataclass(frozen=True)
class SFTSettings:
    """Supervised fine-tuning on demonstrations, before GRPO.

    Attributes:
        first: `sql-env train` begins with it, in the run's folder `sft`.
        split: the questions to demonstrate; several splits as `train+wide`, one that counts four
            times, in four variants, as `train*4+wide`.
        mix: how often each variant of a demonstration occurs.
        demonstrations: a file that `sql-env demonstrations` wrote, instead of playing them anew.
        dagger_epochs: a second stage adds expert corrections of the model's own errors; 0 is off.
        dagger_split: the questions that the model plays to make errors; None plays those that were
            demonstrated. Of questions that it knows by heart a model gets few wrong.
        dagger_questions: play only so many of them; None plays all.
        dagger_weight: how often each correction is shown in an epoch of the second stage.
        trl: fields of TRL's `SFTConfig`, as in `sft.trl.save_steps=400`.
    """

    first: bool = False
    split: str = "train"
    mix: DemonstrationMix = field(default_factory=DemonstrationMix)
    demonstrations: str | None = None
    dagger_epochs: float = field(default=0.0, metadata={"min": 0.0})
    dagger_split: str | None = None
    dagger_questions: int | None = field(default=None, metadata={"min": 1})
    dagger_weight: int = field(default=1, metadata={"min": 1})
    num_train_epochs: float = field(default=2.0, metadata={"above": 0.0})
    learning_rate: float = field(default=1e-4, metadata={"above": 0.0})
    per_device_train_batch_size: int = field(default=8, metadata={"min": 1})
    trl: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class GRPOConfig:
    """A GRPO run: the model, the questions, the optimiser, the rollouts, the reports.

    Attributes:
        model_name: a hub id, a folder (a PEFT adapter folder too), or `smollm2-135m`.
        max_new_tokens: tokens the model may write per turn.
        max_context_tokens: the window; a conversation that outgrows it is cut to the system
            prompt and its last three turns.
        questions_path: a question file or folder; None is the embedded data.
        db_dir: the folder of databases; None is the embedded data.
        train_split: the questions to train on, with weights as in `train*4+wide`; eval_split
            those to watch.
        end_on_repeat: end a training episode at an action that was played before (capitals make no
            other), and take 0.2 for it, with either reward. A policy that repeats a failed query
            learns that it leads nowhere, sooner.
        retry_groups: of the groups of a round whose episodes end alike, so many give way to groups
            that go on from a first query of that round which failed or found nothing.
        reward: `dense`, or `binary` for nothing but the terminal reward.
        prompt: how the model is spoken to; None is what it was trained with, else the newest.
        actions: the model writes them as lines of text, or as calls of its chat template's tools;
            None is what it was trained with, else text.
        engine: `auto` is the lock-step engine where it can run, `generate` transformers' own.
        precision: of the arithmetic; weights stay fp32 in full fine-tuning. `auto` is bf16 on a
            GPU that has it, fp16 on an older one, fp32 on a CPU.
        compile_layers: let torch fuse each layer's small operations; worth its minute of compiling
            on a GPU, in a run of many minutes.
        save_steps: a checkpoint every so many steps.
        evaluate_every: play `evaluate_episodes` of each split every so many steps, and show one.
        trl: fields of TRL's `GRPOConfig`, as in `trl.epsilon_high=0.28`.
    """

    model_name: str = "Qwen/Qwen3-1.7B"
    max_new_tokens: int = field(default=256, metadata={"min": 1})
    num_train_epochs: float = field(default=1.0, metadata={"above": 0.0})
    per_device_train_batch_size: int = field(default=2, metadata={"min": 1})
    gradient_accumulation_steps: int = field(default=4, metadata={"min": 1})
    learning_rate: float = field(default=5e-6, metadata={"above": 0.0})
    num_generations: int = field(default=4, metadata={"min": 2})
    questions_path: str | None = None
    db_dir: str | None = None
    step_budget: int = field(default=10, metadata={"min": 1})
    difficulty_filter: list[Difficulty] = field(default_factory=lambda: ["easy", "medium"])
    seed: int = field(default=42, metadata={"min": 0})
    output_dir: str = "runs/grpo"
    logging_steps: int = field(default=10, metadata={"min": 1})

    # The questions and what playing them pays.
    train_split: str = "train"
    eval_split: str = "eval"
    end_on_repeat: bool = False
    retry_groups: int = field(default=0, metadata={"min": 0})
    reward: Literal["dense", "binary"] = "dense"

    # The rollouts.
    max_context_tokens: int = field(default=4096, metadata={"min": 64})
    prompt: PromptVersion | None = None
    actions: Actions | None = None
    engine: Literal["auto", "generate"] = "auto"

    # The update.
    max_steps: int | None = field(default=None, metadata={"min": 1})
    lora: LoraSettings | None = None
    precision: Precision = "auto"
    device: Literal["auto", "cpu"] = "auto"
    compile_layers: bool = False
    trl: dict[str, Any] = field(default_factory=dict)

    # What is kept and shown.
    save_steps: int = field(default=50, metadata={"min": 1})
    evaluate_every: int = field(default=50, metadata={"min": 1})
    evaluate_episodes: int = field(default=3, metadata={"min": 1})

    sft: SFTSettings = field(default_factory=SFTSettings)

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.model_name:
            raise ConfigError("model_name is empty: give a hub id, a folder or smollm2-135m")
        if not self.difficulty_filter:
            raise ConfigError(
                "difficulty_filter is []: allowed is a list of at least one of easy, medium, "
                "hard, extra"
            )
        if (self.questions_path is None) != (self.db_dir is None):
            given = "questions_path" if self.questions_path else "db_dir"
            raise ConfigError(
                f"{given} is set alone: give both questions_path and db_dir, or neither for the "
                "embedded data"
            )
        if self.max_new_tokens >= self.max_context_tokens:
            raise ConfigError(
                f"max_new_tokens is {self.max_new_tokens}: allowed is less than "
                f"max_context_tokens ({self.max_context_tokens})"
            )
        if self.episodes_per_round % self.num_generations:
            raise ConfigError(
                f"num_generations is {self.num_generations}: allowed is a divisor of the "
                f"{self.episodes_per_round} episodes of one round (per_device_train_batch_size "
                f"{self.per_device_train_batch_size} x "
                f"{self._micro_batches} micro-batches x {_world_size()} processes)"
            )
        if self.retry_groups and self.episodes_per_round // _world_size() % self.num_generations:
            raise ConfigError(
                f"retry_groups is {self.retry_groups}: every process needs whole groups then; "
                f"raise gradient_accumulation_steps (now {self.gradient_accumulation_steps}), or "
                "set it to 0"
            )

    @classmethod
    def load(
        cls,
        preset: str | None = None,
        file: Path | str | None = None,
        settings: Sequence[str] = (),
        **values: Any,
    ) -> GRPOConfig:
        """From a preset, over it a file, over it `field=value` strings, over it keywords.

        Raises:
            ConfigError: names the field, its value and what is allowed.
        """
        merged: dict[str, Any] = {}
        sources = []
        if preset is not None:
            if preset not in PRESETS:
                raise ConfigError(f"preset is {preset!r}: allowed is one of {', '.join(PRESETS)}")
            merged = PRESETS[preset]
            sources.append(f"preset {preset}")
        if file is not None:
            merged = merge(merged, read_file(file))
            sources.append(str(file))
        if settings:
            merged = merge(merged, parse_assignments(settings))
            sources.append("--set")
        merged = merge(merged, values)
        source = " + ".join(sources) or "config"
        for renamed in renamed_settings(merged):
            raise ConfigError(f"{source}: {renamed}")
        config: GRPOConfig = from_mapping(cls, merged, source)
        return config

    @classmethod
    def preset(cls, name: str, **values: Any) -> GRPOConfig:
        """The preset `name` (colab, cpu, gpu, qwen), with `values` over it."""
        return cls.load(preset=name, **values)

    @classmethod
    def from_file(cls, path: Path | str) -> GRPOConfig:
        """The configuration in a TOML, YAML or JSON file."""
        return cls.load(file=path)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `from_file` reads them back."""
        return asdict(self)

    @property
    def dataset(self) -> Dataset:
        """Where the questions and the databases lie."""
        if self.questions_path is None or self.db_dir is None:
            return Dataset.embedded()
        return Dataset(Path(self.questions_path), Path(self.db_dir))

    @property
    def temperature(self) -> float:
        """At which training episodes are sampled."""
        return float(self._trl_number("temperature", 1.0))

    @property
    def top_p(self) -> float:
        """The share of the probability that training episodes are sampled from."""
        return float(self._trl_number("top_p", 1.0))

    @property
    def prompt_of_run(self) -> Prompt:
        """How the model is spoken to in every stage of the run, and how it writes its actions."""
        own = prompt_of_model(self.model_name)
        return Prompt(self.prompt or own.version, self.actions or own.actions)

    @property
    def template_kwargs(self) -> dict[str, Any]:
        """What the chat template is told besides the turns, such as `enable_thinking`."""
        return dict(self.trl.get("chat_template_kwargs", {}))

    @property
    def episodes_per_round(self) -> int:
        """How many episodes are played, over all processes, between two rounds of updates."""
        return self.per_device_train_batch_size * self._micro_batches * _world_size()

    @property
    def steps_per_round(self) -> int:
        """How many updates are made with the episodes of one round."""
        made = self._micro_batches * int(self._trl_number("num_iterations", 1))
        return max(1, made // self.gradient_accumulation_steps)

    @property
    def _micro_batches(self) -> int:
        """How many a round of episodes is cut into."""
        own = self.gradient_accumulation_steps
        return int(self._trl_number("steps_per_generation", own)) or own

    def _trl_number(self, name: str, default: float) -> float:
        value = self.trl.get(name)
        return default if value is None else number(f"trl.{name}", value, type(default))

    @property
    def reward_config(self) -> RewardConfig:
        """The environment's reward values."""
        return RewardConfig.binary() if self.reward == "binary" else RewardConfig()

    def environment(
        self, questions: Sequence[QuestionRecord], *, allow_last: bool = True
    ) -> SQLEnvironment:
        """An environment with the run's databases, budget and reward.

        Args:
            allow_last: accept `ANSWER: @last`.
        """
        return SQLEnvironment(
            db_dir=self.dataset.db_dir,
            questions=questions,
            step_budget=self.step_budget,
            reward=self.reward_config,
            allow_last=allow_last,
        )

    def resolved_precision(self) -> Literal["fp32", "bf16", "fp16"]:
        """What `auto` means on this machine."""
        if self.precision != "auto":
            return self.precision
        import torch

        if self.device == "cpu" or not torch.cuda.is_available():
            return "fp32"
        # Asking for bf16 "including emulation" says yes on a T4, where it is very slow.
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"

    def to_trl(self) -> TRLGRPOConfig:
        """TRL's configuration of the same run.

        Raises:
            ConfigError: TRL has no such field as one in `trl`, refuses its value, or it is decided
                by a setting of ours; or `accelerate launch` was told to use FSDP1.
        """
        from trl import GRPOConfig as TRLGRPOConfig

        if is_sharded() and os.environ.get("FSDP_VERSION", "2") != "2":
            raise ConfigError(
                "this launch uses FSDP1, which no run has used: add --fsdp_version 2 to "
                "accelerate launch"
            )
        if self.temperature == 0.0:
            raise ConfigError(
                "trl.temperature is 0.0: allowed is more than 0 in training, for GRPO compares "
                "different episodes of one question"
            )
        decided = self._trainer_fields() | {
            "num_generations": self.num_generations,
            # One pass over a list that repeats the questions; see `schedule_prompts`.
            "num_train_epochs": 1.0,
            "shuffle_dataset": False,
            "max_steps": self.max_steps if self.max_steps is not None else -1,
            # Of a whole episode; `max_new_tokens` is the limit of a turn.
            "max_completion_length": self.max_context_tokens,
            "max_tool_calling_iterations": self.step_budget,
            "remove_unused_columns": False,
        }
        defaults = {
            "lr_scheduler_type": "constant",
            "reward_weights": list(REWARD_WEIGHTS),
            "chat_template_kwargs": {"enable_thinking": False},
            "top_k": 0,
            "vllm_max_model_length": self.max_context_tokens,
            "save_total_limit": 2,
            "log_completions": self._has_tables,
            "num_completions_to_print": 0,
        }
        return build_trl(TRLGRPOConfig, decided, defaults, self.trl, "trl")

    def to_trl_sft(self, stage: str, **decided: Any) -> TRLSFTConfig:
        """TRL's configuration of the stage `stage` of SFT.

        Raises:
            ConfigError: as in `to_trl`.
        """
        from trl import SFTConfig as TRLSFTConfig

        sft = self.sft
        fields = self._trainer_fields() | {
            "output_dir": str(Path(self.output_dir) / stage),
            "num_train_epochs": sft.num_train_epochs,
            "learning_rate": sft.learning_rate,
            "per_device_train_batch_size": sft.per_device_train_batch_size,
            "max_length": self.max_context_tokens,
            "save_strategy": "steps",
        }
        for name in ("gradient_accumulation_steps", "logging_steps", "save_steps"):
            del fields[name]  # of GRPO
        defaults = {
            "lr_scheduler_type": "cosine",
            "warmup_steps": 0.03,
            "weight_decay": 0.01,
            "logging_steps": 10,
            "save_steps": 500,
            "save_total_limit": 2,
        }
        return build_trl(TRLSFTConfig, fields | decided, defaults, sft.trl, "sft.trl")

    @property
    def _has_tables(self) -> bool:
        """Whether one of the loggers can show episodes as a table."""
        asked = self.trl.get("report_to")
        return bool(
            {"wandb", "trackio", "all"} & set(asked if isinstance(asked, list) else [asked])
        )

    def _trainer_fields(self) -> dict[str, Any]:
        """The fields that GRPO and SFT share."""
        precision = self.resolved_precision()
        return {
            "output_dir": self.output_dir,
            "per_device_train_batch_size": self.per_device_train_batch_size,
            "gradient_accumulation_steps": self.gradient_accumulation_steps,
            "learning_rate": self.learning_rate,
            "seed": self.seed,
            "data_seed": self.seed,
            "logging_steps": self.logging_steps,
            "save_steps": self.save_steps,
            "bf16": precision == "bf16",
            "fp16": precision == "fp16",
            "use_cpu": self.device == "cpu",
        }


def is_main() -> bool:
    """Whether this is the first of the processes that `accelerate launch` starts."""
    return os.environ.get("RANK", "0") == "0"


def is_sharded() -> bool:
    """Whether this launch cuts the weights up; set by `accelerate launch`."""
    names = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED")
    return any(os.environ.get(name, "").lower() == "true" for name in names)


def _world_size() -> int:
    """Set by `accelerate launch` and `torchrun`."""
    return int(os.environ.get("WORLD_SIZE", "1"))
