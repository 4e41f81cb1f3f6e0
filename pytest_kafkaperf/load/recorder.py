"""Recorders for a load's measurements: mergeable latency histograms, and time series.

A histogram is log-linear like HdrHistogram (G. Tene). A value's bucket is determined by the bits of its float64:
the exponent and the upper bits of the mantissa (ten, unless stated otherwise). A bucket's width is at most 1/1024 of
its values, and its midpoint represents it, so a quantile is off by at most 0.05%. Values are nanoseconds from 0 to
2**40 (18 minutes). Larger values share the last bucket, which represents the maximum.

A series divides time into intervals of equal length, numbered from the start of the window; warm-up intervals have
negative numbers. Longer rounds have longer intervals to keep memory usage and reports small.

Each interval keeps latencies in buckets whose width is at most 1/64 of their values, so a quantile is off by at most
0.8%. A series is for plots, `recovery` and the steadiness metrics; other metrics use finer histograms.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.core.units import NS_PER_S

_OCTAVES = 40
_MANTISSA_BITS = 52
_BIAS = 1023
"""Exponent bias of float64."""

Nanoseconds = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]


@dataclass(slots=True)
class Histogram:
    """Latency counts; `record` adds values, and `merged` combines histograms.

    Pickling keeps only the buckets from the lowest to the highest used one, in the smallest sufficient type. They are
    about a tenth of all buckets. The savings matter because the controller holds several histograms per worker.
    """

    subbucket_bits: int = 10
    """Base-2 logarithm of the number of buckets per octave."""
    counts: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Counts for all buckets, or only for those from the lowest to the highest used one."""
    first: int = 0
    """Index of the first bucket in `counts`."""
    total: int = 0
    sum_ns: int = 0
    max_ns: int = 0

    def record(self, values_ns: Nanoseconds, counts: Counts | None = None) -> None:
        """Add values of shape `(n,)`; `counts`, of the same shape, contains the number of occurrences of each.

        Raises:
            ValueError: a value is negative, which always indicates a bug in the use of the clock.

        """
        if values_ns.size == 0:
            return
        buckets = _buckets_of(values_ns, self.subbucket_bits)
        if self.counts.dtype != np.int64 or self.counts.size <= self._last_bucket:
            self.counts, self.first = merged([self]).counts, 0
        if counts is None:
            np.add.at(self.counts, buckets, 1)
            self.total += int(values_ns.size)
            self.sum_ns += int(values_ns.sum())
        else:
            np.add.at(self.counts, buckets, counts)
            self.total += int(counts.sum())
            # In float64, because int64 could overflow; exact below 2**53 ns, or 104 days.
            self.sum_ns += int(np.dot(values_ns.astype(np.float64), counts.astype(np.float64)))
        self.max_ns = max(self.max_ns, int(values_ns.max()))

    def quantile_s(self, quantile: float) -> float:
        """Return the nearest-rank quantile in seconds.

        Raises:
            ValueError: the histogram is empty.

        """
        if self.total == 0:
            raise ValueError("quantile of an empty histogram")
        # Subtracting 1e-9 prevents a rounding error from turning 0.999 * 1000 into rank 1000.
        rank = max(1, int(np.ceil(quantile * self.total - 1e-9)))
        bucket = self.first + int(np.searchsorted(np.cumsum(self.counts), rank))
        middle_ns = _middle_ns(bucket, self.subbucket_bits)
        return (self.max_ns if bucket == self._last_bucket else min(middle_ns, self.max_ns)) / 1e9

    @property
    def mean_s(self) -> float:
        """Exact mean in seconds."""
        return self.sum_ns / self.total / 1e9

    @property
    def max_s(self) -> float:
        """Exact maximum in seconds."""
        return self.max_ns / 1e9

    @property
    def _last_bucket(self) -> int:
        return _OCTAVES << self.subbucket_bits

    def __reduce__(self) -> tuple[type[Histogram], tuple[Any, ...]]:
        occurred = np.flatnonzero(self.counts)
        low, high = (int(occurred[0]), int(occurred[-1]) + 1) if occurred.size else (0, 0)
        kind = np.min_scalar_type(int(self.counts.max(initial=0)))
        counts = self.counts[low:high].astype(kind if kind.itemsize < self.counts.itemsize else self.counts.dtype)
        return Histogram, (self.subbucket_bits, counts, self.first + low, self.total, self.sum_ns, self.max_ns)


def merged(histograms: list[Histogram]) -> Histogram:
    """Merge histograms of the same bucket width into one histogram with all buckets."""
    bits = max((histogram.subbucket_bits for histogram in histograms), default=10)
    result = Histogram(bits, np.zeros((_OCTAVES << bits) + 1, dtype=np.int64))
    for histogram in histograms:
        result.counts[histogram.first : histogram.first + histogram.counts.size] += histogram.counts
        result.total += histogram.total
        result.sum_ns += histogram.sum_ns
        result.max_ns = max(result.max_ns, histogram.max_ns)
    return result


def _buckets_of(values_ns: Nanoseconds, subbucket_bits: int) -> npt.NDArray[np.int64]:
    """Return each value's bucket, in the same shape."""
    if (lowest_ns := int(values_ns.min())) < 0:
        raise ValueError(f"negative latency: {lowest_ns} ns")
    # Zero has no logarithm. It shares the first bucket with 1 ns, which is below the resolution of the clocks.
    bits = np.maximum(values_ns, 1).astype(np.float64).view(np.int64)
    buckets = (bits >> _MANTISSA_BITS - subbucket_bits) - (_BIAS << subbucket_bits)
    return np.asarray(np.minimum(buckets, _OCTAVES << subbucket_bits))


def _middle_ns(bucket: int, subbucket_bits: int) -> float:
    """Return a bucket's midpoint. The last bucket's midpoint has no meaning."""
    edges = np.array([bucket, bucket + 1]) + (_BIAS << subbucket_bits)
    return float((edges << _MANTISSA_BITS - subbucket_bits).view(np.float64).mean())


_INTERVALS = 300
_SUBBUCKET_BITS = 6


class Curves(TypedDict):
    """Series as plain lists, with one entry per interval and no gaps. Times are in seconds; None means no value."""

    interval_s: int
    first_s: float
    """Start of the first interval, relative to the start of the window."""
    count: list[float]
    """Events per second. The first and last intervals may be shorter; the rates are not corrected for that."""
    p50: list[float | None]
    p99: list[float | None]
    max: list[float | None]


@dataclass(slots=True)
class Series:
    """One round's events and latencies by interval; `count` and `record` add values."""

    start_ns: int = 0
    interval_s: int = 1
    events: collections.Counter[int] = field(default_factory=collections.Counter)
    latencies: dict[int, Histogram] = field(default_factory=dict)

    @classmethod
    def of(cls, length_s: float, start_ns: int) -> Series:
        """Create a series for a round of this length, with at most about 300 intervals of at least one second each."""
        return cls(start_ns, max(1, math.ceil(length_s / _INTERVALS)))

    def count(self, instants_ns: Nanoseconds, counts: Counts | None = None) -> None:
        """Add events at `instants_ns`, shape `(n,)`; `counts`, of the same shape, contains the events at each."""
        for interval, here in self._by_interval(instants_ns):
            self.events[interval] += int(here.sum() if counts is None else counts[here].sum())

    def record(self, instants_ns: Nanoseconds, values_ns: Nanoseconds, counts: Counts | None = None) -> None:
        """Add latencies of shape `(n,)`, each to its instant's interval; `counts` contains the number of occurrences.

        Raises the same errors as `Histogram.record`.
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
        """Yield each interval with a mask that selects its instants, shape `(n,)`."""
        if not instants_ns.size:
            return
        intervals = (instants_ns - self.start_ns) // (self.interval_s * NS_PER_S)
        for interval in range(int(intervals.min()), int(intervals.max()) + 1):  # there is often only one
            here = intervals == interval
            if here.any():
                yield interval, here


def merged_series(parts: list[Series]) -> Series:
    """Merge several series from one round, which have the same start and interval."""
    result = Series(parts[0].start_ns, parts[0].interval_s)
    for part in parts:
        result.events.update(part.events)
    for interval in {interval for part in parts for interval in part.latencies}:
        result.latencies[interval] = merged([part.latencies[interval] for part in parts if interval in part.latencies])
    return result
