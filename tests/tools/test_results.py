"""The archive of runs and the tables made from it: real runs, numbers against their summaries."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from sql_env.cli import app as sql_env
from sql_env.evaluation.comparison import compare
from sql_env.evaluation.metrics import summarize
from sql_env.evaluation.run_folder import read_run
from sql_env.training.run_log import RunLog
from tools.results.__main__ import app
from tools.results.page import TABLES, read_plan, write_blocks

CHECKOUT = Path(__file__).resolve().parents[2]
PLAN = """
[[columns]]
key = "music"
title = "music"

[[rows]]
title = "always 4"
runs = { music = "constant" }
failures = true

[[rows]]
title = "random"
runs = { music = "random" }

[[pairs]]
table = "reward"
title = "constant, then oracle"
before = "constant"
after = "oracle"

[[pairs]]
table = "reward"
title = "random, then oracle"
before = "random"
after = "oracle"

[[pairs]]
table = "ablations"
title = "knowing"
before = "random"
after = "oracle"

[[trainings]]
title = "GRPO, seed 3"
folder = "training"
about = "thirty steps"

[transcript]
run = "embedded"
question = "shipping_0015"
"""
SAMPLED = ["--samples", "8", "--temperature", "1"]
RUNS: dict[str, list[str]] = {
    "constant": ["--policy", "constant:4"],
    "random": ["--policy", "random", *SAMPLED],
    "oracle": ["--policy", "oracle"],
}


@pytest.fixture(scope="module")
def played(music_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of `sql-env eval`, and the log of a training."""
    folder = tmp_path_factory.mktemp("played")
    music = ["--dataset", str(music_dir), "--split", "train"]
    embedded = ["--policy", "oracle", "--id", "shipping_0015"]
    for name, options in {
        **{n: [*music, *o] for n, o in RUNS.items()},
        "embedded": embedded,
    }.items():
        done = CliRunner().invoke(sql_env, ["eval", *options, "--out", str(folder), "--name", name])
        assert done.exit_code == 0, done.output
    log = RunLog(folder / "training")
    log.path.mkdir()
    config = {"seed": 3, "model_name": "/somewhere/deep/runs/warmup/model"}
    (log.path / "config.json").write_text(json.dumps(config))
    log.add_session("grpo", machine="a fine machine", versions={"torch": "9.9"})
    for step in range(1, 31):
        share = step / 30
        log.add_metrics(
            {
                "phase": "grpo",
                "step": step,
                "reward": 1.123456 * share,
                "rewards/reward_correctness/mean": share,
                "seconds/run": 6.0,
                "clip_ratio/low_mean": 0.0,
            }
        )
    return folder


@pytest.fixture(scope="module")
def project(played: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in miniature: archived runs, a plan, and a page that asks for every table."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "docs").mkdir()
    for name in (*RUNS, "embedded", "training"):
        done = tool("archive", played / name, "--out", folder / "results")
        assert done.exit_code == 0, done.output
    (folder / "results" / "page.toml").write_text(PLAN)
    blocks = "".join(f"## {name}\n<!-- table {name} -->\nold\n<!-- end -->\n" for name in TABLES)
    (folder / "docs" / "results.md").write_text(f"# Results\n\nProse.\n\n{blocks}\nThe end.\n")
    done = make_page(folder)
    assert done.exit_code == 0, done.output
    return folder


def tool(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def make_page(project: Path) -> Result:
    page = project / "docs" / "results.md"
    return tool("page", "--plan", project / "results" / "page.toml", "--into", page)


def page(project: Path) -> str:
    return (project / "docs" / "results.md").read_text(encoding="utf-8")


def table(project: Path, name: str) -> str:
    match = re.search(rf"<!-- table {name} -->\n(.*?)\n<!-- end -->", page(project), re.DOTALL)
    assert match
    return match[1]


def row(text: str, first_cell: str) -> list[str]:
    """The cells of the table row that begins so."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {first_cell} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def summary(played: Path, name: str) -> Any:
    """The summary that `sql-env eval` wrote."""
    return json.loads((played / name / "summary.json").read_text())


@pytest.mark.parametrize(("title", "name"), [("always 4", "constant"), ("random", "random")])
def test_success_is_what_the_runs_say(project: Path, played: Path, title: str, name: str) -> None:
    rate = summary(played, name)["success"]
    expected = f"{100 * rate['rate']:.1f} % [{100 * rate['low']:.1f}, {100 * rate['high']:.1f}]"
    assert row(table(project, "success"), title)[1] == expected


def test_pairs_are_those_of_the_comparison_with_corrected_p_values(
    project: Path, played: Path
) -> None:
    runs = [read_run(played / name).episodes for name in ("constant", "random", "oracle")]
    first, second = compare(runs[0], runs[2]), compare(runs[1], runs[2])
    cells = row(table(project, "reward"), "constant, then oracle")
    assert cells[1:4] == ["3", "33.3 %", "100.0 %"]
    assert cells[4].startswith(f"+66.7 [{100 * first.low:+.1f}, {100 * first.high:+.1f}]")
    assert cells[5:8] == [str(len(first.won)), str(len(first.lost)), f"{first.p_value:.2g}"]
    low, high = sorted([first.p_value, second.p_value])
    corrected = min(1.0, 2 * low), max(min(1.0, 2 * low), high)
    shown = {
        row(table(project, "reward"), f"{name}, then oracle")[8]
        for name in RUNS
        if name != "oracle"
    }
    assert shown == {f"{p:.2g}" for p in corrected}
    assert row(table(project, "ablations"), "knowing")[8] == f"{second.p_value:.2g}"


def test_failures_are_counted_by_kind(project: Path) -> None:
    text = table(project, "failures")
    assert row(text, "wrong answer: no query")[1] == "2 (67%)"
    assert row(text, "all that were not won")[1] == "2 (67%)"


def test_metrics_survive_the_archive(project: Path, played: Path) -> None:
    for name in RUNS:
        kept = summarize(read_run(project / "results" / name).episodes).to_dict()
        theirs = summarize(read_run(played / name).episodes).to_dict()
        for clock in ("environment_seconds", "policy_seconds", "environment_share"):
            assert kept.pop(clock) == pytest.approx(theirs.pop(clock), abs=0.2)
        assert kept == theirs


def test_of_others_data_only_what_the_policy_wrote_is_archived(project: Path, played: Path) -> None:
    before = read_run(played / "oracle").episodes
    after = read_run(project / "results" / "oracle").episodes
    for whole, kept in zip(before, after, strict=True):
        assert [step.argument for step in kept.steps] == [step.argument for step in whole.steps]
        assert (kept.question, kept.gold_sql, kept.verdict) == ("", "", "")
        assert not kept.gold_answer
        assert not any(step.result for step in kept.steps)


def test_of_the_embedded_data_everything_is(project: Path, played: Path) -> None:
    (whole,) = read_run(played / "embedded").episodes
    (kept,) = read_run(project / "results" / "embedded").episodes
    assert (kept.question, kept.gold_sql, kept.steps) == (
        whole.question,
        whole.gold_sql,
        whole.steps,
    )


def test_archiving_again_changes_nothing(project: Path) -> None:
    for folder in (project / "results").iterdir():
        if folder.is_dir():
            before = {path: path.read_bytes() for path in folder.iterdir()}
            assert tool("archive", folder, "--out", project / "results").exit_code == 0
            assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_the_archive_is_small_and_names_no_folders_of_the_machine(
    project: Path, music_dir: Path
) -> None:
    files = [path for path in (project / "results").rglob("*") if path.is_file()]
    assert max(path.stat().st_size for path in files) < 8_000
    config = json.loads((project / "results" / "random" / "config.json").read_text())
    assert config["dataset"] == "/".join(music_dir.parts[-2:])
    config = json.loads((project / "results" / "training" / "config.json").read_text())
    assert config["model_name"] == "warmup/model"
    rows = RunLog(project / "results" / "training").metrics()
    assert rows[-1]["reward"] == 1.123
    assert "clip_ratio/low_mean" not in rows[-1]


def test_the_training_is_told_and_drawn(project: Path) -> None:
    cells = row(table(project, "trainings"), "GRPO, seed 3")
    assert cells[2:5] == ["30", "3", "a fine machine"]
    (link,) = re.findall(r"!\[.*?\]\((.*?)\)", table(project, "curve"))
    assert (project / "docs" / link).read_bytes().startswith(b"\x89PNG")


def test_every_run_of_the_page_is_listed(project: Path) -> None:
    listed = re.findall(r"^\| `(\w+)` \|", table(project, "runs"), re.M)
    assert listed == ["constant", "random", "oracle", "embedded"]


def test_a_transcript_shows_what_was_done_and_came_back(project: Path) -> None:
    text = table(project, "transcript")
    assert "(`shipping_0015`, " in text and ": right)" in text
    assert "> ANSWER: " in text
    assert "The gold query: `SELECT" in text


def test_prose_stays_and_the_page_can_be_made_again(project: Path) -> None:
    before = page(project)
    assert before.startswith("# Results\n\nProse.\n\n## success")
    assert before.endswith("The end.\n")
    assert "\nold\n" not in before
    assert make_page(project).exit_code == 0
    assert page(project) == before


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (('music = "constant"', 'music = "gone"'), "gone is not a run"),
        (('title = "music"', 'tittle = "music"'), "columns.0.title: Field required"),
        (('table = "ablations"', 'table = "other"'), "pairs.2.table: Input should be"),
        (('question = "shipping_0015"', 'question = "x"'), "did not play question 'x'"),
        (("[[rows]]", "[[rows"), "is not TOML"),
    ],
)
def test_a_wrong_plan_is_told_what_is_wrong(
    project: Path, tmp_path: Path, change: tuple[str, str], complaint: str
) -> None:
    shutil.copytree(project, tmp_path, dirs_exist_ok=True)
    (tmp_path / "results" / "page.toml").write_text(PLAN.replace(*change, 1))
    done = make_page(tmp_path)
    assert done.exit_code == 2
    assert complaint in done.stderr, done.stderr


def test_runs_over_other_questions_do_not_stand_in_one_column(
    project: Path, music_dir: Path, tmp_path: Path
) -> None:
    shutil.copytree(project, tmp_path, dirs_exist_ok=True)
    options = ["--dataset", str(music_dir), "--split", "train", "-n", "2", "--name", "random"]
    done = CliRunner().invoke(
        sql_env, ["eval", "--policy", "random", *options, "--out", str(tmp_path / "new")]
    )
    assert done.exit_code == 0, done.output
    tool("archive", tmp_path / "new" / "random", "--out", tmp_path / "results")
    done = make_page(tmp_path)
    assert done.exit_code == 2
    assert "played [2, 3] questions" in done.stderr


def test_a_page_that_asks_for_an_unknown_table_is_refused(project: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_text("<!-- table mystery -->\n<!-- end -->\n")
    done = tool("page", "--plan", project / "results" / "page.toml", "--into", path)
    assert done.exit_code == 2
    assert "no table 'mystery': use success" in done.stderr


@pytest.mark.parametrize("name", ["docs/results.md", "results/README.md"])
def test_the_committed_tables_are_those_that_the_archived_runs_make(
    name: str, tmp_path: Path
) -> None:
    committed = (CHECKOUT / name).read_text(encoding="utf-8")
    again = tmp_path / name
    again.parent.mkdir()
    again.write_text(committed, encoding="utf-8")
    assert write_blocks(read_plan(CHECKOUT / "results" / "page.toml"), again) > 0
    assert again.read_text(encoding="utf-8") == committed


def test_the_archive_holds_what_the_page_uses_and_no_more_than_twenty() -> None:
    plan = read_plan(CHECKOUT / "results" / "page.toml")
    used = {*plan.evaluations(), *(training.folder for training in plan.plan.trainings)}
    archived = {path.name for path in (CHECKOUT / "results").iterdir() if path.is_dir()}
    assert archived == used
    assert len(archived) <= 20
