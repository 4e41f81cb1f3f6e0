"""The clocks of several machines: their offsets from a common clock, and the uncertainty of these offsets.

A machine reads the common clock by repeated requests for its time. The response is created between request and arrival,
so that the error is at most half of the shortest round trip (RFC 5905, section 10).
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
"""Tolerated drift between clocks during a round. A record that seems to arrive even earlier reveals a bug."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One machine's clock compared with the common clock."""

    name: str
    """Identifier of the clock, which all processes of the machine share."""
    host: str
    """Host name of the machine."""
    offset_ns: int
    """Offset to add to this clock for the common clock's time."""
    uncertainty_ns: int
    """Largest possible error of the offset."""

    def until(self, end: Reading | None) -> Reading:
        """Return the reading with the uncertainty after a round, at whose end the clock was read again, if it was."""
        if end is None:
            return self
        moved_ns = abs(end.offset_ns - self.offset_ns)
        return dataclasses.replace(self, uncertainty_ns=max(self.uncertainty_ns, moved_ns + end.uncertainty_ns))

    def clock(self, controller: Reading) -> Clock:
        """Return the clock for a worker of that machine, relative to the controller's."""
        return Clock(
            name=self.name,
            host=self.host,
            offset_ns=self.offset_ns - controller.offset_ns,
            uncertainty_ns=self.uncertainty_ns,
            is_here=self.name == controller.name,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request for the common time: sent and received by the own clock, answered by the common clock."""

    sent_ns: int
    remote_ns: int
    received_ns: int


def reading(exchanges: Sequence[Exchange], *, name: str, host: str, common: str) -> Reading:
    """Compute a reading from the exchange with the shortest round trip; exact if `common` is the same clock."""
    if name == common:
        return Reading(name=name, host=host, offset_ns=0, uncertainty_ns=0)
    best = min(exchanges, key=lambda one: one.received_ns - one.sent_ns)
    return Reading(
        name=name,
        host=host,
        offset_ns=best.remote_ns - (best.sent_ns + best.received_ns) // 2,
        uncertainty_ns=-(-(best.received_ns - best.sent_ns) // 2),
    )


def by_clock(readings: Iterable[Reading]) -> dict[str, Reading]:
    """Return the best reading of each clock, so that all processes of a machine use the same one."""
    worst_first = sorted(readings, key=lambda one: one.uncertainty_ns, reverse=True)
    return {one.name: one for one in worst_first}


def tolerated_ns(clock: Clock, clocks: Iterable[Clock]) -> int:
    """Return how early another machine's record may seem to arrive by this clock; 0 if all workers share one clock."""
    others = [one.uncertainty_ns for one in clocks if one.name != clock.name]
    return clock.uncertainty_ns + max(others) + DRIFT_NS if others else 0


def spread(readings: Mapping[str, Reading], shares: int) -> list[str]:
    """Return the address of each share; no machine gets a second share before every machine has one."""
    machines: dict[str, list[str]] = {}
    for address in sorted(readings):
        machines.setdefault(readings[address].name, []).append(address)
    turns = [
        machine[turn] for turn in range(len(readings)) for _, machine in sorted(machines.items()) if turn < len(machine)
    ]
    return [turns[share % len(turns)] for share in range(shares)]


def clock_name() -> str:
    """Return an identifier that exactly those processes share that share a monotonic clock.

    On Linux a time namespace changes that clock (time_namespaces(7)).
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = Path("/proc/self/ns/time")
        return f"{boot} {namespace.readlink()}" if namespace.is_symlink() else boot
    except OSError:
        return f"{uuid.getnode():x}"  # the network card's address, unique to this machine


def host_name() -> str:
    """Return the name of this machine."""
    return socket.gethostname()
