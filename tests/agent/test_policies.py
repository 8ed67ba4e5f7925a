"""Policies that need no model."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql_env.agent.policies import (
    ConstantPolicy,
    HumanPolicy,
    OraclePolicy,
    RandomPolicy,
    answer_from_result,
    parse_command,
)
from sql_env.core.query_result import QueryResult
from sql_env.core.verifier import Gold, verify_text
from sql_env.environment import SQLEnvironment
from sql_env.evaluation.green_agent import evaluate
from sql_env.models import SQLAction, SQLObservation
from sql_env.questions import Dataset


def play(env: SQLEnvironment, policy: object, question_id: str) -> SQLObservation:
    observation = env.reset(question_id=question_id)
    while not observation.done:
        observation = env.step(policy.select_action(observation))  # type: ignore[attr-defined]
    return observation


class TestOracle:
    def test_answers_every_question(self, music: SQLEnvironment) -> None:
        assert evaluate(music, OraclePolicy(music.questions)).success_rate == 1.0

    def test_describes_what_the_gold_needs_then_queries_then_types_what_it_saw(
        self, music: SQLEnvironment
    ) -> None:
        seen = play(music, OraclePolicy(music.questions), "music_french")
        assert seen.action_history[0] == "DESCRIBE: Singer"
        assert seen.action_history[1].startswith("QUERY: SELECT name")
        assert seen.action_history[2] == "ANSWER: Ann\nBob"

    def test_says_empty_for_an_empty_result(self, music: SQLEnvironment) -> None:
        seen = play(music, OraclePolicy(music.questions), "music_nobody")
        assert seen.action_history[-1] == "ANSWER: []"
        assert seen.metadata["correct"]

    @pytest.mark.parametrize("budget", [2, 3, 4])
    def test_leaves_descriptions_out_when_the_budget_is_small(
        self, music: SQLEnvironment, budget: int
    ) -> None:
        env = SQLEnvironment(db_dir=music.db_dir, questions=music.questions, step_budget=budget)
        assert evaluate(env, OraclePolicy(music.questions)).success_rate == 1.0

    def test_answers_every_embedded_question(self) -> None:
        dataset = Dataset.embedded()
        with SQLEnvironment(db_dir=dataset.db_dir, questions=dataset.load()) as env:
            result = evaluate(env, OraclePolicy(env.questions))
        assert [e.question_id for e in result.episodes if not e.correct] == []

    def test_answers_from_the_observation_and_not_from_the_record(
        self, music: SQLEnvironment
    ) -> None:
        lying = [q.model_copy(update={"gold_answer": "nonsense"}) for q in music.questions]
        assert evaluate(music, OraclePolicy(lying)).success_rate == 1.0


class TestAnswerFromResult:
    def test_types_out_what_is_shown_in_full(self) -> None:
        result = QueryResult(("name", "age"), (("Ann", 30), ("Bob", 41)))
        assert answer_from_result(result) == "Ann | 30\nBob | 41"

    def test_no_rows_are_an_empty_list(self) -> None:
        assert answer_from_result(QueryResult(("name",))) == "[]"

    MANY = QueryResult(("n",), tuple((number,) for number in range(21)))

    def test_refers_to_the_result_when_rows_are_left_out(self) -> None:
        assert answer_from_result(self.MANY) == "@last"

    def test_refers_to_the_result_when_a_cell_is_cut(self) -> None:
        assert answer_from_result(QueryResult(("t",), (("x" * 500,),))) == "@last"

    def test_types_what_it_can_where_references_are_off(self) -> None:
        answer = answer_from_result(self.MANY, allow_last=False)
        assert answer.split("\n") == [str(number) for number in range(20)]

    cells = st.one_of(
        st.none(),
        st.integers(-(10**9), 10**9),
        st.floats(-1e6, 1e6, allow_nan=False),
        st.text(max_size=30),
    )

    @given(st.lists(st.tuples(cells, cells), min_size=1, max_size=20))
    def test_what_it_types_is_accepted(self, rows: list[tuple[object, object]]) -> None:
        gold = Gold(("a", "b"), tuple(rows))  # type: ignore[arg-type]
        answer = answer_from_result(QueryResult(("a", "b"), tuple(rows)))  # type: ignore[arg-type]
        assert verify_text(answer, gold).correct


class TestRandom:
    def test_the_same_seed_plays_the_same(self, music: SQLEnvironment) -> None:
        plays = []
        for _ in range(2):
            policy = RandomPolicy()
            policy.begin_episode("7")
            plays.append(play(music, policy, "music_join").action_history)
        assert plays[0] == plays[1]

    def test_another_seed_plays_otherwise(self, music: SQLEnvironment) -> None:
        policy, plays = RandomPolicy(), set()
        for seed in "12345678":
            policy.begin_episode(seed)
            plays.add(tuple(play(music, policy, "music_join").action_history))
        assert len(plays) > 4

    def test_uses_every_action_and_always_answers_in_time(self, music: SQLEnvironment) -> None:
        result = evaluate(music, RandomPolicy(), samples=60)
        assert set(result.summary.actions) == {"DESCRIBE", "SAMPLE", "QUERY", "ANSWER"}
        assert all(episode.steps[-1].action_type == "ANSWER" for episode in result.episodes)

    def test_all_its_queries_run(self, music: SQLEnvironment) -> None:
        result = evaluate(music, RandomPolicy(), samples=60)
        assert result.summary.error_kinds == {}
        assert result.summary.actions["QUERY"] > 50

    def test_it_asks_for_columns_there_are(self, music: SQLEnvironment) -> None:
        """A quoted name that is none would be read as a text, without an error."""
        result = evaluate(music, RandomPolicy(), samples=60)
        queries = [s.argument for e in result.episodes for s in e.steps if s.action_type == "QUERY"]
        named = {name for query in queries for name in re.findall(r'"([^"]+)"', query)}
        tables = {"Singer", "Concert", "Performance"}
        columns = {"Singer_ID", "Name", "Country", "Age", "Concert_ID", "Theme", "Year"}
        assert named <= tables | columns
        assert len(named & columns) > 3

    def test_types_its_answers_where_references_are_off(self, music: SQLEnvironment) -> None:
        env = SQLEnvironment(db_dir=music.db_dir, questions=music.questions, allow_last=False)
        episodes = evaluate(env, RandomPolicy(), samples=30).episodes
        assert not any(step.argument == "@last" for e in episodes for step in e.steps)


def test_a_constant_answers_every_question_alike(music: SQLEnvironment) -> None:
    assert play(music, ConstantPolicy("4"), "music_count").metadata["correct"]
    assert not play(music, ConstantPolicy("0"), "music_count").metadata["correct"]
    assert play(music, ConstantPolicy("[]"), "music_nobody").metadata["correct"]


def test_a_person_plays_by_typing_lines(music: SQLEnvironment) -> None:
    lines = iter(["select count(*) from singer", "answer 4"])
    seen = play(music, HumanPolicy(lambda observation: next(lines)), "music_count")
    assert seen.metadata["correct"]


@pytest.mark.parametrize(
    ("line", "kind", "argument"),
    [
        ("describe singer", "DESCRIBE", "singer"),
        ("  DESCRIBE:  singer ", "DESCRIBE", "singer"),
        ("query: SELECT 'a:b'", "QUERY", "SELECT 'a:b'"),
        ("SELECT name FROM t", "QUERY", "SELECT name FROM t"),
        ("with x as (select 1) select * from x", "QUERY", "with x as (select 1) select * from x"),
        ("answer a: b", "ANSWER", "a: b"),
        ("answer", "ANSWER", ""),
        ("", "", ""),
        ("dance now", "DANCE", "now"),
    ],
)
def test_a_typed_line_is_an_action(line: str, kind: str, argument: str) -> None:
    assert parse_command(line) == SQLAction(action_type=kind, argument=argument)
