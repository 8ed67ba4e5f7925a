"""A stage of supervised training: interrupted anywhere, it ends with the same weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerCallback

from sql_env.training.config import GRPOConfig, LoraSettings
from sql_env.training.data_loading import load_for_training
from sql_env.training.demonstrations import Demonstration, Turn
from sql_env.training.pipeline import TrainingMemoryError
from sql_env.training.sft import load_demonstrations, save_demonstrations, train_sft
from sql_env.training.stages import EpochOrder

MakeConfig = Callable[..., GRPOConfig]


class Interrupt(TrainerCallback):  # type: ignore[misc]
    """Ctrl-C after a step, or when the last one is done."""

    def __init__(self, step: int | None) -> None:
        self._step = step

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self._step:
            raise KeyboardInterrupt

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        raise KeyboardInterrupt


@pytest.fixture
def config(tiny_config: MakeConfig, sft_model_dir: Path) -> GRPOConfig:
    """Three steps an epoch, and an end in the middle of the third."""
    return tiny_config(
        model_name=str(sft_model_dir),
        sft={
            "split": "train*2",
            "per_device_train_batch_size": 4,
            "learning_rate": 1e-3,
            "trl": {"max_steps": 8, "logging_steps": 1, "save_steps": 2},
        },
    )


def after_sft(config: GRPOConfig, **options: Any) -> tuple[dict[str, Any], list[Any]]:
    model, tokenizer = load_for_training(config)
    log = train_sft(config, model, tokenizer, **options)
    return model.state_dict(), [(row["step"], row["loss"]) for row in log if "loss" in row]


class Hog(TrainerCallback):  # type: ignore[misc]
    """Asks for more memory than any machine has."""

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        import torch

        torch.empty(2**50)


def test_running_out_of_memory_says_what_to_lower(config: GRPOConfig) -> None:
    with pytest.raises(TrainingMemoryError, match=r"sft\.per_device_train_batch_size \(now 4\)"):
        after_sft(config, callbacks=[Hog()])


@pytest.mark.parametrize("adapter", [False, True])
@pytest.mark.parametrize("step", [1, 5, None])
def test_an_interrupted_stage_ends_as_if_nothing_had_happened(
    config: GRPOConfig, tmp_path: Path, step: int | None, adapter: bool
) -> None:
    import torch

    if adapter:
        torch.manual_seed(0)
        config = replace(config, lora=LoraSettings(r=4, alpha=8))
    wanted, losses = after_sft(replace(config, output_dir=str(tmp_path / "reference")))
    torch.manual_seed(0)  # a new adapter begins with what is drawn
    with pytest.raises(KeyboardInterrupt):
        after_sft(config, callbacks=[Interrupt(step)])
    torch.manual_seed(0)
    trained, again = after_sft(config, resume=True)
    assert again == losses
    assert [number for number, _ in losses] == list(range(1, 9))
    assert all(torch.equal(trained[name], wanted[name]) for name in wanted)
    finished, known = after_sft(config, resume=True)
    assert known == losses
    assert all(torch.equal(finished[name], wanted[name]) for name in wanted if "lora" in name)


def test_a_new_run_goes_on_from_nothing(config: GRPOConfig) -> None:
    folder = Path(config.output_dir)
    for stale in ("demonstrations/checkpoint-6", "dagger"):
        (folder / stale).mkdir(parents=True)
        (folder / stale / "COMPLETE").touch()
    (folder / "corrections.jsonl").touch()
    after_sft(config)
    assert sorted(path.name for path in folder.iterdir()) == [
        "demonstrations",
        "demonstrations.jsonl",
    ]


def test_every_epoch_has_an_order_of_its_own() -> None:
    epoch = 0
    order = EpochOrder(list(range(40)), 4, seed=1, epoch=lambda: epoch)
    first = list(order)
    epoch = 1
    second = list(order)
    assert first != second
    assert sorted(first) == sorted(second) == list(range(40))
    assert list(EpochOrder(list(range(40)), 4, seed=1, epoch=lambda: 1)) == second


@pytest.mark.parametrize("text", ["a\u2028b", "a\x85b", "a\nb", "a\rb", "naïve 日本"])
def test_demonstrations_come_back_as_they_were(text: str, tmp_path: Path) -> None:
    turns = (Turn(text, "DESCRIBE: a"), Turn("seen", "ANSWER: 1", trained=False))
    demonstrations = [Demonstration("one", turns), Demonstration("two", turns[:1])]
    save_demonstrations(demonstrations, tmp_path / "kept.jsonl")
    assert load_demonstrations(tmp_path / "kept.jsonl") == demonstrations
    assert [path.name for path in tmp_path.iterdir()] == ["kept.jsonl"]


def test_no_demonstrations_are_none(tmp_path: Path) -> None:
    save_demonstrations([], tmp_path / "kept.jsonl")
    assert load_demonstrations(tmp_path / "kept.jsonl") == []
