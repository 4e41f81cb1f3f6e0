"""Events of a topic's partitions over time: changes of leaders and replicas, as text for reports."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_kafkaperf.core.units import NS_PER_S

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
    found = sorted([*_leader_changes(states), *_under_replicated_times(states)])
    texts = [(times[0], text.format(*(_relative(at_ns, start_ns) for at_ns in times))) for times, text in found]
    if len(texts) <= MAX_EVENTS:
        return texts
    omitted = len(texts) - MAX_EVENTS + 1
    last_ns = texts[-1][0]
    return [*texts[: MAX_EVENTS - 1], (last_ns, f"and {omitted} more such events until {_relative(last_ns, start_ns)}")]


_Event = tuple[tuple[int, ...], str]
"""Times, and a text with a placeholder for each of them."""


def _leader_changes(states: Sequence[tuple[int, PartitionState]]) -> Iterator[_Event]:
    leaders: dict[int, int | None] = {}
    for at_ns, state in states:
        now = {partition: leader for partition, (leader, _, _) in state.items()}
        changed = sorted(part for part, leader in now.items() if leaders.get(part, leader) != leader)
        lost = [part for part in changed if now[part] is None]
        gained = [part for part in changed if leaders[part] is None]
        moved = [part for part in changed if now[part] is not None and leaders[part] is not None]
        if moved:
            sources, targets = ({each[part] for part in moved} for each in (leaders, now))
            text = f"{_plural('leader', moved)} of {_list('partition', moved)} moved"
            yield (at_ns,), f"at {{}}: {text} from {_list('broker', sources)} to {_list('', targets)}"
        if lost:
            text = f"{_list('partition', lost)} lost {'its leader' if len(lost) == 1 else 'their leaders'}"
            yield (at_ns,), f"at {{}}: {text}, {_list('broker', {leaders[part] for part in lost})}"
        if gained:
            text = f"{_list('partition', gained)} had {'a leader' if len(gained) == 1 else 'leaders'} again"
            yield (at_ns,), f"at {{}}: {text}, {_list('broker', {now[part] for part in gained})}"
        leaders |= now


def _under_replicated_times(states: Sequence[tuple[int, PartitionState]]) -> Iterator[_Event]:
    """Yield the periods in which at least one partition had fewer in-sync replicas than replicas."""
    known: set[int] = set()
    under_replicated: set[int] = set()
    affected: set[int] = set()
    begin_ns = 0
    for at_ns, state in states:
        if not under_replicated:
            affected, begin_ns = set(), at_ns
        known |= state.keys()
        under_replicated -= state.keys()
        under_replicated |= {part for part, (_, in_sync, replicas) in state.items() if len(in_sync) < len(replicas)}
        if affected and not under_replicated:
            yield (begin_ns, at_ns), f"{_share(affected, known)} under-replicated from {{}} to {{}}"
        affected |= under_replicated
    if under_replicated:
        yield (begin_ns,), f"{_share(affected, known)} under-replicated from {{}} on"


def _share(some: set[int], known: set[int]) -> str:
    return f"{len(some)} of {len(known)} {_plural('partition', known)} {'was' if len(some) == 1 else 'were'}"


def _list(noun: str, members: Iterable[int | None]) -> str:
    ids = sorted(member for member in members if member is not None)
    named = ", ".join(map(str, itertools.islice(ids, _MAX_NAMED)))
    rest = f" and {len(ids) - _MAX_NAMED} more" if len(ids) > _MAX_NAMED else ""
    return f"{_plural(noun, ids)} {named}{rest}".strip() if noun else f"{named}{rest}"


def _plural(noun: str, members: Sequence[int] | set[int]) -> str:
    return noun if len(members) == 1 else f"{noun}s"


def _relative(at_ns: int, start_ns: int) -> str:
    at_s = (at_ns - start_ns) / NS_PER_S
    return f"{at_s:.1f} s" if at_s >= 0 else f"{-at_s:.1f} s before the start"
