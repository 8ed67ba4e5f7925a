"""`sql-env data augment rename`: the same questions on renamed databases, as a split."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sql_env.augment.rename import add_renamed_databases
from sql_env.cli import app
from sql_env.evaluation.validation import validate
from sql_env.questions import Dataset, load_questions


@pytest.fixture
def folder(music_dir: Path, tmp_path: Path) -> Path:
    shutil.copytree(music_dir, tmp_path / "data")
    (tmp_path / "data" / "manifest.json").write_text('{"questions": {"train": 3, "eval": 1}}')
    return tmp_path / "data"


def test_questions_stay_and_names_change(folder: Path) -> None:
    result = CliRunner().invoke(app, ["data", "augment", "rename", str(folder), "--copies", "2"])
    assert result.exit_code == 0, result.output
    assert "6 questions on 2 renamed databases added as renamed" in " ".join(result.output.split())
    records = load_questions(folder / "questions")
    asked = {r.question_id: r for r in records if r.split == "renamed"}
    plain = asked["music_french-renamed-1"]
    again = asked["music_french-renamed-2"]
    assert plain.question_text == "Which singers come from France?"
    assert plain.gold_answer == ["Ann", "Bob"]
    assert {plain.database_name, again.database_name} == {"music_renamed1", "music_renamed2"}
    assert plain.gold_sql != again.gold_sql
    assert {r.question_id for r in records if r.split == "train"} == {
        "music_count",
        "music_french",
        "music_join",
    }


def test_what_is_written_is_a_dataset(folder: Path) -> None:
    add_renamed_databases(folder, splits=("train", "eval"), copies=2)
    dataset = Dataset.at(folder)
    shown = [r for r in load_questions(dataset.questions_path) if r.split == "renamed"]
    # The gold answers of this little dataset are not all filled in.
    shown = [r for r in shown if "join" not in r.question_id]
    findings = list(validate(shown, dataset.db_dir))
    assert len(findings) == 6
    assert not [finding.reason for finding in findings if finding.failed]


def test_the_same_seed_gives_the_same_names_and_replaces_what_it_wrote(folder: Path) -> None:
    written = []
    for _ in range(2):
        add_renamed_databases(folder, copies=1, seed=3)
        written.append((folder / "questions" / "questions_renamed.json").read_bytes())
    assert written[0] == written[1]
    assert len(list((folder / "databases").iterdir())) == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--splits", "trian"], "There are: eval, train"),
        (["--name", "eval"], "choose another --name"),
    ],
)
def test_mistakes_say_what_to_do(folder: Path, arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(app, ["data", "augment", "rename", str(folder), *arguments])
    assert result.exit_code == 2
    assert says in " ".join(result.output.split())
