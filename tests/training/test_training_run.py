"""The whole recipe in one command: SFT, then GRPO; killed in either, it goes on to the bit."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small_models import ONE_THREAD, SHORT_RUN, as_options
from typer.testing import CliRunner

from sql_env.cli import app
from sql_env.questions import Dataset
from sql_env.training.run_log import RunLog

CLOCKS = ("step_time", "seconds/")
SETTINGS = SHORT_RUN | {
    "sft.first": "true",
    "sft.split": "train*4",
    "sft.per_device_train_batch_size": 4,
    "sft.num_train_epochs": 8,
    "sft.dagger_epochs": 6,
    "sft.trl.logging_steps": 1,
    "sft.trl.save_steps": 4,
    "max_steps": 6,
}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def arguments(sft_model_dir: Path, tiny_dataset: Dataset) -> list[str]:
    settings = as_options(SETTINGS | {"model_name": sft_model_dir})
    return ["--dataset", str(tiny_dataset.db_dir.parent), *settings]


@pytest.fixture(scope="module")
def uninterrupted(arguments: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was left in peace."""
    run = tmp_path_factory.mktemp("uninterrupted") / "run"
    sql_env("train", *arguments, "--out", str(run))
    return run


def sql_env(*words: str) -> str:
    outcome = CliRunner().invoke(app, list(words))
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def kill_when(moment: Callable[[], bool], *words: str) -> None:
    """Run `sql-env train …` in a process of its own and kill it at that moment."""
    command = [sys.executable, "-m", "sql_env", "train", *words]
    with subprocess.Popen(command, env=ONE_THREAD, stdout=subprocess.DEVNULL) as run:
        deadline = time.monotonic() + 300
        while not moment():
            assert run.poll() is None, "the run ended by itself"
            assert time.monotonic() < deadline, "the moment never came"
            time.sleep(0.005)
        run.send_signal(signal.SIGKILL)


def without_clocks(log: RunLog) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if not k.startswith(CLOCKS)} for row in log.metrics()]


def weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def assert_same(run: Path, reference: Path) -> None:
    import torch

    for part in ("sft", ""):
        assert without_clocks(RunLog(run / part)) == without_clocks(RunLog(reference / part))
        trained, wanted = weights(run / part / "model"), weights(reference / part / "model")
        assert all(torch.equal(trained[name], wanted[name]) for name in wanted)
    for name in ("demonstrations.jsonl", "corrections.jsonl"):
        assert (run / "sft" / name).read_text() == (reference / "sft" / name).read_text()

    def asked(log: RunLog) -> list[tuple[int, str]]:
        return [(row["step"], row["question_id"]) for row in log.transcripts()]

    assert asked(RunLog(run)) == asked(RunLog(reference))
    assert not list((run / "sft").glob("*/checkpoint-*")), "checkpoints of finished stages"


def stage_steps(run: Path, stage: str) -> int:
    return sum(row["stage"] == stage for row in RunLog(run / "sft").metrics())


def test_one_command_does_sft_and_grpo(uninterrupted: Path) -> None:
    sft, grpo = RunLog(uninterrupted / "sft"), RunLog(uninterrupted)
    steps = [(row["stage"], row["step"]) for row in sft.metrics()]
    assert [step for stage, step in steps if stage == "demonstrations"] == list(range(1, 49))
    correcting = [step for stage, step in steps if stage == "dagger"]
    assert correcting == list(range(1, len(correcting) + 1))
    assert len(correcting) >= 36
    assert (sft.path / "corrections.jsonl").stat().st_size, "no mistake of its own was corrected"
    assert [row["step"] for row in grpo.metrics()] == [1, 2, 3, 4, 5, 6]
    assert {session["phase"] for session in sft.sessions()} == {"sft"}
    assert {session["phase"] for session in grpo.sessions()} == {"grpo"}
    assert grpo.config().sft.first
    assert not sft.config().sft.first


def test_killed_in_both_stages_of_sft_it_goes_on(
    arguments: list[str], uninterrupted: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    stages = {name: RunLog(run / "sft" / name) for name in ("demonstrations", "dagger")}

    def in_stage(name: str, step: int) -> Callable[[], bool]:
        return lambda: stages[name].last_checkpoint() is not None and stage_steps(run, name) >= step

    kill_when(in_stage("demonstrations", 15), *arguments, "--out", str(run))
    assert 15 <= stage_steps(run, "demonstrations") < 48
    # What is half written when the power goes must not be taken for a checkpoint.
    (stages["demonstrations"].path / "checkpoint-47").mkdir()
    kill_when(in_stage("dagger", 15), "--resume", str(run))
    assert 15 <= stage_steps(run, "dagger") < 36
    assert not list(stages["demonstrations"].path.glob("checkpoint-*")), "the first stage is over"

    sql_env("train", "--resume", str(run))
    assert_same(run, uninterrupted)
    assert len(RunLog(run / "sft").sessions()) == 3


def test_killed_in_grpo_it_goes_on_from_there(
    arguments: list[str], uninterrupted: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    log = RunLog(run)
    kill_when(
        lambda: log.last_checkpoint() is not None and len(log.metrics()) >= 3,
        *arguments,
        "--out",
        str(run),
    )
    assert not (run / "model").exists()
    sql_env("train", "--resume", str(run))
    assert_same(run, uninterrupted)
    assert len(RunLog(run / "sft").sessions()) == 1, "SFT was over"


@pytest.mark.parametrize("lost", ["the last mark", "the model"])
def test_killed_between_the_stages_it_goes_on(
    lost: str, uninterrupted: Path, tmp_path: Path
) -> None:
    """Moments too short to hit with a signal, made by taking away what came after them."""
    run = Path(shutil.copytree(uninterrupted, tmp_path / "run"))
    for later in ("model", "metrics.jsonl", "transcripts.jsonl", "sessions.jsonl", "sft/model"):
        path = run / later
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for checkpoint in run.glob("checkpoint-*"):
        shutil.rmtree(checkpoint)
    if lost == "the last mark":  # a second stage of which nothing was kept
        shutil.rmtree(run / "sft" / "dagger")
        (run / "sft" / "corrections.jsonl").unlink()
    sql_env("train", "--resume", str(run))
    assert_same(run, uninterrupted)


def test_sft_that_is_over_is_not_done_again(uninterrupted: Path) -> None:
    before = (uninterrupted / "sft" / "model" / "model.safetensors").stat().st_mtime_ns
    output = sql_env("sft", "--resume", str(uninterrupted / "sft"))
    assert "sql-env train --set model_name=" in output
    after = (uninterrupted / "sft" / "model" / "model.safetensors").stat().st_mtime_ns
    assert before == after


def test_grpo_alone_starts_from_the_named_model(
    arguments: list[str], uninterrupted: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    settings = [f"model_name={uninterrupted / 'sft' / 'model'}", "sft.first=false"]
    extra = [part for item in settings for part in ("--set", item)]
    sql_env("train", *arguments, *extra, "--out", str(run))
    assert not (run / "sft").exists()
    assert without_clocks(RunLog(run)) == without_clocks(RunLog(uninterrupted))


@pytest.mark.parametrize(
    ("command", "folder", "complaint"),
    [
        ("sft", "nowhere", "nowhere is no training run: there is no config.json in it"),
        ("sft", "", "is a GRPO run: `sql-env train --resume {run}` goes on with it"),
        ("train", "sft", "is an SFT run: `sql-env train --resume {run}` goes on with it"),
    ],
)
def test_a_folder_that_is_something_else_is_refused_with_advice(
    command: str, folder: str, complaint: str, uninterrupted: Path
) -> None:
    outcome = CliRunner().invoke(app, [command, "--resume", str(uninterrupted / folder)])
    assert outcome.exit_code == 2, outcome.output
    assert complaint.format(run=uninterrupted) in " ".join(outcome.output.split())


def test_a_run_that_was_killed_in_sft_is_not_begun_anew(
    arguments: list[str], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    (run / "sft").mkdir(parents=True)
    (run / "sft" / "metrics.jsonl").write_text(json.dumps({"step": 1}) + "\n")
    outcome = CliRunner().invoke(app, ["train", *arguments, "--out", str(run)])
    assert outcome.exit_code == 2
    assert f"(--resume {run})" in " ".join(outcome.output.split())
