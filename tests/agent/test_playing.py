"""An episode under way knows when its policy goes round in circles."""

from __future__ import annotations

from sql_env.agent.playing import PlannedEpisode, RunningEpisode
from sql_env.environment import SQLEnvironment
from sql_env.models import SQLAction


def begun(env: SQLEnvironment) -> RunningEpisode:
    episode = RunningEpisode(env, PlannedEpisode(env.questions[0], 0), seed=1)
    episode.begin()
    return episode


def repeats(env: SQLEnvironment, *actions: tuple[str, str]) -> list[bool]:
    """After each action: does the episode repeat itself?"""
    episode = begun(env)
    found = [episode.repeats_itself]
    for kind, argument in actions:
        episode.advance(SQLAction(action_type=kind, argument=argument), 0.0)
        found.append(episode.repeats_itself)
    return found


def test_an_action_that_was_played_before_is_a_repetition(music: SQLEnvironment) -> None:
    query, other = ("QUERY", "SELECT 1"), ("QUERY", "SELECT 2")
    assert repeats(music, query, query) == [False, False, True]
    assert repeats(music, query, other, query, ("SAMPLE", "Singer")) == [
        False,
        False,
        False,
        True,
        False,
    ]


def test_white_space_makes_no_new_action(music: SQLEnvironment) -> None:
    assert repeats(music, ("QUERY", "SELECT 1"), ("QUERY", " SELECT\n  1 "))[-1]


def test_another_kind_of_action_is_no_repetition(music: SQLEnvironment) -> None:
    assert not any(repeats(music, ("DESCRIBE", "Singer"), ("SAMPLE", "Singer")))


def test_the_environment_says_why_an_episode_ended_where_it_ended_it(
    music: SQLEnvironment,
) -> None:
    episode = begun(music)
    assert episode.finish(stop_reason="repeated").stop_reason == "repeated"
    episode = begun(music)
    episode.advance(SQLAction(action_type="ANSWER", argument="no idea"), 0.0)
    assert episode.finish(stop_reason="repeated").stop_reason == "wrong_answer"


def test_capitals_make_a_new_action_in_quotes_only(music: SQLEnvironment) -> None:
    query = ("QUERY", "SELECT Name FROM Singer WHERE Country = 'France'")
    assert repeats(music, query, ("QUERY", "select name from singer where country = 'France'"))[-1]
    other = ("QUERY", "SELECT Name FROM Singer WHERE Country = 'france'")
    assert not repeats(music, query, other)[-1]
