"""Time series of one round for plots: events per second and their latency, mergeable.

A series divides time into intervals of equal length, counted from the start of the window; warm-up intervals have
negative numbers. Their length depends on that of the round, so that memory and reports stay small.

Each interval keeps latencies in buckets at most 1/64 of their value wide, so that a quantile is off by at most 0.8 %.
Thresholds use finer histograms; a series is only for plots.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.histogram import Counts, Histogram, Nanoseconds, merged

_INTERVALS = 300
_SUBBUCKET_BITS = 6


class Curves(TypedDict):
    """A series as plain lists, one entry per interval, without gaps. Times are seconds; None means no value."""

    interval_s: int
    first_s: float
    """Start of the first interval, relative to the start of the window."""
    count: list[float]
    """Events per second. The round may cut the first and the last interval short; they are not corrected for that."""
    p50: list[float | None]
    p99: list[float | None]
    max: list[float | None]


@dataclass(slots=True)
class Series:
    """Events and latencies of one round by interval; `count` and `record` add values."""

    start_ns: int = 0
    interval_s: int = 1
    events: collections.Counter[int] = field(default_factory=collections.Counter)
    latencies: dict[int, Histogram] = field(default_factory=dict)

    @classmethod
    def of(cls, length_s: float, start_ns: int) -> Series:
        """Create a series with about 300 intervals for a round of this length, none shorter than a second."""
        return cls(start_ns, max(1, math.ceil(length_s / _INTERVALS)))

    def count(self, instants_ns: Nanoseconds, counts: Counts | None = None) -> None:
        """Add events at `instants_ns`, shape `(n,)`; `counts`, same shape, gives the number of events at each."""
        for interval, here in self._by_interval(instants_ns):
            self.events[interval] += int(here.sum() if counts is None else counts[here].sum())

    def record(self, instants_ns: Nanoseconds, values_ns: Nanoseconds, counts: Counts | None = None) -> None:
        """Add latencies of shape `(n,)`, each to the interval of its instant; `counts` gives the number of occurrences.

        Raises as `Histogram.record`.
        """
        for interval, here in self._by_interval(instants_ns):
            latency = self.latencies.setdefault(interval, Histogram(_SUBBUCKET_BITS))
            latency.record(values_ns[here], None if counts is None else counts[here])

    def curves(self) -> Curves:
        """Convert the series to lists for a report."""
        known = self.events.keys() | self.latencies.keys()
        intervals = range(min(known), max(known) + 1) if known else range(0)
        found = [self.latencies.get(interval) for interval in intervals]
        return Curves(
            interval_s=self.interval_s,
            first_s=float(intervals.start * self.interval_s),
            count=[self.events[interval] / self.interval_s for interval in intervals],
            p50=[latency.quantile_s(0.5) if latency else None for latency in found],
            p99=[latency.quantile_s(0.99) if latency else None for latency in found],
            max=[latency.max_s if latency else None for latency in found],
        )

    def _by_interval(self, instants_ns: Nanoseconds) -> Iterator[tuple[int, npt.NDArray[np.bool_]]]:
        """Yield each interval with instants, and which these are, shape `(n,)`."""
        if not instants_ns.size:
            return
        intervals = (instants_ns - self.start_ns) // (self.interval_s * NS_PER_S)
        for interval in range(int(intervals.min()), int(intervals.max()) + 1):  # often only one
            here = intervals == interval
            if here.any():
                yield interval, here


def merged_series(parts: list[Series]) -> Series:
    """Merge several series of one round, which have one start and one interval."""
    result = Series(parts[0].start_ns, parts[0].interval_s)
    for part in parts:
        result.events.update(part.events)
    for interval in {interval for part in parts for interval in part.latencies}:
        result.latencies[interval] = merged([part.latencies[interval] for part in parts if interval in part.latencies])
    return result
