"""`--resume RUN --set …`: what can change is applied and recorded, what cannot is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerCallback
from typer.testing import CliRunner

from sql_env.cli import app
from sql_env.training.config import GRPOConfig
from sql_env.training.data_loading import load_for_training
from sql_env.training.pipeline import build_trainer, run_training_with_metrics
from sql_env.training.run_log import RunLog
from sql_env.training.sft import train_sft

MakeConfig = Callable[..., GRPOConfig]


@pytest.fixture
def run(tiny_config: MakeConfig, sft_model_dir: Path) -> RunLog:
    """A run of two steps, with a whole checkpoint at its end."""
    config = tiny_config(model_name=str(sft_model_dir), max_steps=2, save_steps=2)
    run_training_with_metrics(build_trainer(config, *load_for_training(config)), config)
    return RunLog(config.output_dir)


def resume(run: RunLog, *settings: str) -> tuple[int, str]:
    extra = [part for item in settings for part in ("--set", item)]
    outcome = CliRunner().invoke(app, ["train", "--resume", str(run.path), *extra])
    return outcome.exit_code, " ".join(outcome.output.split())


def test_what_changes_is_applied_and_recorded(run: RunLog) -> None:
    settings = ("max_steps=4", "learning_rate=5e-4", "trl.weight_decay=0.25", "save_steps=1")
    code, output = resume(run, *settings)
    assert code == 0, output
    assert "learning_rate: 0.001 -> 0.0005" in output
    assert [row["learning_rate"] for row in run.metrics()] == [1e-3, 1e-3, 5e-4, 5e-4]
    assert [path.name for path in run.checkpoints()] == ["checkpoint-3", "checkpoint-4"]
    (row,) = run.changes()
    assert row["changed"] == {
        "learning_rate": {"was": 1e-3, "is": 5e-4},
        "max_steps": {"was": 2, "is": 4},
        "save_steps": {"was": 2, "is": 1},
        "trl.weight_decay": {"was": None, "is": 0.25},
    }
    assert run.config().learning_rate == 5e-4

    import torch

    state = torch.load(run.path / "checkpoint-4" / "optimizer.pt")
    assert state["param_groups"][0]["weight_decay"] == 0.25


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("seed=3", "seed cannot change in {run}: its checkpoints depend on it"),
        ("lora.r=4", "lora.alpha cannot change"),
        ("trl.optim=sgd", "trl.optim cannot change"),
        ("sft.learning_rate=1", "sft.learning_rate cannot change in {run}: its SFT is over"),
        ("prompt=v2", "prompt cannot change"),
    ],
)
def test_what_cannot_change_is_refused(run: RunLog, setting: str, why: str) -> None:
    before = run.config()
    code, output = resume(run, "max_steps=3", setting)
    assert code == 2
    assert why.format(run=run.path) in output
    assert run.config() == before
    assert not run.changes()


class Interrupt(TrainerCallback):  # type: ignore[misc]
    """Ctrl-C after the second step."""

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == 2:
            raise KeyboardInterrupt


def test_a_stage_of_sft_goes_on_with_another_learning_rate(
    tiny_config: MakeConfig, sft_model_dir: Path
) -> None:
    fields = {"max_steps": 3, "save_steps": 2, "logging_steps": 1, "lr_scheduler_type": "constant"}
    config = tiny_config(model_name=str(sft_model_dir), sft={"trl": {**fields, "warmup_steps": 0}})
    with pytest.raises(KeyboardInterrupt):
        train_sft(config, *load_for_training(config), callbacks=[Interrupt()])
    other = replace(config, sft=replace(config.sft, learning_rate=7e-4))
    rows = train_sft(other, *load_for_training(other), resume=True)
    assert [row["learning_rate"] for row in rows if "loss" in row] == [1e-4, 1e-4, 7e-4]
