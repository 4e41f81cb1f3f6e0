"""Measures watched consumer groups by their committed offsets. Pure functions.

A reading contains a group's committed offsets at one instant; a record counts as done at the first reading beyond its
offset. Times therefore include the group's commit interval, which is measured, and at most one interval between
readings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.clusters.admin.groups import Protocol
from pytest_kafkaperf.clusters.monitoring.watchers import OFFSETS_INTERVAL_S, GroupOffsets, Int64s
from pytest_kafkaperf.core.metrics import bounded_latencies
from pytest_kafkaperf.core.notices import Event, EventKind, Notice, Remark
from pytest_kafkaperf.core.problems import Cause, Problem
from pytest_kafkaperf.core.units import NS_PER_S, Quantity, Unit
from pytest_kafkaperf.load.recorder import Histogram
from pytest_kafkaperf.runner.rounds.group_rebalances import rebalances
from pytest_kafkaperf.runner.rounds.observations import Observations
from pytest_kafkaperf.scenarios.scenario import Scenario

_MOST_POINTS = 600
"""Maximum number of readings for estimating the slope of the lag, which uses all pairs that are far apart."""
_FEWEST = 3
"""Minimum number of readings and of commit intervals in a window for estimating a slope."""


@dataclass(slots=True, kw_only=True)
class Watched:
    """Combined measurements for all groups; each metric has the slowest group's value."""

    metrics: dict[str, float] = field(default_factory=dict)
    delay: list[Histogram] = field(default_factory=list)
    """Record delays, by group."""
    commit_interval_s: float | None = None
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Notice] = field(default_factory=list)
    at_least: tuple[str, ...] = ()
    """Metrics that are lower bounds."""
    at_most: dict[str, float] = field(default_factory=dict)
    """Upper bounds of metrics that are too small to be measured; the largest of all groups."""

    def add(self, values: Mapping[str, float]) -> None:
        """Add one group's metrics, keeping the slowest group's values."""
        for name, value in values.items():
            worse = min if name.endswith("throughput") else max
            self.metrics[name] = worse(value, self.metrics.get(name, value))

    def bound(self, values: Mapping[str, float]) -> None:
        """Add the upper bounds of one group's metrics."""
        for name, value in values.items():
            self.at_most[name] = max(value, self.at_most.get(name, value))

    def drop_unknown(self) -> None:
        """Drop the metrics that one group may exceed without being seen, and the bounds that another group exceeds."""
        for name, most in [*self.at_most.items()]:
            if self.metrics.get(name, 0.0) > most:
                del self.at_most[name]
            else:
                self.metrics.pop(name, None)


def watched(seen: Observations, scenario: Scenario) -> Watched:
    """Return the measurements for the scenario's watched groups."""
    load, found = seen.load, Watched()
    places = load.places
    if not scenario.watch_group or load.start_ns is None or not places.size:
        return found
    last_due_ns = int(places[:, 4].max())
    for group, offsets in seen.groups.items():
        begun = int(np.searchsorted(offsets.at_ns, load.start_ns))
        if problem := _unusable(group, scenario.topic, offsets, begun, last_due_ns):
            found.problems.append(problem)
            continue
        _measure(found, group, offsets, seen, begun, has_backlog=scenario.backlog > 0)
    found.drop_unknown()
    return found


def _measure(
    found: Watched, group: str, offsets: GroupOffsets, seen: Observations, begun: int, *, has_backlog: bool
) -> None:
    """Add one group's measurements; `begun` is the index of the window's first reading."""
    start_ns = seen.load.start_ns or 0
    last_ack_ns = max(part.last_ack_ns or 0 for part in seen.load.produced)
    events = [event for event in seen.application_events if event.at_ns >= start_ns]
    interval_s = commit_interval_s(offsets)
    found.commit_interval_s = max(interval_s, found.commit_interval_s or 0.0)
    due_ns, done = _done(seen.load.places, offsets)
    _note_late(found, group, offsets, done, last_ack_ns)
    done = np.minimum(done, len(offsets.at_ns) - 1)
    delay = Histogram()
    delay.record(np.maximum(offsets.at_ns[done] - due_ns, 0))
    found.delay.append(delay)
    last = int(done.max())
    values = {"app.drain": max(0.0, float(offsets.at_ns[last] - last_ack_ns) / NS_PER_S)}
    ended = int(np.searchsorted(offsets.at_ns, due_ns.max(), side="right"))
    values |= _lag(offsets, begun, ended, last, interval_s)
    values |= _rebalanced(found, group, offsets, (begun, ended), interval_s)
    if events or has_backlog:
        begin_ns = start_ns if has_backlog else events[0].at_ns
        recovered = _recovered(offsets, (begun, ended), begin_ns, events, interval_s)
        if "app.recovery" not in recovered:
            waited_ns = int(offsets.at_ns[ended - 1]) - begin_ns
            problem, least = not_caught_up(f"group {group!r}", "app.recovery", waited_ns)
            found.problems.append(problem)
            values |= least
        values |= recovered
    if "app.lag.slope" not in values:
        interval = Quantity(interval_s, Unit.SECONDS)
        found.warnings.append(Notice(Remark.RARE_COMMITS, {"group": group, "interval": interval}))
    if last > begun:
        grown = int((offsets.committed[last] - offsets.committed[begun]).sum())
        values["app.throughput"] = grown * NS_PER_S / int(offsets.at_ns[last] - offsets.at_ns[begun])
    found.add(values)


def _rebalanced(
    found: Watched, group: str, offsets: GroupOffsets, window: tuple[int, int], interval_s: float
) -> dict[str, float]:
    """Return the metrics of a group's rebalances; add a warning if their pause is unknown."""
    seen = rebalances(offsets, *window, interval_s)
    if seen.is_bound:
        found.at_least += ("app.rebalance.pause",)
    found.bound(seen.at_most)
    for most_s in seen.at_most.values():
        values = {"interval": Quantity(interval_s, Unit.SECONDS), "most": Quantity(most_s, Unit.SECONDS)}
        found.warnings.append(Notice(Remark.SHORT_PAUSE, {"group": group, **values}))
    if offsets.protocol is Protocol.SHARE and seen.metrics.get("app.rebalances"):
        found.warnings.append(Notice(Remark.NO_PAUSE, {"group": group}))
    return seen.metrics


def _note_late(found: Watched, group: str, offsets: GroupOffsets, done: Int64s, last_ack_ns: int) -> None:
    """Warn about records that the group has not committed; `done` is the reading that shows each record committed."""
    late = done >= len(offsets.at_ns)
    if not late.any():
        return
    waited = Quantity(int(offsets.at_ns[-1] - last_ack_ns) / NS_PER_S, Unit.SECONDS)
    values = {"group": group, "late": int(late.sum()), "records": late.size, "waited": waited}
    found.warnings.append(Notice(Remark.NOT_COMMITTED, values))
    found.at_least += ("app.drain", *bounded_latencies("app.delay", float(late.mean())))


def _unusable(group: str, topic: str | None, offsets: GroupOffsets, begun: int, last_due_ns: int) -> Problem | None:
    """Return a problem if a group did not commit or if its readings end before the last record was due."""
    names = {"group": group, "topic": topic}
    if begun >= len(offsets.at_ns) - 1 or not (offsets.committed[begun:] != offsets.committed[begun]).any():
        return Problem(Cause.NO_COMMIT, names)
    unread_s = (last_due_ns - int(offsets.at_ns[-1])) / NS_PER_S
    if unread_s > 0:
        return Problem(Cause.OFFSETS_UNREAD, {**names, "unread": Quantity(unread_s, Unit.SECONDS)})
    return None


def commit_interval_s(offsets: GroupOffsets) -> float:
    """Return the median time between commits of a partition, in seconds.

    Periods with nothing to commit are excluded. The result is at least the interval between readings.
    """
    at_ns, readings = offsets.at_ns, np.arange(len(offsets.at_ns))
    spans = [np.diff(at_ns)] if not (np.diff(offsets.committed, axis=0) > 0).any() else []
    for committed, ends in zip(offsets.committed.T, offsets.ends.T, strict=True):
        moved = np.flatnonzero(np.diff(committed) > 0) + 1
        moved = moved if moved.size > 1 else np.append(0, moved)
        pending = np.where(ends > committed, readings, readings.size)
        since = np.minimum.accumulate(pending[::-1])[::-1]
        spans.append(at_ns[moved[1:]] - at_ns[np.clip(since[moved[:-1]] - 1, moved[:-1], moved[1:] - 1)])
    return float(max(np.median(np.concatenate(spans)), np.median(np.diff(at_ns)))) / NS_PER_S


def lag_of(offsets: GroupOffsets) -> Int64s:
    """Return the lag at each reading, summed over all partitions."""
    lag: Int64s = np.maximum(offsets.ends - offsets.committed, 0).sum(axis=1)
    return lag


def slope(at_s: npt.NDArray[np.float64], lag: Int64s, interval_s: float) -> float | None:
    """Return the growth of the lag in records/s; None if the window is shorter than three commit intervals.

    The lag falls with each commit and grows until the next one, so only the lowest lag of each commit interval counts.
    The result is Theil and Sen's estimate, the median slope of all pairs; here, only pairs at least half the window
    apart are used, because commits cause steps that make the slopes of closer pairs meaningless.
    """
    length = at_s[-1] - at_s[0] if at_s.size else 0.0
    if length < _FEWEST * interval_s or at_s.size < _FEWEST:
        return None
    width = round(interval_s * (at_s.size - 1) / length) + 1
    lowest = np.lib.stride_tricks.sliding_window_view(lag, width).min(axis=1)
    chosen = np.unique(np.linspace(0, lowest.size - 1, min(lowest.size, _MOST_POINTS)).astype(np.int64))
    x, y = at_s[chosen], lowest[chosen].astype(np.float64)
    apart = x[np.newaxis, :] - x[:, np.newaxis]
    far = apart >= (x[-1] - x[0]) / 2
    return float(np.median((y[np.newaxis, :] - y[:, np.newaxis])[far] / apart[far])) if far.any() else None


def caught_up(
    offsets: GroupOffsets, window: tuple[int, int], *, begin_ns: int, first: int, interval_s: float
) -> tuple[float, float | None] | None:
    """Return the time from an instant until the lag is back at its level, and the throughput in that time (records/s).

    `window` is the range of the window's readings; `first` is the first reading that can show the return, from which
    the throughput counts. If it already shows the return, the throughput is None. The level is the highest lag before
    the instant, but at least the number of records that the topic gains in one commit interval (two if fewer have
    passed) and between two readings. The lag counts as back once it remains at or below the level for a commit
    interval. Returns None if the lag was not back by the end of the window.
    """
    at_ns, committed, (begun, ended) = offsets.at_ns, offsets.committed, window
    lag, interval_ns = lag_of(offsets), round(interval_s * NS_PER_S)
    gained = int((offsets.ends[ended - 1] - offsets.ends[begun]).sum())
    per_ns = gained / max(1, int(at_ns[ended - 1] - at_ns[begun]))
    least = per_ns * interval_ns * (1 if begin_ns - at_ns[begun] >= 2 * interval_ns else 2)
    highest = lag[begun : np.searchsorted(at_ns, begin_ns)].max(initial=0)
    level = max(highest, least) + per_ns * np.median(np.diff(at_ns))
    above = np.append(0, np.cumsum(lag > level))
    later = np.searchsorted(at_ns, at_ns + interval_ns, side="right")
    calm = np.flatnonzero(above[later[first:ended]] == above[first:ended])
    if not calm.size:
        return None
    back = first + int(calm[0])
    took_ns = int(at_ns[back] - at_ns[first])
    throughput = int((committed[back] - committed[first]).sum()) * NS_PER_S / took_ns if took_ns else None
    return max(0, int(at_ns[back]) - begin_ns) / NS_PER_S, throughput


def not_caught_up(who: str, metric: str, waited_ns: int) -> tuple[Problem, dict[str, float]]:
    """Return the problem that a lag was not back at its level by the end of the window, and the lower bound."""
    waited_s = waited_ns / NS_PER_S
    values = {"who": who, "metric": metric, "waited": Quantity(waited_s, Unit.SECONDS)}
    return Problem(Cause.NOT_CAUGHT_UP, values, metric), {metric: waited_s}


def _recovered(
    offsets: GroupOffsets, window: tuple[int, int], begin_ns: int, events: Sequence[Event], interval_s: float
) -> dict[str, float]:
    """Return a group's recovery metrics, without `app.recovery` if its lag was not back in time."""
    at_ns, first, metrics = offsets.at_ns, window[0], {}
    whole = [event for event in events if event.settled_ns is None]
    if whole:  # the lag cannot be back before the application that started last has committed something
        starts_ns = [event.at_ns for event in whole if event.kind is EventKind.STARTED]
        started_ns = max(starts_ns, default=at_ns[-1])
        since = int(np.searchsorted(at_ns, started_ns))
        moved = np.flatnonzero((offsets.committed[since:] != offsets.committed[since : since + 1]).any(axis=1))
        first = since + int(moved[0]) if moved.size else at_ns.size
        if moved.size:
            metrics["app.start"] = int(at_ns[first] - started_ns) / NS_PER_S
    settled_ns = max((event.settled_ns for event in events if event.settled_ns is not None), default=None)
    if settled_ns is not None:
        first = max(first, _served_again(offsets, window, settled_ns, interval_s))
    if found := caught_up(offsets, window, begin_ns=begin_ns, first=first, interval_s=interval_s):
        metrics["app.recovery"], throughput = found
        metrics |= {} if throughput is None else {"app.recovery.throughput": throughput}
    return metrics


def _served_again(offsets: GroupOffsets, window: tuple[int, int], settled_ns: int, interval_s: float) -> int:
    """Return the first reading at which every partition is known to be processed after a change of the instances.

    When some of an application's instances are lost, the others keep committing, so the lag grows only slowly. It
    cannot be back to normal before every partition has a commit of a record that arrived after the change. Partitions
    whose first such record arrived less than two commit intervals before the end of the window are left out. Returns
    an index past the last reading if a partition is never processed again.
    """
    at_ns, (_, ended) = offsets.at_ns, window
    since = int(np.searchsorted(at_ns, settled_ns))
    if since >= ended:
        return int(at_ns.size)
    level = offsets.ends[since]
    last = np.searchsorted(at_ns, at_ns[ended - 1] - round(2 * interval_s * NS_PER_S))
    due = offsets.ends[max(since, int(last))] > level
    served = np.maximum.accumulate(offsets.committed[since:], axis=0)[:, due] > level[due]
    everywhere = np.flatnonzero(served.all(axis=1))
    return since + int(everywhere[0]) if everywhere.size else int(at_ns.size)


def _done(places: Int64s, offsets: GroupOffsets) -> tuple[Int64s, Int64s]:
    """Return each record's due time, and the index of the first reading that commits it, both of shape `(records,)`.

    For uncommitted records, the index is past the last reading. Due times are evenly spaced within a batch.
    """
    dues, done = [], []
    places = places[places[:, 0] < offsets.committed.shape[1]]  # a topic can gain partitions, which is a problem anyway
    for partition in np.unique(places[:, 0]).tolist():
        _, first, count, first_ns, last_ns = places[places[:, 0] == partition].T
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        steps = np.repeat((last_ns - first_ns) / np.maximum(count - 1, 1), count)
        dues.append(np.repeat(first_ns, count) + (within * steps).astype(np.int64))
        reached = np.maximum.accumulate(offsets.committed[:, partition])
        done.append(np.searchsorted(reached, np.repeat(first, count) + within, side="right"))
    return np.concatenate(dues), np.concatenate(done)


def _lag(offsets: GroupOffsets, begun: int, ended: int, last: int, interval_s: float) -> dict[str, float]:
    """Return the lag metrics between two readings, excluding `ended`; `last` is the reading of the last commit.

    A group that is too slow continues at the same pace after the load. If the window has too few commits for a slope,
    later commits except the last one also count, with the lag computed as if the load had continued.
    """
    at_s, lag = offsets.at_ns / NS_PER_S, lag_of(offsets)
    if ended <= begun:
        return {}
    found = {"app.lag.max": float(lag[begun:ended].max()), "app.lag.end": float(lag[ended - 1])}
    per_s = (offsets.ends[ended - 1] - offsets.ends[begun]).sum() / max(
        at_s[ended - 1] - at_s[begun], OFFSETS_INTERVAL_S
    )
    more = lag + (per_s * np.maximum(at_s - at_s[ended - 1], 0)).astype(np.int64)
    for end in (ended, last):
        if (growth := slope(at_s[begun:end], more[begun:end], interval_s)) is not None:
            return found | {"app.lag.slope": max(0.0, growth)}
    return found
