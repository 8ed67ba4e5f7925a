"""Two runs in pairs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql_env.agent.episodes import EpisodeResult
from sql_env.evaluation.comparison import Comparison, ComparisonError, compare, mcnemar

Maker = Callable[..., EpisodeResult]


def compared(make: Maker, before: str, after: str) -> Comparison:
    """Compare runs written as strings: one letter per question, + right, - wrong."""
    runs = [
        [make(f"q{number}", correct=mark == "+") for number, mark in enumerate(run)]
        for run in (before, after)
    ]
    return compare(*runs)


class TestMcNemar:
    @pytest.mark.parametrize(
        ("won", "lost", "p"),
        [
            (0, 0, 1.0),
            (5, 5, 1.0),
            (1, 6, 0.125),
            (0, 6, 0.03125),
            (15, 5, 0.0414),
            (70, 23, 1.1e-6),
        ],
    )
    def test_known_values(self, won: int, lost: int, p: float) -> None:
        assert mcnemar(won, lost) == pytest.approx(p, rel=0.02)

    @given(st.integers(0, 400), st.integers(0, 400))
    def test_symmetric_and_a_probability(self, won: int, lost: int) -> None:
        assert mcnemar(won, lost) == mcnemar(lost, won)
        assert 0 < mcnemar(won, lost) <= 1

    def test_thousands_of_changes(self) -> None:
        assert mcnemar(3000, 2000) < 1e-40


class TestCompare:
    def test_won_and_lost(self, make_episode: Maker) -> None:
        comparison = compared(make_episode, "++--+", "+-++-")
        assert comparison.won == ("q2", "q3")
        assert comparison.lost == ("q1", "q4")
        assert (comparison.both_right, comparison.both_wrong) == (1, 0)
        assert comparison.rate_before == comparison.rate_after == 0.6
        assert comparison.difference == pytest.approx(0)

    def test_difference_with_its_interval(self, make_episode: Maker) -> None:
        comparison = compared(make_episode, "-" * 60 + "+" * 40, "+" * 20 + "-" * 40 + "+" * 40)
        assert comparison.difference == pytest.approx(0.2)
        # 1.96 * sqrt(0.2 * 0.8 / 99), the spread of twenty ones among a hundred zeros.
        assert comparison.high - comparison.difference == pytest.approx(0.0788, abs=1e-3)
        assert "20 won, 0 lost of 100" in comparison.sentence
        assert "up 20.0 points [+" in comparison.sentence
        assert "more than chance" in comparison.sentence

    def test_only_shared_questions_are_paired(self, make_episode: Maker) -> None:
        comparison = compared(make_episode, "++++", "++")
        assert (comparison.n_questions, comparison.only_before, comparison.only_after) == (2, 2, 0)

    def test_nothing_shared(self, make_episode: Maker) -> None:
        with pytest.raises(ComparisonError, match="no question in common"):
            compare([make_episode("a")], [make_episode("b")])

    def test_several_samples_are_compared_by_question(self, make_episode: Maker) -> None:
        before = [make_episode("q", correct=sample < 1, sample=sample) for sample in range(4)]
        after = [make_episode("q", correct=sample < 3, sample=sample) for sample in range(4)]
        comparison = compare(before, after)
        assert comparison.won == ("q",)
        assert comparison.difference == pytest.approx(0.5)

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
