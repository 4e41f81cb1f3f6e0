"""Samples of one program, and tracks: individual measurements over time, which continue through restarts."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.core.units import NS_PER_S

REQUESTS = ("produce", "fetch")
"""Request types; `fetch` covers consumers, not followers."""


PARTS = ("total", "queue", "local", "remote", "send")
"""Parts of a request's time: total, wait for a handler, leader's work, wait for followers or data, and sending."""


_HELD_NS = 1_500_000_000
"""Period during which a gauge reading remains valid; there is one reading per second."""


_GAP_NS = 2_500_000_000
"""Maximum time between readings. Readings that are further apart leave whole seconds without any information."""


_INDEPENDENT = ("network_in_bytes", "network_out_bytes", "request_handler_idle_s")
"""Counters whose decrease does not prove a restart, because network counters may belong to the machine, and a starting
broker may publish the meter of all handlers before its own."""


_SUMS = tuple(f"{request}_{part}_s" for request in REQUESTS for part in PARTS)
"""Counters computed from a mean and a count read at different times, so they can decrease slightly without a
restart."""


WATCHED = "request_handler_watched_s"
"""Name of a counter that is computed here: the time that `request_handler_idle_s` covers."""


Floats = npt.NDArray[np.float64]


Nanoseconds = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Track:
    """One measurement of a broker over time. A counter starts at 0 and continues through restarts."""

    at_ns: Nanoseconds
    values: Floats

    def rises(self, edges_ns: Nanoseconds) -> Floats:
        """Return a counter's increase in each interval between adjacent instants of `edges_ns`, shape `(edges - 1,)`.

        Values between two readings are interpolated; before the first and after the last reading, the increase is 0.
        """
        return np.diff(np.interp(edges_ns, self.at_ns, self.values))

    def rise(self, start_ns: int, end_ns: int) -> float:
        """Return a counter's increase."""
        return float(self.rises(np.array([start_ns, end_ns]))[0])

    def steps(self, start_ns: int, end_ns: int) -> float:
        """Return a rare-event counter's increase between the readings around the window, so that no event is missed."""
        before = max(0, int(np.searchsorted(self.at_ns, start_ns, side="right")) - 1)
        after = min(self.at_ns.size - 1, int(np.searchsorted(self.at_ns, end_ns, side="left")))
        return float(self.values[after] - self.values[before])

    def covered_ns(self, edges_ns: Nanoseconds) -> Nanoseconds:
        """Return how much of each interval the readings cover, shape `(edges - 1,)`; 0 in a gap between readings."""
        ends = np.clip(edges_ns, self.at_ns[0], self.at_ns[-1])
        lengths = np.diff(ends)
        next_before, next_after = np.searchsorted(self.at_ns, ends[:-1], "right"), np.searchsorted(self.at_ns, ends[1:])
        gaps = np.diff(self.at_ns, prepend=self.at_ns[0], append=self.at_ns[-1])
        in_gap = (next_before >= next_after) & (gaps[next_before] > np.maximum(_GAP_NS, 2 * np.diff(edges_ns)))
        return np.where(in_gap, 0, lengths)

    def most(self, edges_ns: Nanoseconds) -> Floats:
        """Return a gauge's maximum in each interval, shape `(edges - 1,)`; NaN where it was not read."""
        first = np.searchsorted(self.at_ns, edges_ns[:-1], side="left")
        stop = np.searchsorted(self.at_ns, edges_ns[1:], side="left")
        return np.array([self._most(*bounds) for bounds in zip(first, stop, edges_ns[:-1], strict=True)], dtype=float)

    def _most(self, first: int, stop: int, begin_ns: int) -> float:
        if first < stop:
            return float(self.values[first:stop].max())
        if stop > 0 and begin_ns - self.at_ns[stop - 1] <= _HELD_NS:
            return float(self.values[stop - 1])
        return float("nan")


Tracks = Mapping[str, Track]
"""One broker's tracks, by measurement name."""


def tracks_of(samples: Iterable[Sample]) -> dict[str, Track]:
    """Return one broker's tracks; its samples can be in any order."""
    readings: dict[str, list[tuple[int, float]]] = {}
    restarts = 0
    last: dict[str, tuple[float, int]] = {}
    """Each counter's last value, and the number of restarts known at the time."""
    for sample in sorted(samples, key=lambda sample: sample.at_ns):
        counters = {name: value for name, value in sample.readings.items() if name not in _GAUGE_NAMES}
        restarts += _shows_restart(counters, last, restarts)
        for name, value in sample.readings.items():
            if name in _GAUGE_NAMES:
                readings.setdefault(name, []).append((sample.at_ns, value))
                continue
            known = readings.setdefault(name, [])
            before, restarts_before = last.get(name, (value, restarts))
            restarted = value < before if name in _INDEPENDENT else restarts_before < restarts
            last[name] = value, restarts
            if name == "request_handler_idle_s":
                _add_watched(readings, sample.at_ns, restarted=restarted)
                before = value if restarted else before
                restarted = False
            increase = value if restarted else value - before
            total = known[-1][1] if known else 0.0
            known.append((sample.at_ns, total + increase))
    return {
        name: Track(np.array([at for at, _ in known], dtype=np.int64), np.array([value for _, value in known]))
        for name, known in readings.items()
    }


def covered_ratio(samples: Iterable[Sample], start_ns: int, end_ns: int) -> float:
    """Return the part of a window that lies between two readings of a probe with no failed reading between them."""
    in_order = sorted(samples, key=lambda sample: sample.at_ns)
    covered_ns = 0
    for before, after in itertools.pairwise(in_order):
        if before.readings and after.readings:
            covered_ns += max(0, min(after.at_ns, end_ns) - max(before.at_ns, start_ns))
    return covered_ns / (end_ns - start_ns)


def _shows_restart(counters: Mapping[str, float], last: Mapping[str, tuple[float, int]], restarts: int) -> bool:
    """Return True if a counter fell by more than a tenth since the last known restart.

    Without a restart, a counter falls slightly if two nearly simultaneous readings are in the wrong order or if a
    process has lost a child. Network counters may belong to the machine.
    """
    reliable = counters.keys() & last.keys() - set(_INDEPENDENT) - set(_SUMS)
    return any(last[name][1] == restarts and counters[name] < 0.9 * last[name][0] for name in reliable)


def _add_watched(readings: dict[str, list[tuple[int, float]]], at_ns: int, *, restarted: bool) -> None:
    """Add the time that the handlers' idle time covers.

    A broker that is down is not busy, so the time between the last reading before a restart and the first one after it
    counts as neither idle nor covered.
    """
    known = readings.setdefault(WATCHED, [])
    before_ns, before_s = known[-1] if known else (at_ns, 0.0)
    known.append((at_ns, before_s + (0.0 if restarted else (at_ns - before_ns) / NS_PER_S)))


_GAUGE_NAMES = ("machine_cores", "memory_bytes", "under_replicated", "leaders", "request_handler_pools")
"""Measurements that are not counters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Reading of some of one broker's measurements; the others may be in separate samples."""

    at_ns: int
    """Time of the reading on the monotonic clock."""
    kind: str = ""
    """Kind of probe, such as `ExporterProbe`; probes of the same kind read the same measurements."""
    readings: Mapping[str, float]
    """Measurements by name; names not in `_GAUGES` are counters. Empty if the reading failed.

    - `request_handler_idle_s` is the average idle time per request handler. Before Kafka 4.3, a broker that is also a
      controller counts two pools together, and `request_handler_pools` is 2 (KIP-1207).
    - `machine_cpu_s` is the CPU time of all programs on this machine and of its host's other virtual machines;
      `own_cpu_s` is this process's share of it.
    - `produce_total_s` is the total time of `produce_total_requests` requests; Kafka measures each request in whole
      milliseconds.
    """
