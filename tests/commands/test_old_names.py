"""Whoever uses a command or an option of version 0.1 is told what became of it."""

from __future__ import annotations

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from sql_env.cli import app


def output_of(line: str) -> str:
    outcome = CliRunner().invoke(app, line.split())
    assert outcome.exit_code == 2
    return outcome.output.strip()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("warmup", "sft"),
        ("trajectories", "demonstrations"),
        ("data practise", "data augment questions"),
        ("data disguise", "data augment rename"),
    ],
)
def test_a_renamed_command_tells_its_name(old: str, new: str) -> None:
    assert output_of(f"{old} --preset cpu runs") == (
        f"error: `sql-env {old}` is called `sql-env {new}` now"
    )
    command = get_command(app)
    for name in new.split():
        command = command.commands[name]  # type: ignore[attr-defined]


def test_a_command_that_is_gone_says_what_to_use() -> None:
    assert "`make results` writes docs/results.md" in output_of("results runs")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("data spider --fresh 3", "--fresh is called --rl now"),
        ("data spider --trial 3", "--trial is called --dagger now"),
        ("data spider --reserve 3", "--reserve is called --rl-core now"),
        ("eval --policy random --redraws 3", "--redraws is gone"),
        ("play --redraws 3", "--redraws is gone"),
    ],
)
def test_an_old_option_tells_what_became_of_it(line: str, told: str) -> None:
    assert told in output_of(line)
