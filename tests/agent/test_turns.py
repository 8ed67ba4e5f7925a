"""Turns of several actions: what is played, what is read afterwards, what is recorded."""

from __future__ import annotations

from typing import Any

import pytest

from sql_env.agent.prompts import NEWEST, V1, Prompt
from sql_env.agent.turns import Dialogue
from sql_env.environment import SQLEnvironment

PLAN = "DESCRIBE: Singer, Concert\nQUERY: SELECT count(*) FROM singer\nANSWER: @last"


class Episode:
    """Plays turns through an environment, as a policy does."""

    def __init__(self, env: SQLEnvironment, prompt: Prompt = NEWEST) -> None:
        self.env, self.dialogue = env, Dialogue(prompt)
        self.seen = env.reset(question_id="music_count")
        self.dialogue.hear(self.seen)
        self.steps: list[tuple[str, str]] = []
        self.traces: list[dict[str, Any]] = []

    def turn(self, text: str, **trace: int) -> str:
        """Play a turn; what is read after it."""
        action = self.dialogue.understand(text, **trace)
        while action is not None:
            self.steps.append((action.action_type, action.argument))
            self.traces.append(action.metadata)
            self.seen = self.env.step(action)
            if self.seen.done:
                return ""
            self.dialogue.hear(self.seen)
            action = self.dialogue.go_on()  # type: ignore[assignment]
        return self.dialogue.reading().text


def test_the_actions_of_a_turn_are_played_in_order_each_at_its_price(music: SQLEnvironment) -> None:
    episode = Episode(music)
    episode.turn(PLAN)
    assert episode.steps == [
        ("DESCRIBE", "Singer"),
        ("DESCRIBE", "Concert"),
        ("QUERY", "SELECT count(*) FROM singer"),
    ]
    assert episode.seen.budget_remaining == 12


def test_one_reading_holds_all_results(music: SQLEnvironment) -> None:
    read = Episode(music).turn(PLAN)
    assert read.index("Singer (4 rows)") < read.index("Concert (3 rows)") < read.index("count(*)")


def test_an_answer_waits_until_the_result_was_read(music: SQLEnvironment) -> None:
    episode = Episode(music)
    read = episode.turn(PLAN)
    assert read.splitlines()[-1] == "Not played: ANSWER (look at the result first)"
    episode.turn("ANSWER: @last")
    assert episode.seen.metadata["correct"]


def test_nothing_is_played_after_an_error_and_what_was_left_out_is_named(
    music: SQLEnvironment,
) -> None:
    episode = Episode(music)
    read = episode.turn("QUERY: SELECT nobody FROM singer\nSAMPLE: Singer\nANSWER: @last")
    assert len(episode.steps) == 1
    assert read.startswith("Error: no such column: nobody")
    assert read.splitlines()[-1] == "Not played: SAMPLE, ANSWER (after the error)"


def test_a_turn_has_its_tokens_once_and_each_action_its_turn(music: SQLEnvironment) -> None:
    episode = Episode(music)
    episode.turn(PLAN, completion_tokens=30)
    episode.turn("SAMPLE: Singer", completion_tokens=4)
    assert [trace["turn"] for trace in episode.traces] == [1, 1, 1, 2]
    assert [trace.get("completion_tokens") for trace in episode.traces] == [30, None, None, 4]
    assert [trace.get("raw") for trace in episode.traces] == [PLAN, None, None, "SAMPLE: Singer"]


def test_a_repeated_action_is_told_so_in_few_words(music: SQLEnvironment) -> None:
    episode = Episode(music)
    first = episode.turn("DESCRIBE: Singer")
    again = episode.turn("DESCRIBE: singer")
    assert "shown before" in again and len(again) < len(first)
    episode.turn("QUERY: SELECT nobody FROM singer")
    error = episode.turn("QUERY: SELECT nobody FROM Singer")
    assert error.startswith("Error: that was played before and failed: no such column: nobody")
    episode.turn("QUERY: SELECT 7")
    assert episode.turn("QUERY: SELECT 7") == "This query was played before: 7\n7"


def test_an_answer_without_a_result_is_told_why_there_is_none(music: SQLEnvironment) -> None:
    episode = Episode(music)
    episode.turn("QUERY: SELECT nobody FROM singer")
    for _ in range(2):
        read = episode.turn("ANSWER: @last")
        assert "@last needs a successful QUERY" in read and "no such column: nobody" in read


def test_a_result_without_rows_is_doubted(music: SQLEnvironment) -> None:
    read = Episode(music).turn("QUERY: SELECT name FROM singer WHERE age > 99")
    assert read.splitlines()[-1] == ("If there should be some, look at the values and query again.")


def test_the_end_of_the_budget_is_announced(music: SQLEnvironment) -> None:
    music.step_budget = 5
    episode = Episode(music)
    assert "Steps left" not in episode.turn("DESCRIBE: Singer")
    assert episode.turn("SAMPLE: Singer").endswith("\nSteps left: 3")
    assert episode.turn("SAMPLE: Concert\nDESCRIBE: Concert").endswith("\nSteps left: 1")


def test_the_old_prompt_plays_the_first_action_alone(music: SQLEnvironment) -> None:
    episode = Episode(music, V1)
    read = episode.turn(PLAN)
    assert episode.steps == [("DESCRIBE", "Singer, Concert")]
    assert read == f"Error: {episode.seen.error}\nSteps left: 14"


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_words_without_an_action_are_a_step_that_fails(music: SQLEnvironment, version: Any) -> None:
    episode = Episode(music, Prompt(version))
    assert episode.turn("Let me think about it.").startswith("Error: ")
    assert episode.traces[0]["parsed"] is False


def test_each_tool_call_gets_its_own_result(music: SQLEnvironment) -> None:
    episode = Episode(music, Prompt("v2", "tools"))
    calls = (
        '{"name": "describe", "arguments": {"table": "Singer"}}\n'
        '{"name": "query", "arguments": {"sql": "SELECT nobody FROM singer"}}\n'
        '{"name": "answer", "arguments": {"value": "@last"}}'
    )
    episode.turn(calls)
    reading = episode.dialogue.reading()
    assert reading.of_tools
    assert [text.split(":")[0][:12] for text in reading.texts] == [
        "Singer (4 ro",
        "Error",
        "Not played",
    ]
    assert [action.action_type for action in episode.dialogue.actions()] == [
        "DESCRIBE",
        "QUERY",
        "ANSWER",
    ]


def test_words_beside_the_tools_are_answered_as_words(music: SQLEnvironment) -> None:
    episode = Episode(music, Prompt("v2", "tools"))
    episode.turn("I cannot do that.")
    assert not episode.dialogue.reading().of_tools
