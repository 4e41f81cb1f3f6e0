"""The scale of all comparisons, and rounds side by side with a live baseline."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.metrics import metric
from pytest_kafkaperf.verdict.scale import (
    NOTHING,
    Difference,
    Incomparable,
    Measured,
    Rounds,
    difference,
    logs,
    pseudomedian,
    ratio_of,
    value_of,
)

approx: Any = pytest.approx

P99, THROUGHPUT = metric("produce.latency.p99"), metric("produce.throughput")
_DIFFERENCES = st.lists(st.integers(min_value=-4, max_value=4), max_size=9)


def rounds(metric: str, *values: float) -> Rounds:
    return [{metric: value} for value in values]


def test_lower_latency_and_higher_throughput_are_both_better() -> None:
    """One scale for every metric: whoever judges never asks for the direction again."""
    assert logs(P99, rounds(P99.name, 0.02)) == (math.log(0.02),)
    assert logs(THROUGHPUT, rounds(THROUGHPUT.name, 500)) == (-math.log(500),)
    assert [value_of(each, logs(each, rounds(each.name, 3.0))[0]) for each in (P99, THROUGHPUT)] == pytest.approx(
        [3, 3]
    )


def test_a_shift_beyond_floats_is_a_large_change() -> None:
    """A baseline that was edited by hand may hold anything above zero; exp() raises an error of its own."""
    assert ratio_of(math.log(1.3)) == pytest.approx(0.3)
    assert ratio_of(1000) == ratio_of(200) == math.expm1(200)


def test_the_pseudomedian_is_the_median_of_all_means_of_two() -> None:
    """Hodges-Lehmann of one sample: one wild pair moves it little."""
    assert pseudomedian([1, 2, 6]) == 2.75
    assert pseudomedian([1, 2, 600]) == 151.25
    assert pseudomedian([1, 2, 3, 4, 500]) == 3
    assert pseudomedian([7]) == 7


@given(_DIFFERENCES.filter(bool), st.integers(min_value=-9, max_value=9))
def test_the_pseudomedian_follows_a_shift_and_turns_with_the_direction(differences: list[int], step: int) -> None:
    """The reported change is the injected one, even side by side with a live baseline."""
    shift = pseudomedian(differences)
    assert pseudomedian([value + step for value in differences]) == shift + step
    assert pseudomedian([-value for value in differences]) == -shift


# Side by side with a live baseline


def test_the_difference_from_a_live_baseline_is_that_of_the_pairs_of_rounds() -> None:
    """What the machine does to both rounds of a pair cancels out; one wild pair moves it little."""
    ours, theirs = rounds(P99.name, 4.0, 60.0, 6.6), rounds(P99.name, 2.0, 30.0, 3.0)
    for ahead, behind, sign in ((ours, theirs, 1), (theirs, ours, -1)):
        found = difference(P99, Measured(rounds=ahead[:2], other_side=behind[:2]))
        assert found == Difference(approx(sign * math.log(2)), approx(0.0, abs=1e-20), 1)
    steps = sorted([math.log(2), math.log(2), math.log(2.2)])
    walsh = sorted((steps[one] + steps[other]) / 2 for one in range(3) for other in range(one, 3))
    found = difference(P99, Measured(rounds=ours, other_side=theirs))
    assert found == Difference(approx((walsh[2] + walsh[3]) / 2), approx(statistics.variance(steps) / 3), 2)


def test_a_single_pair_of_rounds_shows_no_noise() -> None:
    """No noise is known, which is not the same as none; the same holds for a trial without any output."""
    one, nothing = rounds(THROUGHPUT.name, 1000.0), rounds(THROUGHPUT.name, 0.0, 1000.0)
    assert difference(THROUGHPUT, Measured(rounds=one, other_side=one)) == Difference(0.0, None, 0)
    found = difference(THROUGHPUT, Measured(rounds=nothing, other_side=[*one, *one]))
    assert found == Difference(NOTHING, None, 0)


def test_a_positive_difference_is_worse_whatever_the_metric() -> None:
    """One scale for every metric, here as well."""
    half, whole = rounds(THROUGHPUT.name, 500.0), rounds(THROUGHPUT.name, 1000.0)
    assert difference(THROUGHPUT, Measured(rounds=half, other_side=whole)) == Difference(approx(math.log(2)))


@pytest.mark.parametrize(
    ("trial", "reason"),
    [
        (Measured(rounds=[], other_side=rounds(P99.name, 1.0)), "no round was measured"),
        (Measured(rounds=rounds(P99.name, 1.0), other_side=[]), "no round of the baseline was measured"),
        (
            Measured(rounds=rounds(P99.name, 1.0), other_side=[{}]),
            "produce.latency.p99 is missing in round 1 of 1 of the baseline",
        ),
        (
            Measured(rounds=rounds(P99.name, 1.0), other_side=rounds(P99.name, 0.0)),
            "produce.latency.p99 is 0 s in round 1 of 1 of the baseline, so it has no ratio",
        ),
        (
            Measured(rounds=rounds(P99.name, 1.0), other_side=rounds(P99.name, 1.0, 2.0)),
            "1 round cannot be paired with 2 of the baseline",
        ),
    ],
)
def test_a_trial_without_a_difference_has_a_reason(trial: Measured, reason: str) -> None:
    """Could not compare is neither passed nor failed."""
    assert difference(P99, trial) == Incomparable(reason)


def test_a_metric_that_can_be_zero_has_no_difference() -> None:
    """Whatever its values are this time."""
    trial = Measured(rounds=rounds("lag.max", 2.0), other_side=rounds("lag.max", 1.0))
    assert difference(metric("lag.max"), trial) == Incomparable("lag.max can be zero, so it has no ratio to a baseline")
