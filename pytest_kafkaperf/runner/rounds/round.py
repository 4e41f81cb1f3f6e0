"""The measurements of one round, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from pytest_kafkaperf.core.notices import Notice, NoticeKind

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.monitoring.readings import BrokerCurves, Key, Use
    from pytest_kafkaperf.core.notices import Event
    from pytest_kafkaperf.core.problems import Problem
    from pytest_kafkaperf.load.messages import WorkerShare
    from pytest_kafkaperf.load.recorder import Curves


COLD_SHARE = 0.1
"""Number of cores from which on a compiler is busy. That of a warm broker used 0.01 on average."""


class RoundEvent(NamedTuple):
    """A change of brokers, partitions or applications in a round."""

    at_s: float
    """Seconds after the window opened."""
    notice: Notice
    """The same as a warning."""
    action: Event | None = None
    """The action of the test; None for a change of partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The metrics of one round in base units, and the reasons not to trust them."""

    metrics: Mapping[str, float]
    problems: tuple[Problem, ...] = ()
    """Reasons why the round is INVALID; empty if it is valid."""
    least: Mapping[str, float] = field(default_factory=dict)
    """If the generator was too slow, what each latency was at least, whatever that explains (see `least_latencies`)."""
    warnings: tuple[Notice, ...] = ()
    series: Mapping[str, Curves] = field(default_factory=dict)
    """Curves over time, including the warm-up: `produce` and, with consumers, `consume`."""
    brokers: BrokerCurves | None = None
    """Readings of the brokers over the same time; None if no broker could be read."""
    uses: Mapping[str, Use] = field(default_factory=dict)
    """CPU and memory that each broker used in the window, by broker."""
    compiler: Mapping[Key, float | None] = field(default_factory=dict)
    """Number of cores that the JVM's compiler of each broker and application used in the window; None: unknown."""
    starts_program: bool = False
    """True if the test started a broker or an application in the round, or the round is a search for the capacity: then
    the compiler has work to do, which belongs to what the test measures."""
    events: tuple[RoundEvent, ...] = ()
    """Changes of brokers, partitions and applications, in order."""
    steps: tuple[Step, ...] = ()
    """The rates that a search for the capacity tried; the round itself is the last step, at the rate that was found."""
    at_least: tuple[str, ...] = ()
    """Metrics that are lower bounds: a search tried no higher rate, a group had not committed all in time, or latency
    had not recovered when the window ended."""
    limited_by_generator: bool = False
    """True if the load was as fast as its workers could make it, so that its throughput is a lower bound."""
    shares: tuple[WorkerShare, ...] = ()
    """The part of the load that each worker process ran."""
    e2e_uncertainty_s: float | None = None
    """Maximum error of end-to-end latency if records travel between machines; None if one clock timed all records."""
    clock_skew_s: float | None = None
    """Least difference between the clock of the program that created the records and this machine's, if records seem to
    be received before they were created; then end-to-end latency is unknown. None if nothing shows a difference."""
    commit_interval_s: float | None = None
    """Commit interval of the slowest watched group, which times of the application include; None without one."""
    window_s: tuple[float, float] | None = None
    """Start and end of the window on the monotonic clock of this machine, in seconds; None if no load ran."""

    @property
    def busy(self) -> tuple[Notice, ...]:
        """The warnings that other programs used this machine."""
        return tuple(notice for notice in self.warnings if notice.kind is NoticeKind.BUSY_MACHINE)

    @property
    def cold(self) -> tuple[Key, ...]:
        """The brokers and applications whose compiler was still busy."""
        if self.starts_program:
            return ()
        return tuple(key for key, share in self.compiler.items() if share is not None and share >= COLD_SHARE)


class StepOutcome(StrEnum):
    """The outcome of one rate in a search for the capacity."""

    HELD = "held"
    BROKEN = "broken"
    """A threshold did not hold, or the cluster did not keep up with the rate."""
    UNREACHED = "unreached"
    """The generator could not make the rate; this says nothing about the cluster."""
    DISTURBED = "disturbed"
    """The rate did not hold while other programs used much of this machine; the search tries it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One attempt at one rate in a search for the capacity."""

    rate: float
    """The requested rate in records per second."""
    outcome: StepOutcome
    reason: str | None
    """The reason why the rate did not hold; None if it held."""
    settled: bool
    """True if the warm-up was long enough for quotas and buffers to take effect (see `capacity.SETTLED_S`)."""
    metrics: Mapping[str, float]
    """The metrics of the window, in base units."""
