"""Deltas: what is kept of a trained model, how small it is, and what is refused."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from sql_env.agent.delta import (
    DELTA_CONFIG,
    DELTA_WEIGHTS,
    DeltaError,
    apply_delta,
    pack_delta,
    weights_sha256,
)
from sql_env.agent.loading import ModelLoadError, load_model_and_tokenizer
from sql_env.agent.prompts import Prompt, prompt_of_model
from sql_env.cli import app
from sql_env.questions import Dataset


def moved(model: Any, *, spread: float = 1e-3, seed: int = 1) -> Any:
    """A copy of `model` as training leaves it: every weight a little elsewhere."""
    trained = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in trained.parameters():
            weight += spread * torch.randn(weight.shape, generator=generator)
    return trained


def weights_of(model: Any) -> dict[str, Any]:
    return {name: weight.detach() for name, weight in model.named_parameters()}


def distance(one: Any, other: Any) -> float:
    """Root of the summed squares of the differences between two models' matrices."""
    mine, theirs = weights_of(one), weights_of(other)
    squares = [(mine[n] - theirs[n]).square().sum() for n in mine if mine[n].ndim == 2]
    return float(torch.stack(squares).sum().sqrt())


@pytest.fixture(scope="module")
def base(make_llama: Callable[..., Any]) -> Any:
    return make_llama(initializer_range=0.05)


@pytest.fixture(scope="module")
def base_dir(base: Any, chat_tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    base.save_pretrained(folder)
    chat_tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def trained_dir(base: Any, chat_tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    moved(base).save_pretrained(folder)
    chat_tokenizer.save_pretrained(folder)
    return folder


def pack(trained: Path, out: Path, base: Path, *options: str) -> Any:
    return CliRunner().invoke(app, ["pack", str(trained), str(out), "--base", str(base), *options])


def bytes_for(model: Any, bits: float) -> int:
    """Room for so many bits a weight, and for what every file has besides."""
    weights = weights_of(model).values()
    overhead = sum(4 * w.numel() for w in weights if w.ndim != 2) + 400 * len(list(weights))
    return int(sum(w.numel() for w in weights) * bits / 8) + overhead


@pytest.mark.parametrize(("bits", "error"), [(2.3, 0.28), (3.3, 0.14)])
def test_a_larger_file_keeps_the_weights_more_exactly(
    base: Any, tmp_path: Path, bits: float, error: float
) -> None:
    trained = moved(base)
    largest = bytes_for(base, bits)
    packed = pack_delta(base, trained, tmp_path, base_name="b", largest=largest)
    assert (tmp_path / DELTA_WEIGHTS).stat().st_size == packed.size <= largest
    assert packed.size > 0.97 * largest, "room was left unused"
    again = copy.deepcopy(base)
    apply_delta(again, tmp_path)
    found = distance(again, trained) / distance(base, trained)
    assert found == pytest.approx(packed.relative_error, abs=2e-4)
    assert 0.5 * error < found < error


def test_what_is_no_matrix_is_kept_exactly(base: Any, tmp_path: Path) -> None:
    trained = moved(base)
    pack_delta(base, trained, tmp_path, base_name="b", largest=bytes_for(base, 2))
    again = copy.deepcopy(base)
    apply_delta(again, tmp_path)
    for name, weight in weights_of(trained).items():
        if weight.ndim != 2:
            assert torch.equal(weights_of(again)[name], weight)


def test_what_never_moved_costs_next_to_nothing_and_leaves_its_room_to_the_rest(
    base: Any, tmp_path: Path
) -> None:
    everything = moved(base)
    without = moved(base)
    with torch.no_grad():
        kept = base.model.embed_tokens.weight
        without.model.embed_tokens.weight.copy_(kept)
    largest = bytes_for(base, 2.3)
    whole = pack_delta(base, everything, tmp_path / "a", base_name="b", largest=largest)
    part = pack_delta(base, without, tmp_path / "b", base_name="b", largest=largest)
    assert part.relative_error < 0.8 * whole.relative_error
    again = copy.deepcopy(base)
    apply_delta(again, tmp_path / "b")
    assert torch.equal(again.model.embed_tokens.weight, kept)


@given(
    rows=st.integers(1, 5),
    columns=st.integers(1, 7),
    scale=st.sampled_from([1e-6, 1e-2, 50.0]),
    seed=st.integers(0, 1000),
)
def test_matrices_of_any_shape_are_restored(
    rows: int, columns: int, scale: float, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("any")
    base, trained = torch.nn.Linear(columns, rows), torch.nn.Linear(columns, rows)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        change = scale * torch.randn(rows, columns, generator=generator)
        trained.weight.copy_(base.weight + change)
    pack_delta(base, trained, folder, base_name="b", largest=2_000)
    apply_delta(base, folder)
    # With so much room every weight gets a level that is very near.
    assert (base.weight - trained.weight).abs().max() <= change.abs().max() / 5 + 1e-6


def test_another_base_is_refused(base: Any, tmp_path: Path) -> None:
    pack_delta(base, moved(base), tmp_path, base_name="b", largest=bytes_for(base, 2.3))
    other = copy.deepcopy(base)
    with torch.no_grad():
        other.model.layers[0].mlp.up_proj.weight[0, 0] += 1e-6
    before = weights_sha256(other)
    with pytest.raises(DeltaError, match=r"SHA-256.*the delta was made for"):
        apply_delta(other, tmp_path)
    assert weights_sha256(other) == before, "left as it was"


def test_models_of_another_shape_are_refused(
    base: Any, make_llama: Callable[..., Any], tmp_path: Path
) -> None:
    with pytest.raises(DeltaError, match="is not one of this base"):
        pack_delta(base, make_llama(hidden_size=32), tmp_path, base_name="b")


def test_too_little_room_is_refused(base: Any, tmp_path: Path) -> None:
    with pytest.raises(DeltaError, match="fits into 1,000 bytes"):
        pack_delta(base, moved(base), tmp_path / "out", base_name="b", largest=1_000)
    assert not (tmp_path / "out").exists()


def test_the_command_packs_and_everything_loads_it(
    base_dir: Path, trained_dir: Path, tiny_dataset: Dataset, tmp_path: Path
) -> None:
    done = pack(trained_dir, tmp_path / "delta", base_dir, "--megabytes", "0.2")
    assert done.exit_code == 0, done.output
    assert "0.2 MB" in done.output
    again, tokenizer = load_model_and_tokenizer(str(tmp_path / "delta"), device="cpu")
    trained, _ = load_model_and_tokenizer(str(trained_dir), device="cpu")
    base, _ = load_model_and_tokenizer(str(base_dir), device="cpu")
    assert distance(again, trained) < 0.1 * distance(base, trained)
    assert tokenizer.chat_template
    half, _ = load_model_and_tokenizer(str(tmp_path / "delta"), dtype="bfloat16", device="cpu")
    assert str(half.dtype) == "torch.bfloat16"

    summaries = []
    for model in (tmp_path / "delta", trained_dir):
        options = ["--step-budget", "2", "--max-new-tokens", "6", "--device", "cpu", "--json"]
        folders = ["--dataset", str(tiny_dataset.db_dir.parent), "--out", str(tmp_path / "runs")]
        outcome = CliRunner().invoke(
            app, ["eval", "--policy", f"model:{model}", *folders, *options]
        )
        assert outcome.exit_code == 0, outcome.output
        (summary,) = json.loads(outcome.stdout)
        assert summary["n_completed"] == 6
        summaries.append(summary["avg_reward"])
    assert summaries[0] == pytest.approx(summaries[1], abs=0.05)


def test_a_packed_model_keeps_its_prompt(base_dir: Path, trained_dir: Path, tmp_path: Path) -> None:
    trained = shutil.copytree(trained_dir, tmp_path / "trained")
    Prompt("v2", "tools").save(trained)
    assert pack(trained, tmp_path / "delta", base_dir).exit_code == 0
    assert prompt_of_model(str(tmp_path / "delta")) == Prompt("v2", "tools")


def test_a_delta_whose_base_has_changed_says_so(
    base_dir: Path, trained_dir: Path, tmp_path: Path
) -> None:
    changed = shutil.copytree(base_dir, tmp_path / "base")
    assert pack(trained_dir, tmp_path / "delta", changed).exit_code == 0
    moved(load_model_and_tokenizer(str(base_dir), device="cpu")[0]).save_pretrained(changed)
    with pytest.raises(ModelLoadError, match=r"cannot load '.*delta'.*SHA-256"):
        load_model_and_tokenizer(str(tmp_path / "delta"))


def test_a_delta_of_another_format_says_so(
    base_dir: Path, trained_dir: Path, tmp_path: Path
) -> None:
    assert pack(trained_dir, tmp_path / "delta", base_dir).exit_code == 0
    path = tmp_path / "delta" / DELTA_CONFIG
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    with pytest.raises(ModelLoadError, match="has format 99"):
        load_model_and_tokenizer(str(tmp_path / "delta"))


def test_another_tokenizer_is_refused(base_dir: Path, trained_dir: Path, tmp_path: Path) -> None:
    other = shutil.copytree(trained_dir, tmp_path / "other")
    path = other / "chat_template.jinja"
    path.write_text(path.read_text() + "!")
    done = pack(other, tmp_path / "delta", base_dir)
    assert done.exit_code == 2
    assert "another tokenizer or chat template" in done.stderr


def test_a_base_that_does_not_fit_is_named(
    make_llama: Callable[..., Any], chat_tokenizer: Any, base_dir: Path, tmp_path: Path
) -> None:
    make_llama(hidden_size=32).save_pretrained(tmp_path / "small")
    chat_tokenizer.save_pretrained(tmp_path / "small")
    done = pack(tmp_path / "small", tmp_path / "delta", base_dir)
    assert done.exit_code == 2
    assert "cannot pack" in done.stderr
