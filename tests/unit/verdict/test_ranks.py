"""Rank statistics, checked against scipy and against counting every permutation."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.verdict.rank_tests import (
    hodges_lehmann,
    least_p,
    mann_whitney_p,
    pseudomedian,
    shift_interval,
)

_SAMPLE = st.lists(st.integers(min_value=0, max_value=5), min_size=1, max_size=6)
_DIFFERENCES = st.lists(st.integers(min_value=-4, max_value=4), max_size=9)


@pytest.fixture(scope="module")
def stats() -> Any:
    """The statistics of scipy, which takes half a second to import."""
    from scipy import stats  # noqa: PLC0415

    return stats


def _u(larger: Sequence[float], smaller: Sequence[float]) -> float:
    return sum((above > below) + (above == below) / 2 for above in larger for below in smaller)


def _brute_force_p(larger: Sequence[float], smaller: Sequence[float]) -> Fraction:
    """The definition, slowly: every choice of as many of the pooled values, compared by U."""
    pooled = [*larger, *smaller]
    seen = _u(larger, smaller)
    splits = list(itertools.combinations(range(len(pooled)), len(larger)))
    extreme = 0
    for chosen in splits:
        rest = [value for index, value in enumerate(pooled) if index not in chosen]
        extreme += _u([pooled[index] for index in chosen], rest) >= seen
    return Fraction(extreme, len(splits))


def test_p_is_scipys_exact_p_on_a_thousand_cases_without_ties(stats: Any) -> None:
    """The gate's arithmetic is ours; its answers must be the textbook's."""
    chance = random.Random(1947)
    for _ in range(1000):
        larger = [chance.gauss(chance.choice([0, 1]), 1) for _ in range(chance.randint(1, 9))]
        smaller = [chance.gauss(0, 1) for _ in range(chance.randint(1, 9))]
        expected = stats.mannwhitneyu(larger, smaller, alternative="greater", method="exact").pvalue
        assert float(mann_whitney_p(larger, smaller)) == pytest.approx(expected, rel=1e-9)


@given(_SAMPLE, _SAMPLE)
def test_p_counts_every_permutation_right_with_ties(larger: list[int], smaller: list[int]) -> None:
    """Latencies come from histogram buckets and tie often; scipy's exact method does not know ties."""
    assert mann_whitney_p(larger, smaller) == _brute_force_p(larger, smaller)


def test_five_against_five_rounds_give_the_table_values() -> None:
    """1/252 for complete separation, 2/252 with one swap: what p < 0.01 allows at the default of five rounds."""
    separate = mann_whitney_p([6, 7, 8, 9, 10], [1, 2, 3, 4, 5])
    swapped = mann_whitney_p([5, 7, 8, 9, 10], [1, 2, 3, 4, 6])
    further = mann_whitney_p([4, 7, 8, 9, 10], [1, 2, 3, 5, 6])
    assert [separate, swapped, further] == [Fraction(1, 252), Fraction(2, 252), Fraction(4, 252)]


@given(_SAMPLE, _SAMPLE)
def test_both_directions_share_the_ties_only(first: list[int], second: list[int]) -> None:
    """Worse and better are mirror images: together they hold every split once, and the seen U twice."""
    both = mann_whitney_p(first, second) + mann_whitney_p(second, first)
    assert 1 < both <= 2


@given(_SAMPLE, _SAMPLE, st.integers(min_value=1, max_value=3))
def test_moving_a_sample_up_never_raises_p(larger: list[int], smaller: list[int], step: int) -> None:
    """A worse run cannot be less of a regression."""
    assert mann_whitney_p([value + step for value in larger], smaller) <= mann_whitney_p(larger, smaller)


def test_the_least_p_is_that_of_complete_separation() -> None:
    """It tells whether so many rounds could decide at all."""
    for first, second in ((1, 1), (3, 5), (4, 5), (5, 5), (5, 25)):
        separate = mann_whitney_p(range(100, 100 + first), range(second))
        assert least_p(first, second) == separate == Fraction(1, math.comb(first + second, first))


def test_thirty_against_two_hundred_and_fifty_rounds_take_no_noticeable_time(stats: Any) -> None:
    """Ten sessions of 25 rounds are kept at most; the verdict must not be slower than a round."""
    chance = random.Random(30)
    larger = [round(chance.gauss(0.3, 1), 2) for _ in range(30)]
    smaller = [round(chance.gauss(0, 1), 2) for _ in range(250)]
    start_s = time.process_time()
    p = mann_whitney_p(larger, smaller)
    elapsed_s = time.process_time() - start_s
    normal = stats.mannwhitneyu(larger, smaller, alternative="greater", method="asymptotic").pvalue
    assert float(p) == pytest.approx(normal, rel=0.05)
    assert elapsed_s < 10


def test_the_shift_is_the_median_of_all_differences() -> None:
    """Hodges-Lehmann: one wild round moves it little."""
    assert hodges_lehmann([3, 4, 5], [1, 2, 3]) == 2
    assert hodges_lehmann([3, 4, 500], [1, 2, 3]) == 2
    assert hodges_lehmann([1], [3, 5]) == -3


@given(_SAMPLE, _SAMPLE, st.integers(min_value=-9, max_value=9))
def test_the_shift_follows_a_shift_and_turns_with_the_direction(first: list[int], second: list[int], step: int) -> None:
    """The reported change of an injected change is that change."""
    shift = hodges_lehmann(first, second)
    assert hodges_lehmann([value + step for value in first], second) == shift + step
    assert hodges_lehmann(second, first) == -shift


def test_the_pseudomedian_is_the_median_of_all_means_of_two() -> None:
    """Hodges-Lehmann of one sample: one wild pair moves it little."""
    assert pseudomedian([1, 2, 6]) == 2.75
    assert pseudomedian([1, 2, 600]) == 151.25
    assert pseudomedian([1, 2, 3, 4, 500]) == 3
    assert pseudomedian([7]) == 7


@given(_DIFFERENCES.filter(bool), st.integers(min_value=-9, max_value=9))
def test_the_pseudomedian_follows_a_shift_and_turns_with_the_direction(differences: list[int], step: int) -> None:
    """The reported change of an injected change is that change, beside a reference, too."""
    shift = pseudomedian(differences)
    assert pseudomedian([value + step for value in differences]) == shift + step
    assert pseudomedian([-value for value in differences]) == -shift


# Intervals


def test_the_interval_holds_the_shifts_that_scipys_exact_test_does_not_refuse(stats: Any) -> None:
    """An interval and a test are one statement: inside is p > 0.05, outside is not."""
    chance = random.Random(1963)
    for _ in range(200):
        larger = [chance.gauss(1, 1) for _ in range(chance.randint(4, 9))]
        smaller = [chance.gauss(0, 1) for _ in range(chance.randint(4, 9))]
        interval = shift_interval(larger, smaller)
        assert interval is not None
        inside, outside = _around(interval)
        ps = [
            [
                stats.mannwhitneyu([value - shift for value in larger], smaller, method="exact").pvalue
                for shift in shifts
            ]
            for shifts in (inside, outside)
        ]
        assert min(ps[0]) > 0.05 >= max(ps[1])


def _around(interval: tuple[float, float]) -> tuple[list[float], list[float]]:
    low, high = interval
    hair = (high - low) * 1e-9
    return [low + hair, high - hair], [low - hair, high + hair]


@pytest.mark.parametrize(
    ("first", "second", "level"), [(5, 5, 0.968), (4, 4, 0.971), (5, 25, 0.956), (3, 3, 0.9), (2, 5, 0.905)]
)
def test_the_interval_holds_the_true_shift_as_often_as_it_says(first: int, second: int, level: float) -> None:
    """Whatever the noise is like: here it is lopsided."""
    chance = random.Random(95)
    runs = 4000
    held = 0
    for _ in range(runs):
        larger = [0.3 + chance.expovariate(1) for _ in range(first)]
        smaller = [chance.expovariate(1) for _ in range(second)]
        low, high = shift_interval(larger, smaller) or (math.inf, -math.inf)
        held += low <= 0.3 <= high
    assert held / runs == pytest.approx(level, abs=3 * math.sqrt(level * (1 - level) / runs))


def test_too_few_values_have_no_interval() -> None:
    """One that misses every fifth time says too little."""
    assert shift_interval([1.0], [2.0, 3.0, 4.0]) is None
    assert shift_interval([1.0, 2.0], [3.0, 4.0]) is None


@given(_SAMPLE, _SAMPLE, st.integers(min_value=-9, max_value=9))
def test_the_interval_is_around_the_shift_and_follows_it(first: list[int], second: list[int], step: int) -> None:
    """A change and its interval are shown side by side."""
    interval = shift_interval(first, second)
    if interval is not None:
        low, high = interval
        assert low <= hodges_lehmann(first, second) <= high
        assert shift_interval([value + step for value in first], second) == (low + step, high + step)
        assert shift_interval(second, first) == (-high, -low)
