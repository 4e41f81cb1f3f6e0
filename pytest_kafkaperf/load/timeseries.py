"""Time series of one round for plots: events per second and their latency, mergeable and bounded in memory.

A series divides time into intervals of one second, counted from the start of the window; warm-up intervals have
negative indexes. If a round needs more than 600 intervals, the interval doubles and neighbours are combined. Intervals
stay aligned with the start, so that series of different intervals can be merged, in any order.

Each interval keeps latencies in log-linear buckets at most 1/64 of their value wide, so that a quantile is off by at
most 0.8 %. Thresholds use `Histogram`; a series is only for plots.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.histogram import OCTAVES, Counts, Nanoseconds, buckets_of, middles_ns, smallest

MAX_INTERVALS = 600
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


@dataclass(slots=True, eq=False)
class Series:
    """Events and latencies of one round; `count` and `record` add values, `merged` combines series.

    Pickling stores the latency counts in the smallest integer type that holds them, usually one or two bytes each.
    """

    start_ns: int
    interval_s: int = 1
    first: int = 0
    """Index of the first interval that is kept; interval 0 begins at the start of the window."""
    events: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Shape `(intervals,)`."""
    max_ns: Nanoseconds = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Shape `(intervals,)`."""
    first_bucket: int = 0
    latencies: Counts = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    """Shape `(intervals, buckets)`; only buckets from the lowest to the highest used one."""

    def count(self, instants_ns: Nanoseconds, counts: Counts | None = None) -> None:
        """Add events at `instants_ns`, shape `(n,)`; `counts`, same shape, gives the number of events at each."""
        if instants_ns.size == 0:
            return
        low, high, places = self._places(instants_ns)
        self.events[low:high] += _tally(places, counts, high - low)

    def record(self, instants_ns: Nanoseconds, values_ns: Nanoseconds, counts: Counts | None = None) -> None:
        """Add latencies of shape `(n,)`, each to the interval of its instant; `counts` gives the number of occurrences.

        Raises as `histogram.buckets_of`.
        """
        if values_ns.size == 0:
            return
        buckets = buckets_of(values_ns, _SUBBUCKET_BITS)
        left, right = int(buckets.min()), int(buckets.max()) + 1
        self._cover_buckets(left, right)
        low, high, places = self._places(instants_ns)
        shape = (high - low, right - left)
        self.latencies = self.latencies.astype(np.int64, copy=False)
        cells = _tally(places * shape[1] + (buckets - left), counts, shape[0] * shape[1])
        left, right = left - self.first_bucket, right - self.first_bucket
        self.latencies[low:high, left:right] += cells.reshape(shape)
        np.maximum.at(self.max_ns[low:high], places, values_ns)

    def curves(self) -> Curves:
        """Convert the series to lists for a report."""
        totals = self.latencies.sum(axis=1)
        return Curves(
            interval_s=self.interval_s,
            first_s=float(self.first * self.interval_s),
            count=(self.events / self.interval_s).tolist(),
            p50=_listed(totals, self._quantiles_ns(totals, 0.5)),
            p99=_listed(totals, self._quantiles_ns(totals, 0.99)),
            max=_listed(totals, self.max_ns),
        )

    def window_ns(self, quantile: float) -> int | None:
        """Return a quantile of all latencies since the start, whose times are not negative; None if there is none."""
        since = max(0, -self.first)
        latencies, max_ns = self.latencies[since:].sum(axis=0, keepdims=True), self.max_ns[since:]
        if not latencies.any():
            return None
        whole = replace(self, events=self.events[:1], max_ns=max_ns.max(keepdims=True), latencies=latencies)
        return int(whole._quantiles_ns(latencies.sum(axis=1), quantile)[0])  # noqa: SLF001 - of this class

    def add(self, other: Series) -> None:
        """Add all of `other`, a series with the same start; `other` does not change."""
        added = replace(other)  # a shallow copy: the code below replaces its arrays and never writes to them
        added.coarsen(self.interval_s)
        self.coarsen(added.interval_s)
        self._cover(added.first, added.first + added.events.size)
        added.coarsen(self.interval_s)
        low = added.first - self.first
        high = low + added.events.size
        self.events[low:high] += added.events
        self.max_ns[low:high] = np.maximum(self.max_ns[low:high], added.max_ns)
        self.latencies = self.latencies.astype(np.int64, copy=False)
        self._cover_buckets(added.first_bucket, added.first_bucket + added.latencies.shape[1])
        left = added.first_bucket - self.first_bucket
        self.latencies[low:high, left : left + added.latencies.shape[1]] += added.latencies

    def __reduce__(self) -> tuple[type[Series], tuple[Any, ...]]:
        small = replace(self, latencies=smallest(self.latencies))
        return Series, tuple(getattr(small, each.name) for each in fields(small))

    def coarsen(self, interval_s: int) -> None:
        """Double the interval until it is at least `interval_s`."""
        while self.interval_s < interval_s:
            self._pad(self.first & 1, 0)
            self._pad(0, self.events.size & 1)
            self.interval_s *= 2
            self.first >>= 1
            self.events = self.events[0::2] + self.events[1::2]
            self.max_ns = np.maximum(self.max_ns[0::2], self.max_ns[1::2])
            self.latencies = np.add(self.latencies[0::2], self.latencies[1::2], dtype=np.int64)

    def _quantiles_ns(self, totals: Counts, quantile: float) -> npt.NDArray[np.float64]:
        """Return quantiles by nearest rank, shape `(intervals,)`; values of empty intervals have no meaning."""
        # Subtracting 1e-9 keeps a rounding error from turning 0.99 * 100 into rank 100.
        ranks = np.maximum(1, np.ceil(quantile * totals - 1e-9))
        below = np.cumsum(self.latencies, axis=1) < ranks[:, np.newaxis]
        buckets = self.first_bucket + below.sum(axis=1)
        middles = np.minimum(middles_ns(buckets, _SUBBUCKET_BITS), self.max_ns)
        return np.where(buckets == OCTAVES << _SUBBUCKET_BITS, self.max_ns, middles)

    def _places(self, instants_ns: Nanoseconds) -> tuple[int, int, npt.NDArray[np.int64]]:
        """Extend the series to cover the instants, and locate them.

        Returns the positions of the first and past the last covered interval, and for each instant the position
        relative to the first.
        """
        first, last = (
            (int(end) - self.start_ns) // (self.interval_s * NS_PER_S) for end in (instants_ns.min(), instants_ns.max())
        )
        doublings = self._cover(first, last + 1)
        first, last = first >> doublings, last >> doublings
        if first == last:  # the usual case, which is cheaper
            places = np.zeros(instants_ns.shape, dtype=np.int64)
        else:
            interval_ns = self.interval_s * NS_PER_S
            places = (instants_ns - (self.start_ns + first * interval_ns)) // interval_ns
        return first - self.first, last + 1 - self.first, places

    def _cover(self, first: int, stop: int) -> int:
        """Extend the series to intervals `first` to `stop`; return how often the interval had to double."""
        if first == stop:
            return 0
        if self.events.size:
            first, stop = min(first, self.first), max(stop, self.first + self.events.size)
        doublings = 0
        while (stop - 1 >> doublings) - (first >> doublings) >= MAX_INTERVALS:
            doublings += 1
        self.coarsen(self.interval_s << doublings)
        first, stop = first >> doublings, (stop - 1 >> doublings) + 1
        if not self.events.size:
            self.first = first
        self._pad(self.first - first, stop - self.first - self.events.size)
        return doublings

    def _pad(self, before: int, after: int) -> None:
        if before or after:
            self.first -= before
            self.events = np.pad(self.events, (before, after))
            self.max_ns = np.pad(self.max_ns, (before, after))
            self.latencies = np.pad(self.latencies, ((before, after), (0, 0)))

    def _cover_buckets(self, first: int, stop: int) -> None:
        if first == stop:
            return
        kept = self.latencies.shape[1]
        if not kept:
            self.first_bucket = first
        before, after = max(0, self.first_bucket - first), max(0, stop - self.first_bucket - kept)
        if before or after:
            self.first_bucket -= before
            self.latencies = np.pad(self.latencies, ((0, 0), (before, after)))


def merged(parts: list[Series]) -> Series:
    """Merge several series of one round.

    Raises:
        ValueError: the list is empty, or the starts differ.

    """
    starts = {part.start_ns for part in parts}
    if len(starts) != 1:
        raise ValueError(f"cannot merge series with {len(starts)} different starts; all must have one")
    result = Series(starts.pop())
    for part in parts:
        result.add(part)
    return result


def _tally(cells: npt.NDArray[np.int64], counts: Counts | None, size: int) -> Counts:
    if counts is None:
        return np.bincount(cells, minlength=size)
    # numpy sums weights in float64, which is exact below 2**53.
    return np.bincount(cells, counts, minlength=size).astype(np.int64)


def _listed(totals: Counts, values_ns: npt.NDArray[Any]) -> list[float | None]:
    return [value if total else None for total, value in zip(totals.tolist(), (values_ns / 1e9).tolist(), strict=True)]
