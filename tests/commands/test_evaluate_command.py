"""`sql-env eval`, `compare` and `report`, as a user runs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sql_env.cli import app

WIDE = {"COLUMNS": "200", "TERM": "dumb"}


def sql_env(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env=WIDE)


def runs_in(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def evaluate(music_dir: Path, out: Path, *options: str) -> Any:
    return sql_env("eval", "--dataset", music_dir, "--split", "train", "--out", out, *options)


class TestEval:
    def test_plays_several_policies_and_says_how_they_did(
        self, music_dir: Path, tmp_path: Path
    ) -> None:
        done = evaluate(music_dir, tmp_path, "--policy", "oracle", "--policy", "constant:4")
        assert done.exit_code == 0, done.output
        assert re.search(r"oracle\s+3\s+100.0%\s+43.9% to 100.0%", done.stdout)
        assert re.search(r"constant:4\s+3\s+33.3%", done.stdout)
        assert "sql-env report" in done.stdout
        oracle, constant = sorted(runs_in(tmp_path), key=lambda path: "constant" in path.name)
        config = json.loads((oracle / "config.json").read_text())
        assert (config["policy"], config["split"], config["seed"]) == ("oracle", "train", 0)
        assert config["dataset_hash"]
        assert config["versions"]["python"]
        assert len((oracle / "episodes.jsonl").read_text().splitlines()) == 3
        assert json.loads((constant / "summary.json").read_text())["n_completed"] == 3

    def test_as_json(self, music_dir: Path, tmp_path: Path) -> None:
        done = evaluate(music_dir, tmp_path, "--policy", "random", "--samples", "4", "--json")
        (summary,) = json.loads(done.stdout)
        assert summary["policy"] == "random"
        assert summary["n_played"] == 12
        assert set(summary["pass_at_k"]) == {"1", "2", "3", "4"}

    def test_workers_give_the_same(self, music_dir: Path, tmp_path: Path) -> None:
        for workers in ("1", "2"):
            evaluate(music_dir, tmp_path / workers, "--policy", "random", "--workers", workers)
        played = [
            [
                {k: v for k, v in json.loads(line).items() if not k.endswith("seconds")}
                for line in (runs_in(tmp_path / workers)[0] / "episodes.jsonl").open()
            ]
            for workers in ("1", "2")
        ]
        assert played[0] == played[1]

    def test_n_and_budget_and_typed_answers(self, music_dir: Path, tmp_path: Path) -> None:
        done = evaluate(
            music_dir, tmp_path, "--policy", "random", "-n", "2", "--samples", "20",
            "--step-budget", "3", "--no-last", "--json",
        )  # fmt: skip
        (summary,) = json.loads(done.stdout)
        assert summary["n_played"] == 40
        assert summary["avg_steps"] <= 3
        text = (runs_in(tmp_path)[0] / "episodes.jsonl").read_text()
        assert "@last" not in text

    def test_the_embedded_data_is_the_default(self, tmp_path: Path) -> None:
        done = sql_env("eval", "--policy", "oracle", "-n", "5", "--out", tmp_path, "--json")
        (summary,) = json.loads(done.stdout)
        assert summary["success"]["rate"] == 1.0

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ([], "name a --policy"),
            (["--policy", "magic"], "unknown policy 'magic': use one of random, oracle"),
            (["--policy", "endpoint:gpt"], "lacks its address: write endpoint:MODEL@http"),
            (["--policy", "endpoint:gpt@http://127.0.0.1:9/v1"], "nothing answers at http://127"),
            (["--policy", "endpoint:gpt@http://localhost:abc/v1"], "check the address"),
            (["--policy", "model:/no/such/model"], "there is no such folder"),
            (["--policy", "model:x", "--dtype", "int8"], "--dtype is 'int8': use float32"),
            (["--policy", "model:x", "--device", "abacus"], "--device abacus cannot be used"),
            (["--policy", "oracle", "--split", "nope"], "choose --split from eval, train"),
        ],
    )
    def test_mistakes_are_explained(
        self, music_dir: Path, tmp_path: Path, options: list[str], message: str
    ) -> None:
        done = evaluate(music_dir, tmp_path / "runs", *options)
        assert done.exit_code == 2
        assert message in " ".join(done.stderr.split())
        assert "Traceback" not in done.output
        assert not (tmp_path / "runs").exists()

    def test_a_dataset_that_is_not_there(self, tmp_path: Path) -> None:
        done = sql_env("eval", "--policy", "oracle", "--dataset", tmp_path / "nowhere")
        assert done.exit_code == 2
        assert "nowhere" in done.stderr


class TestResume:
    @pytest.fixture
    def dataset(self, music_dir: Path, tmp_path: Path) -> Path:
        return shutil.copytree(music_dir, tmp_path / "data")

    def interrupted(self, dataset: Path, out: Path) -> Path:
        """A run that lost its last episode."""
        evaluate(dataset, out, "--policy", "oracle")
        (run,) = runs_in(out)
        path = run / "episodes.jsonl"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
        (run / "summary.json").unlink()
        return run

    def test_plays_only_what_is_missing(self, dataset: Path, tmp_path: Path) -> None:
        run = self.interrupted(dataset, tmp_path / "runs")
        before = (run / "episodes.jsonl").read_text()
        done = sql_env("eval", "--resume", run)
        assert done.exit_code == 0, done.output
        after = (run / "episodes.jsonl").read_text()
        assert after.startswith(before)
        assert len(after.splitlines()) == 3
        assert json.loads((run / "summary.json").read_text())["success"]["rate"] == 1.0

    def test_refuses_when_the_data_changed(self, dataset: Path, tmp_path: Path) -> None:
        run = self.interrupted(dataset, tmp_path / "runs")
        path = dataset / "questions" / "questions_train.json"
        path.write_text(path.read_text().replace("How many singers", "How many artists"))
        done = sql_env("eval", "--resume", run)
        assert done.exit_code == 2
        assert "has changed" in done.stderr

    def test_takes_no_policy(self, dataset: Path, tmp_path: Path) -> None:
        done = sql_env("eval", "--resume", tmp_path, "--policy", "oracle")
        assert "leave --policy out" in done.stderr

    def test_not_a_run(self, tmp_path: Path) -> None:
        done = sql_env("eval", "--resume", tmp_path)
        assert done.exit_code == 2
        assert "is not a run" in done.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_keeps_what_is_done(music_dir: Path, tmp_path: Path, workers: str) -> None:
    command = [
        sys.executable, "-c", "from sql_env.cli import main; main()",
        "eval", "--dataset", str(music_dir), "--split", "train", "--policy", "random",
        "--samples", "200000", "--workers", workers, "--out", str(tmp_path),
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, **WIDE}, start_new_session=True,
    )  # fmt: skip
    try:
        for _ in range(600):
            written = [path.stat().st_size for path in tmp_path.glob("*/episodes.jsonl")]
            if written and written[0] > 10_000:
                break
            time.sleep(0.05)
        # As a terminal does it: the interrupt goes to the whole group of processes.
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert "interrupted after" in output
    (run,) = runs_in(tmp_path)
    assert f"sql-env eval --resume {run}" in output
    summary = json.loads((run / "summary.json").read_text())
    assert summary["interrupted"]
    assert 0 < summary["n_played"] < summary["n_episodes"]
    assert len((run / "episodes.jsonl").read_text().splitlines()) == summary["n_played"]


class TestCompareAndReport:
    @pytest.fixture
    def two_runs(self, music_dir: Path, tmp_path: Path) -> tuple[Path, Path]:
        evaluate(music_dir, tmp_path / "a", "--policy", "constant:4")
        evaluate(music_dir, tmp_path / "b", "--policy", "oracle")
        return runs_in(tmp_path / "a")[0], runs_in(tmp_path / "b")[0]

    def test_compare(self, two_runs: tuple[Path, Path]) -> None:
        done = sql_env("compare", *two_runs)
        assert done.exit_code == 0
        assert "33.3% → 100.0%" in done.stdout
        assert "2 won, 0 lost of 3, p = 0.5" in done.stdout
        assert "Which singers come from France?" in done.stdout

    def test_compare_as_json(self, two_runs: tuple[Path, Path]) -> None:
        comparison = json.loads(sql_env("compare", *two_runs, "--json").stdout)
        assert comparison["won"] == ["music_french", "music_join"]

    def test_compare_with_something_else(self, two_runs: tuple[Path, Path], tmp_path: Path) -> None:
        done = sql_env("compare", two_runs[0], tmp_path / "nothing")
        assert done.exit_code == 2
        assert "is not a run" in done.stderr

    def test_report_goes_to_the_last_run(self, two_runs: tuple[Path, Path]) -> None:
        done = sql_env("report", *two_runs)
        assert done.exit_code == 0
        assert "Which singers come from France?" in (two_runs[1] / "report.html").read_text()

    def test_report_with_a_training(self, two_runs: tuple[Path, Path], tmp_path: Path) -> None:
        training = tmp_path / "grpo"
        training.mkdir()
        (training / "metrics.jsonl").write_text('{"step": 1, "reward": 0.1}\n')
        done = sql_env("report", training, two_runs[0], "-o", tmp_path / "out" / "r.html")
        assert done.exit_code == 0
        assert '"name":"grpo"' in (tmp_path / "out" / "r.html").read_text()
