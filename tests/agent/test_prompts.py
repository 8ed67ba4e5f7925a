"""The words a model is given."""

from __future__ import annotations

from typing import Any

from sql_env.agent.prompts import format_observation, get_system_prompt
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


def test_an_error_is_called_one() -> None:
    failed = observation(step_count=2, error="no such column: x", budget_remaining=1)
    assert format_observation(failed) == "Error: no such column: x\nSteps left: 1"
