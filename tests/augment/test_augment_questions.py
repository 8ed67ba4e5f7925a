"""`sql-env data augment questions`: a split of synthetic questions beside those a dataset has."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sql_env.augment.questions import add_synthetic_questions
from sql_env.cli import app
from sql_env.evaluation.validation import validate
from sql_env.questions import Dataset, load_questions
from sql_env.sources.raw import SourceError
from sql_env.sql.leak_key import leak_key

PETS = """
CREATE TABLE owner (owner_id INTEGER PRIMARY KEY, name TEXT, city TEXT, age INTEGER);
CREATE TABLE dog (dog_id INTEGER PRIMARY KEY, owner_id INTEGER, name TEXT, weight REAL);
INSERT INTO owner VALUES (1, 'Ada', 'Oslo', 30), (2, 'Bo', 'Oslo', 41), (3, 'Cy', 'Rome', 25),
  (4, 'Di', 'Rome', 52), (5, 'Ed', 'Bonn', 37);
INSERT INTO dog VALUES (1, 1, 'Rex', 9.5), (2, 1, 'Spot', 7.25), (3, 2, 'Bella', 21),
  (4, 4, 'Max', 30.5);
"""
UNSEEN_GOLD = "SELECT  avg(T1.AGE) FROM owner AS T1"


def _record(name: str, database: str, sql: str, split: str) -> dict[str, object]:
    return {
        "question_id": name,
        "question_text": "?",
        "database_name": database,
        "gold_sql": sql,
        "gold_answer": 5,
        "answer_type": "integer",
        "difficulty": "easy",
        "tables_involved": ["owner"],
        "split": split,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two databases: one to train on, with an evaluation question; one only held out."""
    for name in ("kennel", "held"):
        path = tmp_path / "data" / "databases" / name / f"{name}.sqlite"
        path.parent.mkdir(parents=True)
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(PETS)
            connection.commit()
    count = "SELECT count(*) FROM owner"
    records = {
        "train": [_record("a", "kennel", count, "train")],
        "eval": [_record("b", "kennel", UNSEEN_GOLD, "eval")],
        "unseen": [_record("c", "held", "SELECT max(weight) FROM dog", "unseen")],
    }
    (tmp_path / "data" / "questions").mkdir()
    for split, some in records.items():
        path = tmp_path / "data" / "questions" / f"questions_{split}.json"
        path.write_text(json.dumps(some))
    (tmp_path / "data" / "manifest.json").write_text('{"questions": {"train": 1}}')
    return tmp_path / "data"


def test_a_split_is_written_and_told(folder: Path) -> None:
    result = CliRunner().invoke(
        app, ["data", "augment", "questions", str(folder), "--per-database", "30"]
    )
    assert result.exit_code == 0, result.output
    assert "30 questions on 1 databases added as synthetic" in " ".join(result.output.split())
    records = load_questions(folder / "questions" / "questions_synthetic.json")
    assert {record.split for record in records} == {"synthetic"}
    assert {record.database_name for record in records} == {"kennel"}
    assert json.loads((folder / "manifest.json").read_text())["questions"]["synthetic"] == 30


def test_what_is_written_is_fit_to_play(folder: Path) -> None:
    add_synthetic_questions(folder, per_database=30)
    records = load_questions(folder / "questions" / "questions_synthetic.json")
    findings = list(validate(records, Dataset.at(folder).db_dir))
    assert len(findings) == 30
    assert not [finding.reason for finding in findings if finding.failed]


def test_golds_of_other_splits_are_left_out(folder: Path) -> None:
    planted = leak_key(UNSEEN_GOLD)
    known = add_synthetic_questions(folder, splits=("train", "eval"), per_database=200)
    assert planted in {leak_key(record.gold_sql) for record in known.records}
    made = add_synthetic_questions(folder, splits=("train",), per_database=200)
    assert made.leaked
    asked = {leak_key(record.gold_sql) for record in made.records}
    assert planted not in asked
    # A gold of the held-out database must not be asked about another one either.
    assert "select max(weight) from dog" not in asked


def test_databases_of_other_splits_are_left_out(folder: Path) -> None:
    assert add_synthetic_questions(folder, per_database=5).unseen == ("held",)
    both = add_synthetic_questions(folder, splits=("train", "unseen"), per_database=5)
    assert set(both.databases) == {"kennel", "held"}


def test_the_same_seed_writes_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "again")
    written = []
    for place in (folder, tmp_path / "again", folder):
        add_synthetic_questions(place, per_database=20, seed=5)
        written.append((place / "questions" / "questions_synthetic.json").read_bytes())
    assert written[0] == written[1] == written[2]


def test_a_database_gives_what_it_has(folder: Path) -> None:
    made = add_synthetic_questions(folder, per_database=2_000)
    assert 100 < len(made.records) < 2_000


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--splits", "trian"], "There are: eval, train, unseen"),
        (["--name", "eval"], "choose another --name"),
        (["--name", "a/b"], "letters and digits"),
    ],
)
def test_mistakes_say_what_to_do(folder: Path, arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(app, ["data", "augment", "questions", str(folder), *arguments])
    assert result.exit_code == 2
    assert says in " ".join(result.output.split())


def test_a_split_named_cannot_be_replaced(folder: Path) -> None:
    with pytest.raises(SourceError, match="unseen"):
        add_synthetic_questions(folder, splits=("train",), name="unseen")
