"""The comparison with a live baseline, trial by trial: its bounds, its errors and its power."""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.metrics import metric
from pytest_kafkaperf.verdict.detectable import POWER
from pytest_kafkaperf.verdict.scale import Measured
from pytest_kafkaperf.verdict.sequential import (
    BETA,
    FEWEST_TRIALS,
    MARGIN,
    MOST_TRIALS,
    detectable,
    differences_of,
    look,
    student_quantile,
    student_tail,
)
from tests.support.simulated_trials import (
    LOOKS,
    Noise,
    critical,
    differences,
    half_width,
    judged,
    looks,
    with_mean,
)

approx: Any = pytest.approx

ALPHA = 0.01
TOLERANCE = -math.log1p(-0.03)
"""That of `produce.throughput >= baseline - 3%`."""
TEN_PER_CENT = -math.log1p(-0.1)


# Student's distribution


@pytest.mark.parametrize(
    ("freedom", "tail", "quantile"),
    [
        (1, 0.025, 12.706),
        (2, 0.05, 2.920),
        (3, 0.005, 5.841),
        (4, 0.1, 1.533),
        (5, 0.01, 3.365),
        (10, 0.025, 2.228),
        (23, 0.005, 2.807),
        (120, 0.05, 1.658),
    ],
)
def test_students_distribution_is_that_of_the_tables(freedom: int, tail: float, quantile: float) -> None:
    """The table in every book on statistics."""
    assert student_quantile(tail, freedom) == approx(quantile, abs=0.0005)
    assert student_tail(quantile, freedom) == approx(tail, rel=0.002)


def test_students_distribution_is_that_of_scipy_far_out() -> None:
    """First looks need probabilities of one in ten million."""
    from scipy import stats  # noqa: PLC0415 - takes half a second

    for freedom in range(1, MOST_TRIALS):
        for tail in (0.4, 0.1, 1e-3, 1e-6, 1e-9):
            assert student_quantile(tail, freedom) == approx(min(stats.t.isf(tail, freedom), 1e6), rel=1e-4)
            assert student_tail(-1.5, freedom) == approx(1 - student_tail(1.5, freedom))


# Bounds


@pytest.mark.parametrize("alpha", [0.01, 0.05])
def test_looks_together_cross_their_bounds_as_seldom_as_the_level_says(alpha: float) -> None:
    """40,000 unchanged tests, whose trials are drawn one by one: at most the level, and not far below it."""
    runs = 40_000
    drawn = differences(runs=runs, deviation=1.0, restarts=1.5, seed=1)
    crossed = np.zeros(runs, dtype=bool)
    for number in LOOKS:
        mean, error = moderated(drawn, number)
        crossed |= mean >= critical(number, "regressed", alpha) * error
    found, noise = crossed.mean(), math.sqrt(alpha * (1 - alpha) / runs)
    assert 0.85 * alpha - 3 * noise < found < alpha + 3 * noise


@pytest.mark.parametrize("last", [2, 3, 4, 5, 8, 16])
def test_a_last_look_for_want_of_time_uses_what_is_left_of_the_level(last: int) -> None:
    """40,000 unchanged tests that end after so many trials: at most the level, and most of it."""
    runs = 40_000
    drawn = differences(runs=runs, deviation=1.0, restarts=1.5, seed=2)
    crossed = np.zeros(runs, dtype=bool)
    for number in sorted({*range(FEWEST_TRIALS, last), last}):
        mean, error = moderated(drawn, number)
        needed = critical(number, "regressed", ALPHA, final=number == last)
        crossed |= mean >= needed * error
    noise = math.sqrt(ALPHA * (1 - ALPHA) / runs)
    assert 0.6 * ALPHA < crossed.mean() < ALPHA + 3 * noise


def test_a_clear_change_is_found_at_a_last_look() -> None:
    """A fall by 93% despite a noise of 40% is no riddle, but a first look is careful."""
    drawn = with_mean(0.9, 2, 0.1)
    found = [look(drawn, tolerance=TOLERANCE, alpha=ALPHA, final=final).decision for final in (False, True)]
    assert found == ["open", "regressed"]


def test_later_looks_need_weaker_evidence() -> None:
    """On the scale of the normal distribution: towards the bound of a single test."""
    needed = [critical(number, "regressed", ALPHA) for number in LOOKS]
    normal = [
        statistics.NormalDist().inv_cdf(1 - student_tail(t, number - 2 * (number // 8) - 1))
        for t, number in zip(needed, LOOKS, strict=True)
    ]
    assert normal == sorted(normal, reverse=True)
    assert normal[-1] > statistics.NormalDist().inv_cdf(1 - ALPHA)
    assert normal[0] / normal[-1] == approx((MOST_TRIALS / FEWEST_TRIALS) ** 0.25, rel=1e-4)


def test_a_smaller_level_needs_more_at_every_look() -> None:
    """Several gated metrics share the level of one test."""
    for number in LOOKS:
        assert critical(number, "regressed", ALPHA) < critical(number, "regressed", ALPHA / 4)
        assert critical(number, "equal", ALPHA) == approx(critical(number, "equal", ALPHA / 4))


# Decisions


@pytest.mark.parametrize("number", [1, 2, 3])
def test_before_the_first_look_nothing_is_known(number: int) -> None:
    """Two trials can agree by chance."""
    found = look([Difference(5.0)] * number, tolerance=0.0, alpha=ALPHA)
    assert (found.decision, found.settled, found.interval, found.deviation) == ("open", False, None, None)
    assert (found.trials, found.mean) == (number, 5.0)


@pytest.mark.parametrize(
    ("mean", "decision"),
    [
        (0.5, "regressed"),
        (TOLERANCE + MARGIN, "open"),
        (TOLERANCE + MARGIN / 2, "open"),
        (0.0, "equal"),
        (-TOLERANCE, "equal"),
        (-0.5, "improved"),
    ],
)
def test_the_mean_of_the_trials_decides(mean: float, decision: str) -> None:
    """Six trials with a noise of 3%."""
    found = look(with_mean(mean, 6, 0.03), tolerance=TOLERANCE, alpha=ALPHA)
    assert (found.decision, found.settled) == (decision, decision != "open")
    assert found.deviation == approx(0.03)


def test_after_the_most_trials_every_test_is_settled() -> None:
    """Also one that nothing was shown of."""
    wild = with_mean(TOLERANCE + MARGIN / 2, MOST_TRIALS)
    for number, settled in ((MOST_TRIALS - 1, False), (MOST_TRIALS, True)):
        found = look(wild[:number], tolerance=TOLERANCE, alpha=ALPHA)
        assert (found.decision, found.settled) == ("open", settled)
    assert look([*wild, Difference(0.0)], tolerance=TOLERANCE, alpha=ALPHA).settled


@pytest.mark.parametrize(
    ("mean", "decision"),
    [(0.2, "regressed"), (TOLERANCE, "equal"), (0.0, "equal"), (-TOLERANCE, "equal"), (-0.2, "improved")],
)
def test_trials_without_noise_decide_at_the_first_look(mean: float, decision: str) -> None:
    """Values of a load at a rate can be the same in every trial; exactly the tolerance is within it."""
    found = look([Difference(mean, 0.0, 3)] * FEWEST_TRIALS, tolerance=TOLERANCE, alpha=ALPHA)
    assert (found.decision, found.interval) == (decision, approx((mean, mean)))


@given(st.lists(st.floats(-1, 1), min_size=FEWEST_TRIALS, max_size=MOST_TRIALS), st.floats(0, 0.2))
def test_better_is_worse_the_other_way_round(drawn: list[float], tolerance: float) -> None:
    """IMPROVED is asked for as strictly as REGRESSED."""
    there = look(drawn, tolerance=tolerance, alpha=ALPHA)
    back = look([-each for each in drawn], tolerance=tolerance, alpha=ALPHA)
    if there.decision in ("regressed", "improved"):
        assert {there.decision, back.decision} == {"regressed", "improved"}
    low, high = there.interval or (math.nan, math.nan)
    assert back.interval == approx((-high, -low))


@given(st.lists(st.floats(-1, 1), min_size=FEWEST_TRIALS, max_size=MOST_TRIALS), st.floats(0, 0.5))
def test_worse_trials_are_never_judged_better(drawn: list[float], more: float) -> None:
    """Otherwise a team could pass by slowing down."""
    order = ["improved", "equal", "open", "regressed"]
    before, after = (
        look([each + shift for each in drawn], tolerance=TOLERANCE, alpha=ALPHA).decision for shift in (0.0, more)
    )
    assert order.index(before) <= order.index(after)


def test_the_mean_is_that_of_scipy() -> None:
    """Without an eighth of the trials at each end; the error is of the trials with the ends drawn in."""
    from scipy import stats  # noqa: PLC0415 - takes half a second

    drawn = np.random.default_rng(3).standard_t(2, MOST_TRIALS)
    for number in LOOKS:
        cut, found = number // 8, look(drawn[:number].tolist(), tolerance=0.0, alpha=ALPHA)
        ends = (cut / number + 1e-9, cut / number + 1e-9)
        spread = float(stats.mstats.winsorize(drawn[:number], ends).std(ddof=1)) * math.sqrt(number - 1)
        kept = number - 2 * cut
        assert found.mean == approx(stats.trim_mean(drawn[:number], ends[0]))
        assert found.deviation == approx(spread * math.sqrt(number / kept / (kept - 1)))


# Errors and power


def test_the_simulation_is_the_rule() -> None:
    """Tests at once, as arrays, fare as each does by the rule itself."""
    drawn = differences(runs=60, deviation=0.08) + 0.06
    together = judged(drawn, tolerance=TOLERANCE, alpha=ALPHA)
    for number in range(60):
        *_, last = looks(drawn.test(number), tolerance=TOLERANCE, alpha=ALPHA)
        assert (together.decisions[number], together.trials[number]) == (last.decision, last.trials)
    assert {*together.decisions.tolist()} >= {"regressed", "equal"}


@pytest.mark.parametrize("noise", ["normal", "heavy-tailed"])
@pytest.mark.parametrize(("deviation", "power"), [(0.04, 0.97), (0.06, 0.95), (0.08, 0.91)])
def test_the_rule_seldom_cries_wolf_and_finds_ten_per_cent(noise: Noise, deviation: float, power: float) -> None:
    """2,500 tests of each kind: with no change, with a change of just the tolerance, and with a drop by 10%."""
    drawn = differences(runs=2500, deviation=deviation, noise=noise)
    same, tolerated, slower = (
        judged(drawn + change, tolerance=TOLERANCE, alpha=ALPHA) for change in (0.0, TOLERANCE, TEN_PER_CENT)
    )
    assert same.share("regressed") + same.share("improved") <= 0.001
    assert same.share("equal") >= 0.995
    assert tolerated.share("regressed") <= ALPHA
    assert slower.share("regressed") >= power
    assert same.trials.mean() < slower.trials.mean() < 17.5


@pytest.mark.parametrize(("deviation", "power"), [(0.03, 0.98), (0.06, 0.9)])
def test_disturbed_trials_hide_no_change(deviation: float, power: float) -> None:
    """One in eight is five times as noisy, as other programs of a shared machine make it."""
    drawn = differences(runs=2500, deviation=deviation, noise="disturbed")
    same, tolerated, slower = (
        judged(drawn + change, tolerance=TOLERANCE, alpha=ALPHA) for change in (0.0, TOLERANCE, TEN_PER_CENT)
    )
    assert same.share("regressed") + same.share("improved") <= 0.001
    assert same.share("equal") >= 0.99
    assert tolerated.share("regressed") <= ALPHA
    assert slower.share("regressed") >= power


@pytest.mark.parametrize("deviation", [0.06, 0.1])
def test_a_change_of_the_target_seldom_counts_as_equal(deviation: float) -> None:
    """What a test says it has excluded, it has excluded."""
    drawn = differences(runs=4000, deviation=deviation) + TOLERANCE + MARGIN
    found = judged(drawn, tolerance=TOLERANCE, alpha=ALPHA)
    assert found.share("equal") <= BETA + 3 * math.sqrt(BETA * (1 - BETA) / 4000)


@pytest.mark.parametrize("noise", ["normal", "heavy-tailed"])
def test_the_intervals_of_all_looks_hold_the_true_difference(noise: Noise) -> None:
    """A repeated confidence interval may be read at any trial: 40,000 tests."""
    runs = 40_000
    drawn = differences(runs=runs, deviation=1.0, noise=noise)
    held = np.ones(runs, dtype=bool)
    for number in LOOKS:
        mean, error = moderated(drawn, number)
        held &= np.abs(mean) <= half_width(number) * error
    missed = 2 * BETA  # at one end or the other
    assert held.mean() >= 1 - missed - 3 * math.sqrt(missed * (1 - missed) / runs)


# The minimum detectable change


@pytest.mark.parametrize("tolerance", [0.0, 0.1])
def test_without_noise_the_tolerance_is_what_can_be_detected(tolerance: float) -> None:
    """Values of a load at a rate can be the same in every trial."""
    assert detectable(0.0, tolerance=tolerance, alpha=ALPHA, power=POWER) == tolerance


@pytest.mark.parametrize("deviation", [0.02, 0.06, 0.12])
@pytest.mark.parametrize("alpha", [ALPHA, ALPHA / 4])
def test_what_is_detectable_is_found_with_the_promised_probability(deviation: float, alpha: float) -> None:
    """Against the rule itself, with other random numbers."""
    change = detectable(deviation, tolerance=TOLERANCE, alpha=alpha, power=POWER)
    drawn = differences(runs=2000, deviation=deviation, seed=5) + change
    assert judged(drawn, tolerance=TOLERANCE, alpha=alpha).share("regressed") == approx(POWER, abs=0.05)


# Metrics


P99 = metric("produce.latency.p99")


def _trial(value: float | None, other: float | None = 1.0) -> Measured:
    ours, theirs = ([{} if each is None else {P99.name: each}] for each in (value, other))
    return Measured(rounds=ours, other_side=theirs)


def test_each_trial_gives_one_difference() -> None:
    """More rounds do not make more evidence: they share the noise of their trial."""
    found, flaw = differences_of(P99, [_trial(2.0), _trial(0.5)])
    assert (found, flaw) == (approx([math.log(2), -math.log(2)]), None)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (_trial(None), "produce.latency.p99 is missing in round 1 of 1 (trial 2)"),
        (_trial(1.0, None), "produce.latency.p99 is missing in round 1 of 1 of the baseline (trial 2)"),
        (
            _trial(1.0, 0.0),
            "produce.latency.p99 is 0 s in round 1 of 1 of the baseline, so it has no ratio (trial 2)",
        ),
        (Measured(rounds=[], other_side=[]), "no round was measured (trial 2)"),
    ],
)
def test_a_trial_without_the_metric_is_named(broken: Measured, reason: str) -> None:
    """The others decide, and the report tells that they are not all."""
    assert differences_of(P99, [_trial(1.0), broken, _trial(1.0)]) == ([0.0, 0.0], reason)


@pytest.mark.parametrize(("sound", "broken", "counts"), [(0, 1, False), (1, 1, True), (5, 2, False), (6, 2, True)])
def test_a_quarter_of_the_trials_may_lack_the_metric(sound: int, broken: int, *, counts: bool) -> None:
    """One lost reading ends no comparison; a metric that is often missing has no value."""
    found, flaw = differences_of(P99, [*[_trial(1.0)] * sound, *[_trial(None)] * broken])
    assert found == [0.0] * (sound if counts else 0)
    assert flaw == f"produce.latency.p99 is missing in round 1 of 1 (trial {sound + 1})"


def test_a_metric_that_can_be_zero_has_no_differences() -> None:
    """There is no ratio to zero."""
    assert differences_of(metric("errors"), [Measured(rounds=[{"errors": 1.0}], other_side=[{"errors": 1.0}])]) == (
        [],
        "errors can be zero, so it has no ratio to a baseline (trial 1)",
    )
