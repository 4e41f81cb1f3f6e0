"""The comparison with a live baseline on many simulated tests: how seldom it errs, and how much it finds."""

from __future__ import annotations

import math

import pytest

from tests.support.simulated_trials import Noise, differences, judged

RUNS = 100_000
ALPHA = 0.01


@pytest.mark.parametrize("gated", [1, 4])
@pytest.mark.parametrize("tolerance_ratio", [0.03, 0.1])
@pytest.mark.parametrize("noise", ["normal", "heavy-tailed"])
@pytest.mark.parametrize("deviation", [0.02, 0.04, 0.06, 0.08, 0.12])
def test_a_change_of_just_the_tolerance_fails_one_test_in_a_hundred_at_most(
    *, deviation: float, noise: Noise, tolerance_ratio: float, gated: int
) -> None:
    """The worst case of an acceptable change, for one gated metric and for one of four that share the level."""
    tolerance = -math.log1p(-tolerance_ratio)
    drawn = differences(runs=RUNS, deviation=deviation, noise=noise) + tolerance
    alpha = ALPHA / gated
    found = judged(drawn, tolerance=tolerance, alpha=alpha)
    assert found.share("regressed") <= alpha + 3 * math.sqrt(alpha / RUNS)


@pytest.mark.parametrize("noise", ["normal", "heavy-tailed"])
@pytest.mark.parametrize(("deviation", "power"), [(0.04, 0.985), (0.06, 0.965), (0.08, 0.92), (0.1, 0.8)])
def test_a_drop_by_ten_per_cent_is_found_beyond_a_tolerance_of_three(
    noise: Noise, deviation: float, power: float
) -> None:
    """The goal is 95 of 100 up to a noise of 6%."""
    drawn = differences(runs=RUNS, deviation=deviation, noise=noise) + -math.log1p(-0.1)
    assert judged(drawn, tolerance=-math.log1p(-0.03), alpha=ALPHA).share("regressed") >= power
