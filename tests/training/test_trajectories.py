"""What the warm-up teaches: spelling, shapes and repairs, played through the real environment."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from sql_env import SQLAction, SQLEnvironment
from sql_env.core.database import Database
from sql_env.questions import load_questions
from sql_env.training.canonical_sql import canonical_sql, comparisons, tables_in_order
from sql_env.training.recovery import recover
from sql_env.training.trajectories import Trajectories, TrajectoryMix


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
    assert sql == "SELECT Name FROM Singer WHERE Country = 'France'"


def test_piled_up_join_conditions_are_dealt_out(database: Database) -> None:
    sql = canonical_sql(
        "SELECT t3.theme FROM singer AS t1 JOIN performance AS t2 JOIN concert AS t3 "
        "ON t1.singer_id = t2.singer_id AND t2.concert_id = t3.concert_id",
        database,
    )
    assert sql == (
        "SELECT T3.Theme FROM Singer AS T1 JOIN Performance AS T2 ON T1.Singer_ID = T2.Singer_ID "
        "JOIN Concert AS T3 ON T2.Concert_ID = T3.Concert_ID"
    )


def test_a_query_that_cannot_be_parsed_is_only_folded(database: Database) -> None:
    assert canonical_sql("SELEC  1  FRM x ;", database) == "SELEC 1 FRM x"


def test_tables_come_in_the_order_the_query_names_them(database: Database) -> None:
    sql = "SELECT 1 FROM concert JOIN singer WHERE EXISTS (SELECT 1 FROM performance)"
    assert tables_in_order(sql, database) == ["Concert", "Singer", "Performance"]


def test_columns_compared_with_a_text_are_found(database: Database) -> None:
    sql = "SELECT 1 FROM Singer WHERE Age > 3 AND country = 'France'"
    assert [item[:2] for item in comparisons(sql, database)] == [("Singer", "Country")]


def plain(share: float = 0.0) -> TrajectoryMix:
    return TrajectoryMix(detour=share, sample=share, slip=share, typed_answer=share)


def test_a_plain_trajectory_describes_queries_and_answers(
    environments: Callable[[bool], SQLEnvironment],
) -> None:
    source = Trajectories(environments, plain())
    record = next(r for r in environments(True).questions if r.question_id == "music_join")
    (trajectory,) = source.play([record])
    actions = [turn.action for turn in trajectory.turns]
    assert actions[:3] == ["DESCRIBE: Singer", "DESCRIBE: Performance", "DESCRIBE: Concert"]
    assert actions[3].startswith("QUERY: SELECT T3.Theme FROM Singer AS T1")
    assert actions[4] == "ANSWER: @last"
    assert all(turn.imitated for turn in trajectory.turns)


def test_a_slip_is_shown_but_never_imitated(environments: Callable[[bool], SQLEnvironment]) -> None:
    source = Trajectories(environments, TrajectoryMix(detour=0, sample=0, slip=1, typed_answer=0))
    slipped = [
        turn
        for trajectory in source.play(environments(True).questions, copies=8)
        for turn in trajectory.turns
        if not turn.imitated
    ]
    assert slipped
    assert all(turn.action.startswith("QUERY: ") for turn in slipped)


def test_typed_answers_are_typed(environments: Callable[[bool], SQLEnvironment]) -> None:
    source = Trajectories(environments, TrajectoryMix(0, 0, 0, typed_answer=1))
    for trajectory in source.play(environments(True).questions):
        assert "@last is not allowed" in trajectory.turns[0].observation
        assert trajectory.turns[-1].action != "ANSWER: @last"


def test_the_same_seed_gives_the_same_trajectories(
    environments: Callable[[bool], SQLEnvironment],
) -> None:
    questions = environments(True).questions

    def play(seed: int) -> list[object]:
        return list(Trajectories(environments, plain(0.5), seed).play(questions, copies=5))

    assert play(1) == play(1)
    assert play(1) != play(2)


def recovered(
    environments: Callable[[bool], SQLEnvironment], question: str, *actions: tuple[str, str]
) -> list[tuple[str, bool]] | None:
    environment = environments(True)
    record = next(r for r in environment.questions if r.question_id == question)
    played = [SQLAction(action_type=kind, argument=argument) for kind, argument in actions]
    trajectory = recover(environment, record, played, random.Random(1))
    return trajectory and [(turn.action, turn.imitated) for turn in trajectory.turns]


def test_after_an_unknown_column_the_missing_tables_are_described(
    environments: Callable[[bool], SQLEnvironment],
) -> None:
    turns = recovered(
        environments, "music_join", ("DESCRIBE", "Singer"), ("QUERY", "SELECT Theme FROM Singer")
    )
    assert turns is not None
    assert [action for action, imitated in turns if not imitated] == [
        "DESCRIBE: Singer",
        "QUERY: SELECT Theme FROM Singer",
    ]
    assert [action for action, _ in turns[2:4]] == ["DESCRIBE: Performance", "DESCRIBE: Concert"]
    assert turns[-1] == ("ANSWER: @last", True)


def test_after_an_empty_result_the_values_are_looked_at(
    environments: Callable[[bool], SQLEnvironment],
) -> None:
    turns = recovered(
        environments, "music_french", ("QUERY", "SELECT Name FROM Singer WHERE Country = 'FRANCE'")
    )
    assert turns is not None
    assert turns[1] == ("QUERY: SELECT DISTINCT Country FROM Singer LIMIT 20", True)
    assert turns[2][0] == "QUERY: SELECT Name FROM Singer WHERE Country = 'France'"


def test_nothing_is_mended_where_no_query_failed(
    environments: Callable[[bool], SQLEnvironment],
) -> None:
    fine = ("QUERY", "SELECT Name FROM Singer")
    assert recovered(environments, "music_french", fine, ("ANSWER", "@last")) is None


def test_an_empty_result_is_right_where_the_answer_is_empty(
    environments: Callable[[bool], SQLEnvironment],
) -> None:
    empty = ("QUERY", "SELECT Name FROM Singer WHERE Country = 'Chile'")
    assert recovered(environments, "music_nobody", empty) is None
