"""What unchanged sessions say of the rule: noise as it was made, and alarms counted as the rule would give them."""

from __future__ import annotations

import itertools
import math
import statistics
import time

import numpy as np
import pytest

from pytest_kafkaperf.verdict.calibration import Calibrated, calibrated
from pytest_kafkaperf.verdict.dates import BaselineLevel, Comparison
from pytest_kafkaperf.verdict.power import Noise, detectable_shift
from pytest_kafkaperf.verdict.regression import ALPHA, is_cleared

TOLERANCE = math.log1p(0.1)
ROUNDS = [0.0, 0.01, 0.02, 0.03, 0.04]


def drawn(count: int, *, within: float, between: float, rounds: int = 5, seed: int = 1) -> list[list[float]]:
    source = np.random.default_rng(seed)
    return [
        (between * source.standard_normal() + within * source.standard_normal(rounds)).tolist() for _ in range(count)
    ]


def known(sessions: list[list[float]]) -> Calibrated:
    found = calibrated(sessions, tolerance=TOLERANCE, alpha=ALPHA, confirmation="fresh")
    assert found is not None
    return found


def detected(dates: list[list[list[float]]]) -> float:
    return detectable_shift(BaselineLevel.of(dates), tolerance=TOLERANCE, confirmation="fresh", alpha=ALPHA)


def worse(by: float) -> list[float]:
    return [value + by for value in ROUNDS]


def test_sessions_that_are_alike_raise_no_suspicion() -> None:
    """Whole values: what a calm metric looks like."""
    calm = Noise(within=math.sqrt(0.00025), between=0.0, sessions=6, assumed=False)
    assert known([ROUNDS] * 6) == Calibrated(
        noise=calm,
        tolerance=TOLERANCE,
        sessions=6,
        suspects=0,
        alarms=0,
        splits=6 * 10,
        detectable=detected([[ROUNDS] * 6]),
        detectable_of_dates=detected([[ROUNDS]] * 6),
    )
    assert detected([[ROUNDS]] * 6) < detected([[ROUNDS] * 6])


def test_one_session_that_stands_out_is_one_suspect_and_no_alarm() -> None:
    """Fresh sessions would clear it."""
    found = known([*[ROUNDS] * 7, worse(0.5)])
    assert (found.suspects, found.alarms) == (1, 0)


def test_sessions_of_two_kinds_raise_alarms() -> None:
    """Such a metric fails builds on a coin's toss, and a calibration must say so.

    Four of the eight are slow: an alarm needs a slow first session, two slow ones of three, and a fast baseline.
    """
    found = known([ROUNDS, worse(0.5)] * 4)
    assert found.suspects == 4
    assert 0 < found.alarms < found.splits / 2


def test_the_noise_that_was_made_is_found_and_decides_what_can_be_detected() -> None:
    """The figures that a user reads together belong together."""
    found = known(drawn(40, within=0.06, between=0.065))
    assert found.noise.within == pytest.approx(0.06, rel=0.15)
    assert found.noise.between == pytest.approx(0.065, rel=0.25)
    few = drawn(6, within=0.06, between=0.065)
    level = BaselineLevel.of([few])
    assert known(few).detectable == detectable_shift(level, tolerance=TOLERANCE, confirmation="fresh", alpha=ALPHA)


def test_alarms_are_those_of_the_rule_over_every_split() -> None:
    """Checked against the rule, written out."""
    sessions = [worse(by) for by in (0.0, 0.01, 0.7, 0.72, 0.71, 0.69)]
    splits = [
        (first, fresh) for first in range(6) for fresh in itertools.combinations(range(6), 3) if first not in fresh
    ]
    alarms = sum(_fails(sessions, first, fresh) for first, fresh in splits)
    found = known(sessions)
    assert (found.alarms, found.splits) == (alarms, len(splits))
    assert alarms > 0


def _fails(sessions: list[list[float]], first: int, fresh: tuple[int, ...]) -> bool:
    level = BaselineLevel.of([[sessions[place] for place in range(6) if place not in (first, *fresh)]])
    shifts = [statistics.median(sessions[place]) - level.level for place in (first, *fresh)]
    decisive = Comparison(shifts=tuple(shifts[1:]), known=level)
    confirmed = not is_cleared(decisive, TOLERANCE) and decisive.shift > decisive.most_by_noise(ALPHA)
    return shifts[0] > TOLERANCE and confirmed


@pytest.mark.parametrize(("count", "splits"), [(2, 0), (4, 0), (5, 5 * 4), (10, 840)])
def test_a_split_needs_a_first_session_three_fresh_ones_and_a_baseline(count: int, splits: int) -> None:
    """Fewer sessions still show noise and suspects; they cannot show alarms."""
    assert known([ROUNDS] * count).splits == splits


def test_of_many_splits_an_even_choice_is_tried() -> None:
    """20 sessions give 19380 of them; what is said of them says how many."""
    sessions = [ROUNDS, worse(0.5)] * 10
    start_s = time.process_time()
    found = known(sessions)
    assert 900 <= found.splits <= 1000
    assert found == known(sessions)
    assert time.process_time() - start_s < 60
    # Every other first session is a slow one, and every other of the fresh ones.
    assert 0 <= found.alarms / found.splits < 0.25


def test_one_round_a_session_and_one_session_say_nothing() -> None:
    """Unknown is not calm."""
    assert calibrated([[0.1]] * 6, tolerance=TOLERANCE, alpha=ALPHA, confirmation="fresh") is None
    assert calibrated([ROUNDS], tolerance=TOLERANCE, alpha=ALPHA, confirmation="fresh") is None
    assert calibrated([], tolerance=TOLERANCE, alpha=ALPHA, confirmation="fresh") is None
