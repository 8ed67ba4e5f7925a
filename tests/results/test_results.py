"""The page of results: real runs of cheap policies, and every number against their summaries."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sql_env.cli import app
from sql_env.evaluation.comparison import compare
from sql_env.evaluation.metrics import Rate, summarize
from sql_env.evaluation.run_folder import read_run
from sql_env.training.run_log import RunLog
from tools.results.manifest import ManifestError, read_manifest
from tools.results.pictures import running_steps

CHECKOUT = Path(__file__).resolve().parents[2]
MANIFEST = """
runs = "../results"

[notes]
intro = "Made for a test."

[[datasets]]
key = "music"
title = "music"
about = "Singers and concerts."

[[policies]]
key = "constant"
title = "always 4"
runs.music = ["constant"]

[[policies]]
key = "random"
title = "random"
runs.music = ["random", "random-sampled", "random-literal"]

[[policies]]
key = "oracle"
title = "oracle"
runs.music = ["oracle", "oracle-sampled"]

[[comparisons]]
before = "constant"
after = "oracle"

[[comparisons]]
before = "random"
after = "oracle"
title = "Knowing the answer"
text = "It helps."

[[trainings]]
title = "GRPO"
folder = "training"
about = "A run of three steps."

[[transcripts]]
before = "constant"
after = "oracle"
dataset = "music"
question = "music_french"
text = "The constant does not look."
"""
SAMPLED = ["--samples", "8", "--temperature", "1"]
RUNS: dict[str, list[str]] = {
    "constant": ["--policy", "constant:4"],
    "random": ["--policy", "random"],
    "random-sampled": ["--policy", "random", *SAMPLED],
    "random-literal": ["--policy", "random", "--no-last"],
    "oracle": ["--policy", "oracle"],
    "oracle-sampled": ["--policy", "oracle", *SAMPLED],
}


@pytest.fixture(scope="module")
def played(music_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs as `sql-env eval --out NAME` leaves them, and the log of a training."""
    folder = tmp_path_factory.mktemp("played")
    for name, options in RUNS.items():
        command = ["eval", "--dataset", str(music_dir), "--split", "train", *options]
        done = CliRunner().invoke(app, [*command, "--out", str(folder / name)])
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
    for step in (0, 15, 30):
        rate = Rate(step / 30, step / 40, 1.0, 8)._asdict()
        log.add_success({"step": step, "train": rate, "eval": rate})
    return folder


@pytest.fixture(scope="module")
def project(played: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in miniature, after `sql-env results`."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "docs").mkdir()
    (folder / "docs" / "results.toml").write_text(MANIFEST)
    done = make_page(folder, played)
    assert done.exit_code == 0, done.output
    return folder


def make_page(project: Path, *runs: Path) -> Any:
    options = ["--manifest", str(project / "docs" / "results.toml")]
    options += ["--out", str(project / "docs" / "results.md")]
    return CliRunner().invoke(app, ["results", *map(str, runs), *options])


def page(project: Path) -> str:
    return (project / "docs" / "results.md").read_text(encoding="utf-8")


def section(project: Path, heading: str) -> str:
    match = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", page(project), re.M | re.S)
    assert match, f"no section {heading!r}"
    return match[1]


def row(text: str, first_cell: str) -> list[str]:
    """The cells of the table row that begins so."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {first_cell} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def original(played: Path, name: str) -> Any:
    """The summary that `sql-env eval` wrote."""
    (path,) = (played / name).glob("*/summary.json")
    return json.loads(path.read_text())


def interval(rate: dict[str, float]) -> str:
    return f"{100 * rate['rate']:.1f} % [{100 * rate['low']:.1f}, {100 * rate['high']:.1f}]"


@pytest.mark.parametrize("name", ["constant", "random", "oracle"])
def test_success_is_what_the_runs_say(project: Path, played: Path, name: str) -> None:
    title = {"constant": "always 4"}.get(name, name)
    summary = original(played, name)
    assert row(section(project, "Success"), title)[1] == interval(summary["success"])
    hardness = row(section(project, "By hardness"), title)
    assert hardness[1:] == [interval(rate) for rate in summary["by_difficulty"].values()]
    steps, queries, *_, recovered, corrected, _ = row(section(project, "How they play"), title)[1:]
    for cell, rate in ((recovered, summary["recovery"]), (corrected, summary["correction"])):
        assert cell == (f"{rate['n']}: {interval(rate)}" if rate["n"] else "0")
    assert float(steps) == pytest.approx(summary["avg_steps"], abs=0.05)
    assert float(queries) == pytest.approx(summary["avg_queries"], abs=0.005)


def test_the_other_ways_of_playing_have_tables_of_their_own(project: Path, played: Path) -> None:
    summary = original(played, "random-sampled")
    cells = row(section(project, "Several attempts"), "random, music")
    assert cells[1] == "8 x 3, T = 1"
    assert cells[2] == interval(summary["success"])
    assert cells[5].startswith(f"{100 * summary['pass_at_k']['8']:.1f} % [")
    literal = row(section(project, "Literal answers only"), "random")
    assert literal[1] == interval(original(played, "random-literal")["success"])


def test_pairs_are_those_of_the_comparison(project: Path, played: Path) -> None:
    before, after = (read_run(next((played / n).iterdir())) for n in ("constant", "oracle"))
    expected = compare(before.episodes, after.episodes)
    cells = row(section(project, "Did each stage help?"), "always 4 → oracle")
    assert cells[1] == "music"
    assert cells[5:] == [str(len(expected.won)), str(len(expected.lost)), f"{expected.p_value:.2g}"]
    ablations = section(project, "Ablations")
    assert "### Knowing the answer\n\nIt helps." in ablations
    assert "music, sampled" in ablations


def test_a_kept_run_has_the_numbers_of_the_run_and_none_of_its_texts(
    project: Path, played: Path
) -> None:
    for name in RUNS:
        kept = read_run(project / "results" / name)
        run = read_run(next((played / name).iterdir()))
        mine, theirs = summarize(kept.episodes).to_dict(), summarize(run.episodes).to_dict()
        clocks = ("environment_seconds", "policy_seconds", "environment_share")
        for clock in clocks:
            assert mine.pop(clock) == pytest.approx(theirs.pop(clock), abs=0.2)
        assert mine == theirs
        words = "".join(episode.to_json() for episode in kept.episodes)
        assert "SELECT" not in words
        assert "singer" not in words.lower()


def test_what_is_kept_is_small_and_names_no_folders_of_the_machine(
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
    cells = row(section(project, "Where the numbers come from"), "GRPO")
    assert cells[1:6] == ["`training`", "3", "30", "3.0", "a fine machine"]
    shown = re.findall(r"!\[.*?\]\((.*?)\)", page(project))
    names = {"success", "learning-grpo", "train-eval-training"}
    assert set(shown) == {f"images/results/{name}.png" for name in names}
    for link in shown:
        assert (project / "docs" / link).read_bytes().startswith(b"\x89PNG")


def test_a_training_may_be_told_and_not_drawn(project: Path, tmp_path: Path) -> None:
    shutil.copytree(project, tmp_path, dirs_exist_ok=True)
    told = 'about = "A run of three steps."'
    manifest = MANIFEST.replace(told, f"{told}\ndrawn = false")
    (tmp_path / "docs" / "results.toml").write_text(manifest)
    assert make_page(tmp_path).exit_code == 0
    assert "A run of three steps." in section(tmp_path, "Where the numbers come from")
    assert re.findall(r"!\[.*?\]\((.*?)\)", page(tmp_path)) == ["images/results/success.png"]


def test_what_was_sampled_is_shown_of_ablations_too(project: Path, tmp_path: Path) -> None:
    shutil.copytree(project, tmp_path, dirs_exist_ok=True)
    before = section(tmp_path, "Several attempts")
    ablation = re.sub(r'(?m)^(key = "random".*)$', r"\1\nablation = true", MANIFEST)
    assert ablation != MANIFEST
    (tmp_path / "docs" / "results.toml").write_text(ablation)
    assert make_page(tmp_path).exit_code == 0
    assert section(tmp_path, "Several attempts") == before


def test_transcripts_stand_side_by_side(project: Path) -> None:
    text = section(project, "Side by side")
    assert "Which singers come from France?" in text
    assert "<th>always 4: wrong</th><th>oracle: right</th>" in text
    table = next(block for block in text.split("\n\n") if block.startswith("<table>"))
    assert "&gt; ANSWER: 4" in table
    assert "Ann" in table, "rows that came back"


def test_the_page_is_made_again_from_what_was_kept(project: Path) -> None:
    before = page(project)
    assert make_page(project).exit_code == 0
    assert page(project) == before


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (('runs.music = ["constant"]', 'runs.music = ["gone"]'), "not in .*: gone"),
        (('runs.music = ["constant"]', 'runs.jazz = ["constant"]'), "no dataset 'jazz'"),
        (('after = "oracle"', 'after = "nobody"'), "no policy 'nobody'"),
        (('runs.music = ["constant"]', 'runs.music = ["constant", "oracle"]'), "two greedy runs"),
        (('question = "music_french"', 'question = "music_jazz"'), "does not hold question"),
        (('about = "Singers', 'abuot = "Singers'), "'abuot' in .* number 1 is not known"),
        (("[notes]", "[notes"), "is not TOML"),
        (("[notes]", "[notes]\nplay = 'x'"), "no place for the note 'play'"),
    ],
)
def test_a_wrong_manifest_is_told_what_is_wrong(
    project: Path, tmp_path: Path, change: tuple[str, str], complaint: str
) -> None:
    shutil.copytree(project / "results", tmp_path / "results")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "results.toml").write_text(MANIFEST.replace(*change))
    done = make_page(tmp_path)
    assert done.exit_code == 2
    assert re.search(complaint, done.stderr), done.stderr


def test_runs_over_other_questions_do_not_stand_in_one_column(
    project: Path, music_dir: Path, tmp_path: Path
) -> None:
    shutil.copytree(project / "results", tmp_path / "results")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "results.toml").write_text(MANIFEST)
    options = ["--dataset", str(music_dir), "--split", "train", "-n", "2"]
    shorter = tmp_path / "new" / "random"
    done = CliRunner().invoke(app, ["eval", "--policy", "random", *options, "--out", str(shorter)])
    assert done.exit_code == 0, done.output
    done = make_page(tmp_path, tmp_path / "new")
    assert done.exit_code == 2
    assert "cannot stand beside" in done.stderr
    assert "2 questions" in done.stderr


def test_the_committed_page_is_the_one_that_its_runs_make(tmp_path: Path) -> None:
    manifest = CHECKOUT / "docs" / "results.toml"
    if not manifest.is_file():
        pytest.skip("no results in this checkout")
    from tools.results.page import render_page

    again = render_page(read_manifest(manifest), tmp_path / "results.md")
    assert again == (CHECKOUT / "docs" / "results.md").read_text(encoding="utf-8")


def test_a_missing_manifest_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"results\.toml cannot be read"):
        read_manifest(tmp_path / "results.toml")


def test_the_stages_of_a_warm_up_follow_one_another() -> None:
    logged = [("imitate", 2), ("imitate", 4), ("imitate-2", 4), ("recover", 1), ("recover", 3)]
    rows = [{"stage": stage, "step": step} for stage, step in logged]
    assert running_steps(rows) == [2, 4, 8, 9, 11]
