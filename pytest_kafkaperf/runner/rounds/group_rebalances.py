"""Measures the rebalances of a watched group, and how long they kept the group from its work. Pure functions."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

from pytest_kafkaperf.clusters.admin.groups import Protocol
from pytest_kafkaperf.clusters.monitoring.watchers import GroupOffsets
from pytest_kafkaperf.core.units import NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalances:
    """The rebalances in a window."""

    metrics: dict[str, float] = field(default_factory=dict)
    """`app.rebalances`, and `app.rebalance.pause` unless it is too short to be seen."""
    at_most: dict[str, float] = field(default_factory=dict)
    """`app.rebalance.pause` if it is too short to be seen: the shortest pause that would have been seen."""
    is_bound: bool = False
    """True if the pause is a lower bound, because it had not ended at the last reading."""


def rebalances(offsets: GroupOffsets, begun: int, ended: int, interval_s: float) -> Rebalances:
    """Count the rebalances between two readings, excluding `ended`, and find the longest pause that belongs to one.

    A group commits once in `interval_s` seconds, so a shorter pause cannot be distinguished from ordinary work.
    Members of a share group share their partitions, so none of these waits for a rebalance.
    """
    if ended <= begun:
        return Rebalances()
    at_ns = offsets.at_ns
    seen_ns = [instant for instant in offsets.rebalances_ns if at_ns[begun] <= instant <= at_ns[ended - 1]]
    counted = {"app.rebalances": float(len(seen_ns))}
    if offsets.protocol is Protocol.SHARE:
        return Rebalances(metrics=counted)
    if not seen_ns:
        return Rebalances(metrics={**counted, "app.rebalance.pause": 0.0})
    during_ns = sorted({*seen_ns, *(one for one in offsets.unsettled_ns if one >= seen_ns[0])})
    pause_ns, is_bound = max(_pause(offsets, partition, begun, during_ns) for partition in range(offsets.ends.shape[1]))
    pause_s = pause_ns / NS_PER_S
    shortest_s = interval_s + float(np.median(np.diff(at_ns))) / NS_PER_S
    if pause_s <= shortest_s:
        return Rebalances(metrics=counted, at_most={"app.rebalance.pause": shortest_s})
    return Rebalances(metrics={**counted, "app.rebalance.pause": pause_s}, is_bound=is_bound)


def _pause(offsets: GroupOffsets, partition: int, begun: int, during_ns: list[int]) -> tuple[int, bool]:
    """Return a partition's longest time without a commit, among those that contain one of these instants, in ns.

    Times during which there was nothing to commit do not count. The second value is True if the time had not ended.
    """
    at_ns, committed = offsets.at_ns[begun:], offsets.committed[begun:, partition]
    is_idle = committed >= offsets.ends[begun:, partition]
    moved = np.diff(committed, prepend=committed[0]) > 0
    edges = np.unique([0, *np.flatnonzero(moved | is_idle), at_ns.size - 1])
    pauses = [
        (int(at_ns[last] - at_ns[first]), bool(last == at_ns.size - 1 and not (moved[last] or is_idle[last])))
        for first, last in itertools.pairwise(edges)
        if not is_idle[min(first + 1, last)] and any(at_ns[first] <= instant <= at_ns[last] for instant in during_ns)
    ]
    return max(pauses, default=(0, False))
