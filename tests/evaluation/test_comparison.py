"""Two runs in pairs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql_env.agent.episodes import EpisodeResult
from sql_env.evaluation.comparison import Comparison, ComparisonError, compare

Maker = Callable[..., EpisodeResult]


def compared(make: Maker, before: str, after: str) -> Comparison:
    """Compare runs written as strings: one letter per question, + right, - wrong."""
    runs = [
        [make(f"q{number}", correct=mark == "+") for number, mark in enumerate(run)]
        for run in (before, after)
    ]
    return compare(*runs)


class TestCompare:
    def test_each_question_is_won_lost_or_unchanged(self, make_episode: Maker) -> None:
        comparison = compared(make_episode, "++--+", "+-++-")
        assert comparison.won == ("q2", "q3")
        assert comparison.lost == ("q1", "q4")
        assert (comparison.both_right, comparison.both_wrong) == (1, 0)
        assert comparison.rate_before == comparison.rate_after == 0.6
        assert comparison.difference == pytest.approx(0)

    def test_difference_with_its_interval(self, make_episode: Maker) -> None:
        comparison = compared(make_episode, "-" * 60 + "+" * 40, "+" * 20 + "-" * 40 + "+" * 40)
        assert comparison.difference == pytest.approx(0.2)
        assert (comparison.low, comparison.high) == pytest.approx((0.1175, 0.2763), abs=1e-4)
        assert "20 won, 0 lost of 100" in comparison.sentence
        assert "up 20.0 points [+" in comparison.sentence
        assert "more than chance" in comparison.sentence

    def test_a_few_wins_out_of_a_few_leave_doubt(self, make_episode: Maker) -> None:
        comparison = compared(make_episode, "----", "++++")
        assert (comparison.difference, comparison.high) == (1.0, 1.0)
        assert comparison.low < 0.5

    def test_questions_of_one_database_are_not_independent(self, make_episode: Maker) -> None:
        runs = [
            [
                make_episode(f"q{n}", correct=n // 20 % 3 < side, database=f"d{n // 20}")
                for n in range(200)
            ]
            for side in (1, 2)
        ]
        comparison = compare(*runs)
        assert comparison.over_databases
        low, high = comparison.over_databases
        assert high - low > 2 * (comparison.high - comparison.low)
        assert "over databases [" in comparison.sentence

    def test_only_shared_questions_are_paired(self, make_episode: Maker) -> None:
        comparison = compared(make_episode, "++++", "++")
        assert (comparison.n_questions, comparison.only_before, comparison.only_after) == (2, 2, 0)

    def test_runs_without_a_common_question_are_refused(self, make_episode: Maker) -> None:
        with pytest.raises(ComparisonError, match="no question in common"):
            compare([make_episode("a")], [make_episode("b")])

    def test_several_samples_are_compared_by_question(self, make_episode: Maker) -> None:
        before = [make_episode("q", correct=sample < 1, sample=sample) for sample in range(4)]
        after = [make_episode("q", correct=sample < 3, sample=sample) for sample in range(4)]
        comparison = compare(before, after)
        assert comparison.won == ("q",)
        assert comparison.difference == pytest.approx(0.5)
        assert comparison.low < 0.5 < comparison.high

    def test_samples_are_tested_by_how_far_each_question_moved(self, make_episode: Maker) -> None:
        """The sign test sees three questions each way; those that won moved much further."""
        shares = [(0, 4), (0, 4), (0, 4), (2, 1), (2, 1), (2, 1)]
        runs = [
            [
                make_episode(f"q{number}", correct=sample < share[side], sample=sample)
                for number, share in enumerate(shares)
                for sample in range(4)
            ]
            for side in (0, 1)
        ]
        comparison = compare(*runs)
        assert (len(comparison.won), len(comparison.lost)) == (3, 3)
        # 2 ** 6 sign patterns; |sum| >= 9 quarters needs all three large ones on one side.
        assert comparison.p_value == pytest.approx(16 / 64)

    @given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
    def test_the_other_way_round(self, make_episode: Maker, pairs: list[tuple[bool, bool]]) -> None:
        runs = [
            [make_episode(f"q{number}", correct=pair[side]) for number, pair in enumerate(pairs)]
            for side in (0, 1)
        ]
        there, back = compare(*runs), compare(*reversed(runs))
        assert (there.won, there.lost) == (back.lost, back.won)
        assert there.p_value == back.p_value
        assert there.difference == pytest.approx(-back.difference)
