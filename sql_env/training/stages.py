"""One stage of supervised training, in a folder from which a killed run goes on.

checkpoint-N/         everything that is needed to go on from step N, while the stage runs
trainer_state.json    what was logged
model.safetensors, …  the weights the stage ended with
COMPLETE              the last file to be written: the stage is over
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import Sampler
from transformers import PrinterCallback, TrainerCallback, TrainerState
from transformers.trainer_pt_utils import get_length_grouped_indices
from trl import SFTConfig

from sql_env.agent.playing import ran_out_of_memory
from sql_env.agent.prompts import Prompt
from sql_env.training.callbacks import WholeCheckpoints
from sql_env.training.config import GRPOConfig
from sql_env.training.length_bucketing import BucketedSFTTrainer, forget_trainers
from sql_env.training.pipeline import TrainingMemoryError
from sql_env.training.run_log import COMPLETE, DAGGER, RunLog

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DAGGER_RATE = 0.5  # of the first stage's learning rate
STATE = "trainer_state.json"  # transformers' name for it


class StageTrainer(BucketedSFTTrainer):
    """Shows the episodes in an order that does not depend on when the process was started.

    The trainer's own sampler draws from torch's global generator, whose state in the third epoch
    only a process knows that has been through the first two.
    """

    def _get_train_sampler(self, train_dataset: Any = None) -> Sampler[int]:
        together = self.args.train_batch_size * self.args.gradient_accumulation_steps
        lengths = list(self.train_dataset["length"])
        return EpochOrder(lengths, together, self.args.seed, lambda: int(self.state.epoch or 0))

    def resume(self, checkpoint: Path) -> None:
        """Go on from `checkpoint`; where that is of the last step, only take its weights."""
        state = TrainerState.load_from_json(str(checkpoint / STATE))
        logged = [row["num_tokens"] for row in state.log_history if "num_tokens" in row]
        self._total_train_tokens = int(logged[-1]) if logged else 0  # it counts on from there
        if state.global_step < state.max_steps:
            self.train(resume_from_checkpoint=str(checkpoint))
        else:
            _load_weights(self.model, checkpoint)
            self.state = state


class EpochOrder(Sampler[int]):  # type: ignore[misc]
    """Episodes of like length together, shuffled by the seed and the number of the epoch.

    Args:
        together: how many episodes one update takes.
        epoch: says which epoch begins.
    """

    def __init__(
        self, lengths: list[int], together: int, seed: int, epoch: Callable[[], int]
    ) -> None:
        self._lengths, self._together = lengths, together
        self._seed, self._epoch = seed, epoch

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[int]:
        draw = torch.Generator().manual_seed(self._seed + self._epoch())
        return iter(get_length_grouped_indices(self._lengths, self._together, generator=draw))


class StageFolder:
    """What a stage leaves on the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to train."""
        return (self.path / COMPLETE).is_file()

    def last_checkpoint(self) -> Path | None:
        """The newest whole checkpoint."""
        return RunLog(self.path).last_checkpoint()

    def clear(self) -> None:
        """Remove what an earlier run left, so that no later one goes on from it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def finish(self, trainer: StageTrainer, prompt: Prompt) -> None:
        """Write the weights and the log, say that the stage is over, remove the checkpoints."""
        trainer.save_model()
        trainer.save_state()
        trainer.accelerator.wait_for_everyone()
        if trainer.accelerator.is_main_process:
            prompt.save(self.path)
            (self.path / COMPLETE).touch()
            self.drop_checkpoints()

    def drop_checkpoints(self) -> None:
        """They hold the optimiser's state, twice the size of the model."""
        for checkpoint in self.path.glob("checkpoint-*"):
            shutil.rmtree(checkpoint, ignore_errors=True)

    def log_history(self) -> list[dict[str, Any]]:
        """What the finished stage logged."""
        return list(TrainerState.load_from_json(str(self.path / STATE)).log_history)


def train_stage(
    make_examples: Callable[[], Dataset],
    stage: str,
    config: GRPOConfig,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    callbacks: Sequence[TrainerCallback] = (),
    *,
    resume: bool = False,
) -> list[dict[str, Any]]:
    """Train `model` in place with TRL's `SFTTrainer`; returns what was logged.

    Args:
        make_examples: called where there is something left to train.
        stage: its name, and that of its folder in `config.output_dir`.
        resume: go on from what the folder holds.
    """
    folder = StageFolder(Path(config.output_dir) / stage)
    if resume and folder.finished:
        _load_weights(model, folder.path)
        folder.drop_checkpoints()
        return folder.log_history()
    arguments = stage_arguments(stage, config)
    if not resume and arguments.should_save:
        folder.clear()
    examples = make_examples()
    forget_trainers(model)
    trainer = StageTrainer(
        model=model,
        args=arguments,
        train_dataset=examples,
        processing_class=tokenizer,
        callbacks=[*callbacks, WholeCheckpoints(config.prompt_of_run)],
    )
    trainer.prompt = config.prompt_of_run
    trainer.remove_callback(PrinterCallback)  # it prints every log; callers show their own
    started = time.monotonic()
    checkpoint = folder.last_checkpoint() if resume else None
    try:
        if checkpoint is None:
            trainer.train()
        else:
            trainer.resume(checkpoint)
    except (RuntimeError, MemoryError) as error:
        if not ran_out_of_memory(error):
            raise
        raise TrainingMemoryError(_what_to_lower(config)) from error
    seconds = round(time.monotonic() - started, 1)
    tokens = sum(examples["length"])
    trainer.state.log_history.append(
        {"examples": len(examples), "tokens_per_epoch": tokens, "seconds": seconds}
    )
    folder.finish(trainer, config.prompt_of_run)
    return list(trainer.state.log_history)


def _what_to_lower(config: GRPOConfig) -> str:
    more = "" if config.lora else ", or train an adapter (lora.r=32)"
    return (
        "out of memory in SFT. Set sft.trl.gradient_checkpointing=true, or lower "
        f"sft.per_device_train_batch_size (now {config.sft.per_device_train_batch_size}) or "
        f"max_context_tokens (now {config.max_context_tokens}){more}"
    )


def _load_weights(model: PreTrainedModel, folder: Path) -> None:
    """Put the weights in `folder`, of a whole model or of an adapter, into `model`."""
    if (folder / "adapter_config.json").is_file():
        from peft import load_peft_weights, set_peft_model_state_dict

        set_peft_model_state_dict(model, load_peft_weights(str(folder), device=str(model.device)))
    else:
        saved = type(model).from_pretrained(folder, dtype=torch.float32)
        model.load_state_dict(saved.state_dict())


def stage_arguments(stage: str, config: GRPOConfig) -> SFTConfig:
    """TRL's configuration of the stage `stage`."""
    if stage != DAGGER:
        return config.to_trl_sft(stage)
    return config.to_trl_sft(
        stage,
        num_train_epochs=config.sft.dagger_epochs,
        learning_rate=config.sft.learning_rate * DAGGER_RATE,
    )
