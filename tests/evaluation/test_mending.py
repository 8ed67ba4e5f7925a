"""Slips that are put right, with real schemas, and what only looks like one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from handmade import described

from sql_env.evaluation.mending import table_called_nearly, with_missing_join, with_texts_as_asked

NEWS = """
CREATE TABLE Event (Event_ID INTEGER PRIMARY KEY, Date TEXT, Name TEXT);
CREATE TABLE Journalist (ID INTEGER PRIMARY KEY, Name TEXT);
CREATE TABLE Report (
    Event INT REFERENCES Event, Writer INT REFERENCES Journalist (ID), Pages INT);
CREATE TABLE Prize (Winner INT REFERENCES Journalist, Judge INT REFERENCES Journalist, Year INT);
"""


@pytest.fixture
def news() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(NEWS)
        yield connection


def mended(query: str, news: sqlite3.Connection) -> str:
    return with_missing_join(query, described(news))


@pytest.mark.parametrize(
    ("query", "joined"),
    [
        (
            "SELECT Journalist.Name FROM Report WHERE Report.Pages > 1",
            "SELECT Journalist.Name FROM Report JOIN Journalist ON Report.Writer = Journalist.ID "
            "WHERE Report.Pages > 1",
        ),
        (  # by a key that it leaves to the other table, and from there
            "SELECT event.name FROM event WHERE report.pages > 1",
            "SELECT event.name FROM event JOIN Report ON Event.Event_ID = Report.Event "
            "WHERE report.pages > 1",
        ),
        (
            "SELECT Name FROM Event WHERE Event_ID IN "
            "(SELECT Report.Event FROM Report WHERE Journalist.Name = 'Ann')",
            "SELECT Name FROM Event WHERE Event_ID IN (SELECT Report.Event FROM Report "
            "JOIN Journalist ON Report.Writer = Journalist.ID WHERE Journalist.Name = 'Ann')",
        ),
    ],
)
def test_a_table_that_is_used_is_joined(news: sqlite3.Connection, query: str, joined: str) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        news.execute(query)
    assert mended(query, news) == joined
    news.execute(joined)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT Journalist.Name FROM Prize",  # the winner, or the judge?
        "SELECT Journalist.Name FROM Event",  # no key leads there
        "SELECT Journalist.Name FROM Report AS r",  # how it is called there is not worth the code
        "SELECT Editor.Name FROM Report",
        "SELECT Name FROM Event WHERE EXISTS (SELECT 1 FROM Report WHERE Event.Date = '1')",
        "SELECT Report.Pages FROM Report JOIN Event ON Event.Event_ID = Report.Event",
        "SELECT Journalist.Name FROM Report WHERE",
        "SELECT Journalist.Name FROM Report JOIN (SELECT ID, Name FROM Journalist) AS Journalist "
        "ON Report.Writer = Journalist.ID",
    ],
)
def test_where_it_is_not_plain_how_nothing_is_joined(news: sqlite3.Connection, query: str) -> None:
    assert mended(query, news) == query


def test_a_table_that_was_not_described_is_joined_to_none(news: sqlite3.Connection) -> None:
    query = "SELECT Report.Pages FROM Journalist"
    assert with_missing_join(query, described(news, "Report")) == query


def test_names_that_are_words_of_sql_are_quoted() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(
            'CREATE TABLE "order" (id INTEGER PRIMARY KEY, "group" TEXT, "a\'b" INT);'
            'CREATE TABLE item ("select" INT REFERENCES "order" (id));'
        )
        mended_query = mended('SELECT "order"."group" FROM item', connection)
        assert 'JOIN "order" ON item."select" = "order".id' in mended_query
        connection.execute(mended_query)


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("Particip", "Participants"),
        ("particip_in_events", "Participants_in_Events"),
        ("Parties", ""),
        ("order items", '"Order Items"'),
        ("grup", '"group"'),
        ("", ""),
    ],
)
def test_a_table_is_known_by_a_name_nearly_its_own(name: str, table: str) -> None:
    tables = ["Participants", "Participants_in_Events", "Events", "Order Items", "group"]
    assert table_called_nearly(name, tables) == table


QUESTION = "When was 'Book collection A' booked?"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("'Bookcollection A'", "'Book collection A'"),
        ("'%Book colection A%'", "'%Book collection A%'"),
        ("'Book collection A'", "'Book collection A'"),
        ("'BOOK COLLECTION A'", "'BOOK COLLECTION A'"),  # perhaps it is stored so
        ("'Book'", "'Book'"),
        ("'Book shelf B'", "'Book shelf B'"),
    ],
)
def test_a_text_is_spelt_as_the_question_spells_it(written: str, meant: str) -> None:
    query = f"SELECT day FROM booking WHERE name LIKE {written}"
    assert with_texts_as_asked(query, QUESTION, "") == query.replace(written, meant)


def test_unless_results_spell_it_otherwise() -> None:
    query = "SELECT day FROM booking WHERE name = 'Book collections A'"
    assert with_texts_as_asked(query, QUESTION, "") != query
    assert with_texts_as_asked(query, QUESTION, "name\nBook collections A") == query
    assert (
        with_texts_as_asked("SELECT 'Bookcollection A", QUESTION, "") == "SELECT 'Bookcollection A"
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Sofya Roth", "Sofia Roth"),
        ("SofiaRoth Inc", "SofiaRoth Inc"),
        ("Sofia  Rooth", "Sofia Roth"),
        ("sofia roth", "sofia roth"),
        ("Asia", "Asia"),
        ("asian", "asian"),
        ("of Sofia", "of Sofia"),
        ("Anna Roth", "Anna Roth"),
        ("Sofia, Roth", "Sofia, Roth"),  # other stops
        ("asian countries", "asian countries"),  # no name
    ],
)
def test_so_is_a_name_of_several_words(written: str, meant: str) -> None:
    question = "Which asian country is the home of Sofia Roth?"
    query = f"SELECT 1 FROM person WHERE name = '{written}'"
    assert with_texts_as_asked(query, question, "") == query.replace(written, meant)
