"""Rates with their intervals, pass@k and what else is counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest
from handmade import make_step
from hypothesis import given
from hypothesis import strategies as st

from sql_env.agent.episodes import EpisodeResult
from sql_env.evaluation.metrics import (
    failure_kind,
    first_query_failed,
    pass_at_k,
    success_rate,
    summarize,
)
from sql_env.evaluation.statistics import wilson

Maker = Callable[..., EpisodeResult]


class TestSamples:
    def test_several_samples_count_as_one_question(self, make_episode: Maker) -> None:
        episodes = [
            make_episode(f"q{number}", correct=sample < 2, sample=sample)
            for number in range(10)
            for sample in range(4)
        ]
        rate = success_rate(episodes)
        assert (rate.rate, rate.n) == (0.5, 10)
        assert (rate.low, rate.high) == wilson(5, 10)[1:3]

    @given(
        st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=6),
        st.integers(1, 5),
    )
    def test_pass_at_k_is_the_share_of_draws_with_a_success(
        self, outcomes: list[list[bool]], k: int
    ) -> None:
        draws = [any(draw) for samples in outcomes for draw in combinations(samples, k)]
        episodes = [
            _bare(f"q{number}", correct, sample)
            for number, samples in enumerate(outcomes)
            for sample, correct in enumerate(samples)
        ]
        assert pass_at_k(episodes, k) == pytest.approx(sum(draws) / len(draws))


def _bare(question_id: str, correct: bool, sample: int) -> EpisodeResult:
    return EpisodeResult(
        question_id, "", "", "", "", "", 1, sample, 0, (), correct, "", "", "", 0.0, 0.0
    )


class TestRecovery:
    def failed(self, make_episode: Maker, *steps: object, **fields: object) -> bool:
        return first_query_failed(make_episode(steps=steps, **fields))

    def test_an_error_in_the_first_query(self, make_episode: Maker) -> None:
        broken = make_step("query", "SELEC", error="syntax error", error_kind="syntax")
        fine = make_step("QUERY", "SELECT 1", result="1\n1")
        assert self.failed(make_episode, make_step("DESCRIBE", "t"), broken, fine)
        assert not self.failed(make_episode, fine, broken)

    def test_no_rows_where_there_should_be_some(self, make_episode: Maker) -> None:
        empty = make_step("QUERY", "SELECT 1", result="name\n(no rows)", rows=0)
        assert self.failed(make_episode, empty, gold_answer=["Ann"])
        assert not self.failed(make_episode, empty, gold_answer=[])

    def test_an_episode_without_a_query_did_not_fail_its_first(self, make_episode: Maker) -> None:
        assert not self.failed(make_episode, make_step("ANSWER", "1"))

    def test_the_rate_is_of_episodes_whose_first_query_failed(self, make_episode: Maker) -> None:
        broken = make_step("QUERY", "SELEC", error="syntax error", error_kind="syntax")
        episodes = [
            make_episode("a", correct=True, steps=(broken, make_step("ANSWER", "1"))),
            make_episode("b", correct=False, steps=(broken, make_step("ANSWER", "1"))),
            make_episode("c", correct=True),
        ]
        recovery = summarize(episodes).recovery
        assert (recovery.rate, recovery.n) == (0.5, 2)


class TestReplacedTurns:
    def test_are_counted_with_what_they_cost(self, make_episode: Maker) -> None:
        noted = {"replaced": {"original": "QUERY: x", "reason": "repeated", "extra_tokens": 12}}
        replaced = make_step("QUERY", "SELECT 1", trace=noted)
        summary = summarize([make_episode("a", steps=(replaced, make_step("ANSWER", "1")))])
        assert (summary.replaced.rate, summary.replaced.n) == (0.5, 2)
        assert summary.extra_tokens == 12

    def test_what_was_drawn_in_vain_is_counted_too(self, make_episode: Maker) -> None:
        noted = {"kept": {"reason": "repeated", "extra_tokens": 20}}
        kept = make_step("QUERY", "SELECT 1", trace=noted)
        summary = summarize([make_episode("a", steps=(kept, make_step("ANSWER", "1")))])
        assert (summary.replaced.rate, summary.extra_tokens) == (0.0, 20)


class TestSummary:
    def test_steps_errors_and_tokens_are_counted(self, make_episode: Maker) -> None:
        steps = (
            make_step("SAMPLE", "t", operational=0.02, trace={"parsed": True}),
            make_step("QUERY", "x", error="bad", error_kind="syntax", operational=-0.01,
                      trace={"parsed": False, "completion_tokens": 7, "prompt_tokens": 90}),
            make_step("QUERY", "y", progress=0.1, trace={"parsed": True, "completion_tokens": 3}),
            make_step("ANSWER", "1", terminal=1.0, trace={"parsed": True}),
        )  # fmt: skip
        summary = summarize(
            [
                make_episode("a", correct=True, steps=steps, difficulty="hard"),
                make_episode("b", difficulty="easy", database="other"),
                make_episode("c", error="RuntimeError: x", stop_reason="error", steps=()),
            ],
            planned=5,
        )
        assert (summary.n_episodes, summary.n_played, summary.n_completed) == (5, 3, 2)
        assert summary.success.rate == pytest.approx(1 / 3)
        assert list(summary.by_difficulty) == ["easy", "hard"]
        assert summary.by_difficulty["hard"].rate == 1.0
        assert summary.by_database["music"].n == 2
        assert summary.by_answer_type["integer"].n == 3
        assert summary.avg_reward == pytest.approx(1.11 / 3)
        assert summary.avg_reward_parts == pytest.approx(
            {"operational": 0.01 / 3, "progress": 0.1 / 3, "terminal": 1 / 3}
        )
        assert summary.avg_steps == pytest.approx(5 / 3)
        assert summary.avg_queries == pytest.approx(2 / 3)
        assert summary.sample_share.rate == pytest.approx(1 / 3)
        assert summary.parse_rate == 0.75
        assert summary.stop_reasons == {"correct": 1, "wrong_answer": 1, "error": 1}
        assert summary.actions == {"QUERY": 2, "ANSWER": 2, "SAMPLE": 1}
        assert summary.error_kinds == {"syntax": 1}
        assert summary.episode_errors == {"RuntimeError: x": 1}
        assert summary.environment_share == pytest.approx(0.25)
        assert summary.tokens == {"completion_tokens": 10, "prompt_tokens": 90}

    def test_several_actions_of_a_turn_are_one_turn(self, make_episode: Maker) -> None:
        first = {"turn": 1, "prompt_tokens": 100, "completion_tokens": 20}
        second = {"turn": 2, "prompt_tokens": 150, "completion_tokens": 5}
        steps = tuple(
            make_step("DESCRIBE", trace=trace)
            for trace in (first, {"turn": 1}, second, {"turn": 2})
        )
        summary = summarize([make_episode("a", steps=steps)])
        assert (summary.avg_steps, summary.avg_turns, summary.avg_tokens) == (4, 2, 155)

    def test_becomes_json_with_named_rates(self, make_episode: Maker) -> None:
        text = json.dumps(summarize([make_episode("a", correct=True)]).to_dict())
        data = json.loads(text)
        assert data["success"]["rate"] == 1.0
        assert set(data["by_difficulty"]["easy"]) == {"rate", "low", "high", "n"}

    def test_no_episodes_have_a_summary_too(self) -> None:
        assert summarize([], planned=3).success.rate == 0.0


@pytest.mark.parametrize("n", range(1, 400, 7))
def test_an_interval_always_holds_its_rate(n: int) -> None:
    for successes in (0, 1, n // 2, n):
        rate = wilson(successes, n)
        assert 0.0 <= rate.low <= rate.rate <= rate.high <= 1.0


class TestFailures:
    @pytest.mark.parametrize(
        ("steps", "fields", "kind"),
        [
            ([], {"error": "TimeoutError: x"}, "broke off"),
            (
                [make_step("QUERY", "SELECT 1", rows=1)],
                {"stop_reason": "out_of_budget"},
                "no answer: last query returned rows",
            ),
            ([make_step("DESCRIBE", "t")], {}, "wrong answer: no query"),
            (
                [make_step("QUERY", "SELECT 1", rows=1), make_step("query", "S", error="no")],
                {},
                "wrong answer: last query failed",
            ),
            (
                [make_step("QUERY", "SELECT 1", rows=0), make_step("SAMPLE", "t", rows=5)],
                {},
                "wrong answer: last query found nothing",
            ),
            (
                [make_step("QUERY", "S", error="no"), make_step("QUERY", "SELECT 1", rows=1)],
                {},
                "wrong answer: last query returned rows",
            ),
        ],
    )
    def test_are_told_by_the_last_query(
        self, make_episode: Maker, steps: list[Any], fields: dict[str, str], kind: str
    ) -> None:
        episode = make_episode("q", steps=(*steps, make_step("ANSWER", "1")), **fields)
        assert failure_kind(episode) == kind

    def test_every_episode_that_was_not_won_has_one(self, make_episode: Maker) -> None:
        episodes = [make_episode(f"q{number}", correct=number < 3) for number in range(7)]
        assert summarize(episodes).failures == {"wrong answer: no query": 4}


def test_reasons_for_other_turns_are_counted_without_their_names(make_episode: Maker) -> None:
    reasons = ["repeated", "no such table: a", "no such table: b", 'near "x": syntax error']
    steps = tuple(
        make_step("QUERY", "SELECT 1", trace={"replaced": {"reason": reason, "extra_tokens": 5}})
        for reason in reasons
    )
    summary = summarize([make_episode("q", steps=steps)])
    assert summary.replaced_reasons == {"no such table": 2, "repeated": 1, "syntax error": 1}
    assert summary.extra_tokens == 20
