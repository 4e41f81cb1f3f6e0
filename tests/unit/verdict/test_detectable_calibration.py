"""What unchanged trials show about the rule: the noise that was drawn, and its suspected regressions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_kafkaperf.verdict.days import BaselineLevel
from pytest_kafkaperf.verdict.detectable import Calibrated, Noise, calibrated, detectable_shift
from pytest_kafkaperf.verdict.regression import ALPHA

TOLERANCE = math.log1p(0.1)
ROUNDS = [0.0, 0.01, 0.02, 0.03, 0.04]


def drawn(count: int, *, within: float, between: float, rounds: int = 5, seed: int = 1) -> list[list[float]]:
    source = np.random.default_rng(seed)
    return [
        (between * source.standard_normal() + within * source.standard_normal(rounds)).tolist() for _ in range(count)
    ]


def known(trials: list[list[float]]) -> Calibrated:
    found = calibrated(trials, tolerance=TOLERANCE, alpha=ALPHA, confirmation="fresh")
    assert found is not None
    return found


def detected(days: list[list[list[float]]]) -> float:
    return detectable_shift(BaselineLevel.of(days), tolerance=TOLERANCE, confirmation="fresh", alpha=ALPHA)


def worse(by: float) -> list[float]:
    return [value + by for value in ROUNDS]


def test_trials_that_are_alike_raise_no_suspicion() -> None:
    """Whole values: what a calm metric looks like."""
    calm = Noise(within=math.sqrt(0.00025), between=0.0, assumed=False)
    assert known([ROUNDS] * 6) == Calibrated(
        noise=calm,
        tolerance=TOLERANCE,
        trials=6,
        suspected=0,
        detectable_change=detected([[ROUNDS] * 6]),
        detectable_over_days=detected([[ROUNDS]] * 6),
    )
    assert detected([[ROUNDS]] * 6) < detected([[ROUNDS] * 6])


def test_one_trial_that_stands_out_is_one_suspected_regression() -> None:
    """Fresh trials would clear it."""
    assert known([*[ROUNDS] * 7, worse(0.5)]).suspected == 1


def test_of_trials_of_two_kinds_half_are_suspected() -> None:
    """Such a metric is judged by the toss of a coin, and a calibration must show that."""
    assert known([ROUNDS, worse(0.5)] * 4).suspected == 4


def test_the_noise_that_was_made_is_found_and_decides_what_can_be_detected() -> None:
    """The values that a user reads together belong together."""
    found = known(drawn(40, within=0.06, between=0.065))
    assert found.noise.within == pytest.approx(0.06, rel=0.15)
    assert found.noise.between == pytest.approx(0.065, rel=0.25)
    few = drawn(6, within=0.06, between=0.065)
    level = BaselineLevel.of([few])
    assert known(few).detectable_change == detectable_shift(
        level, tolerance=TOLERANCE, confirmation="fresh", alpha=ALPHA
    )


def test_one_round_a_trial_and_one_trial_say_nothing() -> None:
    """Unknown is not calm."""
    assert calibrated([[0.1]] * 6, tolerance=TOLERANCE, alpha=ALPHA, confirmation="fresh") is None
    assert calibrated([ROUNDS], tolerance=TOLERANCE, alpha=ALPHA, confirmation="fresh") is None
    assert calibrated([], tolerance=TOLERANCE, alpha=ALPHA, confirmation="fresh") is None
