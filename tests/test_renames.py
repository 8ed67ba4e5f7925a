"""Whoever uses a name of version 0.1 is told the one of today."""

from __future__ import annotations

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from sql_env.cli import app
from sql_env.renames import COMMANDS
from sql_env.training.config import GRPOConfig
from sql_env.training.settings import ConfigError


@pytest.mark.parametrize(("old", "new"), COMMANDS.items())
def test_a_renamed_command_tells_its_name(old: str, new: str) -> None:
    outcome = CliRunner().invoke(app, [old, "--preset", "cpu"])
    assert outcome.exit_code == 2
    assert f"sql-env {old} is called sql-env {new} now" in outcome.output
    assert new in get_command(app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("warmup.recovery_epochs=1", "warmup.recovery_epochs is called sft.dagger_epochs now"),
        ("warmup.mix.slip=0.1", "warmup.mix.slip is called sft.mix.corrupt now"),
        ("warmup.mix.look=0.1", "warmup.mix.look is called sft.mix.look now"),
        ("warmup.learning_rate=1e-3", "warmup.learning_rate is called sft.learning_rate now"),
        ("average_checkpoints=3", "average_checkpoints is gone: leave it out"),
    ],
)
def test_a_renamed_setting_tells_its_name(setting: str, told: str) -> None:
    with pytest.raises(ConfigError, match=f"^--set: {told}$"):
        GRPOConfig.load(settings=[setting])
