"""Partitions of a topic over time: their leaders and replicas, and what happened to them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_kafkaperf.core.units import NS_PER_S

MAX_EVENTS = 6
"""How many texts `events` gives at most."""
_MAX_NAMED = 5
"""How many partitions or brokers are named one by one."""

PartitionState = Mapping[int, tuple[int | None, tuple[int, ...], tuple[int, ...]]]
"""By partition: its leader or None, the replicas in sync, all replicas."""


def events(states: Sequence[tuple[int, PartitionState]], start_ns: int) -> list[tuple[int, str]]:
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


def _leader_changes(states: Sequence[tuple[int, PartitionState]]) -> Iterator[_Event]:
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


def _thin_times(states: Sequence[tuple[int, PartitionState]]) -> Iterator[_Event]:
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
    at_s = (at_ns - start_ns) / NS_PER_S
    return f"{at_s:.1f} s" if at_s >= 0 else f"{-at_s:.1f} s before the start"
