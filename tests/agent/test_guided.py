"""What can be said about an action before it is played, from what the environment has shown."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from sql_env.agent.guided import Guide
from sql_env.environment import SQLEnvironment
from sql_env.models import QuestionRecord, SQLAction
from sql_env.questions import Dataset


class Known(Guide):
    def objection_to(self, query: str) -> str:
        return self.objection(SQLAction(action_type="QUERY", argument=query))

    def lacks(self, table: str) -> bool:
        return bool(self.objection(SQLAction(action_type="DESCRIBE", argument=table)))


def known(env: SQLEnvironment, *described: str, question: int = 0) -> Known:
    schema = Known()
    schema.hear(env.reset(question_id=env.questions[question].question_id))
    for table in described:
        schema.hear(env.step(SQLAction(action_type="DESCRIBE", argument=table)))
    return schema


def test_a_table_that_is_not_there_is_objected_to_from_the_start(music: SQLEnvironment) -> None:
    schema = known(music)
    assert schema.objection_to("SELECT 1 FROM singers") == "no such table: singers"
    assert not schema.objection_to("SELECT nme FROM singer")  # who knows?
    assert not schema.objection_to("SELECT singer.nme FROM singer")


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("SELECT singer.nme FROM singer", "no such column: singer.nme"),
        ("SELECT nme FROM singer", "no such column: nme"),
        ("SELECT T1.nme FROM singer AS T1", "no such column: T1.nme"),
        ("SELECT singer.name FROM concert", "no such column: singer.name"),
        ("SELECT 1 FROM singer JOIN singers", "no such table: singers"),
        ("SELECT theme FROM concert GROUP BY", "incomplete input"),
        ("SELECTconcert.theme FROM concert", 'near "SELECTconcert": syntax error'),
        ("ANQUERY: SELECT 1\nFROM concert", 'near "ANQUERY": syntax error'),
        ("SELECT theme FROM concert WHERE theme = 'x", 'unrecognized token: "\'x"'),
        ("SELECT room(age) FROM singer", "no such function: room"),
    ],
)
def test_a_column_that_is_not_there_is_objected_to_once_its_table_is_described(
    music: SQLEnvironment, query: str, complaint: str
) -> None:
    assert known(music, "singer").objection_to(query) == complaint


@pytest.mark.parametrize(
    "query",
    [
        "SELECT T1.theme FROM singer JOIN concert AS T1",  # concert is not described
        "SELECT theme FROM singer, concert",
        "SELECT 1; SELECT nme FROM singer",
        "SELECT singer.theme FROM concert AS singer",
        "\xa0SELECT name FROM singer\xa0",
        "-- all of them\nSELECT name FROM singer",
        "WITH singer AS (SELECT * FROM concert) SELECT singer.theme FROM singer",
        "SELECT singer.age FROM singer JOIN singer AS s WHERE s.age IN (SELECT age FROM concert)",
        "SELECT '\ud800'",
        "SELECT 1\0",
        "SELECT nme FROM singer WHERE name = '" + "x" * 100_000 + "'",
        "WITH x AS (SELECT name AS n FROM singer) SELECT x.n FROM x",
    ],
)
def test_nothing_is_claimed_that_is_not_known(music: SQLEnvironment, query: str) -> None:
    assert not known(music, "singer").objection_to(query)


def test_what_does_more_than_read_is_not_even_compiled(music: SQLEnvironment) -> None:
    """A PRAGMA acts when it is compiled: this one would leave the process no memory for SQLite."""
    assert not known(music).objection_to("PRAGMA hard_heap_limit = 1000")
    assert not known(music).objection_to("ATTACH 'elsewhere' AS x")
    assert not music.step(SQLAction(action_type="QUERY", argument="SELECT name FROM singer")).error


@pytest.mark.parametrize(("copies", "levels"), [(25, 5), (9, 8)])
def test_a_query_that_explodes_while_it_is_compiled_freezes_nobody(
    music: SQLEnvironment, copies: int, levels: int
) -> None:
    """SQLite merges the subqueries: copies to the power of levels, in 400 characters."""
    query = "SELECT age AS x FROM singer"
    for _ in range(levels):
        query = f"SELECT {'+'.join(['x'] * copies)} AS x FROM ({query})"
    schema = known(music, "singer", "concert", "performance")
    begun = time.thread_time()
    assert not schema.objection_to(query)
    # Its deadline of half a second, and room; without it, 10 to 40 s.
    assert time.thread_time() - begun < 5


def test_keywords_quotes_and_accents_in_names_are_understood(tmp_path: Path) -> None:
    folder = tmp_path / "databases" / "odd"
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(folder / "odd.sqlite")) as database:
        database.execute('CREATE TABLE "order" ("first name" TEXT, "group" INT, "a""b" INT, ok)')
        database.execute('CREATE TABLE "order items" (ÉTAT TEXT, état TEXT)')
    record = QuestionRecord(
        question_id="odd",
        question_text="?",
        database_name="odd",
        gold_sql='SELECT ok FROM "order"',
        gold_answer=[],
        answer_type="list",
        difficulty="easy",
        tables_involved=["order"],
        split="eval",
    )
    with SQLEnvironment(db_dir=tmp_path / "databases", questions=[record]) as env:
        schema = known(env, "order")
        both = known(env, "order", "order items")
    assert not schema.objection_to('SELECT price, état FROM "order items"')
    assert not both.objection_to('SELECT ÉTAT, état FROM "order items"')
    assert not both.lacks('"ORDER items" ;')
    assert both.lacks("orders")
    assert both.objection_to('SELECT price FROM "order items"') == "no such column: price"
    for column in ('"first name"', '"group"', '"a""b"', "ok"):
        assert not schema.objection_to(f'SELECT "order".{column} FROM "order"')
    assert schema.objection_to('SELECT "order".last FROM "order"') == "no such column: order.last"


def test_it_never_complains_about_a_query_that_works() -> None:
    dataset = Dataset.embedded()
    questions = [question for question in dataset.load() if question.split == "eval"]
    with SQLEnvironment(db_dir=dataset.db_dir, questions=questions, step_budget=50) as env:
        for number, question in enumerate(questions):
            tables = env.reset(question_id=question.question_id).table_names
            schema = known(env, *tables[::2], question=number)
            assert not schema.objection_to(question.gold_sql), question.gold_sql
            schema = known(env, *tables, question=number)
            assert not schema.objection_to(question.gold_sql), question.gold_sql
    assert len(questions) == 203


def test_an_action_that_was_played_is_objected_to(music: SQLEnvironment) -> None:
    guide = known(music)
    describe = SQLAction(action_type="DESCRIBE", argument="singer")
    assert not guide.objection(describe)
    guide.add(describe)
    assert guide.objection(SQLAction(action_type="DESCRIBE", argument='"Singer"')) == "repeated"
    assert not guide.objection(SQLAction(action_type="SAMPLE", argument="singer"))


def test_answering_with_the_last_result_is_new_after_another_query(music: SQLEnvironment) -> None:
    guide = known(music)
    last = SQLAction(action_type="ANSWER", argument="@last")
    guide.add(last)
    assert guide.objection(last) == "repeated"
    guide.add(SQLAction(action_type="QUERY", argument="SELECT 1"))
    assert not guide.objection(last)
