"""Noise is estimated as it was made, and the detectable change follows from it."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from pytest_kafkaperf.verdict.days import BaselineLevel
from pytest_kafkaperf.verdict.detectable import Confirmation, Noise, detectable_shift
from pytest_kafkaperf.verdict.regression import ALPHA
from tests.support.simulated_trials import differences, judged

NOISES = [(0.03, 0.05), (0.06, 0.065), (0.10, 0.10)]
TOLERANCE = math.log1p(0.1)


def trials(*, within: float, between: float, sizes: list[int]) -> list[list[float]]:
    source = np.random.default_rng(1)
    return [(between * source.standard_normal() + within * source.standard_normal(size)).tolist() for size in sizes]


@pytest.mark.parametrize("sizes", [[5] * 2000, [2, 5, 9, 1] * 500])
@pytest.mark.parametrize(("within", "between"), [*NOISES, (0.1, 0.0), (0.0, 0.1)])
def test_the_noise_that_was_made_is_found(within: float, between: float, sizes: list[int]) -> None:
    """Trials of unequal size must not lean on the larger ones."""
    seen = Noise.of(trials(within=within, between=between, sizes=sizes))
    assert seen is not None
    assert seen.within == pytest.approx(within, rel=0.05)
    assert seen.between == pytest.approx(between, rel=0.05, abs=0.02)
    assert not seen.assumed


def test_a_small_example_comes_out_as_by_hand() -> None:
    """Within: (2 + 2 + 8) / 3 = 4. Between: the means 2, 6 and 10 vary by 16, of which 4 / 2 are the rounds' share."""
    assert Noise.of([[1.0, 3.0], [5.0, 7.0], [8.0, 12.0]]) == Noise(within=2.0, between=math.sqrt(14), assumed=False)


def test_trials_closer_than_their_rounds_explain_have_no_noise_between_them() -> None:
    """A variance below zero is chance, not a measurement."""
    assert Noise.of([[-1.0, 1.0]] * 3) == Noise(within=math.sqrt(2), between=0.0, assumed=False)


@pytest.mark.parametrize("count", [1, 2])
def test_noise_between_fewer_than_three_trials_is_assumed(count: int) -> None:
    """Zero would promise to find what is one trial's noise."""
    assert Noise.of([[-1.0, 1.0]] * count) == Noise(within=math.sqrt(2), between=math.sqrt(2), assumed=True)


@pytest.mark.parametrize("rounds", [[], [[]], [[1.0]], [[1.0], [2.0], [3.0]]])
def test_without_two_rounds_in_a_trial_no_noise_can_be_told(rounds: list[list[float]]) -> None:
    """Unknown is not zero."""
    assert Noise.of(rounds) is None


def level(noise: float, *, days: int = 5, rounds: int = 5) -> BaselineLevel:
    """Each day has one trial, and the noise of days, trials and rounds are alike."""
    source = np.random.default_rng(1)
    drawn = noise * (source.standard_normal((days, 1, 1)) + source.standard_normal((days, 1, rounds)))
    return BaselineLevel.of(drawn.tolist())


def found(
    known: BaselineLevel, *, tolerance: float = TOLERANCE, way: Confirmation = "fresh", alpha: float = ALPHA
) -> float:
    return detectable_shift(known, tolerance=tolerance, confirmation=way, alpha=alpha)


@pytest.mark.parametrize("way", ["none", "fresh", "side by side"])
def test_without_noise_the_tolerance_is_what_can_be_detected(way: Confirmation) -> None:
    """Nothing else is in the way."""
    assert found(level(0.0), tolerance=0.1, way=way) == pytest.approx(0.1)


def test_side_by_side_with_the_baselines_brokers_the_noise_of_days_explains_nothing() -> None:
    """A baseline of one day is enough there."""
    known = level(0.06, days=1)
    assert TOLERANCE < found(known, way="side by side") < 0.6 * found(known)
    assert found(level(0.02, days=1), way="side by side") < found(known, way="side by side")


def test_a_change_that_can_be_detected_side_by_side_is_found_in_four_of_five_cases() -> None:
    """Draws of the whole rule: a first trial of another day, then trials in pairs."""
    known, runs = level(0.05, days=3), 2000
    change, of_trial = found(known, way="side by side"), math.sqrt(known.of_trials.value)
    source = np.random.default_rng(7)
    days = math.sqrt(known.of_days.value * (1 + 1 / known.days) + known.of_trials.value * (1 + 1 / known.days))
    suspected = change + days * source.standard_normal(runs) > TOLERANCE
    drawn = differences(runs=runs, deviation=math.sqrt(2) * of_trial, seed=8) + change
    confirmed = judged(drawn, tolerance=TOLERANCE, alpha=ALPHA).decisions == "regressed"
    assert 0.78 < (suspected & confirmed).mean() < 0.97


def test_what_noise_explains_is_not_found_and_fewer_days_explain_more() -> None:
    """What the user is advised to do: more days, a calmer machine."""
    assert found(level(0.06)) > level(0.06).most_by_noise(3, ALPHA)
    assert found(level(0.06), alpha=ALPHA / 3) > found(level(0.06)) > found(level(0.02))
    assert found(level(0.06, days=1)) > found(level(0.06, days=3)) > found(level(0.06, days=10))


@pytest.mark.parametrize("noise", [0.03, 0.1])
def test_a_tolerance_below_what_noise_explains_does_not_add_to_it(noise: float) -> None:
    """A small tolerance leads to more suspected regressions, and finds nothing smaller."""
    assert found(level(noise), tolerance=0.0) == pytest.approx(found(level(noise), tolerance=0.02), rel=0.02)
    assert found(level(noise), tolerance=1.0) < 1.3


def test_the_answer_is_the_same_whenever_asked_and_takes_milliseconds() -> None:
    """A report asks it of every metric of every test. The bound leaves room for a machine with other work."""
    known, start_s = level(0.06), time.process_time()
    assert len({found(known) for _ in range(10)}) == 1
    assert (time.process_time() - start_s) / 10 < 0.2
