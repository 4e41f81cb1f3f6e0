"""Rounds against a baseline and beside a reference: two comparisons that answer the same questions."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.metrics import metric
from pytest_kafkaperf.verdict.comparison import (
    Comparison,
    Measured,
    Rounds,
    compare,
    difference,
    pooled,
    ratio_of,
)

P99, THROUGHPUT = metric("produce.latency.p99"), metric("produce.throughput")
TOLERANCE = math.log1p(0.1)
VALUES = st.lists(st.floats(-1, 1), min_size=1, max_size=8).map(tuple)


def rounds(metric: str, *values: float) -> Rounds:
    return [{metric: value} for value in values]


def test_lower_latency_and_higher_throughput_are_both_better() -> None:
    """One scale for every metric: whoever judges never asks for the direction again."""
    slower = compare(P99, Measured(rounds=rounds(P99.name, 0.02)), [rounds(P99.name, 0.01)])
    weaker = compare(THROUGHPUT, Measured(rounds=rounds(THROUGHPUT.name, 500)), [rounds(THROUGHPUT.name, 1000)])
    assert isinstance(slower, Comparison)
    assert isinstance(weaker, Comparison)
    assert slower.shift == pytest.approx(math.log(2))
    assert weaker.shift == pytest.approx(math.log(2))


def test_a_shift_beyond_floats_is_a_large_change() -> None:
    """A baseline that was edited by hand may hold anything above zero; exp() raises an error of its own."""
    assert ratio_of(math.log(1.3)) == pytest.approx(0.3)
    assert ratio_of(1000) == ratio_of(200) == math.expm1(200)


def test_a_session_is_compared_with_all_rounds_of_the_baseline() -> None:
    """More sessions of the baseline are how its own noise averages out."""
    session = Measured(rounds=rounds(P99.name, 4.0))
    assert compare(P99, session, [rounds(P99.name, 1.0, 2.0), rounds(P99.name, 3.0)]) == Comparison(
        current=(math.log(4),), baseline=(0.0, math.log(2), math.log(3))
    )


@pytest.mark.parametrize(
    ("session", "baseline", "reason"),
    [
        (Measured(rounds=rounds(P99.name, 1.0)), [], "no baseline"),
        (Measured(rounds=[]), [rounds(P99.name, 1.0)], "no round was measured"),
    ],
)
def test_what_cannot_be_compared_says_why(session: Measured, baseline: list[Rounds], reason: str) -> None:
    """Could not compare is neither passed nor failed."""
    assert compare(P99, session, baseline) == reason


@given(VALUES, VALUES)
def test_better_is_worse_the_other_way_round(current: tuple[float, ...], baseline: tuple[float, ...]) -> None:
    """An improvement is asked for as strictly as a regression."""
    there, back = Comparison(current=current, baseline=baseline), Comparison(current=baseline, baseline=current)
    assert there.better_p(TOLERANCE) == back.worse_p(TOLERANCE)


@pytest.mark.parametrize(
    ("comparison", "least", "sizes"),
    [
        (Comparison(current=(1.0,) * 5, baseline=(0.0,) * 5), Fraction(1, 252), "5 against 5 rounds"),
        (Comparison(current=(1.0, 2.0), baseline=(0.0,)), Fraction(1, 3), "2 against 1 round"),
    ],
)
def test_complete_separation_and_the_sizes_say_what_a_comparison_can_show(
    comparison: Comparison, least: Fraction, sizes: str
) -> None:
    """Whoever reads a verdict sees what it rests on."""
    assert (comparison.worse_p(0.5), comparison.sizes) == (least, sizes)


def test_a_change_of_just_the_tolerance_is_not_worse_than_it() -> None:
    """log() rounds: a tie must stay one when the tolerance is taken off."""
    same = tuple(math.log(value) for value in (1.0, 1.1, 1.3, 1.7, 2.1))
    worse = tuple(value + TOLERANCE for value in same)
    assert Comparison(current=worse, baseline=same).worse_p(TOLERANCE) > Fraction(1, 2)


def test_sessions_pool_their_rounds_against_the_one_baseline() -> None:
    """Fresh sessions decide together."""
    sessions = [Comparison(current=(1.0, 2.0), baseline=(0.0,)), Comparison(current=(3.0,), baseline=(0.0,))]
    assert pooled(sessions) == Comparison(current=(1.0, 2.0, 3.0), baseline=(0.0,))


def test_the_interval_of_a_shift_is_on_the_same_scale() -> None:
    """It is shown beside it."""
    same = tuple(math.log(value) for value in (1.0, 1.1, 1.3, 1.7, 2.1))
    comparison = Comparison(current=tuple(value + TOLERANCE for value in same), baseline=same)
    low, high = comparison.interval or (math.nan, math.nan)
    assert low < comparison.shift < high


# Beside a reference


def test_the_difference_from_a_reference_is_that_of_the_pairs_of_rounds() -> None:
    """What the machine does to both rounds of a pair cancels out; one wild pair moves it little."""
    ours, theirs = rounds(P99.name, 4.0, 60.0, 6.6), rounds(P99.name, 2.0, 30.0, 3.0)
    assert difference(P99, Measured(rounds=ours[:2], reference=theirs[:2])) == pytest.approx(math.log(2))
    assert difference(P99, Measured(rounds=theirs[:2], reference=ours[:2])) == pytest.approx(-math.log(2))
    steps = sorted([math.log(2), math.log(2), math.log(2.2)])
    walsh = sorted((steps[one] + steps[other]) / 2 for one in range(3) for other in range(one, 3))
    found = difference(P99, Measured(rounds=ours, reference=theirs))
    assert found == pytest.approx((walsh[2] + walsh[3]) / 2)


def test_a_positive_difference_is_worse_whatever_the_metric() -> None:
    """One scale for every metric, here as well."""
    half, whole = rounds(THROUGHPUT.name, 500.0), rounds(THROUGHPUT.name, 1000.0)
    assert difference(THROUGHPUT, Measured(rounds=half, reference=whole)) == pytest.approx(math.log(2))


@pytest.mark.parametrize(
    ("session", "reason"),
    [
        (Measured(rounds=[], reference=rounds(P99.name, 1.0)), "no round was measured"),
        (Measured(rounds=rounds(P99.name, 1.0), reference=[]), "no round of the reference was measured"),
        (
            Measured(rounds=rounds(P99.name, 1.0), reference=[{}]),
            "produce.latency.p99 is missing in round 1 of 1 of the reference",
        ),
        (
            Measured(rounds=rounds(P99.name, 0.0), reference=rounds(P99.name, 1.0)),
            "produce.latency.p99 is 0 s in round 1 of 1, so it has no ratio",
        ),
        (
            Measured(rounds=rounds(P99.name, 1.0), reference=rounds(P99.name, 1.0, 2.0)),
            "1 round and 2 of the reference do not form pairs",
        ),
    ],
)
def test_a_session_without_a_difference_says_why(session: Measured, reason: str) -> None:
    """Could not compare is neither passed nor failed."""
    assert difference(P99, session) == reason


def test_a_metric_that_can_be_zero_has_no_difference() -> None:
    """Whatever its values are this time."""
    session = Measured(rounds=rounds("lag.max", 2.0), reference=rounds("lag.max", 1.0))
    assert difference(metric("lag.max"), session) == "lag.max can be zero, so it has no ratio to a baseline"
