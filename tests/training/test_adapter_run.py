"""From a GGUF file to an adapter that plays: train, resume, evaluate, each as its command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf_files import write_gguf
from safetensors.torch import load_file
from small_models import SHORT_RUN, as_options
from typer.testing import CliRunner

from sql_env.cli import app
from sql_env.evaluation.run_folder import read_run
from sql_env.questions import Dataset
from sql_env.training.config import GRPOConfig
from sql_env.training.run_log import RunLog
from sql_env.training.sft import train_sft


@pytest.fixture(scope="module")
def qwen_file(
    make_qwen2: Callable[..., Any],
    qwen_tokenizer: Any,
    tiny_dataset: Dataset,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A tiny Qwen2 that knows the game a little, as one file."""
    folder = tmp_path_factory.mktemp("qwen")
    config = GRPOConfig(
        questions_path=str(tiny_dataset.questions_path),
        db_dir=str(tiny_dataset.db_dir),
        output_dir=str(folder / "sft"),
        device="cpu",
        max_context_tokens=2048,
        sft={  # type: ignore[arg-type]
            "trl": {"max_steps": 60},
            "learning_rate": 3e-3,
            "per_device_train_batch_size": 3,
            "mix": {"extra_table": 0.0, "sample": 0.0, "corrupt": 0.0, "typed_answer": 0.0},
        },
    )
    model = make_qwen2(initializer_range=0.02)
    train_sft(config, model, qwen_tokenizer)
    return write_gguf(folder / "tiny.gguf", model, qwen_tokenizer, "qwen2")


def run(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


def adapter_in(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "adapter_model.safetensors")


def test_a_gguf_file_becomes_an_adapter_that_plays(
    qwen_file: Path, tiny_dataset: Dataset, tmp_path: Path
) -> None:
    data, out = tiny_dataset.db_dir.parent, tmp_path / "run"
    settings = {
        "model_name": qwen_file,
        "lora.r": 4,
        # As in the preset for small GPUs.
        "trl.gradient_checkpointing": "true",
        "sft.first": "true",
        "sft.trl.gradient_checkpointing": "true",
        # Long enough that some episodes of a group describe a table and others do not.
        "sft.trl.max_steps": 80,
        "sft.learning_rate": 0.01,
        "num_generations": 8,
        "per_device_train_batch_size": 8,
        "max_context_tokens": 2048,
        "max_new_tokens": 48,
        "max_steps": 2,
        "save_steps": 1,
    }
    run("train", "--dataset", data, "--out", out, *as_options(SHORT_RUN | settings))
    taught, first = adapter_in(out / "sft" / "model"), adapter_in(out / "model")
    assert all(weight.any() for name, weight in taught.items() if "lora_B" in name)
    assert any(not torch.equal(taught[name], first[name]) for name in first)
    run("train", "--resume", out, "--set", "max_steps=3")
    log = RunLog(out)
    assert [row["step"] for row in log.metrics()] == [1, 2, 3]
    assert max(row["parsed"] for row in log.metrics()) > 0
    assert all(row["sampling/sampling_logp_difference/max"] < 1e-3 for row in log.metrics())
    last = adapter_in(out / "model")
    assert any(not torch.equal(first[name], last[name]) for name in last)

    # What is shipped is half as large, needs its base only, and plays.
    packed = tmp_path / "packed"
    run("pack", out / "model", packed, "--base", qwen_file)
    assert {path.name for path in packed.iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
        "sql_env.json",
    }
    sizes = [
        (path / "adapter_model.safetensors").stat().st_size for path in (out / "model", packed)
    ]
    assert sizes[1] < 0.6 * sizes[0]
    options = ["--dataset", data, "--out", tmp_path / "evaluated", "--max-new-tokens", 48]
    run("eval", "--policy", f"model:{packed}", *options)
    (folder,) = (tmp_path / "evaluated").iterdir()
    assert len(read_run(folder).episodes) == 6
    assert json.loads((folder / "config.json").read_text())["prompt"] == "v2"

    small = ["pack", str(out / "model"), str(tmp_path / "no"), "--megabytes", "0.001"]
    refused = CliRunner().invoke(app, small)
    assert refused.exit_code == 2
    assert "train one of a lower rank" in refused.output
    assert not (tmp_path / "no").exists()
