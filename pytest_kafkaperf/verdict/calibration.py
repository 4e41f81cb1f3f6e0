"""What unchanged sessions say of the rule: their noise, and how often it would have cried wolf. Pure.

Sessions of one metric on a log scale where larger is worse, as in `comparison`, all measured on the same cluster.
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
from pytest_kafkaperf.verdict.comparison import Unpaired, exceeds
from pytest_kafkaperf.verdict.confirmation import SESSIONS, Fresh
from pytest_kafkaperf.verdict.power import Noise, detectable

_MOST_SPLITS, _FEWEST_SPLITS = 1000, 50
"""That are tried: all of up to 10 sessions of 5 rounds."""
_PAIRS = 1800
"""Of a fresh round and one of the baseline. The time for an exact p grows with about their square: where there are more
in a split, fewer are tried, so that all take a second or two."""
_SEED = 20_260_815
"""Of the splits that are drawn: the same sessions give the same figures."""

_Session = Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """One metric under one tolerance. Changes are on the log scale."""

    noise: Noise
    tolerance: float
    sessions: int
    suspects: int
    """Sessions that would have run again, each compared with all the others."""
    alarms: int
    """Splits that the rule confirms as a regression, although nothing changed."""
    splits: int
    """Ways to take a first session, fresh ones and a baseline of the rest; some of them where there are many."""
    detectable: float
    """The minimum detectable change against a baseline of these sessions, of the newest that it keeps."""


def calibrated(sessions: Sequence[_Session], *, tolerance: float, alpha: Fraction) -> Calibrated | None:
    """Judge unchanged sessions by each other; None where there are fewer than two, or no noise can be seen.

    `tolerance` is on the log scale, `alpha` what a p must be below. The splits share sessions: their alarms are
    a picture of these sessions, not as many independent trials.
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
        alarms += _alarms(sessions[first], chosen, rest, tolerance=tolerance, alpha=alpha)
    return Calibrated(
        noise=noise,
        tolerance=tolerance,
        sessions=len(sessions),
        suspects=sum(
            exceeds(_against(sessions[place], [*sessions[:place], *sessions[place + 1 :]]).shift, tolerance)
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
    """Places of the first session and of the fresh ones, so that at least one session is left for the baseline.

    All ways there are, or a draw of them where there are too many: each session comes first equally often.
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


def _alarms(
    first: _Session, fresh: Sequence[_Session], rest: Sequence[_Session], *, tolerance: float, alpha: Fraction
) -> bool:
    """Whether the rule calls it a regression."""
    if not exceeds(_against(first, rest).shift, tolerance):
        return False
    again = Fresh.of([_against(session, rest) for session in fresh], tolerance=tolerance)
    return again.exceeds and again.p < alpha


def _against(session: _Session, others: Sequence[_Session]) -> Unpaired:
    return Unpaired(current=tuple(session), baseline=tuple(itertools.chain(*others)))
