"""When an action was played before."""

from __future__ import annotations

import pytest

from sql_env.core.actions import PlayedActions

Action = tuple[str, str]


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (("QUERY", "SELECT a FROM t"), ("query", "select  A\nFROM T; -- once more")),
        (("DESCRIBE", "singer"), ("DESCRIBE", '"Singer";')),
        (("SAMPLE", "singer"), ("SAMPLE", "[singer]")),
        (("ANSWER", "[1"), ("ANSWER", " [1 ")),
        (("LOOK", "here"), ("look", "Here")),
    ],
)
def test_another_spelling_is_the_same_action(first: Action, again: Action) -> None:
    played = PlayedActions()
    assert played.add(*first)
    assert again in played and not played.add(*again)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("DESCRIBE", "singer"), ("SAMPLE", "singer")),
        (("QUERY", 'SELECT 1 WHERE a = "daniel"'), ("QUERY", 'SELECT 1 WHERE a = "Daniel"')),
        (("QUERY", "SELECT 'usa'"), ("QUERY", "SELECT 'USA'")),
    ],
)
def test_another_action_is_no_repeat(first: Action, second: Action) -> None:
    played = PlayedActions()
    played.add(*first)
    assert second not in played


def test_last_stands_for_another_result_after_a_query() -> None:
    played = PlayedActions()
    played.add("ANSWER", "@last")
    assert ("ANSWER", "@last") in played
    played.forget_answers()
    assert ("ANSWER", "@last") not in played


def test_a_copy_does_not_change_the_original() -> None:
    played = PlayedActions()
    played.add("DESCRIBE", "singer")
    twin = played.copy()
    twin.add("DESCRIBE", "song")
    assert ("DESCRIBE", "singer") in twin
    assert ("DESCRIBE", "song") not in played
