"""A day is one value: how a baseline's noise is estimated, and how often the rule is wrong if days differ."""

from __future__ import annotations

import dataclasses
import math
import statistics
from typing import Any

import numpy as np
import pytest

from pytest_kafkaperf.core.metrics import CATALOGUE, metric
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.days import TRIALS, BaselineLevel, Shifts, Variance, compare
from pytest_kafkaperf.verdict.detectable import POWER
from pytest_kafkaperf.verdict.regression import ALPHA, is_cleared
from pytest_kafkaperf.verdict.scale import Incomparable, Measured, exceeds
from pytest_kafkaperf.verdict.student import student_quantile
from tests.support.simulated_rounds import Draw, Setting, achieved_power, drawn, judged_by_rule, of_one_noise

approx: Any = pytest.approx

P99 = metric("produce.latency.p99")
TOLERANCE = math.log1p(0.1)
PRIOR, FREEDOM = 0.08, 3
NOISES = [(0.03, 0.05), (0.06, 0.065), (0.10, 0.10)]
"""Of rounds and of trials."""
DAY_NOISES = (0.0, 0.05, 0.08)


def measured(*values: float) -> list[float]:
    """Rounds around each of two values, 0.3 apart: a variance of 0.09."""
    return [value + step for value in values for step in (-0.3, 0.0, 0.3)]


def test_a_small_example_comes_out_as_by_hand() -> None:
    """Two days: one of two trials, one of a single trial."""
    level = BaselineLevel.of([[measured(1.0), measured(3.0)], [measured(5.0)]])
    assert (level.level, level.days, level.trials_share) == approx((3.5, 2, 0.75))
    prior = 0.09 * (1 + math.pi / 2 / 3.5)
    of_trials = (FREEDOM * prior + 2.0) / (FREEDOM + 1)
    assert level.of_trials == Variance(value=approx(of_trials), freedom=4)
    between = statistics.variance([2.0, 5.0]) - 0.75 * of_trials
    of_days = (FREEDOM * of_trials + between) / (FREEDOM + 1)
    assert level.of_days == Variance(value=approx(of_days), freedom=4)
    by_days, by_trials = of_days * 1.5, of_trials * (math.pi / 2 / 3.5 + 0.375)
    error, freedom = level.error(3)
    assert error == pytest.approx(math.sqrt(by_days + by_trials))
    assert freedom == int((by_days + by_trials) ** 2 / (by_days**2 / 4 + by_trials**2 / 4))
    assert level.most_by_noise(3, ALPHA) == pytest.approx(error * student_quantile(ALPHA, freedom))


def test_trials_of_one_day_show_nothing_of_other_days() -> None:
    """A hundred trials of an afternoon are one day: its level may be wrong by as much as that of one trial."""
    source = np.random.default_rng(1)
    rounds = (0.02 * source.standard_normal((100, 5))).tolist()
    once, often = BaselineLevel.of([rounds[:1]]), BaselineLevel.of([rounds])
    assert (once.days, often.days) == (1, 1)
    assert often.of_days.freedom == once.of_days.freedom
    assert often.most_by_noise(3, ALPHA) > 0.15
    apart = BaselineLevel.of([[trial] for trial in rounds])
    assert apart.most_by_noise(3, ALPHA) < 0.5 * often.most_by_noise(3, ALPHA)


def test_trials_are_assumed_to_differ_at_least_by_what_is_known_of_the_metric() -> None:
    """Resident memory hardly moves within a trial, and differs much between two starts of a broker."""
    steady = [[[1.0, 1.01, 1.0, 0.99, 1.0]]]
    assert BaselineLevel.of(steady, least=0.1).of_trials.value == pytest.approx(0.01)
    assert BaselineLevel.of(steady, least=0.1).of_days.value == pytest.approx(0.01)
    assert BaselineLevel.of(steady).of_trials.value < 0.001
    assert {one.name: one.trial_noise for one in CATALOGUE.values() if one.trial_noise} == {"broker.memory": 0.1}


@pytest.mark.parametrize(
    ("noise", "expected"),
    [(0.0, 0.0), (0.001, 0.003), (0.05, PRIOR), (0.3, 0.3)],
    ids=["none", "paced throughput", "closed loop", "tail"],
)
def test_the_noise_between_days_is_assumed_if_there_is_one(noise: float, expected: float) -> None:
    """8%, but at least the noise of trials, and at most three times that."""
    ratio = math.sqrt(1 + math.pi / 2 / 3.5)
    rounds = [-noise / ratio, 0.0, noise / ratio]
    assert math.sqrt(BaselineLevel.of([[rounds]]).of_days.value) == pytest.approx(expected)


def test_without_a_second_round_or_trial_all_noise_is_assumed() -> None:
    """It works from one round on, and knows how little that is."""
    level = BaselineLevel.of([[[1.0]]])
    assert (level.of_days, level.of_trials) == (
        Variance(value=PRIOR**2, freedom=3),
        Variance(value=PRIOR**2, freedom=3),
    )


def test_without_any_noise_nothing_is_explained_by_it() -> None:
    """Every difference is then a change."""
    assert BaselineLevel.of([[[1.0, 1.0]], [[1.0, 1.0]]]).most_by_noise(3, ALPHA) == 0


def test_a_comparison_shows_the_change_that_is_judged() -> None:
    """Medians of rounds, the mean of a day's trials, the mean of the days; and today's median trial."""
    baseline = BaselineRounds(
        trials=tuple(tuple({P99.name: value} for value in values) for values in ((1.0, 9.0, 2.0), (4.0,), (16.0,))),
        days=("2026-01-01", "2026-01-01", "2026-01-02"),
    )
    today = [Measured(rounds=[{P99.name: value}]) for value in (8.0, 64.0, 16.0)]
    found = compare(P99, today, baseline)
    assert isinstance(found, Shifts)
    level = (statistics.fmean([math.log(2), math.log(4)]) + math.log(16)) / 2
    assert found.shifts == pytest.approx([math.log(value) - level for value in (8.0, 64.0, 16.0)])
    assert found.shift == pytest.approx(math.log(16) - level)
    low, high = found.interval
    assert (low + high) / 2 == pytest.approx(found.shift)


def test_a_trial_without_the_metric_is_left_out_of_the_baseline() -> None:
    """A threshold may be newer than a trial of the baseline; one without any says why."""
    old, new = ({P99.name: 4.0},), ({"errors": 0.0},)
    found = compare(P99, [Measured(rounds=[{P99.name: 8.0}])], BaselineRounds(trials=(old, new)))
    assert isinstance(found, Shifts)
    assert found.known.level == pytest.approx(math.log(4))
    without = compare(P99, [Measured(rounds=[{P99.name: 8.0}])], BaselineRounds(trials=(new,)))
    assert without == Incomparable(f"{P99.name} is missing in round 1 of 1 of the baseline's trial 1")


@pytest.mark.parametrize("of_days", DAY_NOISES)
@pytest.mark.parametrize("days", [1, 3, 10])
@pytest.mark.parametrize(("of_rounds", "of_trials"), NOISES)
def test_unchanged_tests_rarely_fail_and_intervals_hold_the_change(
    of_rounds: float, of_trials: float, days: int, of_days: float
) -> None:
    """The promise of a gate, with days that differ. The bounds leave room for the error of 10,000 tests."""
    setting = Setting(of_days=of_days, of_trials=of_trials, of_rounds=of_rounds, tolerance=TOLERANCE, days=days)
    for each in (setting, dataclasses.replace(setting, confirmed=False)):
        outcomes = judged_by_rule(drawn(each, runs=10_000), each)
        assert outcomes.failed.mean() <= 0.013
        assert outcomes.covered.mean() >= 0.945


@pytest.mark.parametrize("days", [1, 3, 5, 10])
def test_intervals_hold_the_change_where_days_differ_more_than_assumed(days: int) -> None:
    """13%, half as much again: the interval of 97% keeps 93%."""
    for of_rounds, of_trials in NOISES:
        setting = Setting(of_days=0.13, of_trials=of_trials, of_rounds=of_rounds, tolerance=TOLERANCE, days=days)
        assert judged_by_rule(drawn(setting, runs=10_000), setting).covered.mean() >= 0.92


@pytest.mark.parametrize(("days", "least_at_50"), [(1, 0.15), (3, 0.6), (5, 0.7), (10, 0.8)])
def test_half_as_much_again_is_found_the_better_the_more_days(days: int, least_at_50: float) -> None:
    """A gate that never rings is none."""
    setting = of_one_noise(0.05, days=days)
    assert judged_by_rule(drawn(setting, runs=4000, worse=math.log(1.5)), setting).failed.mean() >= least_at_50


@pytest.mark.parametrize("confirmed", [True, False])
@pytest.mark.parametrize(("days", "trials"), [(1, 1), (1, 4), (3, 1), (4, 2)])
def test_the_simulation_is_the_rule(*, days: int, trials: int, confirmed: bool) -> None:
    """Tests at once, as arrays, fare as each does by the rule itself."""
    setting = Setting(
        of_days=0.1,
        of_trials=0.05,
        of_rounds=0.05,
        tolerance=TOLERANCE,
        days=days,
        trials=trials,
        confirmed=confirmed,
    )
    draw = drawn(setting, runs=100, worse=0.4)
    outcomes = judged_by_rule(draw, setting)
    together = [*zip(outcomes.failed.tolist(), outcomes.suspected.tolist(), outcomes.fresh.tolist(), strict=True)]
    assert together == [_judged(draw, number, confirmed=confirmed) for number in range(100)]
    assert 5 < sum(outcomes.failed) < 100


def _judged(draw: Draw, number: int, *, confirmed: bool) -> tuple[bool, bool, float]:
    """One test by the rule itself: whether it fails, whether it was suspected, and its fresh trials."""
    known = BaselineLevel.of(draw.baseline[number].tolist())
    first, *more = (statistics.median(trial) - known.level for trial in draw.today[number].tolist())
    if not exceeds(first, TOLERANCE):
        return False, False, 0
    decisive = Shifts(shifts=(first,), known=known)
    if not confirmed:
        return decisive.shift > decisive.most_by_noise(ALPHA), True, 0
    for count in range(1, TRIALS + 1):
        decisive = Shifts(shifts=tuple(more[:count]), known=known)
        if is_cleared(decisive, TOLERANCE):
            return False, True, count
    return decisive.shift > decisive.most_by_noise(ALPHA), True, TRIALS


@pytest.mark.parametrize("confirmed", [True, False])
@pytest.mark.parametrize("days", [1, 3, 10])
def test_what_is_detectable_is_found_with_the_promised_mean_probability(*, days: int, confirmed: bool) -> None:
    """Over machines whose days differ as the prior says: 4 times in 5, whichever baseline each of them has."""
    drawn_noises = PRIOR * np.sqrt(FREEDOM / np.random.default_rng(3).chisquare(FREEDOM, 400))
    setting = Setting(
        of_days=drawn_noises,
        of_trials=0.065,
        of_rounds=0.06,
        tolerance=TOLERANCE,
        days=days,
        confirmed=confirmed,
    )
    assert POWER - 0.04 <= achieved_power(setting, baselines=400, runs=20) <= POWER + 0.08
