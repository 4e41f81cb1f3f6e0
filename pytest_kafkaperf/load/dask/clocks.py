"""Clocks of several machines: how far each is from one that all are compared with, and how well that is known.

A machine's clock is read by asking the other for its time, again and again: the answer was given between question and
answer, so that half of the shortest round trip is all that it can be off (RFC 5905, section 10).
"""

from __future__ import annotations

import dataclasses
import socket
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_kafkaperf.load.messages import Clock

DRIFT_NS = 5_000_000
"""What clocks may go apart in a round before a record that seems to come before it was due is a mistake of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One machine's clock against the one that all are compared with."""

    name: str
    """Of the clock: one for all processes of that machine."""
    host: str
    """The machine, for people."""
    offset_ns: int
    """What is to be added to it for the other's time."""
    uncertainty_ns: int
    """How far that may be off, at most."""

    def until(self, end: Reading | None) -> Reading:
        """The same for a time at whose end it was read again: what it has moved since is not known any better."""
        if end is None:
            return self
        moved_ns = abs(end.offset_ns - self.offset_ns)
        return dataclasses.replace(self, uncertainty_ns=max(self.uncertainty_ns, moved_ns + end.uncertainty_ns))

    def clock(self, controller: Reading) -> Clock:
        """What a worker there is to go by."""
        return Clock(
            name=self.name,
            host=self.host,
            offset_ns=self.offset_ns - controller.offset_ns,
            uncertainty_ns=self.uncertainty_ns,
            is_here=self.name == controller.name,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One question for the time: when it was sent and answered by our clock, and what the other said."""

    sent_ns: int
    told_ns: int
    received_ns: int


def reading(exchanges: Sequence[Exchange], *, name: str, host: str, common: str) -> Reading:
    """By the exchange with the shortest round trip; exact where `common`, the clock that was asked, is this one."""
    if name == common:
        return Reading(name=name, host=host, offset_ns=0, uncertainty_ns=0)
    best = min(exchanges, key=lambda one: one.received_ns - one.sent_ns)
    return Reading(
        name=name,
        host=host,
        offset_ns=best.told_ns - (best.sent_ns + best.received_ns) // 2,
        uncertainty_ns=-(-(best.received_ns - best.sent_ns) // 2),
    )


def by_clock(readings: Iterable[Reading]) -> dict[str, Reading]:
    """The best reading of each clock: processes of one machine must not differ in what they take it for."""
    best: dict[str, Reading] = {}
    for one in readings:
        known = best.get(one.name)
        if known is None or one.uncertainty_ns < known.uncertainty_ns:
            best[one.name] = one
    return best


def tolerated_ns(clock: Clock, clocks: Iterable[Clock]) -> int:
    """How much too early another machine's record may seem to come by this clock; 0 where all go by one."""
    others = [one.uncertainty_ns for one in clocks if one.name != clock.name]
    return clock.uncertainty_ns + max(others) + DRIFT_NS if others else 0


def spread(readings: Mapping[str, Reading], shares: int) -> list[str]:
    """Which of the addresses gets each share: a machine gets another one when all have one."""
    machines: dict[str, list[str]] = {}
    for address in sorted(readings):
        machines.setdefault(readings[address].name, []).append(address)
    turns = [
        machine[turn] for turn in range(len(readings)) for _, machine in sorted(machines.items()) if turn < len(machine)
    ]
    return [turns[share % len(turns)] for share in range(shares)]


def clock_name() -> str:
    """What processes have in common whose monotonic clocks are one, and no others (Linux: time_namespaces(7))."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = Path("/proc/self/ns/time")
        return f"{boot} {namespace.readlink()}" if namespace.is_symlink() else boot
    except OSError:
        return f"{uuid.getnode():x}"  # of the network card: no other machine has it


def host_name() -> str:
    """How this machine is called, for people."""
    return socket.gethostname()
