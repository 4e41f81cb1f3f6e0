"""Samples of brokers, and the metrics and curves made of them.

A track is one measurement of one broker over time, continued through restarts.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.core.units import NS_PER_S

REQUESTS = ("produce", "fetch")
"""Request types; `fetch` is that of consumers, not of followers."""

PARTS = ("total", "queue", "local", "remote", "send")
"""Parts of a request's time: total, wait for a handler, the leader's work, wait for followers or data, sending."""

_HELD_NS = 1_500_000_000
"""Time for which a gauge's reading stays valid; there is a reading per second."""

_GAP_NS = 2_500_000_000
"""Readings further apart than this leave whole seconds without any information."""

_INDEPENDENT = ("network_in_bytes", "network_out_bytes", "request_handler_idle_s")
"""Counters whose decrease does not prove a restart: the network counters may be the machine's, and a starting broker
may publish the meter of all handlers before its own."""

_SUMS = tuple(f"{request}_{part}_s" for request in REQUESTS for part in PARTS)
"""Computed from a mean and a count that are read at different times; may decrease a little without a restart."""

WATCHED = "request_handler_watched_s"
"""Computed here: the time that `request_handler_idle_s` covers."""

Floats = npt.NDArray[np.float64]

Nanoseconds = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Track:
    """One measurement of one broker over time. A counter starts at 0 and continues through restarts."""

    at_ns: Nanoseconds
    values: Floats

    def rises(self, edges_ns: Nanoseconds) -> Floats:
        """Return a counter's increase in each interval between adjacent instants of `edges_ns`, shape `(edges - 1,)`.

        The value between two readings is interpolated; before the first and after the last one the increase is 0.
        """
        return np.diff(np.interp(edges_ns, self.at_ns, self.values))

    def rise(self, start_ns: int, end_ns: int) -> float:
        """Return a counter's increase."""
        return float(self.rises(np.array([start_ns, end_ns]))[0])

    def steps(self, start_ns: int, end_ns: int) -> float:
        """Return the increase of a counter of rare events, between the readings around the window, to miss none."""
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
"""The tracks of one broker, by name of the measurement."""


def tracks_of(samples: Iterable[Sample]) -> dict[str, Track]:
    """Return the tracks of one broker; its samples may be in any order."""
    readings: dict[str, list[tuple[int, float]]] = {}
    restarts = 0
    last: dict[str, tuple[float, int]] = {}
    """By counter: its last value, and the number of restarts known at that time."""
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

    It falls a little without one if two readings at almost the same time are told in the wrong order, or if a process
    has lost a child. Network counters may be the machine's own.
    """
    reliable = counters.keys() & last.keys() - set(_INDEPENDENT) - set(_SUMS)
    return any(last[name][1] == restarts and counters[name] < 0.9 * last[name][0] for name in reliable)


def _add_watched(readings: dict[str, list[tuple[int, float]]], at_ns: int, *, restarted: bool) -> None:
    """Add the time that the handlers' idle time covers.

    A broker that is down is not busy: the time between the last reading before a restart and the first one after it
    counts neither as idle nor as covered.
    """
    known = readings.setdefault(WATCHED, [])
    before_ns, before_s = known[-1] if known else (at_ns, 0.0)
    known.append((at_ns, before_s + (0.0 if restarted else (at_ns - before_ns) / NS_PER_S)))


_GAUGE_NAMES = ("machine_cores", "memory_bytes", "under_replicated", "leaders", "request_handler_pools")
"""Measurements that are no counters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One reading of one broker; it has some of the measurements, and others may be in a sample of their own."""

    at_ns: int
    """On the monotonic clock."""
    kind: str = ""
    """Kind of the probe, such as `ExporterProbe`: probes of a kind read the same measurements."""
    readings: Mapping[str, float]
    """By name; those that are not in `_GAUGES` are counters. Empty if the reading failed.

    `request_handler_idle_s` is the idle time of an average request handler. Before Kafka 4.3, a broker that is also a
    controller counts two pools together, and `request_handler_pools` is 2 (KIP-1207).
    `machine_cpu_s` is the CPU time of all programs on this machine, and of its host's other virtual machines;
    `own_cpu_s` is this process's part of it.
    `produce_total_s` is the sum of the times of `produce_total_requests` requests; Kafka counts each in whole
    milliseconds.
    """


MAX_INTERVALS = 600
"""Maximum length of a curve; longer rounds use intervals of 2, 4, ... seconds."""

_FEW_REQUESTS = 1e-6
"""Smaller values are rounding errors of the interpolation."""

_RATES = {
    "cpu": "cpu_s",
    "disk.read": "disk_read_bytes",
    "disk.write": "disk_written_bytes",
    "network.in": "network_in_bytes",
    "network.out": "network_out_bytes",
}
_TIMES = {
    f"{request}.{'time' if part == 'total' else part}": f"{request}_{part}" for request in REQUESTS for part in PARTS
}
_GAUGES = {"memory": "memory_bytes", "under_replicated": "under_replicated", "leaders": "leaders"}


@dataclass(frozen=True, slots=True)
class ApplicationKey:
    """Key of an application's samples, among those of brokers."""

    name: str

    def __str__(self) -> str:
        """Return the name for users."""
        return f"application {self.name}"


Key = str | int | ApplicationKey
"""A broker's number, the address of an exporter, or an application."""

_LEAST_COVERED_RATIO = 0.8
"""Least part of a window that each probe must read, so that a metric of all brokers is not that of some of them."""


def named(key: Hashable) -> str:
    """Return the name of a probed program, for users."""
    if isinstance(key, int):
        return f"broker {key}"
    return str(key) if isinstance(key, ApplicationKey) else f"exporter {key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """The resources that one broker used in a window; None if they were not read."""

    cpu_cores: float | None
    cpu_max_cores: float | None
    """The mean of the busiest second."""
    memory_max_bytes: float | None


class BrokerCurves(TypedDict):
    """Measurements of brokers over time as plain lists with one entry per interval; None if nothing was read."""

    interval_s: int
    first_s: float
    """Start of the first interval, relative to the start of the round."""
    brokers: dict[str, dict[str, list[float | None]]]
    """By broker and by the metric's name without `broker.`; in cores, bytes, bytes per second, ratios or seconds."""


@dataclass(frozen=True, slots=True)
class Readings:
    """The samples of all brokers, prepared for queries; made by `Readings.of`.

    All windows are half-open, in ns on the monotonic clock.
    """

    tracks: Mapping[Hashable, Tracks]
    probed: Mapping[tuple[Hashable, str], Sequence[Sample]]
    """The samples by broker and by the kind of the probe."""

    @staticmethod
    def of(samples: Mapping[Any, Iterable[Sample]]) -> Readings:
        """Prepare the samples of each broker, in any order.

        The counters of a restarted broker begin again at 0; their values are added to those before the restart.
        """
        probed: dict[tuple[Hashable, str], list[Sample]] = {}
        for broker, own in samples.items():
            for sample in own:
                probed.setdefault((broker, sample.kind), []).append(sample)
        return Readings({broker: tracks_of(own) for broker, own in samples.items()}, probed)

    def partly_read(self, *, start_ns: int, end_ns: int) -> dict[tuple[Hashable, str], float]:
        """Return the probes that read less than 80 % of a window, by broker and kind, each with the part that it read.

        Probes that read nothing are among them.
        """
        if end_ns <= start_ns:
            return {}
        ratios = {probe: covered_ratio(samples, start_ns, end_ns) for probe, samples in self.probed.items()}
        return {probe: ratio for probe, ratio in ratios.items() if ratio < _LEAST_COVERED_RATIO}

    def without(self, kinds: Collection[str]) -> Readings:
        """Return the readings without the measurements of these kinds of probes, on all brokers."""
        names: set[str] = set()
        for (_, kind), samples in self.probed.items():
            if kind in kinds:
                names.update(*(sample.readings for sample in samples))
        tracks = {
            broker: {name: track for name, track in own.items() if name not in names}
            for broker, own in self.tracks.items()
        }
        return Readings(tracks, {probe: own for probe, own in self.probed.items() if probe[1] not in kinds})

    def metrics(self, *, start_ns: int, end_ns: int) -> dict[str, float]:
        """Return the metrics of a window, by name, in base units; those that no broker reports are absent."""
        window = start_ns, end_ns
        metered = [tracks for tracks in self.tracks.values() if "request_handler_idle_s" in tracks]
        idle_ratios = _known(_idle_ratios(tracks, np.array(window))[0] for tracks in metered)
        found: dict[str, float | None] = {
            "broker.cpu.max": _most(use.cpu_max_cores for use in self.uses(start_ns, end_ns).values()),
            "broker.memory": self._most("memory_bytes", window),
            **{f"broker.{name}": self._rate(reading, window) for name, reading in _RATES.items()},
            "broker.handlers.idle": min(idle_ratios, default=None),
            "broker.under_replicated": self._most("under_replicated", window),
            "broker.isr_shrinks": self._steps("isr_shrinks", window),
            **{f"broker.{name}": self._mean_s(reading, window) for name, reading in _TIMES.items()},
        }
        return {name: value for name, value in found.items() if value is not None}

    def apart(self) -> tuple[Readings, Readings]:
        """Return the samples of brokers, and those of applications."""
        found = {key for key in self.tracks if isinstance(key, ApplicationKey)}
        return self._of_brokers(self.tracks.keys() - found), self._of_brokers(found)

    def application_metrics(self, *, start_ns: int, end_ns: int) -> dict[str, float]:
        """Return the metrics of a window, by name, if these are the samples of applications."""
        window = start_ns, end_ns
        found = {"app.cpu": self._rate("cpu_s", window), "app.memory": self._most("memory_bytes", window)}
        return {name: value for name, value in found.items() if value is not None}

    def cpu_s(self, *, start_ns: int, end_ns: int) -> float | None:
        """Return the CPU time of all brokers in a window, by their counters at its edges; None if it was not read."""
        tracks = self._of("cpu_s")
        if not tracks or any(track.at_ns[0] > start_ns or track.at_ns[-1] < end_ns for track in tracks):
            return None
        return sum(track.rise(start_ns, end_ns) for track in tracks)

    def uses(self, start_ns: int, end_ns: int) -> dict[Hashable, Use]:
        """Return the resources that each broker used in a window; brokers without any reading are absent."""
        uses = {broker: _use(tracks, start_ns, end_ns) for broker, tracks in self.tracks.items()}
        nothing = Use(cpu_cores=None, cpu_max_cores=None, memory_max_bytes=None)
        return {broker: use for broker, use in uses.items() if use != nothing}

    def strangers(self, *, start_ns: int, end_ns: int, workers_s: float) -> tuple[float, int] | None:
        """Return the number of cores used by other programs, and of cores of this machine; None if unknown.

        Args:
            start_ns: start of the window.
            end_ns: end of the window.
            workers_s: CPU seconds of the load's own processes; those of the brokers are known here.

        """
        window = start_ns, end_ns
        machine, controller = self._rate("machine_cpu_s", window), self._rate("own_cpu_s", window)
        cores, brokers = self._most("machine_cores", window), self._rate("cpu_s", window)
        if machine is None or controller is None or cores is None or brokers is None or end_ns <= start_ns:
            return None
        own = controller + brokers + workers_s / ((end_ns - start_ns) / NS_PER_S)
        return max(0.0, machine - own), round(cores)

    def curves(self, *, start_ns: int, first_ns: int, end_ns: int) -> BrokerCurves:
        """Return all measurements over time, from `first_ns` to `end_ns`, on a clock that is 0 at `start_ns`."""
        interval_s = 1
        while end_ns - first_ns > MAX_INTERVALS * interval_s * NS_PER_S:
            interval_s *= 2
        interval_ns = interval_s * NS_PER_S
        first = (first_ns - start_ns) // interval_ns
        stop = -((start_ns - end_ns) // interval_ns)
        edges_ns = start_ns + np.arange(first, stop + 1, dtype=np.int64) * interval_ns
        curves = {str(broker): _curves(tracks, edges_ns) for broker, tracks in self.tracks.items()}
        return BrokerCurves(
            interval_s=interval_s,
            first_s=float(first * interval_s),
            brokers={broker: found for broker, found in curves.items() if found},
        )

    def _of_brokers(self, brokers: Collection[Hashable]) -> Readings:
        tracks = {broker: own for broker, own in self.tracks.items() if broker in brokers}
        return Readings(tracks, {probe: own for probe, own in self.probed.items() if probe[0] in brokers})

    def _of(self, reading: str) -> list[Track]:
        return [tracks[reading] for tracks in self.tracks.values() if reading in tracks]

    def _rate(self, reading: str, window: tuple[int, int]) -> float | None:
        """Return the increase of all brokers together per second of the time in which at least one was read."""
        tracks = self._of(reading)
        if not tracks:
            return None
        begin_ns = max(window[0], min(int(track.at_ns[0]) for track in tracks))
        end_ns = min(window[1], max(int(track.at_ns[-1]) for track in tracks))
        if end_ns <= begin_ns:
            return None
        return sum(track.rise(*window) for track in tracks) / ((end_ns - begin_ns) / NS_PER_S)

    def _most(self, reading: str, window: tuple[int, int]) -> float | None:
        """Return the maximum of the sum over all brokers."""
        edges_ns = _seconds_of(*window)
        shown = np.array([track.most(edges_ns) for track in self._of(reading)])
        read = shown[:, ~np.isnan(shown).all(axis=0)] if shown.size else shown
        return float(np.nansum(read, axis=0).max()) if read.size else None

    def _steps(self, reading: str, window: tuple[int, int]) -> float | None:
        tracks = [track for track in self._of(reading) if track.at_ns[0] < window[1] and track.at_ns[-1] > window[0]]
        return sum(track.steps(*window) for track in tracks) if tracks else None

    def _mean_s(self, reading: str, window: tuple[int, int]) -> float | None:
        """Return the mean of a request's time, over the requests of all brokers."""
        both = [tracks for tracks in self.tracks.values() if {f"{reading}_s", f"{reading}_requests"} <= tracks.keys()]
        requests = sum(tracks[f"{reading}_requests"].rise(*window) for tracks in both)
        if requests < _FEW_REQUESTS:
            return None
        return max(0.0, sum(tracks[f"{reading}_s"].rise(*window) for tracks in both) / requests)


def _seconds_of(start_ns: int, end_ns: int) -> Nanoseconds:
    """Divide a window into seconds; the last one may be shorter."""
    return np.append(np.arange(start_ns, end_ns, NS_PER_S, dtype=np.int64), end_ns)


def _use(tracks: Tracks, start_ns: int, end_ns: int) -> Use:
    cpu, memory = tracks.get("cpu_s"), tracks.get("memory_bytes")
    edges_ns = _seconds_of(start_ns, end_ns)
    if edges_ns.size > 2:  # noqa: PLR2004 - with at least one whole second, a shorter last one is left out
        edges_ns = edges_ns[: 1 + (end_ns - start_ns) // NS_PER_S]
    cores = _rates(cpu, np.array([start_ns, end_ns])) if cpu else []
    return Use(
        cpu_cores=_most(cores),
        cpu_max_cores=_most(_rates(cpu, edges_ns)) if cpu else None,
        memory_max_bytes=_most(_listed(memory.most(_seconds_of(start_ns, end_ns)))) if memory else None,
    )


def _idle_ratios(tracks: Tracks, edges_ns: Nanoseconds) -> list[float | None]:
    """Return idle ratios. If the meter includes a controller's pool, that pool counts as idle: it has little to do."""
    idle_s, watched_s = (tracks[name].rises(edges_ns) for name in ("request_handler_idle_s", WATCHED))
    pools = tracks["request_handler_pools"].values[-1] if "request_handler_pools" in tracks else 1.0
    ratios = np.divide(idle_s, watched_s, out=np.full(idle_s.shape, np.nan), where=watched_s > 0)
    # Handlers report waiting time when the wait ends, so that a second may show more than a second.
    return _listed(np.clip(ratios - (pools - 1.0), 0.0, 1.0))


def _rates(track: Track, edges_ns: Nanoseconds) -> list[float | None]:
    covered_s = track.covered_ns(edges_ns) / NS_PER_S
    rises = track.rises(edges_ns)
    return _listed(np.divide(rises, covered_s, out=np.full(rises.shape, np.nan), where=covered_s > 0))


def _curves(tracks: Tracks, edges_ns: Nanoseconds) -> dict[str, list[float | None]]:
    curves = {name: _rates(tracks[reading], edges_ns) for name, reading in _RATES.items() if reading in tracks}
    curves |= {name: _listed(tracks[reading].most(edges_ns)) for name, reading in _GAUGES.items() if reading in tracks}
    if "request_handler_idle_s" in tracks:
        curves["handlers.idle"] = _idle_ratios(tracks, edges_ns)
    for name, reading in _TIMES.items():
        if {f"{reading}_s", f"{reading}_requests"} <= tracks.keys():
            sums_s, requests = (tracks[f"{reading}_{what}"].rises(edges_ns) for what in ("s", "requests"))
            enough = requests >= _FEW_REQUESTS
            means_s = np.divide(sums_s, requests, out=np.full(sums_s.shape, np.nan), where=enough)
            curves[name] = _listed(np.maximum(means_s, 0.0))
    return {name: curve for name, curve in curves.items() if any(value is not None for value in curve)}


def _listed(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else value for value in values.tolist()]


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _most(values: Iterable[float | None]) -> float | None:
    return max(_known(values), default=None)
