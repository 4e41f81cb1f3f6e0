"""The clocks of several machines: their offsets from a common clock, and the uncertainty of these offsets.

A machine reads the common clock by repeated requests for its time. The response is created between request and arrival,
so that the error is at most half of the shortest round trip (RFC 5905, section 10).
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pytest_kafkaperf.load.messages import Clock

DRIFT_NS = 5_000_000
"""Tolerated drift between clocks during a round. A record that seems to arrive even earlier reveals a bug."""


Exchange = tuple[int, int, int]
"""One request for the common time: sent, answered and received, in ns; the answer is by the common clock."""


def until(begin: Clock, end: Clock | None) -> Clock:
    """Return the clock with the uncertainty after a round, at whose end it was read again, if it was."""
    if end is None:
        return begin
    moved_ns = abs(end.offset_ns - begin.offset_ns)
    return dataclasses.replace(begin, uncertainty_ns=max(begin.uncertainty_ns, moved_ns + end.uncertainty_ns))


def relative_to(controller: Clock, clock: Clock) -> Clock:
    """Return a worker's clock with its offset from the controller's."""
    offset_ns = clock.offset_ns - controller.offset_ns
    return dataclasses.replace(clock, offset_ns=offset_ns, is_here=clock.name == controller.name)


def reading(exchanges: Sequence[Exchange], *, name: str, host: str, common: str) -> Clock:
    """Compare a clock with the common one by the exchange with the shortest round trip; exact if it is the same."""
    if name == common:
        return Clock(name=name, host=host, offset_ns=0, uncertainty_ns=0)
    sent_ns, remote_ns, received_ns = min(exchanges, key=lambda one: one[2] - one[0])
    offset_ns = remote_ns - (sent_ns + received_ns) // 2
    return Clock(name=name, host=host, offset_ns=offset_ns, uncertainty_ns=-(-(received_ns - sent_ns) // 2))


def by_clock(readings: Iterable[Clock]) -> dict[str, Clock]:
    """Return the best reading of each clock, so that all processes of a machine use the same one."""
    return {one.name: one for one in sorted(readings, key=lambda one: one.uncertainty_ns, reverse=True)}


def tolerated_ns(clock: Clock, clocks: Iterable[Clock]) -> int:
    """Return how early another machine's record may seem to arrive by this clock; 0 if all workers share one clock."""
    others = [one.uncertainty_ns for one in clocks if one.name != clock.name]
    return clock.uncertainty_ns + max(others) + DRIFT_NS if others else 0


def spread(readings: Mapping[str, Clock], shares: int) -> list[str]:
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
