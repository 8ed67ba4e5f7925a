"""DAgger, the second stage of SFT: whose errors are corrected, and how often that is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from sql_env.questions import QuestionLoadError
from sql_env.training.config import GRPOConfig
from sql_env.training.dagger import FAILURES_CORRECTED
from sql_env.training.run_log import CORRECTIONS_FILE, DEMONSTRATIONS_FILE
from sql_env.training.settings import ConfigError
from sql_env.training.sft import load_demonstrations, train_sft

MakeConfig = Callable[..., GRPOConfig]
SHORT = {
    "trl": {"max_steps": 1},
    "dagger_epochs": 1.0,
    "per_device_train_batch_size": 2,
    "mix": {"extra_table": 0.0, "sample": 0.0, "corrupt": 0.0, "typed_answer": 0.0},
}


@pytest.fixture
def after_sft(
    tiny_config: MakeConfig, make_llama: Callable[..., Any], chat_tokenizer: Any
) -> Callable[..., tuple[Path, dict[str, int]]]:
    """Fine-tunes a model that can write nothing but nonsense, so that all its queries fail.

    Returns the folder, and how many episodes each stage had.
    """

    def run(**settings: Any) -> tuple[Path, dict[str, int]]:
        config = tiny_config(step_budget=6, sft={**SHORT, **settings})
        log = train_sft(config, make_llama(), chat_tokenizer)
        counts = {row["stage"]: row["examples"] for row in log if "examples" in row}
        return Path(config.output_dir), counts

    return run


def asked(path: Path) -> list[str]:
    return [demonstration.question_id for demonstration in load_demonstrations(path)]


def test_errors_are_made_on_questions_that_were_not_demonstrated(
    after_sft: Callable[..., tuple[Path, dict[str, int]]],
) -> None:
    folder, _ = after_sft(dagger_split="eval*2")
    assert asked(folder / DEMONSTRATIONS_FILE) == [f"train_{number}" for number in range(6)]
    twice_after_each = 2 * FAILURES_CORRECTED
    assert Counter(asked(folder / CORRECTIONS_FILE)) == {
        f"eval_{n}": twice_after_each for n in range(6)
    }


def test_without_a_split_of_their_own_errors_are_made_on_what_was_demonstrated(
    after_sft: Callable[..., tuple[Path, dict[str, int]]],
) -> None:
    folder, counts = after_sft()
    assert sorted(asked(folder / CORRECTIONS_FILE)) == sorted(
        asked(folder / DEMONSTRATIONS_FILE) * FAILURES_CORRECTED
    )
    assert counts == {"demonstrations": 6, "dagger": 6 + 6 * FAILURES_CORRECTED}


def test_a_correction_can_be_shown_several_times(
    after_sft: Callable[..., tuple[Path, dict[str, int]]],
) -> None:
    folder, counts = after_sft(dagger_weight=3, dagger_questions=4)
    assert len(asked(folder / CORRECTIONS_FILE)) == 4 * FAILURES_CORRECTED
    assert counts == {"demonstrations": 6, "dagger": 6 + 3 * 4 * FAILURES_CORRECTED}


def test_errors_are_what_the_model_believes(
    after_sft: Callable[..., tuple[Path, dict[str, int]]],
) -> None:
    folder, _ = after_sft(dagger_split="eval*2")
    errors: dict[str, set[str]] = {}
    for demonstration in load_demonstrations(folder / CORRECTIONS_FILE):
        errors.setdefault(demonstration.question_id, set()).add(demonstration.turns[0].action)
    assert all(len(actions) == 1 for actions in errors.values())


def test_both_stages_train_in_mixed_precision(
    tiny_config: MakeConfig, make_llama: Callable[..., Any], chat_tokenizer: Any
) -> None:
    model, mixed = make_llama(), []

    def look(layer: Any, *_: Any) -> None:
        if layer.training:
            mixed.append(torch.is_autocast_enabled("cpu"))

    model.model.layers[0].register_forward_hook(look)
    train_sft(tiny_config(step_budget=6, precision="bf16", sft=SHORT), model, chat_tokenizer)
    assert mixed == [True, True]


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ({"step_budget": 1}, "answers no question within step_budget=1: raise it"),
        ({"max_context_tokens": 64}, "no demonstration fits in max_context_tokens=64: raise it"),
    ],
)
def test_settings_under_which_nothing_can_be_shown_are_named(
    setting: dict[str, int],
    complaint: str,
    tiny_config: MakeConfig,
    make_llama: Callable[..., Any],
    chat_tokenizer: Any,
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        train_sft(tiny_config(**setting), make_llama(), chat_tokenizer)


def test_a_split_that_is_not_there_is_refused_before_anything_is_trained(
    after_sft: Callable[..., tuple[Path, dict[str, int]]], tmp_path: Path
) -> None:
    with pytest.raises(
        QuestionLoadError,
        match=r"no question has split 'rl', which 'rl\*3' asks for; there are eval, train",
    ):
        after_sft(dagger_split="rl*3")
    assert not list(tmp_path.rglob("*.jsonl"))


def test_without_a_second_stage_its_split_is_of_no_account(
    after_sft: Callable[..., tuple[Path, dict[str, int]]],
) -> None:
    folder, counts = after_sft(dagger_split="rl", dagger_epochs=0.0)
    assert counts == {"demonstrations": 6}
    assert not (folder / CORRECTIONS_FILE).exists()
