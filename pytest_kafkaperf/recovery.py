"""How long load was disturbed by what happened to a broker."""

from __future__ import annotations

import itertools
import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kafkaperf.series import Curves

_WORSE = 3.0
"""So many times the usual p99 is out of the ordinary,"""
_WORSE_BY_S = 0.02
"""if it is more by so much: a p99 of 2 ms is 6 ms now and then."""
_CALM_INTERVALS = 3
"""So many ordinary intervals end a disturbance; one can be luck."""


def recovery_s(produced: Curves, event_s: float) -> float | None:
    """Seconds from an event to the end of the last interval whose latency was out of the ordinary.

    What is ordinary, the intervals before the event tell, those of the warm-up included. An interval is one of the
    series, by when records were due: one second, so the result is as coarse. 0 where the event shows in no interval;
    None where it came before anything else.
    """
    interval_s, first_s, p99 = produced["interval_s"], produced["first_s"], produced["p99"]
    ends_s = [first_s + (place + 1) * interval_s for place in range(len(p99))]
    before = [value for value, end_s in zip(p99, ends_s, strict=True) if value is not None and end_s <= event_s]
    if not before:
        return None
    usual_s = statistics.median(before)
    limit_s = max(_WORSE * usual_s, usual_s + _WORSE_BY_S)
    after = [(end_s, value) for end_s, value in zip(ends_s, p99, strict=True) if end_s > event_s]
    over_s = event_s
    calm = 0
    for end_s, value in after:
        ordinary = value is not None and value <= limit_s
        calm = calm + 1 if ordinary else 0
        if not ordinary:
            over_s = end_s
        elif calm == _CALM_INTERVALS:
            break
    return over_s - event_s


def dip(produced: Curves, event_s: float) -> tuple[float, float] | None:
    """The lowest rate of a whole interval after an event (records/s), and when it began; None where there is none."""
    first_s, interval_s = produced["first_s"], produced["interval_s"]
    rates = [
        (rate, first_s + place * interval_s)
        for place, rate in enumerate(itertools.islice(produced["count"], len(produced["count"]) - 1))
        if first_s + place * interval_s >= event_s - interval_s
    ]
    return min(rates, default=None)
