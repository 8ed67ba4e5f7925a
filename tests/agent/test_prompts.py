"""The words a model is given."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from sql_env.agent.prompts import (
    NEWEST,
    V1,
    Prompt,
    PromptError,
    format_observation,
    get_system_prompt,
    prompt_of_model,
)
from sql_env.models import SQLObservation


def observation(**values: Any) -> SQLObservation:
    return SQLObservation(
        **{
            "question": "How many?",
            "table_names": ["a", "b"],
            "budget_remaining": 9,
            "metadata": {"allow_last": True},
            **values,
        }
    )


def test_the_system_prompt_names_the_actions_and_is_short() -> None:
    prompt = get_system_prompt()
    assert all(f"{kind}: " in prompt for kind in ("DESCRIBE", "SAMPLE", "QUERY", "ANSWER"))
    assert "@last" in prompt and len(prompt.split()) < 130


def test_the_first_turn_shows_the_question_and_the_tables() -> None:
    assert format_observation(observation()) == ("Question: How many?\nTables: a, b\nSteps left: 9")


def test_the_first_turn_shows_a_hint_and_a_rule_where_there_are_any() -> None:
    seen = observation(metadata={"allow_last": False, "hint": "one each"})
    assert format_observation(seen).splitlines()[2:] == [
        "Hint: one each",
        "@last is not allowed: type the answer.",
        "Steps left: 9",
    ]


def test_later_turns_show_only_what_is_new() -> None:
    later = observation(step_count=2, result="n\n3", budget_remaining=7)
    assert format_observation(later) == "n\n3\nSteps left: 7"


def test_an_error_is_shown_as_one_with_the_steps_left() -> None:
    failed = observation(step_count=2, error="no such column: x", budget_remaining=1)
    assert format_observation(failed) == "Error: no such column: x\nSteps left: 1"


def test_the_words_of_version_1_never_change() -> None:
    """The shipped checkpoint was trained with them."""
    digest = sha256(V1.system.encode()).hexdigest()
    assert digest == "96df0ccdb4d904893b8214572dc180bd084f8178347b95842dfc0af28ba6b5fc"


class TestThePromptOfAModel:
    def test_it_is_kept_beside_the_model(self, tmp_path: Path) -> None:
        Prompt("v2", "tools").save(tmp_path)
        assert prompt_of_model(str(tmp_path)) == Prompt("v2", "tools")

    @pytest.mark.parametrize(
        ("name", "prompt"),
        [("smollm2-135m-sqlenv", V1), ("qwen2.5-coder-1.5b-sqlenv", Prompt("v2", "text"))],
    )
    def test_a_shipped_checkpoint_plays_with_the_prompt_it_was_trained_with(
        self, name: str, prompt: Prompt
    ) -> None:
        folder = Path(__file__).parents[2] / "checkpoints" / name
        assert folder.is_dir() and prompt_of_model(str(folder)) == prompt

    @pytest.mark.parametrize(
        "sign", ["adapter_config.json", "delta_config.json", "../sessions.jsonl"]
    )
    def test_a_model_trained_before_there_was_a_choice_has_version_1(
        self, tmp_path: Path, sign: str
    ) -> None:
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / sign).write_text("{}")
        assert prompt_of_model(str(tmp_path / "model")) == V1

    @pytest.mark.parametrize("name", ["Qwen/Qwen2.5-Coder-1.5B-Instruct", "smollm2-135m", "."])
    def test_a_model_that_was_not_trained_here_has_the_newest(self, name: str) -> None:
        assert prompt_of_model(name) == NEWEST

    @pytest.mark.parametrize("text", ["{", "[]", '{"prompt": "v7", "actions": "text"}', "{}"])
    def test_a_damaged_file_is_named(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "sql_env.json").write_text(text)
        with pytest.raises(PromptError, match=r"sql_env\.json is damaged"):
            prompt_of_model(str(tmp_path))
