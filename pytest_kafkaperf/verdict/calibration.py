"""Calibration: noise and false alarm rate of the regression rule, from unchanged sessions of the same cluster.

Values are those of one metric, on the scale of `comparison`, where larger is worse.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pytest_kafkaperf.verdict.baselines.record import MAX_SESSIONS
from pytest_kafkaperf.verdict.comparison import Comparison, exceeds
from pytest_kafkaperf.verdict.confirmation import SESSIONS, Fresh
from pytest_kafkaperf.verdict.power import Noise, detectable

_MOST_SPLITS, _FEWEST_SPLITS = 1000, 50
"""Maximum and minimum number of evaluated splits; the maximum covers all splits of up to 10 sessions with 5 rounds."""
_PAIRS = 1800
"""Number of pairs of a fresh and a baseline round up to which the maximum number of splits is evaluated. The time of an
exact test grows with about the square of the pairs, so larger splits are evaluated less often, in 1 to 2 s in total."""
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

    @property
    def drowns(self) -> bool:
        """True if the threshold misses changes of three times its tolerance, because the noise is so large."""
        return self.detectable > _DROWNED * self.tolerance


def calibrated(sessions: Sequence[_Session], *, tolerance: float, alpha: Fraction) -> Calibrated | None:
    """Evaluate unchanged sessions against each other; return None if there are fewer than two sessions, or no noise.

    `tolerance` is on the log scale; `alpha` is the significance level. The splits share sessions, so their false alarms
    are not independent.
    """
    noise = Noise.of(sessions)
    if noise is None or len(sessions) <= 1:
        return None
    kept = min(len(sessions), MAX_SESSIONS)
    places = range(len(sessions))
    splits = list(_splits(len(sessions), kept, rounds=statistics.fmean(map(len, sessions))))
    alarms = 0
    for first, *fresh in splits:
        rest = [sessions[place] for place in places if place != first and place not in fresh][-kept:]
        chosen = [sessions[place] for place in fresh]
        alarms += _is_alarm(sessions[first], chosen, rest, tolerance=tolerance, alpha=alpha)
    return Calibrated(
        noise=noise,
        tolerance=tolerance,
        sessions=len(sessions),
        suspects=sum(
            exceeds(_comparison(sessions[place], [*sessions[:place], *sessions[place + 1 :]]).shift, tolerance)
            for place in places
        ),
        alarms=alarms,
        splits=len(splits),
        detectable=detectable(
            noise,
            tolerance=tolerance,
            rounds=min(map(len, sessions)),
            baseline=[len(session) for session in sessions[-kept:]],
            confirmed=True,
            alpha=alpha,
        ),
    )


def _splits(sessions: int, kept: int, *, rounds: float) -> Iterator[tuple[int, ...]]:
    """Yield the indexes of the first session and of the fresh ones; at least one session remains for the baseline.

    Yields all splits, or a random sample if there are too many. Each session comes first equally often.
    """
    if sessions <= 1 + SESSIONS:
        return
    pairs = SESSIONS * rounds * min(kept, sessions - 1 - SESSIONS) * rounds
    most = int(max(_FEWEST_SPLITS, min(_MOST_SPLITS * (_PAIRS / pairs) ** 2, _MOST_SPLITS)))
    others = {first: [place for place in range(sessions) if place != first] for first in range(sessions)}
    if sessions * math.comb(sessions - 1, SESSIONS) <= most:
        for first, rest in others.items():
            yield from ((first, *fresh) for fresh in itertools.combinations(rest, SESSIONS))
        return
    source = np.random.default_rng(_SEED)
    for number in range(most):
        first = number % sessions
        fresh = source.choice(sessions - 1, SESSIONS, replace=False)
        yield (first, *(others[first][place] for place in fresh))


def _is_alarm(
    first: _Session, fresh: Sequence[_Session], rest: Sequence[_Session], *, tolerance: float, alpha: Fraction
) -> bool:
    """Return True if the rule reports a regression."""
    if not exceeds(_comparison(first, rest).shift, tolerance):
        return False
    confirmation = Fresh.of([_comparison(session, rest) for session in fresh], tolerance=tolerance)
    return confirmation.exceeds and confirmation.p < alpha


def _comparison(session: _Session, others: Sequence[_Session]) -> Comparison:
    return Comparison(current=tuple(session), baseline=tuple(itertools.chain(*others)))
