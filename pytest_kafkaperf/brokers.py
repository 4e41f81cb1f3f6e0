"""What the brokers did in a round: samples of each, and the metrics, curves and events that they fold into."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt

MAX_INTERVALS = 600
"""Curves that would be longer take intervals of 2, 4, ... seconds."""

REQUESTS = ("produce", "fetch")
"""Fetch means that of consumers, not of followers."""
PARTS = ("total", "queue", "local", "remote", "send")
"""Of a request's time: waiting for a handler, the leader's own work, waiting for followers or for data, sending."""

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

_SECOND_NS = 10**9
_HELD_NS = 1_500_000_000
"""How long what a gauge showed is taken to go on; there is a reading a second."""
_GAP_NS = 2_500_000_000
"""Readings so far apart leave seconds between them of which nothing is known."""
_FEW_REQUESTS = 1e-6
"""Less than this is a rounding error of the interpolation, not a request."""

_ALONE = ("network_in_bytes", "network_out_bytes", "request_handler_idle_s")
"""Counters whose fall says nothing of others: the network's may be the machine's, and a broker that starts may show
the meter of all its handlers before it has one of its own."""
_SUMS = tuple(f"{request}_{part}_s" for request in REQUESTS for part in PARTS)
"""Made of a mean and a count that are not read at one instant: may fall a little without any restart."""
_WATCHED = "request_handler_watched_s"
"""Of our own making: the time that `request_handler_idle_s` covers."""

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

Key = TypeVar("Key", bound=Hashable)
Floats = npt.NDArray[np.float64]
Nanoseconds = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One reading of one broker; it holds some of the figures, others may come in a sample of their own."""

    at_ns: int
    """Monotonic."""
    figures: Mapping[str, float]
    """By the names in `FIGURES`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What one broker used in a window; None where nothing was read."""

    cpu_cores: float | None
    cpu_max_cores: float | None
    """In its busiest second."""
    memory_max_bytes: float | None


class BrokerCurves(TypedDict):
    """Brokers over time as plain lists, one entry an interval. None where nothing was read."""

    interval_s: int
    first_s: float
    """When the first interval begins; the round does at 0."""
    brokers: dict[str, dict[str, list[float | None]]]
    """By broker and by the metric's name without `broker.`: cores, bytes, bytes a second, ratios, seconds."""


@dataclass(frozen=True, slots=True)
class _Track:
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


_Tracks = Mapping[str, _Track]


@dataclass(frozen=True, slots=True)
class Readings:
    """The samples of all brokers, made ready to be asked; by `Readings.of`.

    All windows are half-open, in monotonic nanoseconds.
    """

    tracks: Mapping[Hashable, _Tracks]

    @staticmethod
    def of(samples: Mapping[Key, Iterable[Sample]]) -> Readings:
        """Take the samples of each broker, in any order.

        A broker that was restarted has counters that begin again at 0: what they show then is added.
        """
        return Readings({broker: _tracks(samples) for broker, samples in samples.items()})

    def metrics(self, *, start_ns: int, end_ns: int) -> dict[str, float]:
        """The metrics of a window, by name, in base units; those that no broker gives are absent."""
        window = start_ns, end_ns
        found: dict[str, float | None] = {
            "broker.cpu": self._rate("cpu_s", window),
            "broker.cpu.max": _most(use.cpu_max_cores for use in self.uses(start_ns, end_ns).values()),
            "broker.memory": self._most("memory_bytes", window),
            **{f"broker.{name}": self._rate(_RATES[name], window) for name in _RATES if name != "cpu"},
            "broker.handlers.idle": min(
                _known(_idle_ratio(tracks, window) for tracks in self.tracks.values()), default=None
            ),
            "broker.under_replicated": self._most("under_replicated", window),
            "broker.isr_shrinks": self._steps("isr_shrinks", window),
            **{f"broker.{name}": self._mean_s(figure, window) for name, figure in _TIMES.items()},
        }
        return {name: value for name, value in found.items() if value is not None}

    def uses(self, start_ns: int, end_ns: int) -> dict[Hashable, Use]:
        """What each broker used in a window; only those of which something is known."""
        uses = {broker: _use(tracks, start_ns, end_ns) for broker, tracks in self.tracks.items()}
        nothing = Use(cpu_cores=None, cpu_max_cores=None, memory_max_bytes=None)
        return {broker: use for broker, use in uses.items() if use != nothing}

    def strangers(self, *, start_ns: int, end_ns: int, workers_s: float) -> tuple[float, int] | None:
        """How many cores other programs of this machine took in a window, and how many there are; None: nobody knows.

        `workers_s` are the CPU seconds of the load's own processes; those of the brokers are known here.
        """
        machine, session = (
            self._rate("machine_cpu_s", (start_ns, end_ns)),
            self._rate("session_cpu_s", (start_ns, end_ns)),
        )
        cores, brokers = self._most("machine_cores", (start_ns, end_ns)), self._rate("cpu_s", (start_ns, end_ns))
        if machine is None or session is None or cores is None or brokers is None or end_ns <= start_ns:
            return None
        ours = session + brokers + workers_s / ((end_ns - start_ns) / _SECOND_NS)
        return max(0.0, machine - ours), round(cores)

    def curves(self, *, start_ns: int, first_ns: int, end_ns: int) -> BrokerCurves:
        """All of it over time, from `first_ns` to `end_ns`, by a clock that shows 0 at `start_ns`."""
        interval_s = 1
        while end_ns - first_ns > MAX_INTERVALS * interval_s * _SECOND_NS:
            interval_s *= 2
        interval_ns = interval_s * _SECOND_NS
        first, stop = (first_ns - start_ns) // interval_ns, -((start_ns - end_ns) // interval_ns)
        edges_ns = start_ns + np.arange(first, stop + 1, dtype=np.int64) * interval_ns
        curves = {str(broker): _curves(tracks, edges_ns) for broker, tracks in self.tracks.items()}
        return BrokerCurves(
            interval_s=interval_s,
            first_s=float(first * interval_s),
            brokers={broker: found for broker, found in curves.items() if found},
        )

    def _of(self, figure: str) -> list[_Track]:
        return [tracks[figure] for tracks in self.tracks.values() if figure in tracks]

    def _rate(self, figure: str, window: tuple[int, int]) -> float | None:
        """Of all together, a second of the time that any of them was read in."""
        tracks = self._of(figure)
        if not tracks:
            return None
        begin_ns = max(window[0], min(int(track.at_ns[0]) for track in tracks))
        end_ns = min(window[1], max(int(track.at_ns[-1]) for track in tracks))
        if end_ns <= begin_ns:
            return None
        return sum(track.rise(*window) for track in tracks) / ((end_ns - begin_ns) / _SECOND_NS)

    def _most(self, figure: str, window: tuple[int, int]) -> float | None:
        """The most of all together."""
        edges_ns = _seconds_of(*window)
        shown = np.array([track.most(edges_ns) for track in self._of(figure)])
        read = shown[:, ~np.isnan(shown).all(axis=0)] if shown.size else shown
        return float(np.nansum(read, axis=0).max()) if read.size else None

    def _steps(self, figure: str, window: tuple[int, int]) -> float | None:
        tracks = [track for track in self._of(figure) if track.at_ns[0] < window[1] and track.at_ns[-1] > window[0]]
        return sum(track.steps(*window) for track in tracks) if tracks else None

    def _mean_s(self, figure: str, window: tuple[int, int]) -> float | None:
        """Of a request's time, over the requests of all brokers."""
        both = [tracks for tracks in self.tracks.values() if {f"{figure}_s", f"{figure}_requests"} <= tracks.keys()]
        requests = sum(tracks[f"{figure}_requests"].rise(*window) for tracks in both)
        if requests < _FEW_REQUESTS:
            return None
        return max(0.0, sum(tracks[f"{figure}_s"].rise(*window) for tracks in both) / requests)


def _tracks(samples: Iterable[Sample]) -> dict[str, _Track]:
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
        name: _Track(np.array([at for at, _ in known], dtype=np.int64), np.array([value for _, value in known]))
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
    known = readings.setdefault(_WATCHED, [])
    before_ns, before_s = known[-1] if known else (at_ns, 0.0)
    known.append((at_ns, before_s + (0.0 if again else (at_ns - before_ns) / _SECOND_NS)))


def _seconds_of(start_ns: int, end_ns: int) -> Nanoseconds:
    """A window cut into seconds, the last of them perhaps shorter."""
    return np.append(np.arange(start_ns, end_ns, _SECOND_NS, dtype=np.int64), end_ns)


def _use(tracks: _Tracks, start_ns: int, end_ns: int) -> Use:
    cpu, memory = tracks.get("cpu_s"), tracks.get("memory_bytes")
    edges_ns = _seconds_of(start_ns, end_ns)
    if edges_ns.size > 2:  # noqa: PLR2004 - a first second that is whole: the shorter one at the end is left out
        edges_ns = edges_ns[: 1 + (end_ns - start_ns) // _SECOND_NS]
    cores = _rates(cpu, np.array([start_ns, end_ns])) if cpu else []
    return Use(
        cpu_cores=_most(cores),
        cpu_max_cores=_most(_rates(cpu, edges_ns)) if cpu else None,
        memory_max_bytes=_most(_listed(memory.most(_seconds_of(start_ns, end_ns)))) if memory else None,
    )


def _idle_ratio(tracks: _Tracks, window: tuple[int, int]) -> float | None:
    if "request_handler_idle_s" not in tracks:
        return None
    return _idle_ratios(tracks, np.array(window))[0]


def _idle_ratios(tracks: _Tracks, edges_ns: Nanoseconds) -> list[float | None]:
    """Of a controller's own pool nothing is known where it counts with the broker's; it has hardly anything to do."""
    idle_s, watched_s = (tracks[name].rises(edges_ns) for name in ("request_handler_idle_s", _WATCHED))
    pools = tracks["request_handler_pools"].values[-1] if "request_handler_pools" in tracks else 1.0
    ratios = np.divide(idle_s, watched_s, out=np.full(idle_s.shape, np.nan), where=watched_s > 0)
    # Handlers report what they waited when they are done waiting, so a second may show more than it was.
    return _listed(np.clip(ratios - (pools - 1.0), 0.0, 1.0))


def _rates(track: _Track, edges_ns: Nanoseconds) -> list[float | None]:
    covered_s = track.covered_ns(edges_ns) / _SECOND_NS
    rises = track.rises(edges_ns)
    return _listed(np.divide(rises, covered_s, out=np.full(rises.shape, np.nan), where=covered_s > 0))


def _curves(tracks: _Tracks, edges_ns: Nanoseconds) -> dict[str, list[float | None]]:
    curves = {name: _rates(tracks[figure], edges_ns) for name, figure in _RATES.items() if figure in tracks}
    curves |= {name: _listed(tracks[figure].most(edges_ns)) for name, figure in _GAUGES.items() if figure in tracks}
    if "request_handler_idle_s" in tracks:
        curves["handlers.idle"] = _idle_ratios(tracks, edges_ns)
    for name, figure in _TIMES.items():
        if {f"{figure}_s", f"{figure}_requests"} <= tracks.keys():
            sums_s, requests = (tracks[f"{figure}_{what}"].rises(edges_ns) for what in ("s", "requests"))
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


MAX_EVENTS = 6
"""How many texts `events` gives at most."""
_MAX_NAMED = 5
"""How many partitions or brokers are named one by one."""

State = Mapping[int, tuple[int | None, tuple[int, ...], tuple[int, ...]]]
"""By partition: its leader or None, the replicas in sync, all replicas."""


def events(states: Sequence[tuple[int, State]], start_ns: int) -> list[tuple[int, str]]:
    """Tell what happened to a topic's partitions, each with its instant, in the order of time.

    Times in the texts count from the start. A partition that a state does not name counts as it last was.
    """
    found = sorted([*_leader_changes(states), *_thin_times(states)])
    told = [(instants[0], text.format(*(_instant(at_ns, start_ns) for at_ns in instants))) for instants, text in found]
    if len(told) <= MAX_EVENTS:
        return told
    left_out = len(told) - MAX_EVENTS + 1
    last_ns = told[-1][0]
    return [*told[: MAX_EVENTS - 1], (last_ns, f"and {left_out} more such events until {_instant(last_ns, start_ns)}")]


_Event = tuple[tuple[int, ...], str]
"""Instants, and a text with a place for each of them."""


def _leader_changes(states: Sequence[tuple[int, State]]) -> Iterator[_Event]:
    leaders: dict[int, int | None] = {}
    for at_ns, state in states:
        now = {partition: leader for partition, (leader, _, _) in state.items()}
        changed = sorted(part for part, leader in now.items() if leaders.get(part, leader) != leader)
        lost = [part for part in changed if now[part] is None]
        gained = [part for part in changed if leaders[part] is None]
        moved = [part for part in changed if now[part] is not None and leaders[part] is not None]
        if moved:
            origins, goals = ({each[part] for part in moved} for each in (leaders, now))
            text = f"{_many('leader', moved)} of {_named('partition', moved)} moved"
            yield (at_ns,), f"at {{}}: {text} from {_named('broker', origins)} to {_named('', goals)}"
        if lost:
            text = f"{_named('partition', lost)} lost {'its leader' if len(lost) == 1 else 'their leaders'}"
            yield (at_ns,), f"at {{}}: {text}, {_named('broker', {leaders[part] for part in lost})}"
        if gained:
            text = f"{_named('partition', gained)} had {'a leader' if len(gained) == 1 else 'leaders'} again"
            yield (at_ns,), f"at {{}}: {text}, {_named('broker', {now[part] for part in gained})}"
        leaders |= now


def _thin_times(states: Sequence[tuple[int, State]]) -> Iterator[_Event]:
    """Times in which some partition had fewer replicas in sync than it has."""
    known: set[int] = set()
    thin: set[int] = set()
    met: set[int] = set()
    begin_ns = 0
    for at_ns, state in states:
        if not thin:
            met, begin_ns = set(), at_ns
        known |= state.keys()
        thin -= state.keys()
        thin |= {part for part, (_, in_sync, replicas) in state.items() if len(in_sync) < len(replicas)}
        if met and not thin:
            yield (begin_ns, at_ns), f"{_share(met, known)} under-replicated from {{}} to {{}}"
        met |= thin
    if thin:
        yield (begin_ns,), f"{_share(met, known)} under-replicated from {{}} on"


def _share(some: set[int], known: set[int]) -> str:
    return f"{len(some)} of {len(known)} {_many('partition', known)} {'was' if len(some) == 1 else 'were'}"


def _named(noun: str, members: Iterable[int | None]) -> str:
    ids = sorted(member for member in members if member is not None)
    named = ", ".join(map(str, itertools.islice(ids, _MAX_NAMED)))
    rest = f" and {len(ids) - _MAX_NAMED} more" if len(ids) > _MAX_NAMED else ""
    return f"{_many(noun, ids)} {named}{rest}".strip() if noun else f"{named}{rest}"


def _many(noun: str, members: Sequence[int] | set[int]) -> str:
    return noun if len(members) == 1 else f"{noun}s"


def _instant(at_ns: int, start_ns: int) -> str:
    at_s = (at_ns - start_ns) / _SECOND_NS
    return f"{at_s:.1f} s" if at_s >= 0 else f"{-at_s:.1f} s before the start"
