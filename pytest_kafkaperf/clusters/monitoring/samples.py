"""Tracks: one figure of one broker over time, through restarts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.core.units import NS_PER_S

REQUESTS = ("produce", "fetch")
"""Fetch means that of consumers, not of followers."""

PARTS = ("total", "queue", "local", "remote", "send")
"""Of a request's time: waiting for a handler, the leader's own work, waiting for followers or for data, sending."""

_HELD_NS = 1_500_000_000
"""How long what a gauge showed is taken to go on; there is a reading a second."""

_GAP_NS = 2_500_000_000
"""Readings so far apart leave seconds between them of which nothing is known."""

_ALONE = ("network_in_bytes", "network_out_bytes", "request_handler_idle_s")
"""Counters whose fall says nothing of others: the network's may be the machine's, and a broker that starts may show
the meter of all its handlers before it has one of its own."""

_SUMS = tuple(f"{request}_{part}_s" for request in REQUESTS for part in PARTS)
"""Made of a mean and a count that are not read at one instant: may fall a little without any restart."""

WATCHED = "request_handler_watched_s"
"""Of our own making: the time that `request_handler_idle_s` covers."""

Floats = npt.NDArray[np.float64]

Nanoseconds = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Track:
    """One figure of one broker over time. A counter starts at 0 and goes on through restarts."""

    at_ns: Nanoseconds
    values: Floats

    def rises(self, edges_ns: Nanoseconds) -> Floats:
        """How much a counter rose between neighbouring edges, shape `(edges - 1,)`; nothing where it was not read."""
        return np.diff(np.interp(edges_ns, self.at_ns, self.values))

    def rise(self, start_ns: int, end_ns: int) -> float:
        """How much a counter rose."""
        return float(self.rises(np.array([start_ns, end_ns]))[0])

    def steps(self, start_ns: int, end_ns: int) -> float:
        """How much a counter of rare events rose, between the readings that enclose the window: none is missed."""
        before = max(0, int(np.searchsorted(self.at_ns, start_ns, side="right")) - 1)
        after = min(self.at_ns.size - 1, int(np.searchsorted(self.at_ns, end_ns, side="left")))
        return float(self.values[after] - self.values[before])

    def covered_ns(self, edges_ns: Nanoseconds) -> Nanoseconds:
        """How long the readings reach into each interval, shape `(edges - 1,)`; 0 where it is in a gap of them."""
        ends = np.clip(edges_ns, self.at_ns[0], self.at_ns[-1])
        lengths = np.diff(ends)
        next_before, next_after = np.searchsorted(self.at_ns, ends[:-1], "right"), np.searchsorted(self.at_ns, ends[1:])
        gaps = np.diff(self.at_ns, prepend=self.at_ns[0], append=self.at_ns[-1])
        in_gap = (next_before >= next_after) & (gaps[next_before] > np.maximum(_GAP_NS, 2 * np.diff(edges_ns)))
        return np.where(in_gap, 0, lengths)

    def most(self, edges_ns: Nanoseconds) -> Floats:
        """The most that a gauge showed in each interval, shape `(edges - 1,)`; NaN where it was not read."""
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
"""Those of one broker, by figure."""


def tracks_of(samples: Iterable[Sample]) -> dict[str, Track]:
    """The tracks of one broker, by figure; its samples come in any order."""
    readings: dict[str, list[tuple[int, float]]] = {}
    restarts = 0
    last: dict[str, tuple[float, int]] = {}
    """Of each counter: what it showed, and how many restarts were known of then."""
    for sample in sorted(samples, key=lambda sample: sample.at_ns):
        counters = {name: value for name, value in sample.figures.items() if FIGURES[name] == "counter"}
        restarts += _shows_restart(counters, last, restarts)
        for name, value in sample.figures.items():
            if FIGURES[name] == "gauge":
                readings.setdefault(name, []).append((sample.at_ns, value))
                continue
            known = readings.setdefault(name, [])
            before, restarts_before = last.get(name, (value, restarts))
            again = value < before if name in _ALONE else restarts_before < restarts
            last[name] = value, restarts
            if name == "request_handler_idle_s":
                _watch(readings, sample.at_ns, again=again)
                again, before = False, value if again else before
            known.append((sample.at_ns, (known[-1][1] if known else 0.0) + (value if again else value - before)))
    return {
        name: Track(np.array([at for at, _ in known], dtype=np.int64), np.array([value for _, value in known]))
        for name, known in readings.items()
    }


def _shows_restart(counters: Mapping[str, float], last: Mapping[str, tuple[float, int]], restarts: int) -> bool:
    """Whether a counter fell since the restarts that are known of. That of the network may be the machine's own."""
    guides = counters.keys() & last.keys() - set(_ALONE) - set(_SUMS)
    return any(last[name][1] == restarts and counters[name] < last[name][0] for name in guides)


def _watch(readings: dict[str, list[tuple[int, float]]], at_ns: int, *, again: bool) -> None:
    """Count the time that the handlers' idle time covers.

    A broker that is down is not busy: what is between the last reading before a restart and the first after it is
    left out on both sides.
    """
    known = readings.setdefault(WATCHED, [])
    before_ns, before_s = known[-1] if known else (at_ns, 0.0)
    known.append((at_ns, before_s + (0.0 if again else (at_ns - before_ns) / NS_PER_S)))


Kind = Literal["counter", "gauge"]

FIGURES: Mapping[str, Kind] = MappingProxyType(
    {
        "cpu_s": "counter",
        "disk_read_bytes": "counter",
        "disk_written_bytes": "counter",
        "network_in_bytes": "counter",
        "network_out_bytes": "counter",
        "isr_shrinks": "counter",
        "request_handler_idle_s": "counter",
        **{
            f"{request}_{part}_{what}": "counter"
            for request in REQUESTS
            for part in PARTS
            for what in ("s", "requests")
        },
        "machine_cpu_s": "counter",
        "session_cpu_s": "counter",
        "machine_cores": "gauge",
        "memory_bytes": "gauge",
        "under_replicated": "gauge",
        "leaders": "gauge",
        "request_handler_pools": "gauge",
    }
)
"""What a sample may hold.

`request_handler_idle_s` is the time that the mean handler had nothing to do; of brokers before 4.3 that are
controllers too it is that of their two pools together, and `request_handler_pools` is 2 (KIP-1207).
`machine_cpu_s` is what all programs of this machine took of its cores, and what its host took of them for others;
`session_cpu_s` is this process's part of it.
`produce_total_s` is the sum of the times of `produce_total_requests` requests, as Kafka counts them: each in whole
milliseconds.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One reading of one broker; it holds some of the figures, others may come in a sample of their own."""

    at_ns: int
    """Monotonic."""
    figures: Mapping[str, float]
    """By the names in `FIGURES`."""
