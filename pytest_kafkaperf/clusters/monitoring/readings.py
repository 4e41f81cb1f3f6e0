"""Metrics and curves of brokers and applications, derived from their samples."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np

from pytest_kafkaperf.clusters.monitoring.tracks import (
    PARTS,
    REQUESTS,
    WATCHED,
    Floats,
    Nanoseconds,
    Sample,
    Track,
    Tracks,
    covered_ratio,
    tracks_of,
)
from pytest_kafkaperf.core.units import NS_PER_S

MAX_INTERVALS = 600
"""Maximum length of a curve; longer rounds use intervals of 2, 4, ... seconds."""

_FEW_REQUESTS = 1e-6
"""Number of requests below which a value is only a rounding error from the interpolation."""

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
    """Key for an application's samples, which are stored with the brokers' samples."""

    name: str

    def __str__(self) -> str:
        """Return the name for display."""
        return f"application {self.name}"


Key = str | int | ApplicationKey
"""A broker's number, an exporter's address, or an application."""

_LEAST_COVERED_RATIO = 0.8
"""Minimum share of a window that each probe must cover. Otherwise, metrics for all brokers could reflect only some of
them."""


def named(key: Hashable) -> str:
    """Return a probed program's name for display."""
    if isinstance(key, int):
        return f"broker {key}"
    return str(key) if isinstance(key, ApplicationKey) else f"exporter {key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Resources that one broker used in a window; None if they were not read."""

    cpu_cores: float | None
    cpu_max_cores: float | None
    """Mean in the busiest second."""
    memory_max_bytes: float | None


class BrokerCurves(TypedDict):
    """Broker measurements over time, as plain lists with one entry per interval (None if nothing was read in it)."""

    interval_s: int
    first_s: float
    """Start of the first interval, relative to the start of the round."""
    brokers: dict[str, dict[str, list[float | None]]]
    """Curves by broker and metric name (without `broker.`), in cores, bytes, bytes per second, ratios or seconds."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Samples of all brokers, prepared for queries by `Readings.of`.

    All windows are half-open, in ns on the monotonic clock.
    """

    tracks: Mapping[Hashable, Tracks]
    probed: Mapping[tuple[Hashable, str], Sequence[Sample]]
    """Samples by broker and kind of probe."""

    @staticmethod
    def of(samples: Mapping[Any, Iterable[Sample]]) -> Readings:
        """Prepare the samples of each broker, in any order.

        A restarted broker's counters start again at 0, so their values are added to those before the restart.
        """
        probed: dict[tuple[Hashable, str], list[Sample]] = {}
        for broker, own in samples.items():
            for sample in own:
                probed.setdefault((broker, sample.kind), []).append(sample)
        return Readings({broker: tracks_of(own) for broker, own in samples.items()}, probed)

    def partly_read(self, *, start_ns: int, end_ns: int) -> dict[tuple[Hashable, str], float]:
        """Return the probes that covered less than 80% of a window, by broker and kind, with the share covered.

        Probes that read nothing are included.
        """
        if end_ns <= start_ns:
            return {}
        ratios = {probe: covered_ratio(samples, start_ns, end_ns) for probe, samples in self.probed.items()}
        return {probe: ratio for probe, ratio in ratios.items() if ratio < _LEAST_COVERED_RATIO}

    def without(self, kinds: Collection[str]) -> Readings:
        """Return the readings of all brokers, excluding measurements from these kinds of probes."""
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
        """Return a window's metrics by name, in base units; metrics that no broker reports are absent."""
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
        """Return the readings of brokers and those of applications, separately."""
        found = {key for key in self.tracks if isinstance(key, ApplicationKey)}
        return self._of_brokers(self.tracks.keys() - found), self._of_brokers(found)

    def application_metrics(self, *, start_ns: int, end_ns: int) -> dict[str, float]:
        """Return a window's metrics by name. The samples must be those of applications."""
        window = start_ns, end_ns
        found = {"app.cpu": self._rate("cpu_s", window), "app.memory": self._most("memory_bytes", window)}
        return {name: value for name, value in found.items() if value is not None}

    def cpu_s(self, *, start_ns: int, end_ns: int) -> float | None:
        """Return all brokers' total CPU time in a window, from their counters at its edges; None if it was not read."""
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
        """Return the number of cores that other programs used, and this machine's number of cores; None if unknown.

        Args:
            start_ns: start of the window.
            end_ns: end of the window.
            workers_s: CPU seconds used by the load's own processes; the brokers' CPU time is already known.

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
        """Return the total increase across all brokers, per second during which at least one broker was read."""
        tracks = self._of(reading)
        if not tracks:
            return None
        begin_ns = max(window[0], min(int(track.at_ns[0]) for track in tracks))
        end_ns = min(window[1], max(int(track.at_ns[-1]) for track in tracks))
        if end_ns <= begin_ns:
            return None
        return sum(track.rise(*window) for track in tracks) / ((end_ns - begin_ns) / NS_PER_S)

    def _most(self, reading: str, window: tuple[int, int]) -> float | None:
        """Return the maximum of the sum across all brokers."""
        edges_ns = _seconds_of(*window)
        shown = np.array([track.most(edges_ns) for track in self._of(reading)])
        read = shown[:, ~np.isnan(shown).all(axis=0)] if shown.size else shown
        return float(np.nansum(read, axis=0).max()) if read.size else None

    def _steps(self, reading: str, window: tuple[int, int]) -> float | None:
        tracks = [track for track in self._of(reading) if track.at_ns[0] < window[1] and track.at_ns[-1] > window[0]]
        return sum(track.steps(*window) for track in tracks) if tracks else None

    def _mean_s(self, reading: str, window: tuple[int, int]) -> float | None:
        """Return the mean time per request across all brokers."""
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
        # No mean exceeds the largest one, so the busiest second reaches the window's mean, even if it was left out.
        cpu_max_cores=_most([*_rates(cpu, edges_ns), *cores]) if cpu else None,
        memory_max_bytes=_most(_listed(memory.most(_seconds_of(start_ns, end_ns)))) if memory else None,
    )


def _idle_ratios(tracks: Tracks, edges_ns: Nanoseconds) -> list[float | None]:
    """Return idle ratios. A controller's pool in the meter counts as idle, because it has little to do."""
    idle_s, watched_s = (tracks[name].rises(edges_ns) for name in ("request_handler_idle_s", WATCHED))
    pools = tracks["request_handler_pools"].values[-1] if "request_handler_pools" in tracks else 1.0
    ratios = np.divide(idle_s, watched_s, out=np.full(idle_s.shape, np.nan), where=watched_s > 0)
    # Handlers report waiting time when the wait ends, so one second may show more than a second of waiting.
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
