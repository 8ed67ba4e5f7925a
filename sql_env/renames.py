"""What had another name in version 0.1, told to whoever still uses it; goes with version 0.3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

COMMANDS = {"warmup": "sft", "trajectories": "demonstrations"}
"""Commands of `sql-env`."""

SETTINGS = {
    "warmup.first": "sft.first",
    "warmup.split": "sft.split",
    "warmup.mix.slip": "sft.mix.corrupt",
    "warmup.mix": "sft.mix",
    "warmup.copies": "",
    "warmup.trajectories": "sft.demonstrations",
    "warmup.trajectories_per_question": "sft.split (train*4 plays four of each question)",
    "warmup.recovery_epochs": "sft.dagger_epochs",
    "warmup.recovery_split": "sft.dagger_split",
    "warmup.recovery_questions": "sft.dagger_questions",
    "warmup.recovery_temperature": "sft.dagger_temperature",
    "warmup.recovery_rate": "sft.dagger_rate",
    "warmup.recovery_weight": "sft.dagger_weight",
    "warmup": "sft",
    "average_checkpoints": "",
}
"""Settings of training runs; an empty name: there is no such setting any more."""


def renamed_settings(values: Mapping[str, Any]) -> Iterator[str]:
    """A sentence about every setting in `values` that has another name now."""
    for old in _dotted_names(values):
        for beginning in _beginnings(old):
            if beginning in SETTINGS:
                new = SETTINGS[beginning]
                rest = old.removeprefix(beginning)
                yield f"{old} is called {new}{rest} now" if new else f"{old} is gone: leave it out"
                break


def _dotted_names(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        yield from (
            _dotted_names(value, f"{prefix}{name}.")
            if isinstance(value, Mapping) and value
            else [f"{prefix}{name}"]
        )


def _beginnings(name: str) -> Iterator[str]:
    """The longest first: `a.b.c`, `a.b`, `a`."""
    while name:
        yield name
        name = name.rpartition(".")[0]
