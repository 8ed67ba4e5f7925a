"""Questions about databases that others made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from made_databases import SCHOOL, database

from sql_env.core.database import Database
from sql_env.models import QuestionRecord
from sql_env.questions import Dataset
from sql_env.worlds.intents import EXISTING_INTENTS, INTENTS
from sql_env.worlds.synthesis import LEFT_OUT, synthetic_questions

ODD = """
CREATE TABLE "order" ("order no" INTEGER, "select" TEXT, "{}" TEXT, amount REAL, day DATE);
CREATE TABLE empty_one (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE "weiß & blau" (Größe REAL, "naïve name" TEXT);
CREATE TABLE pictures (id INTEGER PRIMARY KEY, picture BLOB, note TEXT);
CREATE TABLE line (order_no INTEGER, line_no INTEGER, item TEXT, price REAL,
  PRIMARY KEY (order_no, line_no), FOREIGN KEY (order_no) REFERENCES nowhere (id));
CREATE TABLE node (node_id TEXT PRIMARY KEY, name TEXT, parent TEXT REFERENCES node (node_id));
CREATE VIEW dear AS SELECT item, price FROM line WHERE price > 2;
INSERT INTO "order" VALUES (1, 'a', '{x}', 3.5, '0000-00-00'), (1, 'b', '|', 'many', NULL),
  (2, 'a', '', 7, '2020-02-30');
INSERT INTO "weiß & blau" VALUES (1.5, 'O''Neill'), (2.5, '100%'), (2.5, ' padded ');
INSERT INTO pictures VALUES (1, x'00ff', NULL), (2, NULL, NULL);
INSERT INTO line VALUES (1, 1, 'pen', 1.5), (1, 2, 'ink', 4), (2, 1, 'pen', 2.5), (3, 1, 'cup', 9);
INSERT INTO node VALUES ('a', 'Ann', NULL), ('b', 'Bob', 'a'), ('c', 'Cid', 'a'), ('d', 'Di', 'b');
"""


def check(path: Path, count: int = 30) -> list[str]:
    """Ask, and check that every gold runs and every sentence is whole."""
    opened = Database(path)
    questions = []
    for record in synthetic_questions(path, count, seed=1).records:
        checked = QuestionRecord.model_validate(record | {"question_id": "x", "split": "synthetic"})
        assert opened.query(checked.gold_sql).rows, checked.gold_sql
        question = checked.question_text
        assert question[-1] in ".?", question
        assert not re.search(r"[{}|\x01\x02]|  | ,|\bNone\b", question), question
        assert not re.search(r"\b(the|of|a|are|is|that|who|with) \1\b", question), question
        questions.append(question)
    return questions


def test_a_school_is_asked_about(tmp_path: Path) -> None:
    questions = check(database(tmp_path, SCHOOL), 60)
    assert len(questions) == 60
    assert len(set(questions)) > 55


def test_odd_databases_are_asked_what_they_offer(tmp_path: Path) -> None:
    assert check(database(tmp_path, ODD), 40)


def test_a_database_without_words_offers_nothing(tmp_path: Path) -> None:
    path = database(tmp_path, 'CREATE TABLE "123" ("1" BLOB); CREATE TABLE t (c TEXT)')
    assert synthetic_questions(path, 5).records == []


def test_the_same_seed_asks_the_same(tmp_path: Path) -> None:
    path = database(tmp_path, SCHOOL)
    first, again = (synthetic_questions(path, 30, seed=7).records for _ in range(2))
    assert first == again
    assert first != synthetic_questions(path, 30, seed=8).records


def test_a_gold_that_must_stay_unseen_is_not_asked_for(tmp_path: Path) -> None:
    path = database(tmp_path, SCHOOL)
    planted = synthetic_questions(path, 30, seed=7).records[0]["gold_sql"]
    again = synthetic_questions(path, 30, seed=7, is_unseen=lambda sql: sql == planted)
    assert again.leaked
    assert planted not in [record["gold_sql"] for record in again.records]


def test_an_unseen_gold_in_other_words_is_not_asked_for(tmp_path: Path) -> None:
    path = database(tmp_path, SCHOOL)
    asked = [record["gold_sql"] for record in synthetic_questions(path, 40, seed=7).records]
    planted = next(sql for sql in asked if "'" not in sql)
    again = synthetic_questions(path, 40, seed=7, unseen=[planted.lower()])
    assert again.leaked
    assert planted not in [record["gold_sql"] for record in again.records]


def test_left_out_intents_exist() -> None:
    assert INTENTS.keys() >= LEFT_OUT
    assert not INTENTS.keys() & EXISTING_INTENTS.keys()


@pytest.mark.parametrize("name", sorted(EXISTING_INTENTS))
def test_an_intent_has_six_ways_of_being_asked(name: str) -> None:
    phrasings = EXISTING_INTENTS[name].phrasings
    assert len(set(phrasings)) == len(phrasings) >= 6


def test_embedded_databases_are_asked_about() -> None:
    for path in sorted(Dataset.embedded().db_dir.glob("*/*.sqlite")):
        assert len(check(path, 12)) == 12, path


@pytest.mark.spider
@pytest.mark.parametrize(
    "name", ["car_1", "concert_singer", "flight_2", "pets_1", "poker_player", "world_1"]
)
def test_spider_databases_are_asked_about(name: str, spider_dir: Path) -> None:
    assert len(check(spider_dir / "database" / name / f"{name}.sqlite", 20)) > 12
