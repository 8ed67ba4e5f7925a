"""The second stage of a warm-up: whose mistakes are mended, and how often they are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from sql_env.questions import QuestionLoadError
from sql_env.training.config import GRPOConfig
from sql_env.training.recovery import FAILURES_MENDED
from sql_env.training.warmup import IMITATED, MENDED, load_trajectories, warm_up

MakeConfig = Callable[..., GRPOConfig]
SHORT = {
    "max_steps": 1,
    "recovery_epochs": 1.0,
    "per_device_train_batch_size": 2,
    "mix": {"detour": 0.0, "sample": 0.0, "slip": 0.0, "typed_answer": 0.0},
}


@pytest.fixture
def warmed(
    tiny_config: MakeConfig, make_llama: Callable[..., Any], chat_tokenizer: Any
) -> Callable[..., tuple[Path, dict[str, int]]]:
    """Warms up a model that can write nothing but nonsense, so that all its queries fail.

    Returns the folder, and how many episodes each stage had.
    """

    def run(**settings: Any) -> tuple[Path, dict[str, int]]:
        config = tiny_config(step_budget=6, warmup={**SHORT, **settings})
        log = warm_up(config, make_llama(), chat_tokenizer)
        counts = {row["stage"]: row["examples"] for row in log if "examples" in row}
        return Path(config.output_dir), counts

    return run


def asked(path: Path) -> list[str]:
    return [trajectory.question_id for trajectory in load_trajectories(path)]


def test_mistakes_are_looked_for_on_questions_that_were_not_imitated(
    warmed: Callable[..., tuple[Path, dict[str, int]]],
) -> None:
    folder, _ = warmed(recovery_split="eval*2")
    assert asked(folder / IMITATED) == [f"train_{number}" for number in range(6)]
    twice_after_each = 2 * FAILURES_MENDED
    assert Counter(asked(folder / MENDED)) == {f"eval_{n}": twice_after_each for n in range(6)}


def test_without_a_split_of_their_own_mistakes_are_looked_for_on_what_was_imitated(
    warmed: Callable[..., tuple[Path, dict[str, int]]],
) -> None:
    folder, counts = warmed()
    assert sorted(asked(folder / MENDED)) == sorted(asked(folder / IMITATED) * FAILURES_MENDED)
    assert counts == {"imitate": 6, "recover": 6 + 6 * FAILURES_MENDED}


def test_a_mended_episode_can_be_shown_several_times(
    warmed: Callable[..., tuple[Path, dict[str, int]]],
) -> None:
    folder, counts = warmed(recovery_weight=3, recovery_questions=4)
    assert len(asked(folder / MENDED)) == 4 * FAILURES_MENDED
    assert counts == {"imitate": 6, "recover": 6 + 3 * 4 * FAILURES_MENDED}


def test_at_a_temperature_of_zero_a_question_is_always_answered_alike(
    warmed: Callable[..., tuple[Path, dict[str, int]]],
) -> None:
    for temperature, alike in ((0.0, True), (1.0, False)):
        folder, _ = warmed(recovery_split="eval*2", recovery_temperature=temperature)
        mistakes: dict[str, set[str]] = {}
        for trajectory in load_trajectories(folder / MENDED):
            mistakes.setdefault(trajectory.question_id, set()).add(trajectory.turns[0].action)
        assert all(len(actions) == 1 for actions in mistakes.values()) == alike


def test_both_stages_train_in_mixed_precision(
    tiny_config: MakeConfig, make_llama: Callable[..., Any], chat_tokenizer: Any
) -> None:
    model, mixed = make_llama(), []

    def look(layer: Any, *_: Any) -> None:
        if layer.training:
            mixed.append(torch.is_autocast_enabled("cpu"))

    model.model.layers[0].register_forward_hook(look)
    warm_up(tiny_config(step_budget=6, precision="bf16", warmup=SHORT), model, chat_tokenizer)
    assert mixed == [True, True]


def test_a_split_that_is_not_there_is_refused_before_anything_is_trained(
    warmed: Callable[..., tuple[Path, dict[str, int]]], tmp_path: Path
) -> None:
    with pytest.raises(
        QuestionLoadError,
        match=r"no question has split 'rl', which 'rl\*3' asks for; there are eval, train",
    ):
        warmed(recovery_split="rl*3")
    assert not list(tmp_path.rglob("*.jsonl"))


def test_without_a_second_stage_its_split_is_of_no_account(
    warmed: Callable[..., tuple[Path, dict[str, int]]],
) -> None:
    folder, counts = warmed(recovery_split="rl", recovery_epochs=0.0)
    assert counts == {"imitate": 6}
    assert not (folder / MENDED).exists()
