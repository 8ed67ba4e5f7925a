"""The reward functions hand on what the environment decided."""

from __future__ import annotations

import doctest
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from sql_env.training import rewards
from sql_env.training.rewards import REWARD_FUNCTIONS

VALUES = {"correctness": [1.0, 0.0], "progress": [0.4, 1.0], "operational": [0.06, -0.02]}


@pytest.mark.parametrize("function", REWARD_FUNCTIONS)
def test_each_reads_its_own_layer(function: Callable[..., list[float]]) -> None:
    layer = function.__name__.removeprefix("reward_")
    assert function(["a", "b"], prompts=["p", "q"], trainer_state=None, **VALUES) == VALUES[layer]


@pytest.mark.parametrize("function", REWARD_FUNCTIONS)
def test_each_can_be_pickled(function: Callable[..., Any]) -> None:
    assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize("function", REWARD_FUNCTIONS)
def test_each_refuses_episodes_it_knows_nothing_about(function: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="TRLRollout"):
        function(["a"])


def test_a_missing_value_is_refused() -> None:
    with pytest.raises(ValueError, match="1 values of 'progress' for 2 completions"):
        rewards.reward_progress(["a", "b"], progress=[0.5])


def test_the_examples_of_the_docstrings_are_true() -> None:
    outcome = doctest.testmod(rewards)
    assert outcome.attempted == 3 and outcome.failed == 0
