"""Measures the time from a broker event until latency is back to normal, based on a round's series. Pure functions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.units import Quantity, Unit
from pytest_kafkaperf.load.recorder import Curves

_WORSE = 3.0
"""A p99 counts as disturbed if it is more than this multiple of the usual p99..."""

_WORSE_BY_S = 0.02
"""...and exceeds it by at least this time, because a p99 of 2 ms sometimes rises to 6 ms without any cause."""

_CALM_INTERVALS = 3
"""Number of consecutive calm intervals that end a disturbance; a single one can occur by chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """A round's recovery from its events, to the extent that the series shows it."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    """The metric `recovery`; empty if it is unknown."""
    at_least: tuple[str, ...] = ()
    """`recovery` if it is a lower bound because the round ended before latency was back to normal."""
    warnings: tuple[Notice, ...] = ()


def recovery_of(events_s: Sequence[float], produced: Curves, length_s: float | None) -> Recovery:
    """Return the longest recovery from events; `events_s` are their times after the start of the window, sorted.

    `length_s` is the duration of the window; None if it is not fixed. Only events in the window count, because no
    record is due after it. A harmless event, such as a moved leader, must not hide an outage after another event.
    """
    in_window_s = [event_s for event_s in events_s if length_s is None or event_s < length_s]
    spans = _spans(in_window_s, produced, length_s)
    if not spans:
        return Recovery()
    longest = max(spans, key=lambda one: one.took_s)
    is_over = all(one.is_over for one in spans)
    warnings = []
    lowest = dip(produced, longest.event_s)
    if longest.took_s and lowest is not None:
        values = {"took_s": longest.took_s, "begin_s": longest.event_s}
        rate = Quantity(lowest[0], Unit.RECORD_RATE)
        warnings.append(Notice(Remark.RECOVERY, {**values, "rate": rate, "lowest_s": lowest[1]}))
    if not is_over:
        warnings.append(Notice(Remark.RECOVERY_UNENDED, {"took_s": longest.took_s, "calm_s": _CALM_INTERVALS}))
    return Recovery(
        metrics={"recovery": longest.took_s}, at_least=() if is_over else ("recovery",), warnings=tuple(warnings)
    )


def dip(produced: Curves, event_s: float) -> tuple[float, float] | None:
    """Return the lowest rate (records/s) in a complete interval after an event, and its start (s); None if unknown."""
    first_s, interval_s = produced["first_s"], produced["interval_s"]
    rates = [
        (rate, first_s + place * interval_s)
        for place, rate in enumerate(produced["count"][:-1])
        if first_s + place * interval_s >= event_s - interval_s
    ]
    return min(rates, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """The time from one event to the end of the last interval with disturbed latency."""

    event_s: float
    took_s: float
    """Duration in seconds; 0 if no interval was disturbed."""
    is_over: bool
    """True if enough calm intervals followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Interval:
    """One interval in the series."""

    end_s: float
    p99_s: float | None
    """None if no record that was due in the interval was acknowledged."""


def _spans(events_s: Sequence[float], produced: Curves, length_s: float | None) -> list[_Span]:
    """Return each event's span; empty if there is no interval before the first event for comparison.

    The usual p99 is the median over the intervals before the first event, including the warm-up. The series has
    one-second intervals based on the records' due times, so the result has a resolution of one second.
    """
    intervals = _intervals(produced, length_s)
    first_s = min(events_s, default=-math.inf)
    before = [one.p99_s for one in intervals if one.p99_s is not None and one.end_s <= first_s]
    if not before:
        return []
    usual_s = statistics.median(before)
    limit_s = max(_WORSE * usual_s, usual_s + _WORSE_BY_S)
    return [_span(event_s, [one for one in intervals if one.end_s > event_s], limit_s) for event_s in events_s]


def _intervals(produced: Curves, length_s: float | None) -> list[_Interval]:
    """Return the intervals of the series up to the end of the window; intervals without records do not have a p99."""
    interval_s, first_s, p99 = produced["interval_s"], produced["first_s"], list(produced["p99"])
    if length_s is not None:
        count = math.ceil(round((length_s - first_s) / interval_s, 6))
        p99 = [*p99[:count], *[None] * (count - len(p99))]
    return [_Interval(end_s=first_s + (place + 1) * interval_s, p99_s=value) for place, value in enumerate(p99)]


def _span(event_s: float, after: Sequence[_Interval], limit_s: float) -> _Span:
    """Return the span of an event from the intervals after it; intervals above the limit are disturbed."""
    over_s, calm = event_s, 0
    for one in after:
        is_disturbed = one.p99_s is None or one.p99_s > limit_s
        calm = 0 if is_disturbed else calm + 1
        if is_disturbed:
            over_s = one.end_s
        if calm == _CALM_INTERVALS:
            break
    took_s = over_s - event_s
    return _Span(event_s=event_s, took_s=took_s, is_over=took_s == 0 or calm == _CALM_INTERVALS)
