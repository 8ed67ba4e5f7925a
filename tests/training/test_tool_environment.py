"""The tool-calling adapter: the same episodes, played by TRL's own loop."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from sql_env.training.config import GRPOConfig
from sql_env.training.data_loading import load_question_prompts
from sql_env.training.rewards import REWARD_FUNCTIONS, reward_correctness, reward_operational
from sql_env.training.tool_environment import SQLToolEnvironment

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"


def test_an_episode_is_played_by_tools(tiny_config: Callable[..., GRPOConfig]) -> None:
    config = tiny_config(step_budget=5)
    environment = SQLToolEnvironment(config)
    row = load_question_prompts(config)[0]
    opening = environment.reset(**row)
    assert opening.startswith("\nTables: ") and opening.endswith("Steps left: 5")
    assert row["prompt"][1]["content"] not in opening
    table = opening.splitlines()[1].removeprefix("Tables: ").split(", ")[0]
    assert "Steps left: 4" in environment.describe(table)
    assert environment.sample("nowhere").startswith("Error: ")
    environment.query("SELECT 1")
    assert environment.reward_parts["correctness"] == 0
    environment.answer("no such thing")
    for tool in (environment.describe, environment.query, environment.answer):
        with pytest.raises(ValueError, match="episode is over"):
            tool("student")


def test_a_right_answer_is_rewarded_and_a_reset_forgets_it(
    tiny_config: Callable[..., GRPOConfig],
) -> None:
    environment = SQLToolEnvironment(tiny_config())
    environment.reset(question_id="train_0")
    environment.query("SELECT count(*) FROM student")
    environment.answer("@last")
    rewards = [function([""], environments=[environment]) for function in REWARD_FUNCTIONS]
    assert rewards[0] == [1.0] and 0 <= rewards[1][0] <= 1 and rewards[2][0] != 0
    environment.reset(question_id="train_1")
    assert reward_correctness([""], environments=[environment]) == [0.0]
    assert reward_operational([""], environments=[environment]) == [0.0]


def test_tools_before_a_reset_say_so(tiny_config: Callable[..., GRPOConfig]) -> None:
    with pytest.raises(ValueError, match="call reset first"):
        SQLToolEnvironment(tiny_config()).describe("student")


def test_two_grpo_steps_through_the_environment_factory(
    taught_qwen3: Callable[[], Any], qwen_tokenizer: Any, tiny_config: Callable[..., GRPOConfig]
) -> None:
    from trl import GRPOTrainer

    config = tiny_config(
        actions="tools",
        max_context_tokens=64,
        max_steps=2,
        step_budget=3,
        num_generations=4,
        per_device_train_batch_size=8,
    )
    prompts = load_question_prompts(config).filter(
        lambda row: row["question_id"] in ("train_0", "train_1")
    )
    trainer = GRPOTrainer(
        model=taught_qwen3(),
        args=config.to_trl(),
        train_dataset=prompts,
        processing_class=qwen_tokenizer,
        reward_funcs=list(REWARD_FUNCTIONS),
        environment_factory=partial(SQLToolEnvironment, config),
    )
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    trainer.train()
    logged = trainer.state.log_history[:2]
    assert trainer.state.global_step == 2
    assert all(row["tools/call_frequency"] > 0 for row in logged)
    assert any(row["rewards/reward_operational/std"] > 0 for row in logged)
    assert any(
        not torch.equal(old, new)
        for old, new in zip(before, trainer.model.parameters(), strict=True)
    )
