"""The environment as an agent and as a programmer meet it."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sql_env import SQLAction, SQLEnvironment, SQLObservation
from sql_env.agent.prompts import format_observation
from sql_env.core.database import Limits
from sql_env.core.render import RESULT_CHARACTERS
from sql_env.core.reward import RewardConfig
from sql_env.environment import EpisodeError


@pytest.fixture
def env(music_dir: Path) -> Iterator[SQLEnvironment]:
    with SQLEnvironment(music_dir / "questions", music_dir / "databases", step_budget=6) as env:
        yield env


def act(env: SQLEnvironment, kind: str, argument: str = "") -> SQLObservation:
    return env.step(SQLAction(action_type=kind, argument=argument))


def test_a_reset_shows_the_question_and_the_table_names_only(env: SQLEnvironment) -> None:
    seen = env.reset(question_id="music_count")
    assert seen.question == "How many singers are there?"
    assert seen.table_names == ["Singer", "Concert", "Performance"]
    assert (seen.schema_info, seen.result, seen.error, seen.reward) == ("", "", "", None)
    assert seen.budget_remaining == 6


def test_a_correct_answer_ends_the_episode_with_its_reward(env: SQLEnvironment) -> None:
    env.reset(question_id="music_french")
    described = act(env, "DESCRIBE", "singer")
    assert "Country text" in described.result
    assert described.schema_info == described.result
    assert "Ann" in act(env, "SAMPLE", "Singer").result
    found = act(env, "QUERY", "SELECT Name FROM Singer WHERE Country = 'France'")
    assert found.result.splitlines() == ["Name", "Ann", "Bob"]
    end = act(env, "ANSWER", "@last")
    assert end.done and end.metadata["correct"] and end.metadata["stop_reason"] == "correct"
    assert end.metadata["reward_parts"]["terminal"] == 1.0
    assert end.action_history[0] == "DESCRIBE: singer"


@pytest.mark.parametrize("answer", ["Ann, Bob", "bob\nann", '["Ann", "Bob"]', "Ann | Bob"])
def test_answers_are_accepted_in_the_forms_people_write(env: SQLEnvironment, answer: str) -> None:
    env.reset(question_id="music_french")
    assert act(env, "ANSWER", answer).metadata["correct"]


def test_a_wrong_answer_ends_the_episode_without_its_reward(env: SQLEnvironment) -> None:
    env.reset(question_id="music_count")
    end = act(env, "ANSWER", "5")
    assert end.done and end.metadata["stop_reason"] == "wrong_answer"
    assert end.metadata["reward_parts"]["terminal"] == 0.0


def test_an_empty_result_needs_an_explicit_empty_answer(env: SQLEnvironment) -> None:
    env.reset(question_id="music_nobody")
    assert not act(env, "ANSWER", "0").metadata["correct"]
    env.reset(question_id="music_nobody")
    assert act(env, "ANSWER", "[]").metadata["correct"]


@pytest.mark.parametrize(
    ("kind", "argument", "told"),
    [
        ("DESCRIBE", "singers", "Did you mean Singer?"),
        ("SAMPLE", "nothing", "Tables: Singer, Concert, Performance"),
        ("DESCRIBE", "", "needs an argument"),
        ("QUERY", "  ", "one SELECT"),
        ("QUERY", "SELEC 1", "syntax error"),
        ("QUERY", "SELECT Nme FROM Singer", "no such column"),
        ("QUERY", "DELETE FROM Singer", ""),
        ("QUERY", "SELECT 1; SELECT 2", ""),
        (
            "QUERY",
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT * FROM n",
            "",
        ),
        ("LOOK", "Singer", "DESCRIBE, SAMPLE, QUERY, ANSWER"),
        ("ANSWER", "@last", "successful QUERY"),
        ("ANSWER", "", "needs an argument"),
    ],
)
def test_a_mistake_is_an_observation_that_costs_a_step(
    env: SQLEnvironment, kind: str, argument: str, told: str
) -> None:
    env.limits = Limits(seconds=0.2)
    env.reset(question_id="music_count")
    seen = act(env, kind, argument)
    assert seen.error and told in seen.error
    assert not seen.done and seen.result == ""
    assert seen.step_count == 1 and seen.budget_remaining == 5
    assert act(env, "QUERY", "SELECT 1").error == ""


def test_a_gold_query_may_take_longer_than_an_agents(music_dir: Path) -> None:
    slow = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 12000000) "
        "SELECT count(*) FROM n"
    )
    music = SQLEnvironment(music_dir / "questions", music_dir / "databases")
    patient = next(r for r in music.questions if r.question_id == "music_count").model_copy(
        update={"gold_sql": slow}
    )
    dataset = {"db_dir": music_dir / "databases", "questions": [patient]}
    with SQLEnvironment(**dataset, limits=Limits(seconds=0.25)) as env:
        env.reset()
        assert "longer than 0.25 seconds" in act(env, "QUERY", slow).error


def test_the_budget_ends_the_episode(env: SQLEnvironment) -> None:
    env.reset(question_id="music_count")
    for _ in range(6):
        seen = act(env, "DESCRIBE", "Singer")
    assert seen.done and seen.metadata["stop_reason"] == "out_of_budget"


def test_a_hint_about_a_column_uses_only_what_was_described(env: SQLEnvironment) -> None:
    env.reset(question_id="music_count")
    assert "Theme" not in act(env, "QUERY", "SELECT Them FROM Singer").error
    act(env, "DESCRIBE", "Concert")
    told = act(env, "QUERY", "SELECT Them FROM Singer").error
    assert told.endswith("Did you mean Concert.Theme? DESCRIBE Singer shows its columns")


def test_without_last_an_answer_must_be_typed(music_dir: Path) -> None:
    dataset = (music_dir / "questions", music_dir / "databases")
    with SQLEnvironment(*dataset, allow_last=False) as env:
        env.reset(question_id="music_count")
        act(env, "QUERY", "SELECT count(*) FROM Singer")
        assert "type the answer" in act(env, "ANSWER", "@last").error
        assert act(env, "ANSWER", "4").metadata["correct"]


def test_step_without_an_episode_is_a_programming_error(env: SQLEnvironment) -> None:
    with pytest.raises(EpisodeError, match=r"reset\(\) before step\(\)"):
        act(env, "QUERY", "SELECT 1")
    env.reset(question_id="music_count")
    act(env, "ANSWER", "4")
    with pytest.raises(EpisodeError, match="over"):
        act(env, "QUERY", "SELECT 1")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"question_id": "none"}, "none"),
        ({"split": "test"}, "eval"),
        ({"split": "train", "index": 99}, r"0\.\.2"),
    ],
)
def test_a_question_that_is_not_there_is_refused(
    env: SQLEnvironment, asked: dict, told: str
) -> None:
    with pytest.raises(KeyError, match=told):
        env.reset(**asked)


def test_split_and_index_name_one_question(env: SQLEnvironment) -> None:
    assert env.reset(split="eval", index=0).metadata["question_id"] == "music_nobody"
    assert env.reset(split="train", index=1).metadata["question_id"] == "music_french"


def test_the_same_seed_gives_the_same_episode_byte_for_byte(music_dir: Path) -> None:
    def play(seed: int) -> str:
        dataset = (music_dir / "questions", music_dir / "databases")
        with SQLEnvironment(*dataset) as env:
            seen = [env.reset(seed=seed)]
            for kind, argument in [("DESCRIBE", "Singer"), ("QUERY", "SELECT 1"), ("ANSWER", "4")]:
                seen.append(act(env, kind, argument))
            return "".join(item.model_dump_json() for item in seen)

    assert play(3) == play(3)
    assert len({play(seed) for seed in range(12)}) > 1


def test_state_follows_the_episode_and_holds_no_gold(env: SQLEnvironment) -> None:
    env.reset(question_id="music_french")
    act(env, "DESCRIBE", "Singer")
    state = env.state
    assert (state.step_count, state.described_tables, state.done) == (1, ["Singer"], False)
    assert "SELECT" not in state.model_dump_json() and "Ann" not in state.model_dump_json()


def test_an_environment_can_be_used_again_after_close(env: SQLEnvironment) -> None:
    env.reset(question_id="music_count")
    env.close()
    assert env.state.done
    assert env.reset(question_id="music_count").question


def test_a_replaced_database_is_judged_by_its_own_gold(music_dir: Path, tmp_path: Path) -> None:
    """Also where the new file has the same size and time of change."""
    shutil.copytree(music_dir / "databases", tmp_path / "databases")
    (path,) = tmp_path.glob("databases/*/*.sqlite")
    with SQLEnvironment(music_dir / "questions", tmp_path / "databases") as env:
        env.reset(question_id="music_count")
        before = act(env, "QUERY", "SELECT count(*) FROM Singer").result.splitlines()[-1]
        assert act(env, "ANSWER", before).metadata["correct"]
        other = tmp_path / "other.sqlite"
        shutil.copy(path, other)
        with closing(sqlite3.connect(other)) as connection:
            connection.execute("DELETE FROM Singer WHERE rowid = (SELECT max(rowid) FROM Singer)")
            connection.commit()
        os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
        assert other.stat().st_size == path.stat().st_size
        other.replace(path)
        env.reset(question_id="music_count")
        after = act(env, "QUERY", "SELECT count(*) FROM Singer").result.splitlines()[-1]
        assert after != before
        assert act(env, "ANSWER", after).metadata["correct"]


def test_no_observation_is_longer_than_anyone_reads(env: SQLEnvironment) -> None:
    env.reset(question_id="music_count")
    wide = ", ".join(["replace(hex(Name), '4', 'abcdefghijklmnopqrstuvwxyz')"] * 60)
    counting = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 50)"
    seen = act(env, "QUERY", f"{counting} SELECT {wide} FROM Singer, n")
    assert len(seen.result) <= RESULT_CHARACTERS + 200
    assert "(200 rows, the first 3 shown: select fewer columns)" in seen.result
    refused = act(env, "QUERY", f"SELECT '{'x' * 250_000}'")
    assert "longer than 10,000 bytes" in refused.error
    assert len(act(env, "QUERY", f"SELECT {'x' * 9_000}").error) < 3_000
    last = act(env, "x" * 250_000)
    assert len(last.error) < 3_000
    assert "(cut: 250,0" in last.action_history[1]
    assert sum(map(len, last.action_history)) < 10_000


def test_every_observation_is_one_that_validation_would_let_pass(music_dir: Path) -> None:
    whole = RewardConfig(exec_ok=0, new_information=0, step=0, repeat=0, progress=0, correct=1)
    folders = music_dir / "questions", music_dir / "databases"
    with SQLEnvironment(*folders, reward=whole) as env:
        seen = [
            env.reset(question_id="music_french"),
            act(env, "DESCRIBE", "singer"),
            act(env, "SAMPLE", "concert"),
            act(env, "QUERY", "SELECT Name FROM Singer WHERE Country = 'France'"),
            act(env, "QUERY", "SELECT nope FROM Singer"),
            act(env, "DANCE"),
            act(env, "ANSWER", "@last"),
        ]
    assert seen[-1].done
    for observation in seen:
        fields = observation.__dict__
        validated = SQLObservation.model_validate(fields, strict=True)
        assert list(fields) == list(SQLObservation.model_fields)
        assert {name: type(value) for name, value in fields.items()} == {
            name: type(value) for name, value in validated.__dict__.items()
        }
        assert observation.model_dump_json() == validated.model_dump_json()
        assert observation.model_fields_set == validated.model_fields_set
        assert observation == observation.model_copy(deep=True)


def test_what_is_done_to_an_observation_changes_no_other(env: SQLEnvironment) -> None:
    first = env.reset(question_id="music_french")
    for seen in (first, act(env, "DESCRIBE", "singer")):
        seen.table_names.clear()
        seen.action_history.append("DANCE")
        seen.metadata.clear()
    after = act(env, "QUERY", "SELECT 1")
    assert after.table_names == ["Singer", "Concert", "Performance"]
    assert after.action_history == ["DESCRIBE: singer", "QUERY: SELECT 1"]
    assert after.metadata["question_id"] == "music_french"
    assert first.step_count == 0 and first.action_history == ["DANCE"]


def test_a_budget_below_one_is_refused(music_dir: Path) -> None:
    with pytest.raises(ValueError, match="step_budget is 0"):
        SQLEnvironment(music_dir / "questions", music_dir / "databases", step_budget=0)


EXPLORE = [("DESCRIBE", "Singer"), ("SAMPLE", "Concert"), ("QUERY", "SELECT Name FROM Singer")]


def test_a_reset_can_play_the_first_actions(env: SQLEnvironment) -> None:
    env.reset(question_id="music_french")
    for kind, argument in EXPLORE:
        stepped = act(env, kind, argument)
    actions = [SQLAction(action_type=kind, argument=argument) for kind, argument in EXPLORE]
    assert env.reset(question_id="music_french", actions=actions) == stepped
    assert env.state.step_count == 3 and env.state.described_tables == ["Singer"]


def test_a_reset_with_more_actions_than_the_episode_has_is_refused(env: SQLEnvironment) -> None:
    actions = [SQLAction(action_type="ANSWER", argument="4")] * 2
    with pytest.raises(EpisodeError, match="over"):
        env.reset(question_id="music_count", actions=actions)


def test_rewards_at_the_end_sum_up_to_the_dense_ones(music_dir: Path) -> None:
    dataset = (music_dir / "questions", music_dir / "databases")
    seen: dict[str, list[SQLObservation]] = {}
    for rewards in ("dense", "end"):
        with SQLEnvironment(*dataset, rewards=rewards) as env:  # type: ignore[arg-type]
            env.reset(question_id="music_french")
            plays = [*EXPLORE, ("QUERY", "SELECT Nme FROM Singer"), ("ANSWER", "Ann, Bob")]
            seen[rewards] = [act(env, *play) for play in plays]
    assert [o.reward for o in seen["end"][:-1]] == [0.0] * 4
    assert seen["end"][-1].reward == pytest.approx(sum(o.reward or 0 for o in seen["dense"]))
    for dense, end in zip(seen["dense"], seen["end"], strict=True):
        assert format_observation(dense) == format_observation(end)


def test_an_unknown_way_to_pay_is_refused(music_dir: Path) -> None:
    dataset = (music_dir / "questions", music_dir / "databases")
    with pytest.raises(ValueError, match="'sparse': choose one of dense, end"):
        SQLEnvironment(*dataset, rewards="sparse")  # type: ignore[arg-type]


def test_a_fork_does_not_change_the_original(env: SQLEnvironment) -> None:
    env.reset(question_id="music_count")
    act(env, "DESCRIBE", "Singer")
    fork = env.fork()
    assert act(fork, "ANSWER", "4").metadata["correct"]
    assert env.state.step_count == 1 and not env.state.done
    fork.reset(question_id="music_join")
    assert env.state.question_id == "music_count"
    fork.close()
    assert act(env, "QUERY", "SELECT count(*) FROM Singer").result.endswith("4")


def test_an_environment_without_an_episode_can_be_forked(env: SQLEnvironment) -> None:
    assert env.fork().reset(question_id="music_count").question


def test_a_fork_of_an_episode_that_is_over_is_over(env: SQLEnvironment) -> None:
    env.reset(question_id="music_count")
    act(env, "ANSWER", "5")
    with pytest.raises(EpisodeError, match="over"):
        act(env.fork(), "QUERY", "SELECT 1")


PLAYS = [
    *EXPLORE,
    ("DESCRIBE", "nothing"),
    ("SAMPLE", "Singer"),
    ("QUERY", "SELECT count(*) FROM Singer"),
    ("QUERY", "SELECT Nme FROM Singer"),
    ("ANSWER", "[1"),
    ("ANSWER", "@last"),
]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=st.lists(st.sampled_from(PLAYS), max_size=4),
    first=st.lists(st.sampled_from(PLAYS), max_size=4),
    second=st.lists(st.sampled_from(PLAYS), max_size=4),
)
def test_a_fork_plays_on_as_a_replay_would(
    env: SQLEnvironment,
    before: list[tuple[str, str]],
    first: list[tuple[str, str]],
    second: list[tuple[str, str]],
) -> None:
    def play(env: SQLEnvironment, plays: list[tuple[str, str]]) -> list[SQLObservation]:
        seen = []
        for kind, argument in plays:
            if env.state.done:
                break
            seen.append(act(env, kind, argument))
        return seen

    def replay(plays: list[tuple[str, str]]) -> list[SQLObservation]:
        alone = env.another()
        alone.reset(question_id="music_count")
        return play(alone, plays)

    env.reset(question_id="music_count")
    begun = play(env, before)
    fork = env.fork()
    of_fork, of_original = [], []
    for step in range(4):  # they take turns
        of_fork += play(fork, first[step : step + 1])
        of_original += play(env, second[step : step + 1])
    assert begun + of_fork == replay([*before, *first])
    assert begun + of_original == replay([*before, *second])
