"""`sql-env eval`, `compare` and `report`, as a user runs them."""

from __future__ import annotations

import json
import os
import platform
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
from sql_env.evaluation.run_folder import read_run
from sql_env.provenance import current_commit

WIDE = {"COLUMNS": "200", "TERM": "dumb"}

NOBODY = "endpoint:gpt@http://127.0.0.1:9/v1"  # where nobody listens


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

    def test_json_has_the_summary_of_all_samples(self, music_dir: Path, tmp_path: Path) -> None:
        done = evaluate(music_dir, tmp_path, "--policy", "random", "--samples", "4", "--json")
        (summary,) = json.loads(done.stdout)
        assert summary["policy"] == "random"
        assert summary["n_played"] == 12
        assert set(summary["pass_at_k"]) == {"1", "2", "3", "4"}

    def test_workers_play_the_same_episodes(self, music_dir: Path, tmp_path: Path) -> None:
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

    def test_limit_budget_and_typed_answers_reach_the_episodes(
        self, music_dir: Path, tmp_path: Path
    ) -> None:
        done = evaluate(
            music_dir, tmp_path, "--policy", "random", "-n", "2", "--samples", "20",
            "--step-budget", "3", "--no-last", "--json",
        )  # fmt: skip
        (summary,) = json.loads(done.stdout)
        assert summary["n_played"] == 40
        assert summary["avg_steps"] <= 3
        text = (runs_in(tmp_path)[0] / "episodes.jsonl").read_text()
        assert "@last" not in text

    def test_a_limit_above_what_there_is_plays_each_once(
        self, music_dir: Path, tmp_path: Path
    ) -> None:
        evaluate(music_dir, tmp_path, "--policy", "oracle", "--limit", "999", "--name", "limited")
        evaluate(music_dir, tmp_path, "--policy", "oracle", "--name", "all")
        limited, every = (read_run(tmp_path / name).episodes for name in ("limited", "all"))
        assert [e.question_id for e in limited] == [e.question_id for e in every]

    def test_filters_choose_the_questions(self, music_dir: Path, tmp_path: Path) -> None:
        filters = ["--id", "music_french", "--id", "music_count", "--database", "music"]
        done = evaluate(music_dir, tmp_path, "--policy", "oracle", *filters, "--name", "two")
        assert done.exit_code == 0, done.output
        run = read_run(tmp_path / "two")
        assert {episode.question_id for episode in run.episodes} == {"music_french", "music_count"}
        assert run.config.ids == ["music_french", "music_count"]
        easy = {e.question_id for e in run.episodes if e.difficulty == "easy"}
        evaluate(
            music_dir, tmp_path, "--policy", "oracle", "--difficulty", "easy", "--name", "easy"
        )
        assert easy <= {e.question_id for e in read_run(tmp_path / "easy").episodes}

    def test_filtered_questions_are_of_the_same_dataset(
        self, music_dir: Path, tmp_path: Path
    ) -> None:
        evaluate(music_dir, tmp_path, "--policy", "oracle", "--name", "all")
        evaluate(music_dir, tmp_path, "--policy", "oracle", "--id", "music_join", "--name", "one")
        done = sql_env("compare", tmp_path / "all", tmp_path / "one")
        assert done.exit_code == 0
        assert "ids differs: - → ['music_join']" in done.stdout
        assert "dataset hash differs" not in done.stdout

    def test_the_name_of_a_run_can_be_taken_once(self, music_dir: Path, tmp_path: Path) -> None:
        for code in (0, 2):
            done = evaluate(music_dir, tmp_path, "--policy", "oracle", "--name", "mine")
            assert done.exit_code == code
        assert "is there already: choose another --name" in done.stderr

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
            (["--policy", NOBODY], "nothing answers at http://127"),
            (["--policy", "endpoint:gpt@http://localhost:abc/v1"], "lacks its address"),
            (["--policy", "endpoint:gpt@http://localhost:99999/v1"], "lacks its address"),
            (["--policy", "endpoint:gpt@http:///v1"], "lacks its address"),
            (["--policy", "endpoint:@http://localhost:8000/v1"], "lacks its address"),
            (["--policy", "oracle", "--body", "top_k=20"], "--body is for endpoints: name one"),
            (["--policy", NOBODY, "--body", "top_k"], "is not key=value: write --body top_k=20"),
            (["--policy", NOBODY, "--body", "top_k={"], "--body top_k is no JSON: {"),
            (["--policy", NOBODY, "--body", "stream=true"], "--body cannot set 'stream'"),
            (["--policy", NOBODY, "--price", "inf:1"], "'inf:1' is not IN:OUT"),
            (["--policy", NOBODY, "--price", "3"], "'3' is not IN:OUT: write --price 0.15:0"),
            (
                ["--policy", "oracle", "--on", "spark"],
                "unknown --on 'spark': use ray or ray://HOST",
            ),
            (["--policy", "model:/no/such/model"], "there is no such folder"),
            (["--policy", "model:x", "--dtype", "int8"], "--dtype is 'int8': use float32"),
            (["--policy", "model:x", "--device", "abacus"], "--device abacus cannot be used"),
            (["--policy", "oracle", "--split", "nope"], "choose from eval, train"),
            (
                ["--policy", "oracle", "--id", "music_frensh"],
                "no question 'music_frensh'; there are music_count, music_french, music_join",
            ),
            (["--policy", "oracle", "--database", "musik"], "about database 'musik'; there are"),
            (["--policy", "oracle", "--difficulty", "hardest"], "difficulty 'hardest'; there are"),
            (
                ["--policy", "oracle", "--id", "music_count", "--difficulty", "hard"],
                "none of 3 questions matches all of",
            ),
            (
                ["--policy", "oracle", "--policy", "random", "--name", "both"],
                "--name both is for one run",
            ),
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

    def test_a_dataset_that_is_not_there_is_named(self, tmp_path: Path) -> None:
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

    @pytest.mark.parametrize(
        "option", [["--policy", "oracle"], ["--temperature", "1"], ["--limit", "2"], ["--no-last"]]
    )
    def test_takes_no_other_settings(self, option: list[str], tmp_path: Path) -> None:
        done = sql_env("eval", "--resume", tmp_path, *option)
        assert done.exit_code == 2
        assert f"leave {option[0]} out" in done.stderr

    def change_commit(self, run: Path) -> None:
        path = run / "config.json"
        path.write_text(re.sub(r'"commit": "\w*\+?"', '"commit": "0123456789ab"', path.read_text()))

    def test_refuses_other_code_unless_it_is_named(self, dataset: Path, tmp_path: Path) -> None:
        run = self.interrupted(dataset, tmp_path / "runs")
        self.change_commit(run)
        done = sql_env("eval", "--resume", run)
        assert done.exit_code == 2
        assert "was started with other code: commit 0123456789ab →" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        done = sql_env("eval", "--resume", run, "--other-code")
        assert done.exit_code == 0, done.output
        config = read_run(run).config
        assert config.commit == "0123456789ab"
        assert [again["commit"] for again in config.resumed_with] == [current_commit()]

    def test_refuses_when_a_library_changed(self, dataset: Path, tmp_path: Path) -> None:
        run = self.interrupted(dataset, tmp_path / "runs")
        path = run / "config.json"
        path.write_text(re.sub(r'"sqlite": "[\d.]+"', '"sqlite": "3.0.0"', path.read_text()))
        done = sql_env("eval", "--resume", run)
        assert done.exit_code == 2
        assert "sqlite 3.0.0 →" in done.stderr

    def test_a_folder_that_is_no_run_is_refused(self, tmp_path: Path) -> None:
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

    def test_compare_lists_what_was_won_and_lost(self, two_runs: tuple[Path, Path]) -> None:
        done = sql_env("compare", *two_runs)
        assert done.exit_code == 0
        assert "33.3% → 100.0%" in done.stdout
        assert "2 won, 0 lost of 3, p = 0.5" in done.stdout
        assert "Which singers come from France?" in done.stdout

    def test_compare_names_every_setting_that_differs(
        self, two_runs: tuple[Path, Path], music_dir: Path, tmp_path: Path
    ) -> None:
        evaluate(
            music_dir, tmp_path, "--policy", "oracle", "--name", "other", "--seed", "3",
            "--step-budget", "9", "--no-last", "--batch-size", "4", "--decoding", "guided",
        )  # fmt: skip
        path = tmp_path / "other" / "config.json"
        config = {**json.loads(path.read_text()), "redraws": 8, "versions": {"python": "3.9"}}
        path.write_text(json.dumps(config))
        done = sql_env("compare", two_runs[1], tmp_path / "other")
        for name, values in (
            ("seed", "0 → 3"),
            ("step budget", "15 → 9"),
            ("allow last", "True → False"),
            ("batch size", "- → 4"),
            ("decoding", "plain → guided"),
            ("redraws", "- → 8"),
            ("versions", f"python {platform.python_version()} → 3.9"),
        ):
            assert f"{name} differs: {values}" in done.stdout
        same = sql_env("compare", two_runs[1], two_runs[1])
        assert "differs" not in same.stdout

    def test_compare_as_json_names_the_questions_won(self, two_runs: tuple[Path, Path]) -> None:
        comparison = json.loads(sql_env("compare", *two_runs, "--json").stdout)
        assert comparison["won"] == ["music_french", "music_join"]

    def test_compare_refuses_what_is_no_run(
        self, two_runs: tuple[Path, Path], tmp_path: Path
    ) -> None:
        done = sql_env("compare", two_runs[0], tmp_path / "nothing")
        assert done.exit_code == 2
        assert "is not a run" in done.stderr

    def test_report_goes_to_the_last_run(self, two_runs: tuple[Path, Path]) -> None:
        done = sql_env("report", *two_runs)
        assert done.exit_code == 0
        assert "Which singers come from France?" in (two_runs[1] / "report.html").read_text()

    def test_report_draws_the_curve_of_a_training(
        self, two_runs: tuple[Path, Path], tmp_path: Path
    ) -> None:
        training = tmp_path / "grpo"
        training.mkdir()
        (training / "metrics.jsonl").write_text('{"step": 1, "reward": 0.1}\n')
        done = sql_env("report", training, two_runs[0], "-o", tmp_path / "out" / "r.html")
        assert done.exit_code == 0
        assert '"name":"grpo"' in (tmp_path / "out" / "r.html").read_text()


class TestRuns:
    @pytest.fixture
    def runs(self, music_dir: Path, tmp_path: Path) -> Path:
        evaluate(music_dir, tmp_path / "b" / "c", "--policy", "constant:4", "--name", "deep")
        evaluate(
            music_dir, tmp_path, "--policy", "oracle", "--name", "a", "--id", "music_join",
            "--samples", "2", "--temperature", "0.5",
        )  # fmt: skip
        path = tmp_path / "a" / "config.json"
        config = json.loads(path.read_text())
        path.write_text(json.dumps({**config, "created": "2999-01-01T00:00:00+00:00"}))
        return tmp_path

    def test_lists_every_run_with_its_success(self, runs: Path) -> None:
        done = sql_env("runs", runs)
        assert done.exit_code == 0, done.output
        lines = [line for line in done.stdout.splitlines() if "%" in line]
        assert [line.split()[0] for line in lines] == ["deep", "a"]
        assert re.search(r"constant:4 .*[^y] +33.3% \[6.1%, 79.2%\]", lines[0])
        assert re.search(r"train \(music_join\) +T = 0.5, 2 samples +100.0%", lines[1])

    def test_a_narrow_terminal_leaves_names_and_intervals_whole(
        self, music_dir: Path, tmp_path: Path
    ) -> None:
        name = "20261119-023949-constant"
        evaluate(music_dir, tmp_path, "--policy", "constant:4", "--name", name)
        narrow = CliRunner().invoke(app, ["runs", str(tmp_path)], env={"COLUMNS": "80"}).stdout
        assert name in narrow and "33.3% [6.1%, 79.2%]" in narrow
        assert re.search("run +policy +questions +how +success", narrow)
        evaluate(music_dir, tmp_path, "--policy", "constant:4", "--name", f"{name}-{'long' * 12}")
        both = CliRunner().invoke(app, ["runs", str(tmp_path)], env={"COLUMNS": "80"}).stdout
        assert re.search("run +policy +questions +how +success", both)
        assert both.count(" 33.3% [6.1%, 79.2%]") == 2

    def test_a_page_links_to_a_report_of_each(self, runs: Path) -> None:
        done = sql_env("runs", runs, "--html")
        assert done.exit_code == 0, done.output
        page = (runs / "index.html").read_text()
        assert done.stdout.strip() == str(runs / "index.html")
        links = re.findall(r'href="([^"]+)"', page)
        assert links == ["b/c/deep/report.html", "a/report.html"]
        assert "Which singers come from France?" in (runs / links[0]).read_text()
        assert (runs / links[1]).is_file()
        assert "constant:4" in page

    def test_a_report_is_made_again_when_there_are_more_episodes(self, runs: Path) -> None:
        sql_env("runs", runs, "--html")
        report = runs / "a" / "report.html"
        os.utime(report, (1, 1))
        sql_env("runs", runs, "--html")
        assert report.stat().st_mtime > 1

    def test_a_folder_without_runs_is_said_to_be_one(self, tmp_path: Path) -> None:
        assert "holds no runs" in sql_env("runs", tmp_path).stderr
        done = sql_env("runs", tmp_path / "nowhere")
        assert done.exit_code == 2
        assert "there is no such folder" in done.stderr


def test_the_old_results_command_says_what_to_run_now(tmp_path: Path) -> None:
    done = sql_env("results", tmp_path, "--manifest", "x.toml")
    assert done.exit_code == 2
    assert "make results" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_options_of_eval_fit_on_a_screen() -> None:
    shown = CliRunner().invoke(app, ["eval", "--help"], env={"COLUMNS": "120", "TERM": "dumb"})
    assert len(shown.output.splitlines()) <= 52  # four of its frames are groups
