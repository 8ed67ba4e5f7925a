"""The one episode loop."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sql_env.agent.playing import PlannedEpisode, Played, plan_of, play
from sql_env.agent.policies import ConstantPolicy, OraclePolicy, RandomPolicy
from sql_env.environment import SQLEnvironment
from sql_env.models import SQLAction, SQLObservation

DESCRIBE = SQLAction(action_type="DESCRIBE", argument="Singer")


class Script:
    """Plays the same actions in every episode."""

    def __init__(self, *actions: tuple[str, str]) -> None:
        self._actions = [SQLAction(action_type=kind, argument=text) for kind, text in actions]

    def select_action(self, observation: SQLObservation) -> SQLAction:
        return self._actions[observation.step_count]


class Together:
    """The oracle for many episodes; odd ones answer only when asked a second time."""

    room: int | None = None

    def __init__(self, env: SQLEnvironment) -> None:
        self._oracle = OraclePolicy(env.questions)
        self._thinking: dict[int, SQLObservation] = {}
        self.asked: list[list[int]] = []
        self.ended: list[int] = []

    def act(self, new: Mapping[int, SQLObservation]) -> dict[int, SQLAction | Exception]:
        ready = dict(self._thinking)
        self._thinking = {n: seen for n, seen in new.items() if n % 2}
        ready |= {n: seen for n, seen in new.items() if n % 2 == 0}
        self.asked.append(sorted(ready))
        return {n: self._oracle.select_action(seen) for n, seen in ready.items()}

    def end(self, episode: int) -> None:
        self.ended.append(episode)

    def release(self) -> None:
        raise AssertionError("there was enough memory")


def played(env: SQLEnvironment, *actions: tuple[str, str], end_on_repeat: bool = False) -> Played:
    plan = [PlannedEpisode(env.questions[0])]
    (one,) = play(env, Script(*actions), plan, end_on_repeat=end_on_repeat)
    return one


def test_every_planned_episode_is_played_once(music: SQLEnvironment) -> None:
    results = list(play(music, OraclePolicy(music.questions), plan_of(music.questions)))
    assert [one.number for one in results] == [0, 1, 2, 3]
    assert all(one.episode.correct for one in results)
    assert {one.conversation for one in results} == {None}


def test_a_question_that_comes_again_is_another_sample(music: SQLEnvironment) -> None:
    first, second = music.questions[:2]
    plan = plan_of([first, second, first])
    assert [item.sample for item in plan] == [0, 0, 1]
    keys = [one.episode.key for one in play(music, ConstantPolicy(), plan)]
    assert keys == [(first.question_id, 0), (second.question_id, 0), (first.question_id, 1)]


def test_who_still_thinks_keeps_nobody_waiting(music: SQLEnvironment) -> None:
    policy = Together(music)
    results = {one.number: one.episode for one in play(music, policy, plan_of(music.questions))}
    alone = play(music, OraclePolicy(music.questions), plan_of(music.questions))
    for number, episode, *_ in alone:
        assert [s[:4] for s in results[number].steps] == [s[:4] for s in episode.steps]
    assert policy.asked[0] == [0, 2]
    assert policy.asked[1] == [0, 1, 2, 3]
    assert sorted(policy.ended) == [0, 1, 2, 3]


def test_no_more_play_side_by_side_than_allowed(music: SQLEnvironment) -> None:
    policy = Together(music)
    assert len(list(play(music, policy, plan_of(music.questions), together=2))) == 4
    assert max(map(len, policy.asked)) <= 2


def test_no_more_play_side_by_side_than_a_policy_has_room_for(music: SQLEnvironment) -> None:
    policy = Together(music)
    policy.room = 3
    assert len(list(play(music, policy, plan_of(music.questions)))) == 4
    assert max(map(len, policy.asked)) == 3


def test_random_play_depends_on_the_question_and_not_on_the_order(music: SQLEnvironment) -> None:
    def actions(plan: list[PlannedEpisode]) -> dict[str, list[str]]:
        return {
            one.episode.question_id: [step.argument for step in one.episode.steps]
            for one in play(music, RandomPolicy(), plan, seed=5)
        }

    plan = plan_of(music.questions)
    assert actions(plan) == actions(plan[::-1])


def test_an_episode_that_raises_ends_alone(music: SQLEnvironment) -> None:
    lost = music.questions[0].model_copy(
        update={"question_id": "lost", "database_name": "not_there"}
    )
    env = SQLEnvironment(db_dir=music.db_dir, questions=[lost, *music.questions])
    results = [
        one.episode for one in play(env, OraclePolicy(env.questions), plan_of(env.questions))
    ]
    assert [bool(episode.error) for episode in results] == [True, False, False, False, False]
    assert results[0].stop_reason == "error"


def test_a_policy_that_raises_costs_its_episode(music: SQLEnvironment) -> None:
    class Stumbles(OraclePolicy):
        def select_action(self, observation: SQLObservation) -> SQLAction:
            if "France" in observation.question:
                raise RuntimeError("lost my way")
            return super().select_action(observation)

    results = list(play(music, Stumbles(music.questions), plan_of(music.questions)))
    assert [type(one.cause) for one in results if one.cause] == [RuntimeError]
    errors = {one.episode.question_id: one.episode.error for one in results}
    assert errors.pop("music_french") == "RuntimeError: lost my way"
    assert set(errors.values()) == {""}


def test_an_episode_can_end_at_a_repetition(music: SQLEnvironment) -> None:
    twice = [("QUERY", "SELECT 1"), ("QUERY", " select\n 1"), ("ANSWER", "5")]
    assert played(music, *twice).episode.stop_reason == "wrong_answer"
    cut = played(music, *twice, end_on_repeat=True).episode
    assert (cut.stop_reason, len(cut.steps), cut.correct) == ("repeated", 2, False)


def test_a_step_says_how_many_rows_came_back(music: SQLEnvironment) -> None:
    episode = played(
        music,
        ("DESCRIBE", "Singer"),
        ("SAMPLE", "Concert"),
        ("QUERY", "SELECT name FROM singer WHERE 0"),
        ("QUERY", "SELECT nothing"),
        ("ANSWER", "4"),
    ).episode
    assert [step.rows for step in episode.steps] == [None, 3, 0, None, None]


def test_a_watcher_sees_the_beginning_and_every_step(music: SQLEnvironment) -> None:
    seen: list[tuple[int, str]] = []

    def watch(observation: SQLObservation, action: SQLAction | None) -> None:
        seen.append((observation.step_count, action.action_type if action else ""))

    plan = [PlannedEpisode(music.questions[0])]
    list(play(music, Script(("DESCRIBE", "Singer"), ("ANSWER", "4")), plan, watch=watch))
    assert seen == [(0, ""), (1, "DESCRIBE"), (2, "ANSWER")]


def test_closing_the_loop_gives_the_databases_back(music: SQLEnvironment) -> None:
    loop = play(music, OraclePolicy(music.questions), plan_of(music.questions))
    assert next(loop).episode.correct
    loop.close()  # type: ignore[attr-defined]  # it is a generator
    with pytest.raises(StopIteration):
        next(loop)
