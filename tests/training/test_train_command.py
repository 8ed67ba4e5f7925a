"""`sql-env train` and `sql-env sft` as a person runs them: killed, resumed, on two processes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from small_models import ONE_THREAD, SHORT_RUN, as_options
from typer.testing import CliRunner

from sql_env.cli import app
from sql_env.questions import Dataset
from sql_env.training.config import GRPOConfig
from sql_env.training.data_loading import load_for_training
from sql_env.training.pipeline import build_trainer, run_training_with_metrics
from sql_env.training.run_log import RunLog

MakeConfig = Callable[..., GRPOConfig]


@pytest.fixture
def arguments(sft_model_dir: Path, tiny_dataset: Dataset, tmp_path: Path) -> list[str]:
    folder = tiny_dataset.db_dir.parent
    settings = as_options(SHORT_RUN | {"model_name": sft_model_dir})
    return ["--dataset", str(folder), "--out", str(tmp_path / "run"), *settings]


def test_a_killed_run_goes_on_as_if_nothing_had_happened(
    arguments: list[str], tmp_path: Path
) -> None:
    log = RunLog(tmp_path / "run")
    command = [sys.executable, "-m", "sql_env", "train"]
    with subprocess.Popen([*command, *arguments, "--set", "max_steps=500"], env=ONE_THREAD) as run:
        deadline = time.monotonic() + 300
        # Past a checkpoint and into steps that are lost with the process.
        while not (log.last_checkpoint() and len(log.metrics()) >= 5):
            assert run.poll() is None, "the run ended by itself"
            assert time.monotonic() < deadline, "the run never came to step 5"
            time.sleep(0.05)
        run.send_signal(signal.SIGKILL)
    killed_at = len(log.metrics())
    wanted = killed_at + 2
    # What is half written when the power goes must not be taken for a checkpoint.
    (log.path / "checkpoint-499").mkdir()
    subprocess.run(
        [*command, "--resume", str(log.path), "--set", f"max_steps={wanted}"],
        env=ONE_THREAD,
        check=True,
    )

    reference = log.config([f"max_steps={wanted}"], output_dir=str(tmp_path / "reference"))
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        trainer = build_trainer(reference, *load_for_training(reference))
        points = run_training_with_metrics(trainer, reference)
    finally:
        torch.set_num_threads(threads)

    def questions(of: RunLog) -> list[tuple[int, str]]:
        return [(row["step"], row["question_id"]) for row in of.transcripts()]

    assert questions(log) == questions(RunLog(reference.output_dir))
    assert [(row["step"], row["reward"]) for row in log.metrics()] == points
    assert (log.path / "model" / "config.json").is_file()


# The engine plays each rank's episodes by itself; TRL's backends need all ranks in every turn.
@pytest.mark.parametrize("engine", ["auto", "generate"])
def test_two_processes_share_a_round_and_write_one_report(
    arguments: list[str], tmp_path: Path, engine: str
) -> None:
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--num_processes", "2"]
    # `--multi_gpu` is accelerate's word for several processes on one machine; with `--cpu` it
    # would start one, or ask for mpirun. The port is left for the system to choose.
    launch += ["--multi_gpu", "--num_machines", "1", "--main_process_port", "0"]
    launch += ["--mixed_precision", "no", "--dynamo_backend", "no"]
    done = subprocess.run(
        [
            *launch,
            "-m",
            "sql_env",
            "train",
            *arguments,
            "--set",
            "max_steps=2",
            "--set",
            f"engine={engine}",
        ],
        env=ONE_THREAD,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("the model: ") == 1, "one report"

    log = RunLog(tmp_path / "run")
    rows, episodes = log.metrics(), log.transcripts()
    assert [row["step"] for row in rows] == [1, 2]
    for process in ("transcripts.jsonl", "transcripts-1.jsonl"):
        lines = (log.path / process).read_text().splitlines()
        assert len(lines) == 2 * SHORT_RUN["per_device_train_batch_size"]  # type: ignore[operator]
    for row in rows:
        played = [item for item in episodes if item["step"] == row["step"]]
        rewards = [sum(sum(step["reward"]) for step in item["steps"]) for item in played]
        assert row["reward"] == pytest.approx(sum(rewards) / len(rewards), abs=1e-4)
        asked = [item["question_id"] for item in played]
        assert {asked.count(name) for name in asked} == {2}, "whole groups, none played twice"


def test_sft_makes_a_model_that_training_starts_from(arguments: list[str], tmp_path: Path) -> None:
    settings = ["--set", "sft.trl.max_steps=3", "--set", "sft.trl.logging_steps=1"]
    outcome = CliRunner().invoke(app, ["sft", *arguments, *settings])
    assert outcome.exit_code == 0, outcome.output
    rows = RunLog(tmp_path / "run").metrics()
    assert [(row["phase"], row["step"]) for row in rows] == [("sft", n) for n in (1, 2, 3)]
    assert (tmp_path / "run" / "model" / "config.json").is_file()
    assert "sql-env train --set model_name=" in outcome.output


def test_training_shows_what_it_does(arguments: list[str], tmp_path: Path) -> None:
    settings = ["max_steps=2", "evaluate_every=2"]
    extra = [part for item in settings for part in ("--set", item)]
    outcome = CliRunner().invoke(app, ["train", *arguments, *extra])
    assert outcome.exit_code == 0, outcome.output
    for part in ("random play: reward", "step 2, a question of the eval split", "sql-env eval"):
        assert part in outcome.output
    plots = {path.name for path in (tmp_path / "run" / "plots").iterdir()}
    assert plots == {"reward.png", "success.png"}


@pytest.mark.parametrize(
    ("arguments_given", "complaint"),
    [
        (["--preset", "laptop"], "preset is 'laptop': allowed is one of colab, cpu, gpu"),
        (["--set", "learning_rate=fast"], "learning_rate is 'fast': allowed is a number"),
        (["--config", "absent.toml"], "absent.toml: cannot be read"),
        (["--resume", "nowhere"], "nowhere is no training run"),
        (["--resume", "nowhere", "--preset", "cpu"], "leave it out"),
        (["--dataset", "nowhere"], "nowhere"),
        (["--set", "model_name=./nowhere"], "cannot load './nowhere': there is no such folder"),
    ],
)
def test_what_a_user_gets_wrong_is_said_in_one_line(
    arguments_given: list[str], complaint: str, tiny_dataset: Dataset, tmp_path: Path
) -> None:
    base = ["--out", str(tmp_path / "run")] if "--resume" not in arguments_given else []
    if "model_name=./nowhere" in arguments_given:
        base += ["--dataset", str(tiny_dataset.db_dir.parent)]
    outcome = CliRunner().invoke(app, ["train", *base, *arguments_given])
    assert outcome.exit_code == 2, outcome.output
    assert complaint in " ".join(outcome.output.split())
    assert "Traceback" not in outcome.output


def test_demonstrations_of_a_split_that_is_not_there_are_refused(
    tiny_dataset: Dataset, tmp_path: Path
) -> None:
    path = tmp_path / "shown.jsonl"
    where = ["--dataset", str(tiny_dataset.db_dir.parent), "--set", "sft.split=rl"]
    outcome = CliRunner().invoke(app, ["demonstrations", str(path), *where])
    assert outcome.exit_code == 2
    assert "no question has split 'rl'" in " ".join(outcome.output.split())
    assert not path.exists()


def test_a_run_without_a_checkpoint_cannot_be_resumed(
    tiny_config: MakeConfig, sft_model_dir: Path, tmp_path: Path
) -> None:
    config = tiny_config(model_name=str(sft_model_dir))
    RunLog(config.output_dir).begin(config)
    outcome = CliRunner().invoke(app, ["train", "--resume", config.output_dir])
    assert outcome.exit_code == 2
    assert "holds no whole checkpoint" in " ".join(outcome.output.split())
