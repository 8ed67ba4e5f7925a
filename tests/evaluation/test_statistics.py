"""Intervals and p-values, against published figures, other packages and by simulation.

Constants are what scipy 1.17.1 and statsmodels 0.15.0 print, unless a table is named.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql_env.evaluation.statistics import (
    bootstrap,
    holm,
    newcombe,
    permutation_p,
    wilson,
)


def table(both: int, before: int, after: int, neither: int) -> tuple[list[int], list[int]]:
    """Two paired runs, from the counts of a two-by-two table."""
    counts = (both, before, after, neither)
    runs = ((1, 1, 0, 0), (1, 0, 1, 0))
    old, new = (
        [mark for n, mark in zip(counts, run, strict=True) for _ in range(n)] for run in runs
    )
    return old, new


def changes(won: int, lost: int, same: int = 0) -> list[float]:
    return [1.0] * won + [-1.0] * lost + [0.0] * same


class TestWilson:
    @pytest.mark.parametrize(
        ("successes", "n", "low", "high"),
        [
            # statsmodels: proportion_confint(method="wilson")
            (15, 50, 0.19104, 0.43750),
            (228, 343, 0.61318, 0.71261),
            (0, 203, 0.0, 0.01857),
            (203, 203, 0.98143, 1.0),
            (1, 10, 0.01788, 0.40415),
        ],
    )
    def test_published_values_are_met(
        self, successes: int, n: int, low: float, high: float
    ) -> None:
        rate = wilson(successes, n)
        assert (rate.low, rate.high) == pytest.approx((low, high), abs=5e-5)

    @given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
    def test_holds_the_rate_and_stays_a_share(self, counts: tuple[int, int]) -> None:
        successes, n = counts
        rate = wilson(successes, n)
        assert 0 <= rate.low <= rate.rate + 1e-12
        assert rate.rate - 1e-12 <= rate.high <= 1

    def test_nothing_counted_says_nothing(self) -> None:
        assert (wilson(0, 0).low, wilson(0, 0).high) == (0.0, 1.0)


class TestNewcombe:
    @pytest.mark.parametrize(
        ("counts", "low", "high"),
        [
            # The formula of R's biostatUZH::confIntPairedProportion over statsmodels' Wilson
            # limits, on that package's example (Altman et al. 2000, table 6.2), on those of
            # contingencytables (Bentur et al. 2009, Cavo et al. 2012), and on others.
            ((14, 0, 5, 22), 0.01148, 0.22649),
            ((1, 1, 7, 12), 0.02556, 0.50692),
            ((59, 16, 6, 80), -0.11862, -0.00463),
            ((0, 0, 4, 0), 0.30719, 1.0),
            ((10, 5, 3, 2), -0.35736, 0.17627),
        ],
    )
    def test_published_values_are_met(
        self, counts: tuple[int, ...], low: float, high: float
    ) -> None:
        assert newcombe(*table(*counts)) == pytest.approx((low, high), abs=5e-5)

    def test_four_of_four_won_leaves_doubt(self) -> None:
        assert newcombe([0] * 4, [1] * 4).low < 0.5

    @given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
    def test_stays_within_what_is_possible_and_holds_the_difference(
        self, pairs: list[tuple[bool, bool]]
    ) -> None:
        before, after = ([float(pair[side]) for pair in pairs] for side in (0, 1))
        low, high = newcombe(before, after)
        difference = (sum(after) - sum(before)) / len(pairs)
        assert -1 - 1e-9 <= low <= difference + 1e-9
        assert difference - 1e-9 <= high <= 1 + 1e-9
        there, back = newcombe(after, before)
        assert (-back, -there) == pytest.approx((low, high))

    def test_covers_the_truth_as_often_as_it_says(self) -> None:
        """Small runs with a high success rate, where Wald's interval covers 88 % only."""
        draw = random.Random(5)
        cells, weights = [(1, 1), (1, 0), (0, 1), (0, 0)], [0.78, 0.02, 0.12, 0.08]
        covered = 0
        for _ in range(2_000):
            before, after = zip(*draw.choices(cells, weights, k=30), strict=True)
            low, high = newcombe(before, after)
            covered += low <= 0.10 <= high
        assert 0.93 < covered / 2_000 <= 1


class TestBootstrap:
    def test_one_question_a_database_agrees_with_the_normal_interval(self) -> None:
        values = [(number, float(number % 4 > 0)) for number in range(400)]
        low, high = bootstrap(values) or (0, 0)
        # 0.75 -/+ 1.96 * sqrt(0.75 * 0.25 / 400)
        assert (low, high) == pytest.approx((0.7076, 0.7924), abs=0.006)

    def test_questions_that_stand_and_fall_with_their_database_count_as_one(self) -> None:
        shared = [(number // 20, float(number // 20 % 2)) for number in range(400)]
        alone = [(number, value) for number, (_, value) in enumerate(shared)]
        wide, narrow = bootstrap(shared), bootstrap(alone)
        assert wide and narrow
        assert wide.high - wide.low > 3 * (narrow.high - narrow.low)

    def test_same_values_same_interval(self) -> None:
        values = [(number % 9, float(number % 2)) for number in range(90)]
        assert bootstrap(values) == bootstrap(values)

    @pytest.mark.parametrize("databases", [1, 4])
    def test_few_databases_tell_nothing(self, databases: int) -> None:
        assert bootstrap((number % databases, float(number % 3)) for number in range(60)) is None

    def test_databases_that_are_all_alike_tell_nothing(self) -> None:
        assert bootstrap((number % 10, 1.0) for number in range(60)) is None

    @pytest.mark.parametrize("databases", [10, 20])
    def test_covers_the_truth_where_wilson_does_not(self, databases: int) -> None:
        """Each database has a success rate of its own; 20 questions each."""
        draw = random.Random(3)
        covered = by_wilson = 0
        runs = 120
        for run in range(runs):
            values = [
                (database, float(draw.random() < rate))
                for database in range(databases)
                for rate in [draw.betavariate(4, 2)]
                for _ in range(20)
            ]
            interval = bootstrap(values, seed=run)
            assert interval
            covered += interval.low <= 2 / 3 <= interval.high
            textbook = wilson(sum(value for _, value in values), len(values))
            by_wilson += textbook.low <= 2 / 3 <= textbook.high
        assert 0.88 < covered / runs <= 0.99
        assert by_wilson / runs < 0.75


class TestPermutation:
    @pytest.mark.parametrize(
        ("won", "lost", "p"),
        [
            # statsmodels: mcnemar(exact=True)
            (0, 0, 1.0),
            (5, 5, 1.0),
            (1, 6, 0.125),
            (15, 5, 0.041389465),
            (28, 10, 0.0050976433),
            (24, 8, 0.0070003667),
        ],
    )
    def test_of_one_sample_it_is_mcnemars_exact_test(self, won: int, lost: int, p: float) -> None:
        assert permutation_p(changes(won, lost, same=20)) == pytest.approx(p, rel=1e-6)

    def test_shares_of_several_samples(self) -> None:
        # scipy: permutation_test(permutation_type="samples", n_resamples=inf)
        shares = [0.5, -0.25, 0.125, 0.375, 0, 0.25, -0.125, 0.625, 0.125, 0.25]
        assert permutation_p(shares) == pytest.approx(0.08203125)

    def test_thirds_are_counted_exactly(self) -> None:
        assert permutation_p([1 / 3, 2 / 3, 1 / 3 + 1 / 3]) == permutation_p([1, 2, 2]) == 0.25

    def test_thousands_of_changes(self) -> None:
        assert permutation_p(changes(3000, 2000)) < 1e-40

    @given(st.integers(0, 400), st.integers(0, 400))
    def test_symmetric_and_a_probability(self, won: int, lost: int) -> None:
        assert permutation_p(changes(won, lost)) == permutation_p(changes(lost, won))
        assert 0 < permutation_p(changes(won, lost)) <= 1

    def test_without_a_difference_small_values_are_as_rare_as_they_should_be(self) -> None:
        draw = random.Random(2)
        shares = [number / 4 for number in range(-4, 5)]
        found = [permutation_p(draw.choices(shares, k=25)) for _ in range(600)]
        assert 0.02 < sum(p <= 0.05 for p in found) / 600 < 0.07


class TestHolm:
    def test_published_values_are_met(self) -> None:
        # statsmodels: multipletests(method="holm")
        assert holm([0.01, 0.04, 0.03, 0.005, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.025, 0.5])

    def test_one_value_stays_what_it_is(self) -> None:
        assert holm([0.03]) == [0.03]

    @given(st.lists(st.floats(0, 1), max_size=12))
    def test_never_smaller_and_in_the_same_order(self, values: list[float]) -> None:
        adjusted = holm(values)
        pairs = sorted(zip(values, adjusted, strict=True))
        assert all(before <= after <= 1 for before, after in pairs)
        assert [after for _, after in pairs] == sorted(adjusted)
