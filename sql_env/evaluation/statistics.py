"""Intervals and tests for shares of questions answered correctly.

Two things make the textbook formulas wrong here. Questions share databases, so they are not
independent draws: `bootstrap` resamples whole databases. And runs are often short, or nearly all
right: intervals are Wilson's and Newcombe's, which stay honest at 0 and 100 %, and p-values are
exact. Only the standard library is needed.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import NamedTuple

Z_95 = NormalDist().inv_cdf(0.975)
RESAMPLES = 2_000
FEWEST_CLUSTERS = 5


class Interval(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float


class Rate(NamedTuple):
    """A share of successes with its 95 % Wilson interval."""

    rate: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.rate:.1%} [{self.low:.1%}, {self.high:.1%}]"


def wilson(successes: float, n: int) -> Rate:
    """The 95 % Wilson score interval; `successes` may be a sum of shares."""
    if n == 0:
        return Rate(0.0, 0.0, 1.0, 0)
    share, z2 = successes / n, Z_95**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z_95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    # Rounding must not put 0 of n below its interval, nor n of n above it.
    return Rate(share, max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half)), n)


def newcombe(before: Sequence[float], after: Sequence[float]) -> Interval:
    """95 % interval of the difference of two paired shares (Newcombe 1998, method 10).

    The Wilson intervals of both shares are combined by the correlation of the pairs, which is made
    smaller by half a pair, and never positive because of that. The values are 0 or 1; shares
    between them are taken as if the question had been played once, which errs on the wide side.
    """
    n = len(before)
    one, two = wilson(sum(before), n), wilson(sum(after), n)
    spread = math.sqrt(one.rate * (1 - one.rate) * two.rate * (1 - two.rate))
    together = sum(a * b for a, b in zip(before, after, strict=True))
    product = n * together - sum(before) * sum(after)  # ad - bc of the two-by-two table
    if product > 0:
        product = max(0.0, product - n / 2)
    phi = product / (n * n * spread) if spread else 0.0
    difference = two.rate - one.rate

    def reach(*sides: float) -> float:
        a, b = sides
        return math.sqrt(max(0.0, a * a - 2 * phi * a * b + b * b))

    return Interval(
        difference - reach(two.rate - two.low, one.high - one.rate),
        difference + reach(two.high - two.rate, one.rate - one.low),
    )


def bootstrap(values: Iterable[tuple[Hashable, float]], *, seed: int = 0) -> Interval | None:
    """95 % interval of the mean of `values`, given as (cluster, value): whole clusters are drawn.

    Percentiles that are moved outward for the number of clusters, as Student's t is wider than the
    normal distribution (Hesterberg 2015). None where the clusters cannot tell: fewer than five of
    them, or all with the same mean.
    """
    groups: dict[Hashable, list[float]] = defaultdict(list)
    for cluster, value in values:
        groups[cluster].append(value)
    totals = [(sum(group), len(group)) for group in groups.values()]
    if len(totals) < FEWEST_CLUSTERS or len({total / n for total, n in totals}) == 1:
        return None
    draw = random.Random(seed)
    means = []
    for _ in range(RESAMPLES):
        drawn = draw.choices(totals, k=len(totals))
        means.append(sum(total for total, _ in drawn) / sum(n for _, n in drawn))
    means.sort()
    wider = math.sqrt(len(totals) / (len(totals) - 1)) * _t_quantile(len(totals) - 1)
    tail = NormalDist().cdf(-wider)
    return Interval(_quantile(means, tail), _quantile(means, 1 - tail))


def _t_quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t by Hill's expansion: good to 0.01 from 4 degrees on."""
    z, v = Z_95, freedom
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def permutation_p(differences: Sequence[float]) -> float:
    """Exact two-sided p of paired differences: each might as well have had the other sign.

    Of differences that are all 1, 0 or -1 this is McNemar's exact test. Shares of several samples
    are multiples of a common fraction, so all signed sums can be counted.
    """
    changes = [Fraction(value).limit_denominator(10_000) for value in differences if value]
    unit = math.lcm(*(change.denominator for change in changes)) if changes else 1
    sizes = [abs(int(change * unit)) for change in changes]
    if not sizes:
        return 1.0
    observed = abs(sum(int(change * unit) for change in changes))
    if len(set(sizes)) == 1:
        ways_to_win = tail = 1
        for won in range((len(sizes) - observed // sizes[0]) // 2):
            ways_to_win = ways_to_win * (len(sizes) - won) // (won + 1)
            tail += ways_to_win
        exact: float = 2 * tail / 2 ** len(sizes)
        return min(1.0, exact)
    # How many of the sign patterns so far have each signed sum.
    ways = {0: 1}
    for size in sizes:
        reached: dict[int, int] = defaultdict(int)
        for total, count in ways.items():
            reached[total + size] += count
            reached[total - size] += count
        ways = reached
    extreme = sum(count for total, count in ways.items() if abs(total) >= observed)
    share: float = extreme / 2 ** len(sizes)
    return share


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: adjusted p-values, in the order given."""
    values = list(p_values)
    adjusted = [1.0] * len(values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = largest
    return adjusted
