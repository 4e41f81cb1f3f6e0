"""The states of a topic's partitions, and the events that they show: moved leaders, missing replicas."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from pytest_kafkaperf.core.units import NS_PER_S, counted

MAX_EVENTS = 6
"""Maximum number of texts that `events` returns."""
_MAX_NAMED = 5
"""Maximum number of partitions or brokers that a text lists."""

PartitionState = Mapping[int, tuple[int | None, tuple[int, ...], tuple[int, ...]]]
"""By partition: its leader or None, the in-sync replicas, all replicas."""


def events(states: Sequence[tuple[int, PartitionState]], start_ns: int) -> list[tuple[int, str]]:
    """Describe what happened to a topic's partitions, each event with its time on the monotonic clock, in ns, in order.

    Times in the texts are relative to `start_ns`. A partition that a state does not include keeps its previous state.
    """
    found = _events(states)
    texts = [(times[0], text.format(*(_relative(at_ns, start_ns) for at_ns in times))) for times, text in found]
    if len(texts) <= MAX_EVENTS:
        return texts
    omitted = len(texts) - MAX_EVENTS + 1
    last_ns = texts[-1][0]
    return [*texts[: MAX_EVENTS - 1], (last_ns, f"and {omitted} more such events until {_relative(last_ns, start_ns)}")]


def instants(states: Sequence[tuple[int, PartitionState]]) -> list[int]:
    """Return when the events began, in order; unlike `events`, it omits none."""
    return [times[0] for times, _ in _events(states)]


_Event = tuple[tuple[int, ...], str]
"""Times, and a text with a placeholder for each of them."""


def _events(states: Sequence[tuple[int, PartitionState]]) -> list[_Event]:
    return sorted([*_leader_changes(states), *_under_replicated_times(states)])


def _leader_changes(states: Sequence[tuple[int, PartitionState]]) -> Iterator[_Event]:
    leaders: dict[int, int | None] = {}
    for at_ns, state in states:
        now = {partition: leader for partition, (leader, _, _) in state.items()}
        changed = {part for part, leader in now.items() if leaders.get(part, leader) != leader}
        if changed:
            sources, targets = (_named({each[part] for part in changed}) for each in (leaders, now))
            partitions = f"{counted(len(changed), 'partition')} ({_named(changed)})"
            yield (at_ns,), f"at {{}}: {partitions}: leader moved from broker {sources} to {targets}"
        leaders |= now


def _under_replicated_times(states: Sequence[tuple[int, PartitionState]]) -> Iterator[_Event]:
    """Yield the periods in which at least one partition had fewer in-sync replicas than replicas."""
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
            yield (begin_ns, at_ns), f"{len(affected)} of {len(known)} partitions under-replicated from {{}} to {{}}"
        affected |= under_replicated
    if under_replicated:
        yield (begin_ns,), f"{len(affected)} of {len(known)} partitions under-replicated from {{}} on"


def _named(ids: Collection[int | None]) -> str:
    names = [str(each) for each in sorted(each for each in ids if each is not None)] + ["none"] * (None in ids)
    return ", ".join(names if len(names) <= _MAX_NAMED else [*names[:_MAX_NAMED], "..."])


def _relative(at_ns: int, start_ns: int) -> str:
    at_s = (at_ns - start_ns) / NS_PER_S
    return f"{at_s:.1f} s" if at_s >= 0 else f"{-at_s:.1f} s before the start"
