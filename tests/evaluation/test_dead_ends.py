"""What an episode was told leads nowhere, and what may still be right: real errors and queries."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sql_env.evaluation.dead_ends import DeadEnds
from sql_env.models import SQLAction
from sql_env.server.sql_environment import SQLEnvironment

Told = Callable[..., DeadEnds]


def query(text: str) -> SQLAction:
    return SQLAction(action_type="QUERY", argument=text)


@pytest.fixture
def told(music: SQLEnvironment) -> Told:
    """Plays actions in an episode where `singer` is described and returns what it learned."""

    def play(*actions: SQLAction) -> DeadEnds:
        found = DeadEnds()
        found.hear(music.reset(question_id=music.questions[0].question_id))
        for action in (SQLAction(action_type="DESCRIBE", argument="singer"), *actions):
            found.add(action)
            found.hear(music.step(action))
        return found

    return play


@pytest.mark.parametrize(
    ("failed", "later"),
    [
        ("SELECT * FROM singers", "SELECT 1 FROM singers"),
        ("SELECT * FROM singers", "SELECT Singers.name FROM singer"),
        ("SELECT singer.nme FROM singer", "SELECT singer.name, Singer.Nme FROM singer"),
        ("SELECT singers.name FROM singer", "SELECT 1 FROM singer WHERE singers.age > 1"),
    ],
)
def test_what_does_not_exist_is_not_read_again(told: Told, failed: str, later: str) -> None:
    assert told(query(failed)).leads_to(query(later))


@pytest.mark.parametrize(
    ("failed", "later"),
    [
        # A column of a table that was not described, or not read, may exist.
        ("SELECT concert.name FROM singer", "SELECT concert.name FROM concert"),
        # An alias is given anew in every query.
        ("SELECT T1.nme FROM singer AS T1", "SELECT T1.nme FROM concert AS T1"),
        # Which table an unqualified column was looked for in is not known.
        ("SELECT nme FROM singer", "SELECT nme FROM concert"),
        # A column or a text may be called as a table is not.
        ("SELECT * FROM country", "SELECT country FROM singer WHERE name = 'from country'"),
        # A query may make what the database lacks.
        ("SELECT * FROM totals", "WITH totals AS (SELECT 1 AS n) SELECT totals.n FROM totals"),
        ("SELECT * FROM singers", "SELECT singers.name FROM singer AS singers"),
        # No table is called so, but a column is.
        ("SELECT * FROM singer.name", "SELECT singer.name FROM singer"),
        ("SELECT singer.nam FROM singer", "SELECT singer.name FROM singer"),
    ],
)
def test_what_may_exist_may_be_read(told: Told, failed: str, later: str) -> None:
    assert not told(query(failed)).leads_to(query(later))


def test_the_last_word_of_an_opening_may_go_on(told: Told) -> None:
    dead_ends = told(query("SELECT singer.nam FROM singer"))
    assert not dead_ends.lie_ahead("QUERY: SELECT singer.nam")
    assert dead_ends.lie_ahead("QUERY: SELECT singer.nam FROM")


def test_what_was_played_leads_nowhere_but_the_answer_may_be_right_later(told: Told) -> None:
    answer, right = SQLAction(action_type="ANSWER", argument="@last"), query("SELECT 1")
    dead_ends = told(answer)
    assert dead_ends.leads_to(answer)
    assert dead_ends.leads_to(SQLAction(action_type="DESCRIBE", argument="Singer"))
    assert not told(answer, right).leads_to(answer)


ANSWER = SQLAction(action_type="ANSWER", argument="@last")


def nothing(name: str) -> SQLAction:
    return query(f"SELECT name FROM singer WHERE name = '{name}'")


def test_nothing_is_an_answer_only_when_different_queries_agree(told: Told) -> None:
    assert told(nothing("a")).leads_to(ANSWER)
    assert told(nothing("a")).leads_to(SQLAction(action_type="ANSWER", argument="[]"))
    assert told(nothing("a"), nothing("b")).leads_to(ANSWER)
    assert not told(nothing("a"), nothing("b"), nothing("c")).leads_to(ANSWER)


def test_what_was_found_may_be_answered_at_once(told: Told) -> None:
    found = query("SELECT name FROM singer")
    assert not told(found).leads_to(ANSWER)
    assert not told(nothing("a"), found).leads_to(ANSWER)
    # A query that fails agrees on nothing.
    failed = query("SELECT nme FROM singer")
    assert told(nothing("a"), failed, nothing("b")).leads_to(ANSWER)
