"""The mean of several models: of the copies of a warm-up, and of the last checkpoints of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainerCallback

from sql_env.training.config import GRPOConfig, LoraSettings
from sql_env.training.data_loading import load_for_training
from sql_env.training.pipeline import build_trainer, run_training_with_metrics
from sql_env.training.run_log import RunLog
from sql_env.training.settings import ConfigError
from sql_env.training.warmup import IMITATED, load_trajectories, train_on, warm_up
from sql_env.training.weights import load_weights

MakeConfig = Callable[..., GRPOConfig]
Weights = dict[str, torch.Tensor]


class StopInStage(TrainerCallback):  # type: ignore[misc]
    """Ctrl-C in the middle of a stage."""

    def __init__(self, stage: str) -> None:
        self._stage = stage

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if Path(args.output_dir).name == self._stage and state.global_step == 3:
            raise KeyboardInterrupt


@pytest.fixture
def config(tiny_config: MakeConfig, warm_model_dir: Path) -> GRPOConfig:
    return tiny_config(
        model_name=str(warm_model_dir),
        warmup={
            "copies": 2,
            "trajectories_per_question": 2,
            "per_device_train_batch_size": 4,
            "max_steps": 4,
            "learning_rate": 1e-3,
            "save_steps": 2,
        },
    )


def warmed(config: GRPOConfig, **options: Any) -> Weights:
    model, tokenizer = load_for_training(config)
    warm_up(config, model, tokenizer, **options)
    return dict(model.state_dict())


def weights_in(folder: Path) -> Weights:
    return dict(load_for_training(GRPOConfig(model_name=str(folder), device="cpu"))[0].state_dict())


def assert_same(some: Weights, others: Weights) -> None:
    assert some.keys() == others.keys()
    for name in some:
        torch.testing.assert_close(some[name], others[name], rtol=1e-6, atol=1e-7)


def test_tied_weights_count_once(make_llama: Callable[..., Any], tmp_path: Path) -> None:
    one, other = (make_llama(seed, tie_word_embeddings=True) for seed in (1, 2))
    one.save_pretrained(tmp_path / "one")
    other.save_pretrained(tmp_path / "other")
    model = make_llama(3, tie_word_embeddings=True)
    load_weights(model, tmp_path / "one", tmp_path / "other")
    mean = {name: (item + other.state_dict()[name]) / 2 for name, item in one.state_dict().items()}
    assert_same(dict(model.state_dict()), mean)


def test_copies_start_alike_see_another_order_and_are_averaged(config: GRPOConfig) -> None:
    mean = warmed(config)
    folder = Path(config.output_dir)
    first, second = weights_in(folder / "imitate"), weights_in(folder / "imitate-2")
    assert any(not torch.equal(first[name], second[name]) for name in first)
    assert_same(mean, {name: (first[name] + second[name]) / 2 for name in first})

    alone = replace(config, output_dir=f"{folder}-alone", warmup=replace(config.warmup, copies=1))
    assert_same(warmed(alone), first)
    # The second begins where the first did, not where it ended.
    alone = replace(alone, output_dir=f"{folder}-other", seed=config.seed + 1000)
    model, tokenizer = load_for_training(alone)
    train_on(load_trajectories(folder / IMITATED), "imitate", alone, model, tokenizer)
    assert_same(dict(model.state_dict()), second)


def test_adapters_are_averaged_too(config: GRPOConfig) -> None:
    mean = warmed(replace(config, lora=LoraSettings(r=4, alpha=8)))
    first, second = (
        load_file(Path(config.output_dir) / stage / "adapter_model.safetensors")
        for stage in ("imitate", "imitate-2")
    )
    assert first.keys() == second.keys()
    assert any(not torch.equal(first[name], second[name]) for name in first)
    for name in first:
        found = mean[name.replace(".weight", ".default.weight")]
        torch.testing.assert_close(found, (first[name] + second[name]) / 2)


@pytest.mark.parametrize("adapter", [False, True])
def test_copies_can_be_interrupted(config: GRPOConfig, tmp_path: Path, adapter: bool) -> None:
    if adapter:
        config = replace(config, lora=LoraSettings(r=4, alpha=8))
    wanted = warmed(replace(config, output_dir=str(tmp_path / "reference")))
    with pytest.raises(KeyboardInterrupt):
        warmed(config, callbacks=[StopInStage("imitate-2")])
    torch.manual_seed(12345)  # another process draws other numbers
    assert_same(warmed(config, resume=True), wanted)


def test_a_new_warm_up_forgets_the_copies_of_an_older_one(config: GRPOConfig) -> None:
    stale = Path(config.output_dir) / "imitate-3"
    stale.mkdir(parents=True)
    warmed(config)
    assert not stale.exists()


def test_the_trained_model_is_the_mean_of_the_last_checkpoints(
    tiny_config: MakeConfig, warm_model_dir: Path
) -> None:
    config = tiny_config(
        model_name=str(warm_model_dir),
        max_new_tokens=16,
        step_budget=4,
        num_generations=4,
        per_device_train_batch_size=8,
        max_steps=5,
        save_steps=1,
        save_total_limit=3,
        average_checkpoints=2,
    )
    trainer = build_trainer(config, *load_for_training(config))
    run_training_with_metrics(trainer, config)
    folder = Path(config.output_dir)
    assert [path.name for path in RunLog(folder).checkpoints()] == [
        f"checkpoint-{step}" for step in (3, 4, 5)
    ]
    fourth, fifth = weights_in(folder / "checkpoint-4"), weights_in(folder / "checkpoint-5")
    assert any(not torch.equal(fourth[name], fifth[name]) for name in fourth)
    mean = {name: (fourth[name] + fifth[name]) / 2 for name in fourth}
    assert_same(weights_in(folder / "model"), mean)


def test_weights_that_are_cut_up_are_not_averaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    GRPOConfig()
    with pytest.raises(ConfigError, match=r"need whole weights, .* set both to 1"):
        GRPOConfig.preset("gpu")


def test_more_checkpoints_than_are_kept_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^average_checkpoints is 3: .*save_total_limit, 2"):
        GRPOConfig(average_checkpoints=3)
