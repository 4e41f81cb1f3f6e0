"""Calibration: noise and false alarm rate of the regression rule, from unchanged sessions of the same cluster.

Values are those of one metric, on the scale of `comparison`, where larger is worse.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_kafkaperf.verdict.baselines.record import MAX_SESSIONS
from pytest_kafkaperf.verdict.comparison import exceeds
from pytest_kafkaperf.verdict.dates import BaselineLevel, Comparison
from pytest_kafkaperf.verdict.power import Confirmation, Noise, detectable_shift
from pytest_kafkaperf.verdict.regression import SESSIONS, is_cleared

_MOST_SPLITS = 1000
"""Maximum number of evaluated splits; it covers all splits of up to 10 sessions."""
_SEED = 20_260_815
"""Seed for the choice of splits, so that the same sessions give the same result."""

_DROWNED = 3
"""Multiple of the tolerance that a threshold must detect to be of use: noise may add twice the tolerance."""

_Session = Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """Calibration result of one metric and one tolerance; changes are on the log scale."""

    noise: Noise
    tolerance: float
    sessions: int
    suspects: int
    """Number of sessions that are suspect when compared with all the others."""
    alarms: int
    """Number of splits in which the rule confirms a regression, although nothing changed (false alarms)."""
    splits: int
    """Number of evaluated splits of the sessions into a first session, fresh sessions and a baseline."""
    detectable: float
    """Minimum detectable change against a baseline of the newest of these sessions."""
    detectable_of_dates: float
    """The same if each of these sessions was of a date of its own: at best, because dates differ more than sessions."""

    def drowns(self, detectable: float) -> bool:
        """Return True if a threshold that detects this change misses changes of three times its tolerance."""
        return detectable > _DROWNED * self.tolerance


def calibrated(
    sessions: Sequence[_Session], *, tolerance: float, alpha: float, confirmation: Confirmation
) -> Calibrated | None:
    """Evaluate unchanged sessions against each other; return None if there are fewer than two sessions, or no noise.

    `tolerance` is on the log scale; `alpha` is the significance level; `confirmation` is how later suspects will be
    confirmed, which decides what is detectable. The splits share sessions, so their false alarms
    are not independent.
    """
    noise = Noise.of(sessions)
    if noise is None or len(sessions) <= 1:
        return None
    kept = min(len(sessions), MAX_SESSIONS)
    places = range(len(sessions))
    splits = list(_splits(len(sessions)))
    alarms = 0
    for first, *fresh in splits:
        rest = [sessions[place] for place in places if place != first and place not in fresh][-kept:]
        chosen = [sessions[place] for place in fresh]
        alarms += _is_alarm(sessions[first], chosen, rest, tolerance=tolerance, alpha=alpha)
    dates = [sessions[-kept:]], [[session] for session in sessions[-kept:]]
    detectable, of_dates = (
        detectable_shift(BaselineLevel.of(each), tolerance=tolerance, confirmation=confirmation, alpha=alpha)
        for each in dates
    )
    return Calibrated(
        noise=noise,
        tolerance=tolerance,
        sessions=len(sessions),
        suspects=sum(
            exceeds(_comparison([sessions[place]], [*sessions[:place], *sessions[place + 1 :]]).shift, tolerance)
            for place in places
        ),
        alarms=alarms,
        splits=len(splits),
        detectable=detectable,
        detectable_of_dates=of_dates,
    )


def _splits(sessions: int) -> Iterator[tuple[int, ...]]:
    """Yield the indexes of the first session and of the fresh ones; at least one session remains for the baseline.

    Yields all splits, or a random sample if there are too many. Each session comes first equally often.
    """
    if sessions <= 1 + SESSIONS:
        return
    others = {first: [place for place in range(sessions) if place != first] for first in range(sessions)}
    if sessions * math.comb(sessions - 1, SESSIONS) <= _MOST_SPLITS:
        for first, rest in others.items():
            yield from ((first, *fresh) for fresh in itertools.combinations(rest, SESSIONS))
        return
    source = np.random.default_rng(_SEED)
    for number in range(_MOST_SPLITS):
        first = number % sessions
        fresh = source.choice(sessions - 1, SESSIONS, replace=False)
        yield (first, *(others[first][place] for place in fresh))


def _is_alarm(
    first: _Session, fresh: Sequence[_Session], rest: Sequence[_Session], *, tolerance: float, alpha: float
) -> bool:
    """Return True if the rule reports a regression."""
    if not exceeds(_comparison([first], rest).shift, tolerance):
        return False
    found = _comparison(fresh, rest)
    return not is_cleared(found, tolerance) and found.shift > found.most_by_noise(alpha)


def _comparison(sessions: Sequence[_Session], others: Sequence[_Session]) -> Comparison:
    known = BaselineLevel.of([others])
    return Comparison(shifts=tuple(statistics.median(each) - known.level for each in sessions), known=known)
