"""What holds for every command: plain output in a pipe, help that reads well, errors that help."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from sql_env import __version__
from sql_env.cli import app


def all_commands() -> list[list[str]]:
    """Every command and subcommand but the old names of some."""

    def below(command: object, words: list[str]) -> list[list[str]]:
        inner = getattr(command, "commands", {})
        shown = {name: command for name, command in inner.items() if not command.hidden}
        return [words, *(found for n, c in shown.items() for found in below(c, [*words, n]))]

    return below(get_command(app), [])


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sql_env", *words], cwd=cwd, capture_output=True, text=True
    )


@pytest.mark.parametrize("words", all_commands(), ids=lambda words: " ".join(words) or "sql-env")
def test_help_explains_every_option_in_sentences(words: list[str]) -> None:
    done = CliRunner().invoke(app, [*words, "--help"], env={"TERM": "dumb"})
    assert done.exit_code == 0
    inside = [line.strip("│ ") for line in done.output.splitlines()]
    (summary, *_) = [line for line in inside if line and not line.startswith("Usage")]
    assert re.match(r"[A-Z]", summary), summary
    for line in inside:
        option = re.match(r"(\*\s+)?(--[a-z][\w-]*)(\s+-\w)?\s+(\S.*)$", line)
        if option and option[2] != "--help":
            assert re.search(r"[A-Za-z]{3}", re.sub(r"<.*?>|\[.*?\]", "", option[4])), line


def test_version_prints_that_of_the_package() -> None:
    assert CliRunner().invoke(app, ["--version"]).output.strip() == f"sql-env {__version__}"


@pytest.mark.parametrize(
    "words",
    [
        ["eval", "--policy", "random", "-n", "5"],
        ["play", "--policy", "oracle", "--seed", "1"],
        ["data", "stats"],
        ["data", "validate"],
        ["data", "generate", "--out", "new", "--databases", "1", "--questions", "20"],
    ],
    ids=" ".join,
)
def test_a_pipe_gets_neither_bars_nor_colours(words: list[str], tmp_path: Path) -> None:
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert "━" not in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["eval", "--policy", "oracle", "-n", "3", "--json"],
        ["data", "stats", "--json"],
        ["data", "validate", "--json"],
    ],
    ids=" ".join,
)
def test_json_is_all_that_is_printed(words: list[str], tmp_path: Path) -> None:
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


# The command, and what its error tells one to do.
MISTAKES = [
    (["eval"], "name a --policy"),
    (["eval", "--policy", "magic"], "use one of"),
    (["eval", "--policy", "random", "--split", "none"], "choose from"),
    (["eval", "--policy", "random", "--dataset", "nowhere"], "make a dataset with"),
    (["play", "--question-id", "none"], "there are"),
    (["compare", "nowhere", "nowhere"], "`sql-env eval` makes runs"),
    (["report", "nowhere"], "`sql-env eval` makes runs"),
    (["data", "stats", "nowhere"], "make a dataset with"),
    (["data", "import", "nowhere"], "name one with SQLite files"),
    (["data", "spider", "--source", "nowhere"], "--source takes"),
    (["serve", "--host", "0.0.0.0"], "Give one with --token"),
    (["evla"], "--help"),
]


@pytest.mark.parametrize(("words", "advice"), MISTAKES, ids=lambda value: "".join(value)[:40])
def test_an_error_ends_with_what_to_do_next(words: list[str], advice: str, tmp_path: Path) -> None:
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert advice in done.stderr
    assert not list(tmp_path.iterdir()), "nothing half-written"
