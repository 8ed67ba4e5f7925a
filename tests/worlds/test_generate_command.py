"""`sql-env data generate` as a person types it."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner, Result

from sql_env.cli import app
from sql_env.questions import Dataset


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["data", "generate", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def test_it_writes_what_was_asked_for_and_says_so(tmp_path: Path) -> None:
    result = run("--databases", 2, "--questions", 40, "--seed", 9, "--out", tmp_path / "made")
    assert len(Dataset.at(tmp_path / "made").load()) == 40
    assert "40 questions on 2 databases" in result.output
    assert "medium" in result.output


def test_it_does_not_overwrite_unless_told(tmp_path: Path) -> None:
    arguments = ("--databases", 1, "--questions", 10, "--out", tmp_path)
    run(*arguments)
    first = (tmp_path / "questions" / "questions_train.json").read_bytes()
    assert "--force" in run(*arguments, "--seed", 8, code=2).output
    assert (tmp_path / "questions" / "questions_train.json").read_bytes() == first
    run(*arguments, "--seed", 8, "--force")
    assert (tmp_path / "questions" / "questions_train.json").read_bytes() != first


def test_impossible_wishes_end_with_a_message(tmp_path: Path) -> None:
    result = run("--databases", 9, "--questions", 3, "--out", tmp_path / "made", code=2)
    assert "at least one per database" in result.output
    assert not (tmp_path / "made").exists()
