"""The rule over a baseline, on noise that is known: many tests at once, as arrays over the runs.

A slow, obvious version stands in `test_confirmation`; `benchmarks/verdict/simulate.py` makes tables of it.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.verdict.confirmation import SESSIONS
from pytest_kafkaperf.verdict.rank_tests import mann_whitney_p

ALPHA = Fraction(1, 100)
_AT_ONCE = 2000
"""Runs: what fits a processor's cache is faster."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a test is judged by. The tolerance and the change are on the log scale."""

    within: float
    """Standard deviation of the log of rounds in a session, of one cluster."""
    between: float
    """The same of the levels of sessions."""
    tolerance: float
    worse: float = 0.0
    """By how much the current values truly are worse."""
    baseline: int
    """Sessions of the baseline."""
    rounds: int = 5
    confirmed: bool = True
    """Whether fresh sessions decide over a suspect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Values of some runs: the baseline's rounds (runs, rounds), and sessions (runs, sessions, rounds), first first."""

    baseline: Floats
    sessions: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What became of the tests, as shares of 1."""

    failed: float
    suspect: float
    fresh: float
    """Fresh sessions a test, on average."""


def rates(setting: Setting, *, runs: int = 4000, seed: int = 20_260_815) -> Rates:
    """Judge as many tests."""
    judged = [judged_by_rule(draw, setting) for draw in draws(setting, runs=runs, seed=seed)]
    failed, suspect, fresh = (np.concatenate(column) for column in zip(*judged, strict=True))
    return Rates(failed=float(failed.mean()), suspect=float(suspect.mean()), fresh=float(fresh.mean()))


def draws(setting: Setting, *, runs: int, seed: int) -> Iterator[Draw]:
    """Log-normal noise, a part of the runs at a time."""
    source = np.random.default_rng(seed)

    def measured(count: int, sessions: int) -> Floats:
        levels = setting.between * source.standard_normal((count, sessions, 1))
        return levels + setting.within * source.standard_normal((count, sessions, setting.rounds))

    for start in range(0, runs, _AT_ONCE):
        count = min(_AT_ONCE, runs - start)
        sessions = setting.worse + measured(count, 1 + SESSIONS)
        yield Draw(baseline=measured(count, setting.baseline).reshape(count, -1), sessions=sessions)


def judged_by_rule(draw: Draw, setting: Setting) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], Floats]:
    """Whether each test fails, whether it was suspect, and how many fresh sessions it took."""
    first, again = draw.sessions[:, 0], draw.sessions[:, 1:]
    suspect = _shift(first, draw.baseline) > setting.tolerance
    if not setting.confirmed:
        return suspect & _beyond_noise(first, draw.baseline, setting.tolerance), suspect, np.zeros(len(first))
    exceeding = np.stack(
        [_shift(again[:, number], draw.baseline) > setting.tolerance for number in range(SESSIONS)], axis=1
    )
    everything = again.reshape(len(again), -1)
    beyond = _beyond_noise(everything, draw.baseline, setting.tolerance)
    # The third session is left out where the first two clear the test.
    taken = np.where(exceeding[:, : SESSIONS - 1].any(axis=1), SESSIONS, SESSIONS - 1)
    return suspect & (exceeding.sum(axis=1) > SESSIONS // 2) & beyond, suspect, suspect * taken.astype(float)


def _shift(current: Floats, baseline: Floats) -> Floats:
    return np.asarray(np.median((current[:, :, None] - baseline[:, None, :]).reshape(len(current), -1), axis=1))


def _beyond_noise(current: Floats, baseline: Floats, tolerance: float) -> npt.NDArray[np.bool_]:
    u = (current[:, :, None] - tolerance > baseline[:, None, :]).sum(axis=(1, 2))
    return np.asarray(u >= least_u(current.shape[1], baseline.shape[1]))


@functools.cache
def least_u(current: int, baseline: int) -> int:
    """The least U whose p is below ALPHA, without ties, by our own exact test; one more than there is, if none is."""

    def p(u: int) -> Fraction:
        rest, full = u % baseline, u // baseline
        ranks = [0.5] * (current - full - (rest > 0)) + [rest + 0.5] * (rest > 0) + [baseline + 0.5] * full
        spread = [value + 1e-6 * place for place, value in enumerate(ranks)]
        return mann_whitney_p(spread, range(1, baseline + 1))

    return bisect.bisect_left(range(current * baseline + 1), True, key=lambda u: p(u) < ALPHA)
