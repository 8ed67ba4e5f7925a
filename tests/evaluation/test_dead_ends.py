"""What an episode was told leads nowhere, and what may still be right: real errors and queries."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sql_env.evaluation.dead_ends import DeadEnds
from sql_env.models import SQLAction, SQLObservation
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
    "wrong",
    [
        "SELECT 1 FROM singers",
        "SELECT Singers.name FROM singer",
        "SELECT singer.name, Singer.Nme FROM singer",
        "SELECT 1 FROM singer WHERE singers.age > 1",
    ],
)
def test_a_name_that_cannot_be_right_leads_nowhere(told: Told, wrong: str) -> None:
    assert told().leads_to(query(wrong))


@pytest.mark.parametrize(
    ("wrong", "later"),
    [
        # A column of a table that was not described, or not read, may exist.
        ("SELECT concert.name FROM singer", "SELECT concert.name FROM concert"),
        # An alias is given anew in every query.
        ("SELECT T1.nme FROM singer AS T1", "SELECT T1.nme FROM concert AS T1"),
        ("SELECT T1.name FROM singer", "SELECT T1.name FROM singer T1"),
        ("SELECT singer.theme FROM singer", "SELECT singer.theme FROM concert AS singer"),
        # Which table an unqualified column was looked for in is not known.
        ("SELECT nme FROM singer", "SELECT nme FROM concert"),
        # A column or a text may be called as a table is not.
        ("SELECT * FROM country", "SELECT country FROM singer WHERE name = 'from country'"),
        # A query may make what the database lacks.
        ("SELECT * FROM totals", "WITH totals AS (SELECT 1 AS n) SELECT totals.n FROM totals"),
        ("SELECT * FROM totals", "WITH totals(n) AS (SELECT 1) SELECT n FROM totals"),
        ("SELECT * FROM singers", "SELECT singers.name FROM singer AS singers"),
        ("SELECT * FROM singers", "SELECT singers.name FROM (SELECT name FROM singer) singers"),
        # No table is called so, but a column is.
        ("SELECT * FROM singer.name", "SELECT singer.name FROM singer"),
        ("SELECT singer.nam FROM singer", "SELECT singer.name FROM singer"),
    ],
)
def test_what_may_exist_may_be_read(told: Told, wrong: str, later: str) -> None:
    dead_ends = told(query(wrong))
    assert dead_ends.leads_to(query(wrong))
    assert not dead_ends.leads_to(query(later))


@pytest.mark.parametrize("kind", ["DESCRIBE", "SAMPLE"])
def test_a_table_that_is_not_there_cannot_be_looked_at(told: Told, kind: str) -> None:
    dead_ends = told()
    for name in ("concert", "Concert", '"concert";', "[concert]"):
        assert not dead_ends.leads_to(SQLAction(action_type=kind, argument=name))
    for name in ("concerts", "", "concert, singer"):
        assert dead_ends.leads_to(SQLAction(action_type=kind, argument=name))


def test_openings_with_a_wrong_name_need_not_be_finished(told: Told) -> None:
    dead_ends = told()
    opening = "QUERY: SELECT singer.nam FROM"
    assert not dead_ends.lie_ahead(opening)
    assert dead_ends.leads_to(query("SELECT singer.nam FROM singer"))
    assert dead_ends.lie_ahead(opening)
    assert not dead_ends.lie_ahead("QUERY: SELECT singer.nam")  # its last word may go on
    assert dead_ends.leads_to(query("SELECT 1 FROM singers"))
    assert dead_ends.lie_ahead("QUERY: SELECT name FROM singers WHERE")
    assert not dead_ends.lie_ahead("QUERY: SELECT 1 FROM singer WHERE name = 'from singers to")
    assert not dead_ends.lie_ahead("QUERY: WITH singers AS (SELECT 1) SELECT 1 FROM singers ")


def test_an_alias_may_be_given_later_in_the_turn(told: Told) -> None:
    dead_ends = told()
    assert dead_ends.leads_to(query("SELECT T1.name FROM singer"))
    assert not dead_ends.lie_ahead("QUERY: SELECT T1.name, T1.age FROM")


@pytest.mark.parametrize(
    ("wrong", "respelt"),
    [
        ("SELECT name FROM singgers", "SELECT name FROM Singer"),
        ("SELECT Sing.name FROM sing", "SELECT Singer.name FROM Singer"),
        ("SELECT sing.name FROM singer", "SELECT Singer.name FROM singer"),
        ("SELECT name FROM bands", "SELECT name FROM bands"),
        # A wrong column is mostly looked for in the wrong table.
        ("SELECT singer.nam FROM singer", "SELECT singer.nam FROM singer"),
        ("SELECT name FROM singer", "SELECT name FROM singer"),
        (
            "SELECT name FROM \"singr\" WHERE name = 'singr'",
            "SELECT name FROM Singer WHERE name = 'singr'",
        ),
        ("SELECT SINGER.nme FROM SINGER", "SELECT SINGER.nme FROM SINGER"),
    ],
)
def test_a_table_called_nearly_so_is_meant(told: Told, wrong: str, respelt: str) -> None:
    dead_ends = told()
    dead_ends.leads_to(query(wrong))
    assert dead_ends.mended(wrong) == respelt


def test_a_look_is_respelt_too(told: Told) -> None:
    dead_ends = told()
    assert dead_ends.leads_to(SQLAction(action_type="SAMPLE", argument="Singr"))
    assert dead_ends.mended("SAMPLE Singr").lower() == "sample singer"


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
    assert told(nothing("a"), nothing("a"), nothing("a")).leads_to(ANSWER)
    assert not told(nothing("a"), nothing("b"), nothing("c")).leads_to(ANSWER)


def test_the_same_in_other_words_agrees_on_nothing(told: Told) -> None:
    again = query("SELECT DISTINCT singer.name FROM singer WHERE singer.name = 'a'")
    more = query("SELECT age FROM singer WHERE name = 'a' AND age > 1")
    dead_ends = told(nothing("a"), again, more)
    assert dead_ends.repeats(again)
    assert dead_ends.repeats(query("SELECT country FROM singer WHERE 'a' = name"))
    assert not dead_ends.repeats(nothing("b"))
    assert dead_ends.leads_to(ANSWER)


def test_while_that_is_in_doubt_no_other_answer_is_begun(told: Told) -> None:
    sample = SQLAction(action_type="SAMPLE", argument="singer")
    for doubt in (told(nothing("a")), told(nothing("a"), sample)):
        assert doubt.lie_ahead("ANSWER: [")
        assert not doubt.lie_ahead("QUERY: SELECT 'ANSWER")
    assert not told(query("SELECT name FROM singer")).lie_ahead("ANSWER: [")
    assert not told(nothing("a"), nothing("b"), nothing("c")).lie_ahead("ANSWER: [")


def test_another_spelling_of_the_last_result_is_none(told: Told) -> None:
    found = told(query("SELECT name FROM singer"))
    for answer in ("@ last", "@lastuser", "@"):
        assert found.leads_to(SQLAction(action_type="ANSWER", argument=answer))
    assert not found.leads_to(SQLAction(action_type="ANSWER", argument="@Last"))


def test_what_was_found_may_be_answered_at_once(told: Told) -> None:
    found = query("SELECT name FROM singer")
    assert not told(found).leads_to(ANSWER)
    assert not told(nothing("a"), found).leads_to(ANSWER)
    # A query that fails agrees on nothing.
    failed = query("SELECT nme FROM singer")
    assert told(nothing("a"), failed, nothing("b")).leads_to(ANSWER)


def test_a_look_at_the_table_does_not_make_nothing_an_answer(told: Told) -> None:
    assert told(nothing("a"), SQLAction(action_type="SAMPLE", argument="singer")).leads_to(ANSWER)


def test_there_is_nothing_to_answer_with_before_a_query(told: Told) -> None:
    assert told().leads_to(ANSWER)
    assert told(query("SELECT nme FROM singer")).leads_to(ANSWER)
    assert not told().leads_to(SQLAction(action_type="ANSWER", argument="4"))


def test_the_last_step_is_for_an_answer(music: SQLEnvironment) -> None:
    env = SQLEnvironment(db_dir=music.db_dir, questions=music.questions, step_budget=2)
    dead_ends = DeadEnds()
    dead_ends.hear(env.reset(question_id=music.questions[0].question_id))
    dead_ends.add(nothing("a"))
    dead_ends.hear(env.step(nothing("a")))
    assert not dead_ends.leads_to(ANSWER)
    assert not dead_ends.lie_ahead("ANSWER: [")


@pytest.mark.parametrize(
    ("before", "doubtful"),
    [
        ([], "SELECT name FROM singer WHERE singer.age = 'old'"),
        ([nothing("Eve")], "SELECT age FROM singer WHERE name = 'Eve' AND age > 20"),
        (
            [query("SELECT DISTINCT singer.country FROM singer LIMIT 20")],
            "SELECT name FROM singer WHERE country = 'Chile'",
        ),
    ],
)
def test_a_query_that_cannot_be_meant_leads_nowhere(
    told: Told, before: list[SQLAction], doubtful: str
) -> None:
    assert told(*before).leads_to(query(doubtful))
    assert not told(*before).leads_to(query("SELECT name FROM singer WHERE age = 30"))


def test_neither_does_one_that_forgets_a_number(music: SQLEnvironment) -> None:
    dead_ends = DeadEnds()
    first = music.reset(question_id=music.questions[0].question_id)
    dead_ends.hear(first.model_copy(update={"question": "Who is older than 40?"}))
    assert dead_ends.leads_to(query("SELECT name FROM singer ORDER BY age"))
    assert not dead_ends.leads_to(query("SELECT name FROM singer WHERE age > 40"))


def test_a_fault_is_not_begun_again_until_something_new_is_heard(told: Told) -> None:
    dead_ends = told()
    again = "QUERY: SELECT age FROM singer WHERE singer.age = 'old' "
    assert not dead_ends.lie_ahead(again)
    assert dead_ends.leads_to(query("SELECT name FROM singer WHERE singer.age = 'old'"))
    assert dead_ends.lie_ahead(again)
    assert not dead_ends.lie_ahead("QUERY: SELECT age FROM singer WHERE singer.age = ")
    dead_ends.add(SQLAction(action_type="SAMPLE", argument="singer"))
    dead_ends.hear(SQLObservation(question="", table_names=["Singer"]))
    assert not dead_ends.lie_ahead(again)


def test_a_slip_of_the_pen_is_put_right(music: SQLEnvironment) -> None:
    dead_ends = DeadEnds()
    first = music.reset(question_id=music.questions[0].question_id)
    dead_ends.hear(first.model_copy(update={"question": "Who sang at 'Spring'?"}))
    for table in ("singer", "performance", "concert"):
        dead_ends.hear(
            music.step(SQLAction(action_type="DESCRIBE", argument=table)).model_copy(
                update={"question": "Who sang at 'Spring'?"}
            )
        )
    slip = "SELECT Singer.Name FROM Performance WHERE Concert.Theme = 'Sprng'"
    turn = f"QUERY: {slip}"
    for _ in range(2):  # a join, then another
        assert dead_ends.leads_to(query(turn.removeprefix("QUERY: ")))
        turn = dead_ends.mended(turn)
    assert turn == (
        "QUERY: SELECT Singer.Name FROM Performance "
        "JOIN Singer ON Performance.Singer_ID = Singer.Singer_ID "
        "JOIN Concert ON Performance.Concert_ID = Concert.Concert_ID WHERE Concert.Theme = 'Spring'"
    )
    assert not dead_ends.leads_to(query(turn.removeprefix("QUERY: ")))
    assert music.step(query(turn.removeprefix("QUERY: "))).result == "Name\nAnn"
