"""Noise is estimated as it was made, and what is called detectable is found as often as promised."""

from __future__ import annotations

import math
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.verdict.power import POWER, Noise, detectable, detectable_absolute
from pytest_kafkaperf.verdict.rank_tests import critical_us
from tests.support.simulated_rounds import ALPHA, Setting, least_u, rates

NOISES = [(0.03, 0.05), (0.06, 0.065), (0.10, 0.10)]


def noise(within: float, between: float) -> Noise:
    return Noise(within=within, between=between, sessions=5, assumed=False)


def found(
    noise: Noise,
    *,
    tolerance: float = math.log1p(0.1),
    rounds: int = 5,
    baseline: list[int],
    confirmed: bool = True,
    alpha: Fraction = ALPHA,
) -> float:
    return detectable(noise, tolerance=tolerance, rounds=rounds, baseline=baseline, confirmed=confirmed, alpha=alpha)


def sessions(*, within: float, between: float, sizes: list[int]) -> list[list[float]]:
    source = np.random.default_rng(1)
    return [(between * source.standard_normal() + within * source.standard_normal(size)).tolist() for size in sizes]


@pytest.mark.parametrize("sizes", [[5] * 2000, [2, 5, 9, 1] * 500])
@pytest.mark.parametrize(("within", "between"), [*NOISES, (0.1, 0.0), (0.0, 0.1)])
def test_the_noise_that_was_made_is_found(within: float, between: float, sizes: list[int]) -> None:
    """Sessions of unequal size must not lean on the larger ones."""
    seen = Noise.of(sessions(within=within, between=between, sizes=sizes))
    assert seen is not None
    assert seen.within == pytest.approx(within, rel=0.05)
    assert seen.between == pytest.approx(between, rel=0.05, abs=0.02)
    assert (seen.sessions, seen.assumed) == (2000, False)


def test_a_small_example_comes_out_as_by_hand() -> None:
    """Within: (2 + 2 + 8) / 3 = 4. Between: the means 2, 6 and 10 vary by 16, of which 4 / 2 are the rounds' share."""
    assert Noise.of([[1.0, 3.0], [5.0, 7.0], [8.0, 12.0]]) == Noise(
        within=2.0, between=math.sqrt(14), sessions=3, assumed=False
    )


def test_sessions_closer_than_their_rounds_explain_have_no_noise_between_them() -> None:
    """A variance below zero is chance, not a measurement."""
    assert Noise.of([[-1.0, 1.0]] * 3) == Noise(within=math.sqrt(2), between=0.0, sessions=3, assumed=False)


@pytest.mark.parametrize("count", [1, 2])
def test_noise_between_fewer_than_three_sessions_is_assumed(count: int) -> None:
    """Zero would promise to find what is one session's noise."""
    assert Noise.of([[-1.0, 1.0]] * count) == Noise(
        within=math.sqrt(2), between=math.sqrt(2), sessions=count, assumed=True
    )


@pytest.mark.parametrize("rounds", [[], [[]], [[1.0]], [[1.0], [2.0], [3.0]]])
def test_without_two_rounds_in_a_session_no_noise_can_be_told(rounds: list[list[float]]) -> None:
    """Unknown is not zero."""
    assert Noise.of(rounds) is None


@pytest.mark.parametrize("tolerance", [0.05, 0.1, 0.2])
@pytest.mark.parametrize("baseline", [1, 3, 5, 10])
@pytest.mark.parametrize("confirmed", [True, False])
@pytest.mark.parametrize(("within", "between"), NOISES)
def test_what_is_detectable_is_found_with_the_promised_probability(
    *,
    within: float,
    between: float,
    confirmed: bool,
    baseline: int,
    tolerance: float,
) -> None:
    """Against the rule itself."""
    rounds = 5 if confirmed else 7
    worse = found(
        noise(within, between),
        tolerance=math.log1p(tolerance),
        rounds=rounds,
        baseline=[rounds] * baseline,
        confirmed=confirmed,
    )
    setting = Setting(
        within=within,
        between=between,
        tolerance=math.log1p(tolerance),
        worse=worse,
        baseline=baseline,
        rounds=rounds,
        confirmed=confirmed,
    )
    assert rates(setting, runs=2000).failed == pytest.approx(POWER, abs=0.07)


def test_many_rounds_are_reckoned_with_as_well() -> None:
    """Past some number they are drawn as means of some: that must not change the answer."""
    worse = found(noise(0.1, 0.05), rounds=24, baseline=[24] * 2)
    setting = Setting(within=0.1, between=0.05, tolerance=math.log1p(0.1), worse=worse, baseline=2, rounds=24)
    assert rates(setting, runs=600).failed == pytest.approx(POWER, abs=0.08)


@pytest.mark.parametrize("confirmed", [True, False])
@pytest.mark.parametrize("baseline", [[7], [7] * 5, [3, 9, 5]])
def test_without_noise_the_tolerance_is_what_can_be_detected(*, confirmed: bool, baseline: list[int]) -> None:
    """Nothing else is in the way."""
    assert found(noise(0.0, 0.0), tolerance=0.1, rounds=7, baseline=baseline, confirmed=confirmed) == 0.1


def test_too_few_rounds_detect_nothing_however_large() -> None:
    """They cannot give a small p, and a user must not read a number there."""
    some = noise(0.03, 0.05)
    assert found(some, rounds=3, baseline=[3], confirmed=False) == math.inf
    assert found(some, rounds=5, baseline=[5], confirmed=False, alpha=ALPHA / 3) == math.inf
    assert found(some, rounds=5, baseline=[5], alpha=ALPHA / 3) < math.inf


@given(st.floats(0, 0.5), st.floats(0, 0.5), st.integers(1, 6), st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_what_is_detectable_is_a_number_beyond_the_tolerance(
    within: float, between: float, rounds: int, baseline: list[int]
) -> None:
    """Never NaN, never below what is tolerated, and the same whenever asked."""
    change = found(noise(within, between), tolerance=0.1, rounds=rounds, baseline=baseline)
    assert change >= 0.1
    assert change == found(noise(within, between), tolerance=0.1, rounds=rounds, baseline=baseline)


@pytest.mark.parametrize(("within", "between"), [*NOISES, (0.0, 0.3), (0.3, 0.0)])
def test_the_tolerance_adds_up_with_what_noise_hides(within: float, between: float) -> None:
    """Twice the noise hides twice as much, whatever is tolerated."""
    once = found(noise(within, between), tolerance=0.0, baseline=[5] * 5)
    twice = found(noise(2 * within, 2 * between), tolerance=0.2, baseline=[5] * 5)
    assert twice == pytest.approx(0.2 + 2 * once)


def test_a_larger_baseline_and_a_calmer_machine_detect_more_than_more_rounds_do() -> None:
    """What the user is advised to do."""
    five, ten = (found(noise(0.06, 0.065), rounds=rounds, baseline=[rounds] * 3) for rounds in (5, 10))
    assert found(noise(0.03, 0.0325), baseline=[5] * 3) < found(noise(0.06, 0.065), baseline=[5] * 10) < ten < five


def test_the_answer_takes_milliseconds() -> None:
    """A report asks it of every metric of every test. The bound leaves room for a machine with other work."""
    start_s = time.process_time()
    for _ in range(10):
        found(noise(0.06, 0.065), baseline=[5] * 5)
    assert (time.process_time() - start_s) / 10 < 0.2


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 5, 8, 15])
@pytest.mark.parametrize(("within", "between"), [*NOISES, (0.1, 0.0)])
def test_what_is_detectable_beyond_an_absolute_limit_is_found_so_often(
    within: float, between: float, rounds: int
) -> None:
    """The median of one session decides there."""
    source = np.random.default_rng(2)
    beyond = detectable_absolute(noise(within, between), rounds=rounds)
    values = beyond + between * source.standard_normal((20_000, 1)) + within * source.standard_normal((20_000, rounds))
    assert (np.median(values, axis=1) > 0).mean() == pytest.approx(POWER, abs=0.02)


def test_without_noise_an_absolute_limit_is_exact() -> None:
    """Nothing hides behind it."""
    assert detectable_absolute(noise(0.0, 0.0), rounds=5) == 0


@pytest.mark.parametrize(("current", "baseline"), [(5, 5), (15, 5), (15, 25), (7, 21), (4, 4)])
def test_the_least_u_is_that_of_the_exact_test(current: int, baseline: int) -> None:
    """Off by one, 5 against 5 rounds could never decide."""
    assert current * baseline - critical_us(current, baseline, ALPHA) + 1 == least_u(current, baseline)
