"""evaluate(): independent episodes, whatever happens to some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sql_env.agent.episodes import EpisodeResult
from sql_env.agent.policies import ConstantPolicy, OraclePolicy, RandomPolicy
from sql_env.environment import SQLEnvironment
from sql_env.evaluation.green_agent import evaluate, plan_episodes
from sql_env.models import SQLAction, SQLObservation


def untimed(episodes: Sequence[EpisodeResult]) -> list[EpisodeResult]:
    return [replace(e, environment_seconds=0.0, policy_seconds=0.0) for e in episodes]


class Stumbling:
    """Plays like the oracle, and raises on some questions."""

    def __init__(self, env: SQLEnvironment, bad: str, error: BaseException) -> None:
        self._oracle = OraclePolicy(env.questions)
        self._bad, self._error = bad, error

    def select_action(self, observation: SQLObservation) -> SQLAction:
        if observation.metadata["question_id"] == self._bad and observation.step_count == 1:
            raise self._error
        return self._oracle.select_action(observation)


class TestPlan:
    def test_all_questions_in_their_order(self, music: SQLEnvironment) -> None:
        plan = plan_episodes(music.questions, None, seed=1)
        assert [item.record for item in plan] == music.questions

    def test_fewer_are_drawn_with_the_seed_and_stay_in_order(self, music: SQLEnvironment) -> None:
        drawn = [plan_episodes(music.questions, 2, seed=seed) for seed in range(20)]
        assert drawn[3] == plan_episodes(music.questions, 2, seed=3)
        assert len({tuple(item.key for item in plan) for plan in drawn}) > 3
        for plan in drawn:
            places = [music.questions.index(item.record) for item in plan]
            assert places == sorted(set(places))

    def test_more_than_there_are_become_further_samples(self, music: SQLEnvironment) -> None:
        plan = plan_episodes(music.questions, 10, seed=0, samples=2)
        assert len(plan) == 20
        assert len({item.key for item in plan}) == 20

    def test_an_empty_plan_is_refused(self, music: SQLEnvironment) -> None:
        with pytest.raises(ValueError, match="no questions"):
            plan_episodes([], None, seed=0)
        with pytest.raises(ValueError, match="nothing to play"):
            plan_episodes(music.questions, 0, seed=0)


class TestResult:
    def test_the_numbers_are_means_over_the_episodes(self, music: SQLEnvironment) -> None:
        result = evaluate(music, OraclePolicy(music.questions), seed=0)
        assert (result.n_episodes, result.n_completed, result.success_rate) == (4, 4, 1.0)
        assert result.avg_steps == (3 + 3 + 5 + 3) / 4
        assert result.avg_reward == pytest.approx(
            sum(episode.reward for episode in result.episodes) / 4
        )
        assert result.avg_reward > 1

    def test_an_episode_records_everything_about_its_question(self, music: SQLEnvironment) -> None:
        (episode,) = (
            e
            for e in evaluate(music, OraclePolicy(music.questions)).episodes
            if e.question_id == "music_count"
        )
        assert (episode.database, episode.difficulty, episode.answer_type) == (
            "music",
            "easy",
            "integer",
        )
        assert [step.action_type for step in episode.steps] == ["DESCRIBE", "QUERY", "ANSWER"]
        assert episode.steps[1].result == "count(*)\n4"
        assert episode.steps[1].progress > 0
        assert episode.steps[2].terminal == 1.0
        assert (episode.stop_reason, episode.error) == ("correct", "")
        assert episode.verdict
        assert episode.environment_seconds > 0
        assert episode.policy_seconds > 0

    def test_rewards_are_those_of_the_environment(self, music: SQLEnvironment) -> None:
        (episode,) = evaluate(music, ConstantPolicy("4"), 1, seed=0).episodes
        music.reset(question_id=episode.question_id)
        seen = music.step(SQLAction(action_type="ANSWER", argument="4"))
        assert episode.reward == pytest.approx(seen.reward)

    def test_progress_is_told_after_every_episode(self, music: SQLEnvironment) -> None:
        counted: list[tuple[int, int]] = []
        kept: list[EpisodeResult] = []
        result = evaluate(
            music,
            ConstantPolicy(),
            progress_callback=lambda done, total: counted.append((done, total)),
            on_episode=kept.append,
        )
        assert counted == [(1, 4), (2, 4), (3, 4), (4, 4)]
        assert tuple(kept) == result.episodes


class TestSeeds:
    def test_same_seed_same_episodes(self, music: SQLEnvironment) -> None:
        first, again, other = (
            untimed(evaluate(music, RandomPolicy(), seed=seed, samples=3).episodes)
            for seed in (5, 5, 6)
        )
        assert first == again
        assert [e.steps for e in first] != [e.steps for e in other]

    def test_samples_of_a_question_differ(self, music: SQLEnvironment) -> None:
        episodes = evaluate(music, RandomPolicy(), 1, seed=5, samples=8).episodes
        assert len({episode.question_id for episode in episodes}) == 1
        assert len({episode.steps for episode in map(_hashable, episodes)}) > 4

    def test_an_episode_does_not_depend_on_the_others(self, music: SQLEnvironment) -> None:
        whole = {e.key: e for e in untimed(evaluate(music, RandomPolicy(), seed=5).episodes)}
        for part in untimed(evaluate(music, RandomPolicy(), 2, seed=5).episodes):
            assert part == whole[part.key]

    @pytest.mark.parametrize("workers", [2, 3])
    def test_any_number_of_workers_gives_the_same(
        self, music: SQLEnvironment, workers: int
    ) -> None:
        alone, shared = (
            untimed(evaluate(music, RandomPolicy(), seed=2, samples=5, workers=n).episodes)
            for n in (1, workers)
        )
        assert alone == shared


def _hashable(episode: EpisodeResult) -> EpisodeResult:
    return replace(episode, steps=tuple(step[:8] for step in episode.steps))  # type: ignore[misc]


class TestFailures:
    @pytest.mark.parametrize("workers", [1, 2])
    def test_an_episode_that_raises_is_kept_and_the_rest_go_on(
        self, music: SQLEnvironment, workers: int
    ) -> None:
        policy = Stumbling(music, "music_join", RuntimeError("no idea"))
        result = evaluate(music, policy, workers=workers)
        (broken,) = (e for e in result.episodes if e.error)
        assert (broken.question_id, broken.error) == ("music_join", "RuntimeError: no idea")
        assert (broken.stop_reason, broken.correct) == ("error", False)
        assert len(broken.steps) == 1
        assert (result.n_episodes, result.n_completed, result.success_rate) == (4, 3, 0.75)

    def test_a_missing_database_costs_its_own_episodes(
        self, music: SQLEnvironment, tmp_path: Path
    ) -> None:
        lost = music.questions[0].model_copy(
            update={"question_id": "lost", "database_name": "gone"}
        )
        env = SQLEnvironment(db_dir=music.db_dir, questions=[lost, *music.questions])
        result = evaluate(env, OraclePolicy(env.questions))
        assert [e.question_id for e in result.episodes if e.error] == ["lost"]
        assert result.n_completed == 4

    def test_an_interrupt_keeps_what_is_done(self, music: SQLEnvironment) -> None:
        last = music.questions[-1].question_id
        result = evaluate(music, Stumbling(music, last, KeyboardInterrupt()))
        assert result.interrupted
        assert (len(result.episodes), result.n_episodes) == (3, 4)
        assert result.success_rate == 1.0

    def test_what_is_done_is_not_played_again(self, music: SQLEnvironment) -> None:
        last = music.questions[-1].question_id
        first = evaluate(music, Stumbling(music, last, KeyboardInterrupt()))
        played: list[str] = []
        result = evaluate(
            music,
            OraclePolicy(music.questions),
            done=first.episodes,
            on_episode=lambda episode: played.append(episode.question_id),
        )
        assert played == [last]
        assert result.episodes[:3] == first.episodes
        assert len(result.episodes) == 4

    def test_what_broke_off_is_played_again(self, music: SQLEnvironment) -> None:
        first = evaluate(music, Stumbling(music, "music_join", RuntimeError("no idea")))
        result = evaluate(music, OraclePolicy(music.questions), done=first.episodes)
        assert result.success_rate == 1.0


class Together:
    """The oracle as a batch policy, noting who was asked about."""

    def __init__(self, env: SQLEnvironment) -> None:
        self._oracle = OraclePolicy(env.questions)
        self.calls: list[list[int]] = []
        self.fails: dict[str, Exception] = {}
        self.breaks_in_call: int | None = None

    def act(self, new: Mapping[int, SQLObservation]) -> dict[int, SQLAction | Exception]:
        self.calls.append(list(new))
        if len(self.calls) == self.breaks_in_call:
            raise RuntimeError("the server went away")
        return {
            number: self.fails.get(seen.metadata["question_id"]) or self._oracle.select_action(seen)
            for number, seen in new.items()
        }

    def end(self, episode: int) -> None:
        pass

    def release(self) -> None:
        pass


class TestBatches:
    def test_plays_all_episodes_together_and_drops_those_that_end(
        self, music: SQLEnvironment
    ) -> None:
        policy = Together(music)
        assert evaluate(music, policy).success_rate == 1.0
        # Three questions need three steps, the join over three tables needs five.
        lengths = [len(call) for call in policy.calls]
        assert lengths == [4, 4, 4, 1, 1]

    def test_one_that_ends_makes_room_for_the_next(self, music: SQLEnvironment) -> None:
        policy = Together(music)
        result = evaluate(music, policy, batch_size=2)
        assert result.success_rate == 1.0
        assert max(map(len, policy.calls)) == 2
        assert sum(len(call) == 2 for call in policy.calls) >= 5

    def test_same_episodes_as_one_by_one(self, music: SQLEnvironment) -> None:
        alone = evaluate(music, OraclePolicy(music.questions), samples=2)
        together = evaluate(music, Together(music), samples=2, batch_size=3)
        assert untimed(alone.episodes) == untimed(together.episodes)

    def test_an_exception_in_an_actions_place_ends_that_episode_alone(
        self, music: SQLEnvironment
    ) -> None:
        policy = Together(music)
        policy.fails["music_french"] = TimeoutError("no answer")
        result = evaluate(music, policy)
        assert [e.error for e in result.episodes if e.error] == ["TimeoutError: no answer"]
        assert result.n_completed == 3

    def test_a_batch_that_breaks_is_kept_with_its_error(self, music: SQLEnvironment) -> None:
        policy = Together(music)
        policy.breaks_in_call = 2
        result = evaluate(music, policy, batch_size=2)
        assert [bool(e.error) for e in result.episodes].count(True) == 2
        assert result.n_completed == 2

    def test_rules_of_the_environment_hold_in_its_copies(self, music: SQLEnvironment) -> None:
        env = SQLEnvironment(
            db_dir=music.db_dir, questions=music.questions, step_budget=2, allow_last=False
        )
        result = evaluate(env, Together(env))
        assert max(len(episode.steps) for episode in result.episodes) == 2
