"""The three reward functions that GRPO sums, each reading what the environment decided.

They recompute nothing, so evaluation and training cannot disagree. With `rollout_func` the values
arrive as keywords, one per sample; with `environment_factory` they are read off the environments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def reward_correctness(completions: Sequence[Any], **kwargs: Any) -> list[float]:
    """1 for a right answer, else 0.

    Example:
        >>> reward_correctness(["ANSWER: 3", "ANSWER: 4"], correctness=[1.0, 0.0])
        [1.0, 0.0]
    """
    return _read("correctness", completions, kwargs)


def reward_progress(completions: Sequence[Any], **kwargs: Any) -> list[float]:
    """How near the queries came to the gold result, from 0 to 1.

    Example:
        >>> reward_progress(["ANSWER: 3", "ANSWER: 4"], progress=[1.0, 0.4])
        [1.0, 0.4]
    """
    return _read("progress", completions, kwargs)


def reward_operational(completions: Sequence[Any], **kwargs: Any) -> list[float]:
    """The sum of the small rewards of each step: what ran, what was new, what it cost.

    Example:
        >>> reward_operational(["ANSWER: 3", "ANSWER: 4"], operational=[0.06, -0.02])
        [0.06, -0.02]
    """
    return _read("operational", completions, kwargs)


REWARD_FUNCTIONS = (reward_correctness, reward_progress, reward_operational)
"""In the order of the weights in the config."""


def _read(name: str, completions: Sequence[Any], kwargs: dict[str, Any]) -> list[float]:
    if name in kwargs:
        values = kwargs[name]
    elif "environments" in kwargs:
        values = [environment.reward_parts[name] for environment in kwargs["environments"]]
    else:
        raise ValueError(
            f"reward_{name} got neither {name!r} nor 'environments': play the episodes through "
            "TRLRollout or SQLToolEnvironment"
        )
    if len(values) != len(completions):
        raise ValueError(f"{len(values)} values of {name!r} for {len(completions)} completions")
    return [float(value) for value in values]
