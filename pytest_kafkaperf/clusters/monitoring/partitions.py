"""States of a topic's partitions, and the events that they reveal: moved leaders and missing replicas."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_kafkaperf.core.notices import Instant, Notice, Remark
from pytest_kafkaperf.core.units import NS_PER_S, Count

MAX_EVENTS = 6
"""Maximum number of notices that `events` returns."""
_MAX_NAMED = 5
"""Maximum number of partitions or brokers that a notice lists."""

PartitionState = Mapping[int, tuple[int | None, tuple[int, ...], tuple[int, ...]]]
"""For each partition: the leader or None, the in-sync replicas, and all replicas."""


def events(states: Sequence[tuple[int, PartitionState]], start_ns: int) -> list[tuple[int, Notice]]:
    """Describe the events on a topic's partitions, in order, each with its time on the monotonic clock in ns.

    Times in the notices are relative to `start_ns`. A partition that is missing from a state keeps its previous state.
    """
    changes = _changes(states)
    found = [(change.at_ns, change.notice(start_ns)) for change in changes]
    if len(found) <= MAX_EVENTS:
        return found
    omitted = len(found) - MAX_EVENTS + 1
    last_ns = changes[-1].at_ns
    more = Notice(Remark.MORE_EVENTS, {"omitted": omitted, "until": _instant(last_ns, start_ns)})
    return [*found[: MAX_EVENTS - 1], (last_ns, more)]


def instants(states: Sequence[tuple[int, PartitionState]]) -> list[int]:
    """Return the start times of all events, in order; unlike `events`, this function never omits any."""
    return [change.at_ns for change in _changes(states)]


class _Change(NamedTuple):
    """An event that affects one or more partitions."""

    at_ns: int
    end_ns: int
    """End of the change; the same as its start if the change was instantaneous."""
    remark: Remark
    values: Mapping[str, object]

    def notice(self, start_ns: int) -> Notice:
        at, until = (_instant(ns, start_ns) for ns in (self.at_ns, self.end_ns))
        return Notice(self.remark, {**self.values, "at": at, "until": until})


def _changes(states: Sequence[tuple[int, PartitionState]]) -> list[_Change]:
    found = [*_leader_changes(states), *_under_replicated_times(states)]
    return sorted(found, key=lambda change: (change.at_ns, change.end_ns))


def _leader_changes(states: Sequence[tuple[int, PartitionState]]) -> Iterator[_Change]:
    leaders: dict[int, int | None] = {}
    for at_ns, state in states:
        now = {partition: leader for partition, (leader, _, _) in state.items()}
        changed = {part for part, leader in now.items() if leaders.get(part, leader) != leader}
        if changed:
            sources, targets = (_named({each[part] for part in changed}) for each in (leaders, now))
            values = {"partitions": Count(len(changed), "partition"), "ids": _named(changed)}
            yield _Change(at_ns, at_ns, Remark.LEADER_MOVED, {**values, "sources": sources, "targets": targets})
        leaders |= now


def _under_replicated_times(states: Sequence[tuple[int, PartitionState]]) -> Iterator[_Change]:
    """Yield the periods during which at least one partition had a replica that was not in sync."""
    known: set[int] = set()
    under_replicated: set[int] = set()
    affected: set[int] = set()
    begin_ns = 0
    for at_ns, state in states:
        if not under_replicated:
            affected = set()
            begin_ns = at_ns
        known |= state.keys()
        under_replicated -= state.keys()
        under_replicated |= {part for part, (_, in_sync, replicas) in state.items() if len(in_sync) < len(replicas)}
        if affected and not under_replicated:
            yield _Change(begin_ns, at_ns, Remark.UNDER_REPLICATED, {"affected": len(affected), "known": len(known)})
        affected |= under_replicated
    if under_replicated:
        values = {"affected": len(affected), "known": len(known)}
        yield _Change(begin_ns, begin_ns, Remark.STILL_UNDER_REPLICATED, values)


def _named(ids: Collection[int | None]) -> str:
    names = [str(each) for each in sorted(each for each in ids if each is not None)] + ["none"] * (None in ids)
    return ", ".join(names if len(names) <= _MAX_NAMED else [*names[:_MAX_NAMED], "..."])


def _instant(at_ns: int, start_ns: int) -> Instant:
    return Instant((at_ns - start_ns) / NS_PER_S)
