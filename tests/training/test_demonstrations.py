"""What SFT teaches: spelling, shapes and repairs, played through the real environment."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sql_env import SQLAction, SQLEnvironment
from sql_env.core.database import Database
from sql_env.models import QuestionRecord
from sql_env.questions import load_questions
from sql_env.sql.canonical import canonical_sql, comparisons, tables_in_order
from sql_env.training.dagger import correction_of
from sql_env.training.demonstrations import DemonstrationMix, Demonstrations, values_query


@pytest.fixture
def database(music_dir: Path) -> Database:
    return Database(music_dir / "databases" / "music" / "music.sqlite")


@pytest.fixture
def environments(music_dir: Path) -> Callable[[bool], SQLEnvironment]:
    questions = load_questions(music_dir / "questions")
    return lambda allow_last: SQLEnvironment(
        db_dir=music_dir / "databases", questions=questions, step_budget=10, allow_last=allow_last
    )


def test_names_are_spelt_as_the_schema_spells_them(database: Database) -> None:
    sql = canonical_sql('SELECT  name FROM singer WHERE country  =  "France"', database)
    assert sql == "SELECT Singer.Name FROM Singer WHERE Singer.Country = 'France'"


def test_piled_up_join_conditions_are_dealt_out(database: Database) -> None:
    sql = canonical_sql(
        "SELECT t3.theme FROM singer AS t1 JOIN performance AS t2 JOIN concert AS t3 "
        "ON t1.singer_id = t2.singer_id AND t2.concert_id = t3.concert_id",
        database,
    )
    assert sql == (
        "SELECT Concert.Theme FROM Singer "
        "JOIN Performance ON Singer.Singer_ID = Performance.Singer_ID "
        "JOIN Concert ON Performance.Concert_ID = Concert.Concert_ID"
    )


@pytest.mark.parametrize(
    ("sql", "in_full"),
    [
        pytest.param(
            "SELECT a.name FROM singer AS a JOIN singer AS b ON a.age = b.age WHERE b.name = 'Ann'",
            "SELECT a.Name FROM Singer AS a JOIN Singer AS b ON a.Age = b.Age WHERE b.Name = 'Ann'",
            id="joined with itself",
        ),
        pytest.param(
            "SELECT name FROM singer t1 WHERE age = "
            "(SELECT max(age) FROM singer t2 WHERE t2.country = t1.country)",
            "SELECT T1.Name FROM Singer AS T1 WHERE T1.Age = "
            "(SELECT MAX(Singer.Age) FROM Singer WHERE Singer.Country = T1.Country)",
            id="referred to from an inner query on the same table",
        ),
        pytest.param(
            "SELECT name FROM singer AS t1 WHERE EXISTS "
            "(SELECT 1 FROM performance AS t2 WHERE t2.singer_id = t1.singer_id)",
            "SELECT Singer.Name FROM Singer WHERE EXISTS(SELECT 1 FROM Performance "
            "WHERE Performance.Singer_ID = Singer.Singer_ID)",
            id="referred to from an inner query on another table",
        ),
        pytest.param(
            "SELECT country, count(*) AS n FROM singer GROUP BY country ORDER BY n",
            "SELECT Singer.Country, COUNT(*) AS n FROM Singer GROUP BY Singer.Country ORDER BY n",
            id="the name of a result",
        ),
    ],
)
def test_every_column_says_which_table_it_is_of(sql: str, in_full: str, database: Database) -> None:
    assert canonical_sql(sql, database) == in_full


def test_a_query_that_cannot_be_parsed_is_only_folded(database: Database) -> None:
    assert canonical_sql("SELEC  1  FRM x ;", database) == "SELEC 1 FRM x"


def test_tables_come_in_the_order_the_query_names_them(database: Database) -> None:
    sql = "SELECT 1 FROM concert JOIN singer WHERE EXISTS (SELECT 1 FROM performance)"
    assert tables_in_order(sql, database) == ["Concert", "Singer", "Performance"]


def test_columns_compared_with_a_text_are_found(database: Database) -> None:
    sql = "SELECT 1 FROM Singer WHERE Age > 3 AND country = 'France'"
    assert [item[:2] for item in comparisons(sql, database)] == [("Singer", "Country")]


def plain(share: float = 0.0) -> DemonstrationMix:
    return DemonstrationMix(extra_table=share, sample=share, corrupt=share, typed_answer=share)


def test_a_plain_demonstration_describes_queries_and_answers(
    environments: Callable[[bool], SQLEnvironment],
) -> None:
    source = Demonstrations(environments, plain())
    record = next(r for r in environments(True).questions if r.question_id == "music_join")
    (demonstration,) = source.play([record])
    actions = [turn.action for turn in demonstration.turns]
    assert actions[:3] == ["DESCRIBE: Singer", "DESCRIBE: Performance", "DESCRIBE: Concert"]
    assert actions[3].startswith("QUERY: SELECT Concert.Theme FROM Singer JOIN")
    assert actions[4] == "ANSWER: @last"
    assert all(turn.trained for turn in demonstration.turns)


def test_a_corrupted_query_is_shown_but_not_trained_on(
    environments: Callable[[bool], SQLEnvironment],
) -> None:
    source = Demonstrations(
        environments, DemonstrationMix(extra_table=0, sample=0, corrupt=1, typed_answer=0)
    )
    wrong = [
        turn
        for demonstration in source.play([*environments(True).questions] * 8)
        for turn in demonstration.turns
        if not turn.trained
    ]
    assert wrong
    assert all(turn.action.startswith("QUERY: ") for turn in wrong)


def test_nothing_is_believed_after_a_look(music_dir: Path) -> None:
    first = load_questions(music_dir / "questions")[0]
    record = first.model_copy(
        update={
            "question_id": "nobody",
            "gold_sql": "SELECT Name FROM Singer WHERE Country = 'Atlantis'",
            "gold_answer": [],
            "answer_type": "list",
        }
    )
    played = {
        share: [
            turn.action.split(":")[0]
            for demonstration in Demonstrations(
                lambda allow_last: SQLEnvironment(
                    db_dir=music_dir / "databases", questions=[record], allow_last=allow_last
                ),
                DemonstrationMix(extra_table=0, sample=0, corrupt=share, typed_answer=0),
            ).play([record])
            for turn in demonstration.turns
        ]
        for share in (0.0, 0.1)
    }
    assert played == {
        0.0: ["DESCRIBE", "QUERY", "ANSWER"],
        0.1: ["DESCRIBE", "QUERY", "SAMPLE", "ANSWER"],
    }


def test_typed_answers_are_typed(environments: Callable[[bool], SQLEnvironment]) -> None:
    source = Demonstrations(
        environments, DemonstrationMix(extra_table=0, sample=0, corrupt=0, typed_answer=1)
    )
    for demonstration in source.play(environments(True).questions):
        assert "@last is not allowed" in demonstration.turns[0].observation
        assert demonstration.turns[-1].action != "ANSWER: @last"


def test_a_look_at_values_spells_names_as_a_query_has_to() -> None:
    assert values_query("train", "From") == 'SELECT DISTINCT train."From" FROM train LIMIT 20'


def test_the_same_seed_gives_the_same_demonstrations(
    environments: Callable[[bool], SQLEnvironment],
) -> None:
    questions = environments(True).questions

    def play(seed: int) -> list[object]:
        return list(Demonstrations(environments, plain(0.5), seed).play([*questions] * 5))

    assert play(1) == play(1)
    assert play(1) != play(2)


# -- tables that are not needed ------------------------------------------------------------------


@pytest.fixture
def town(tmp_path: Path) -> Callable[..., SQLEnvironment]:
    """Six tables; house refers to Street, in another spelling, and is referred to by flat."""
    path = tmp_path / "town" / "town.sqlite"
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        CREATE TABLE flat (id INTEGER PRIMARY KEY, house_id INTEGER REFERENCES house(id));
        CREATE TABLE tree (id INTEGER PRIMARY KEY);
        CREATE TABLE Street (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE lamp (id INTEGER PRIMARY KEY, street_id INTEGER REFERENCES Street(id));
        CREATE TABLE house (id INTEGER PRIMARY KEY, street_id INTEGER REFERENCES STREET(id));
        CREATE TABLE garden (id INTEGER PRIMARY KEY, house_id INTEGER REFERENCES house(id));
        INSERT INTO house VALUES (1, 1), (2, 1);
        """
    )
    connection.close()
    question = QuestionRecord(
        question_id="houses",
        question_text="How many houses are there?",
        database_name="town",
        gold_sql="SELECT count(*) FROM house",
        gold_answer=2,
        answer_type="integer",
        difficulty="easy",
        tables_involved=["house"],
        split="train",
    )
    return lambda allow_last, step_budget=15: SQLEnvironment(
        db_dir=tmp_path, questions=[question], step_budget=step_budget, allow_last=allow_last
    )


def described(town: Callable[..., SQLEnvironment], most: int, step_budget: int = 15) -> list[str]:
    mix = DemonstrationMix(describe_tables=most, extra_table=0, sample=0, corrupt=0, typed_answer=0)
    source = Demonstrations(partial(town, step_budget=step_budget), mix)
    (demonstration,) = source.play(town(True).questions)
    *first, query, answer = [turn.action for turn in demonstration.turns]
    assert (query, answer) == ("QUERY: SELECT COUNT(*) FROM house", "ANSWER: @last")
    assert all(action.startswith("DESCRIBE: ") for action in first)
    return [action.removeprefix("DESCRIBE: ") for action in first]


@pytest.mark.parametrize(
    ("most", "tables"),
    [
        (0, ["house"]),
        (1, ["house"]),
        (2, ["flat", "house"]),
        (3, ["flat", "Street", "house"]),
        (4, ["flat", "Street", "house", "garden"]),
        (5, ["flat", "Street", "house", "garden"]),  # the lamp is a street further
        (6, ["flat", "tree", "Street", "lamp", "house", "garden"]),
        (9, ["flat", "tree", "Street", "lamp", "house", "garden"]),
    ],
)
def test_neighbours_are_described_too_in_the_listed_order(
    town: Callable[..., SQLEnvironment], most: int, tables: list[str]
) -> None:
    assert described(town, most) == tables


def test_describing_leaves_steps_for_the_rest_and_never_leaves_out_what_is_needed(
    town: Callable[..., SQLEnvironment],
) -> None:
    assert described(town, most=9, step_budget=7) == ["flat", "house"]


# -- the values of a column ----------------------------------------------------------------------


def looking(
    environments: Callable[[bool], SQLEnvironment], question: str, text: str
) -> list[str] | None:
    """The actions of a demonstration for a question that is worded anew."""
    record = next(r for r in environments(True).questions if r.question_id == question)
    record = record.model_copy(update={"question_text": text})
    mix = DemonstrationMix(list_values=1, extra_table=0, sample=0, corrupt=0, typed_answer=0)
    (demonstration,) = Demonstrations(environments, mix).play([record])
    return [turn.action for turn in demonstration.turns]


def test_values_are_listed_before_a_text_that_the_question_does_not_spell(
    environments: Callable[[bool], SQLEnvironment],
) -> None:
    look = "QUERY: SELECT DISTINCT Singer.Country FROM Singer LIMIT 20"
    query = "QUERY: SELECT Singer.Name FROM Singer WHERE Singer.Country = 'France'"
    for text in ("Which singers are French?", "Who is from FRANCE?"):
        actions = looking(environments, "music_french", text)
        assert actions == ["DESCRIBE: Singer", look, query, "ANSWER: @last"]
    spelt = looking(environments, "music_french", "Which singers come from France?")
    assert spelt == ["DESCRIBE: Singer", query, "ANSWER: @last"]


def test_nothing_is_listed_where_no_text_is_compared(
    environments: Callable[[bool], SQLEnvironment],
) -> None:
    actions = looking(environments, "music_count", "How many?")
    assert actions == ["DESCRIBE: Singer", "QUERY: SELECT COUNT(*) FROM Singer", "ANSWER: @last"]


# -- a question that occurs several times --------------------------------------------------------


def test_a_question_that_occurs_several_times_is_played_in_several_shapes(
    environments: Callable[[bool], SQLEnvironment],
) -> None:
    records = environments(True).questions
    several = list(Demonstrations(environments, plain(0.5)).play([records[1]] * 6))
    assert len(several) == 6
    assert len({demonstration.turns for demonstration in several}) > 2
    assert several[:1] == list(Demonstrations(environments, plain(0.5)).play([records[1]]))


# -- corrections ---------------------------------------------------------------------------------


def corrected(
    environments: Callable[[bool], SQLEnvironment],
    question: str,
    *actions: tuple[str, str],
    failures: int = 1,
    seed: int = 1,
) -> list[tuple[str, bool]] | None:
    environment = environments(True)
    record = next(r for r in environment.questions if r.question_id == question)
    played = [SQLAction(action_type=kind, argument=argument) for kind, argument in actions]
    demonstration = correction_of(
        environment, record, played, random.Random(seed), failures=failures
    )
    return demonstration and [(turn.action, turn.trained) for turn in demonstration.turns]


def test_after_an_unknown_column_the_missing_tables_are_described(
    environments: Callable[[bool], SQLEnvironment],
) -> None:
    turns = corrected(
        environments, "music_join", ("DESCRIBE", "Singer"), ("QUERY", "SELECT Theme FROM Singer")
    )
    assert turns is not None
    assert [action for action, demonstrated in turns if not demonstrated] == [
        "DESCRIBE: Singer",
        "QUERY: SELECT Theme FROM Singer",
    ]
    assert [action for action, _ in turns[2:4]] == ["DESCRIBE: Performance", "DESCRIBE: Concert"]
    assert turns[-1] == ("ANSWER: @last", True)


def test_after_an_empty_result_the_values_are_looked_at(
    environments: Callable[[bool], SQLEnvironment],
) -> None:
    wrong = ("QUERY", "SELECT Name FROM Singer WHERE Country = 'FRANCE'")
    looks = set()
    for seed in range(8):
        turns = corrected(environments, "music_french", wrong, seed=seed)
        assert turns is not None
        *_, (look, _), (right, trained), _ = turns
        assert right == "QUERY: SELECT Singer.Name FROM Singer WHERE Singer.Country = 'France'"
        assert trained
        looks.add(look)
    assert looks >= {
        "QUERY: SELECT DISTINCT Singer.Country FROM Singer LIMIT 20",
        "SAMPLE: Singer",
    }


def test_what_was_seen_already_is_not_looked_at_again(
    environments: Callable[[bool], SQLEnvironment],
) -> None:
    values = "SELECT DISTINCT Singer.Country FROM Singer LIMIT 20"
    wrong = ("QUERY", "SELECT Name FROM Singer WHERE Country = 'FRANCE'")
    for seed in range(8):
        sampled = corrected(environments, "music_french", ("SAMPLE", "singer"), wrong, seed=seed)
        assert sampled is not None
        assert "SAMPLE: Singer" not in [action for action, _ in sampled]
        both = [("SAMPLE", "singer"), ("QUERY", values), wrong]
        turns = corrected(environments, "music_french", *both, seed=seed)
        assert turns is not None
        assert len(turns) == len(both) + len(["QUERY", "ANSWER"])


def test_a_count_of_nothing_is_corrected_like_an_empty_result(
    environments: Callable[[bool], SQLEnvironment],
) -> None:
    for query in (
        "SELECT COUNT(*) FROM Singer WHERE Country = 'FRANCE'",
        "SELECT SUM(Age) FROM Singer WHERE Country = 'FRANCE'",
    ):
        turns = corrected(environments, "music_count", ("QUERY", query))
        assert turns is not None
        assert turns[1:] == [("QUERY: SELECT COUNT(*) FROM Singer", True), ("ANSWER: @last", True)]


def test_a_query_that_failed_twice_is_corrected_after_the_second_time_too(
    environments: Callable[[bool], SQLEnvironment],
) -> None:
    wrong, right = ("QUERY", "SELECT Nme FROM Singer"), "QUERY: SELECT COUNT(*) FROM Singer"
    for failures in (1, 2):
        turns = corrected(environments, "music_count", wrong, wrong, failures=failures)
        assert turns is not None
        assert [demonstrated for _, demonstrated in turns].count(False) == failures
        assert right in [action for action, _ in turns[failures:]]
    assert corrected(environments, "music_count", wrong, wrong, failures=3) is None


def test_nothing_is_corrected_where_no_steps_are_left_for_it(
    environments: Callable[[bool], SQLEnvironment],
) -> None:
    wrong = ("QUERY", "SELECT Nme FROM Singer")
    all_but_one = environments(True).step_budget - 1
    assert corrected(environments, "music_join", *[wrong] * 20, failures=all_but_one) is None
    assert corrected(environments, "music_join", *[wrong] * 20, failures=all_but_one - 1)


def test_nothing_is_corrected_where_no_query_failed(
    environments: Callable[[bool], SQLEnvironment],
) -> None:
    fine = ("QUERY", "SELECT Name FROM Singer")
    assert corrected(environments, "music_french", fine, ("ANSWER", "@last")) is None


def test_an_empty_result_is_right_where_the_answer_is_empty(
    environments: Callable[[bool], SQLEnvironment],
) -> None:
    empty = ("QUERY", "SELECT Name FROM Singer WHERE Country = 'Chile'")
    assert corrected(environments, "music_nobody", empty) is None
