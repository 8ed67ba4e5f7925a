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

from sql_env.core.reward import RewardConfig
from sql_env.environment import SQLEnvironment
from sql_env.models import QuestionRecord
from sql_env.questions import Dataset
from sql_env.renames import renamed_settings
from sql_env.training.demonstrations import DemonstrationMix
from sql_env.training.presets import PRESETS
from sql_env.training.settings import (
    ConfigError,
    check_fields,
    from_mapping,
    merge,
    parse_assignments,
    read_file,
)

if TYPE_CHECKING:
    from peft import LoraConfig
    from trl import GRPOConfig as TRLGRPOConfig

Precision = Literal["auto", "fp32", "bf16", "fp16"]


@dataclass(frozen=True)
class LoraSettings:
    """Train low-rank adapters instead of the whole model."""

    r: int = field(default=32, metadata={"min": 1})
    alpha: int = field(default=64, metadata={"min": 1})
    dropout: float = field(default=0.0, metadata={"min": 0.0, "below": 1.0})
    target_modules: str = "all-linear"

    def __post_init__(self) -> None:
        check_fields(self)

    def to_peft(self) -> LoraConfig:
        """The same settings as PEFT wants them."""
        from peft import LoraConfig

        return LoraConfig(
            r=self.r,
            lora_alpha=self.alpha,
            lora_dropout=self.dropout,
            target_modules=self.target_modules,
            task_type="CAUSAL_LM",
        )


@dataclass(frozen=True)
class SFTSettings:
    """Supervised fine-tuning on demonstrations, before GRPO.

    Attributes:
        first: `sql-env train` begins with it, in the run's folder `sft`.
        split: the questions to demonstrate; several splits as `train+wide`, one that counts four
            times, in four shapes, as `train*4+wide`.
        mix: how often each shape of demonstration occurs.
        demonstrations: a file that `sql-env demonstrations` wrote, instead of playing them anew.
        dagger_epochs: a second stage adds expert corrections of the model's own errors; 0 is off.
        dagger_split: the questions that the model plays to make errors; None plays those that were
            demonstrated. Of questions that it knows by heart a model gets few wrong.
        dagger_questions: play only so many of them; None plays all.
        dagger_temperature: how it plays them. At 1 most errors are accidents of sampling;
            at 0 they are what the model believes.
        dagger_rate: the second stage's learning rate, as a share of the first's.
        dagger_weight: how often each correction is shown in an epoch of the second stage.
        save_steps: a checkpoint every so many steps; a multiple of `logging_steps` makes the logged
            means of a resumed run those of one that was never interrupted.
    """

    first: bool = False
    split: str = "train"
    mix: DemonstrationMix = field(default_factory=DemonstrationMix)
    demonstrations: str | None = None
    dagger_epochs: float = field(default=0.0, metadata={"min": 0.0})
    dagger_split: str | None = None
    dagger_questions: int | None = field(default=None, metadata={"min": 1})
    dagger_temperature: float = field(default=1.0, metadata={"min": 0.0})
    dagger_rate: float = field(default=0.5, metadata={"above": 0.0})
    dagger_weight: int = field(default=1, metadata={"min": 1})
    weight_decay: float = field(default=0.01, metadata={"min": 0.0})
    num_train_epochs: float = field(default=2.0, metadata={"above": 0.0})
    max_steps: int | None = field(default=None, metadata={"min": 1})
    learning_rate: float = field(default=1e-4, metadata={"above": 0.0})
    per_device_train_batch_size: int = field(default=8, metadata={"min": 1})
    gradient_accumulation_steps: int = field(default=1, metadata={"min": 1})
    logging_steps: int = field(default=10, metadata={"min": 1})
    save_steps: int = field(default=500, metadata={"min": 1})

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
        max_questions: use only the first so many of the shuffled training questions.
        allow_last: accept `ANSWER: @last`.
        end_on_repeat: end a training episode at an action that was played before. A policy that
            repeats a failed query learns that it leads nowhere, sooner. Capitals make no other.
        reward: `dense`, or `binary` for nothing but the terminal reward.
        correctness_weight: weights of the three reward functions in the sum GRPO sees.
        steps_per_generation: micro-batches one round of rollouts is cut into; None is
            `gradient_accumulation_steps`, one update per round.
        adapter: play through `rollout_func` (plain text actions, any chat model) or through
            `environment_factory` (tool calls, for models whose chat template has them).
        engine: `auto` is the lock-step engine where it can run, `generate` transformers' own.
        precision: of the arithmetic; weights stay fp32 in full fine-tuning. `auto` is bf16 on a
            GPU that has it, fp16 on an older one, fp32 on a CPU.
        enable_thinking: for chat templates that know it (Qwen3).
        compile_layers: let torch fuse each layer's small operations; worth its minute of compiling
            on a GPU, in a run of many minutes.
        save_steps: a checkpoint every so many steps; the newest `save_total_limit` are kept, at
            least two, for the newest may be half written when a run is killed.
        transcripts_per_round: how many episodes of each round are kept in the run folder.
        plot_every: redraw the reward plot; `transcript_every` show an episode of the current
            model; `evaluate_every` play `evaluate_episodes` on each split.
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
    difficulty_filter: list[Literal["easy", "medium", "hard", "extra"]] = field(
        default_factory=lambda: ["easy", "medium"]
    )
    seed: int = field(default=42, metadata={"min": 0})
    output_dir: str = "runs/grpo"
    logging_steps: int = field(default=10, metadata={"min": 1})

    # The questions and what playing them pays.
    train_split: str = "train"
    eval_split: str = "eval"
    max_questions: int | None = field(default=None, metadata={"min": 1})
    allow_last: bool = True
    end_on_repeat: bool = False
    reward: Literal["dense", "binary"] = "dense"
    correctness_weight: float = field(default=1.0, metadata={"min": 0.0})
    progress_weight: float = field(default=0.15, metadata={"min": 0.0})
    operational_weight: float = field(default=1.0, metadata={"min": 0.0})

    # The rollouts.
    max_context_tokens: int = field(default=4096, metadata={"min": 64})
    temperature: float = field(default=1.0, metadata={"min": 0.0})
    top_p: float = field(default=1.0, metadata={"above": 0.0, "max": 1.0})
    steps_per_generation: int | None = field(default=None, metadata={"min": 1})
    adapter: Literal["rollout_func", "environment_factory"] = "rollout_func"
    engine: Literal["auto", "generate"] = "auto"
    use_vllm: bool = False
    enable_thinking: bool = False

    # The update.
    max_steps: int | None = field(default=None, metadata={"min": 1})
    beta: float = field(default=0.0, metadata={"min": 0.0})
    loss_type: Literal["grpo", "bnpo", "dr_grpo", "dapo"] = "dapo"
    scale_rewards: Literal["group", "batch", "none"] = "group"
    num_iterations: int = field(default=1, metadata={"min": 1})
    max_grad_norm: float = field(default=1.0, metadata={"above": 0.0})
    lr_scheduler_type: Literal["constant", "constant_with_warmup", "linear", "cosine"] = "constant"
    lr_warmup_steps: int = field(default=0, metadata={"min": 0})
    lora: LoraSettings | None = None
    precision: Precision = "auto"
    device: Literal["auto", "cpu"] = "auto"
    gradient_checkpointing: bool = False
    compile_layers: bool = False

    # What is kept and shown.
    save_steps: int = field(default=50, metadata={"min": 1})
    save_total_limit: int = field(default=2, metadata={"min": 2})
    transcripts_per_round: int = field(default=4, metadata={"min": 0})
    plot_every: int = field(default=10, metadata={"min": 1})
    transcript_every: int = field(default=50, metadata={"min": 1})
    evaluate_every: int = field(default=100, metadata={"min": 1})
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
                f"{self.steps_per_generation or self.gradient_accumulation_steps} micro-batches"
                f" x {_world_size()} processes)"
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
        """The preset `name` (colab, cpu, gpu), with `values` over it."""
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
    def episodes_per_round(self) -> int:
        """How many episodes are played, over all processes, between two rounds of updates."""
        micro_batches = self.steps_per_generation or self.gradient_accumulation_steps
        return self.per_device_train_batch_size * micro_batches * _world_size()

    @property
    def steps_per_round(self) -> int:
        """How many updates are made with the episodes of one round."""
        micro_batches = self.steps_per_generation or self.gradient_accumulation_steps
        return max(1, micro_batches * self.num_iterations // self.gradient_accumulation_steps)

    @property
    def reward_config(self) -> RewardConfig:
        """The environment's reward values."""
        return RewardConfig.binary() if self.reward == "binary" else RewardConfig()

    def environment(
        self, questions: Sequence[QuestionRecord], *, allow_last: bool | None = None
    ) -> SQLEnvironment:
        """An environment with the run's databases, budget and reward.

        Args:
            allow_last: accept `ANSWER: @last`; default: as the run does.
        """
        return SQLEnvironment(
            db_dir=self.dataset.db_dir,
            questions=questions,
            step_budget=self.step_budget,
            reward=self.reward_config,
            allow_last=self.allow_last if allow_last is None else allow_last,
        )

    @property
    def reward_weights(self) -> list[float]:
        """In the order correctness, progress, operational."""
        return [self.correctness_weight, self.progress_weight, self.operational_weight]

    def resolved_precision(self) -> Literal["fp32", "bf16", "fp16"]:
        """What `auto` means on this machine."""
        if self.precision != "auto":
            return self.precision
        import torch

        if self.device == "cpu" or not torch.cuda.is_available():
            return "fp32"
        # Asking for bf16 "including emulation" says yes on a T4, where it is very slow.
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"

    def to_trl(self, **overrides: Any) -> TRLGRPOConfig:
        """TRL's configuration of the same run.

        Args:
            overrides: TRL fields to set besides, for what this dataclass does not name.
        """
        from trl import GRPOConfig as TRLGRPOConfig

        if self.temperature == 0.0:
            raise ConfigError(
                "temperature is 0.0: allowed is more than 0 in training, for GRPO compares "
                "different episodes of one question"
            )
        precision = self.resolved_precision()
        settings: dict[str, Any] = {
            "output_dir": self.output_dir,
            # One pass over a list that repeats the questions; see `schedule_prompts`.
            "num_train_epochs": 1.0,
            "shuffle_dataset": False,
            "max_steps": self.max_steps if self.max_steps is not None else -1,
            "per_device_train_batch_size": self.per_device_train_batch_size,
            "gradient_accumulation_steps": self.gradient_accumulation_steps,
            "steps_per_generation": self.steps_per_generation,
            "learning_rate": self.learning_rate,
            "lr_scheduler_type": self.lr_scheduler_type,
            "warmup_steps": self.lr_warmup_steps,
            "max_grad_norm": self.max_grad_norm,
            "num_generations": self.num_generations,
            "num_iterations": self.num_iterations,
            # Per turn with rollout_func; TRL's tool loop counts the whole episode.
            "max_completion_length": self.max_new_tokens
            if self.adapter == "rollout_func"
            else self.max_context_tokens,
            "max_tool_calling_iterations": self.step_budget,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "chat_template_kwargs": {"enable_thinking": self.enable_thinking},
            "beta": self.beta,
            "loss_type": self.loss_type,
            "scale_rewards": self.scale_rewards,
            "reward_weights": self.reward_weights,
            "use_vllm": self.use_vllm,
            "vllm_mode": "colocate",
            "seed": self.seed,
            "data_seed": self.seed,
            "logging_steps": self.logging_steps,
            "save_steps": self.save_steps,
            "save_total_limit": self.save_total_limit,
            "bf16": precision == "bf16",
            "fp16": precision == "fp16",
            "use_cpu": self.device == "cpu",
            "gradient_checkpointing": self.gradient_checkpointing,
            "remove_unused_columns": False,
            "report_to": "none",
            "disable_tqdm": True,
        }
        return TRLGRPOConfig(**(settings | overrides))


def _world_size() -> int:
    """Set by `accelerate launch` and `torchrun`."""
    return int(os.environ.get("WORLD_SIZE", "1"))
