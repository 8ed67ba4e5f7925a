"""Whoever uses a setting of version 0.1 is told its name of today."""

from __future__ import annotations

import pytest

from sql_env.training.config import GRPOConfig
from sql_env.training.settings import ConfigError


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("warmup.recovery_epochs=1", "warmup.recovery_epochs is called sft.dagger_epochs now"),
        ("warmup.mix.slip=0.1", "warmup.mix.slip is called sft.mix.corrupt now"),
        ("warmup.mix.look=0.1", "warmup.mix.look is called sft.mix.list_values now"),
        ("warmup.learning_rate=1e-3", "warmup.learning_rate is called sft.learning_rate now"),
        ("average_checkpoints=3", "average_checkpoints is gone: leave it out"),
    ],
)
def test_a_renamed_setting_tells_its_name(setting: str, told: str) -> None:
    with pytest.raises(ConfigError, match=f"^--set: {told}$"):
        GRPOConfig.load(settings=[setting])
