"""FSDP2 on two gloo ranks, with real shards: a step, an evaluation, a save, a resume."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from small_models import ONE_THREAD, as_options
from typer.testing import CliRunner

from sql_env.cli import app
from sql_env.questions import Dataset
from sql_env.training.config import GRPOConfig
from sql_env.training.data_loading import load_for_training
from sql_env.training.run_log import RunLog

LAUNCH = [
    *(sys.executable, "-m", "accelerate.commands.launch", "--num_processes", "2"),
    *("--num_machines", "1", "--main_process_port", "0", "--mixed_precision", "no"),
    *("--dynamo_backend", "no", "--use_fsdp", "--fsdp_version", "2"),
    *("--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP"),
    str(Path(__file__).with_name("sharded_on_cpu.py")),
]
SETTINGS = {
    "device": "cpu",
    "precision": "fp32",
    "max_steps": 1,
    "save_steps": 1,
    "evaluate_every": 1,
    "max_new_tokens": 12,
    "max_context_tokens": 1024,
    "step_budget": 3,
    "num_generations": 2,
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 1,
    "learning_rate": 1e-3,
    "logging_steps": 1,
}


def launch(*words: str) -> None:
    done = subprocess.run(
        [*LAUNCH, "train", *words],
        env=ONE_THREAD,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def weights(folder: Path | str) -> dict[str, torch.Tensor]:
    model, _ = load_for_training(GRPOConfig(model_name=str(folder), device="cpu"))
    return dict(model.state_dict())


def test_a_sharded_run_steps_evaluates_saves_and_resumes(
    sft_model_dir: Path, tiny_dataset: Dataset, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    settings = as_options(SETTINGS | {"model_name": sft_model_dir})
    launch("--dataset", str(tiny_dataset.db_dir.parent), "--out", str(run), *settings)
    log = RunLog(run)
    (checkpoint,) = log.checkpoints()
    assert list(checkpoint.glob("pytorch_model_fsdp_0/*.distcp")), "the weights were not cut up"
    first, start = weights(run / "model"), weights(sft_model_dir)
    assert any(not torch.equal(first[name], start[name]) for name in start)

    launch("--resume", str(run), "--set", "max_steps=2", "--set", "learning_rate=2e-3")
    assert [(row["step"], row["learning_rate"]) for row in log.metrics()] == [(1, 1e-3), (2, 2e-3)]
    assert [row["step"] for row in log.success()] == [0, 1, 2]
    second = weights(run / "model")
    assert any(not torch.equal(first[name], second[name]) for name in first)


def test_the_older_fsdp_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")  # accelerate's default is version 1
    monkeypatch.setenv("FSDP_VERSION", "1")
    outcome = CliRunner().invoke(app, ["train", "--preset", "cpu", "--out", str(tmp_path / "run")])
    assert outcome.exit_code == 2
    assert "add --fsdp_version 2" in outcome.output
    assert not (tmp_path / "run").exists()


def test_sft_on_shards_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    run = ["--preset", "cpu", "--out", str(tmp_path / "run")]
    outcome = CliRunner().invoke(app, ["sft", *run])
    assert outcome.exit_code == 2
    assert "SFT needs whole weights, and this launch shards them" in outcome.output
    assert not (tmp_path / "run").exists()
