"""One round's measurements, as plain values."""

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
"""Number of cores above which a compiler counts as busy; on warm brokers, it used 0.01 on average."""


class RoundEvent(NamedTuple):
    """A change in brokers, partitions or applications during a round."""

    at_s: float
    """Seconds after the start of the window."""
    notice: Notice
    """The event as the text of a warning."""
    action: Event | None = None
    """The test's action; None for a partition change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round's metrics in base units, and the reasons not to trust them."""

    metrics: Mapping[str, float]
    problems: tuple[Problem, ...] = ()
    """Reasons why the round is INVALID; empty if it is valid."""
    least: Mapping[str, float] = field(default_factory=dict)
    """Latency lower bounds that are certain if the generator was too slow (see `least_latencies`); otherwise empty."""
    warnings: tuple[Notice, ...] = ()
    series: Mapping[str, Curves] = field(default_factory=dict)
    """Curves over time, including the warm-up: `produce` and, with consumers, `consume`."""
    brokers: BrokerCurves | None = None
    """Broker readings over the same period; None if no broker could be read."""
    uses: Mapping[str, Use] = field(default_factory=dict)
    """Each broker's CPU and memory usage in the window."""
    compiler: Mapping[Key, float | None] = field(default_factory=dict)
    """Number of cores that each broker's and application's JVM compiler used in the window; None if unknown."""
    starts_program: bool = False
    """True if the test started a broker or an application in the round, or if the round is a capacity search. In both
    cases, the compiler's work is part of the measurement."""
    events: tuple[RoundEvent, ...] = ()
    """Changes in brokers, partitions and applications, in order."""
    steps: tuple[Step, ...] = ()
    """The rates that a capacity search tried; the round itself is the last step, at the rate that the search found."""
    at_least: tuple[str, ...] = ()
    """Metrics that are lower bounds because a search did not try higher rates, a group did not commit everything in
    time, or latency had not recovered when the window ended."""
    at_most: Mapping[str, float] = field(default_factory=dict)
    """Upper bounds of metrics that are missing in `metrics` because they were too small to be measured."""
    limited_by_generator: bool = False
    """True if the throughput is a lower bound because the workers could not generate load any faster."""
    shares: tuple[WorkerShare, ...] = ()
    """Each worker process's share of the load."""
    e2e_uncertainty_s: float | None = None
    """Maximum end-to-end latency error from differing clocks, in seconds; None if a single clock timed all records."""
    clock_skew_s: float | None = None
    """Minimum difference between the clock of the program that created the records and this machine's, in seconds. It
    is known only if records appear to be received before they were created, in which case end-to-end latency is
    unknown. None if no difference is known."""
    commit_interval_s: float | None = None
    """Commit interval of the slowest watched group, included in the application's times; None without a group."""
    window_s: tuple[float, float] | None = None
    """Start and end of the window, in seconds on this machine's monotonic clock; None if no load ran."""

    @property
    def busy(self) -> tuple[Notice, ...]:
        """Warnings that other programs used this machine."""
        return tuple(notice for notice in self.warnings if notice.kind is NoticeKind.BUSY_MACHINE)

    @property
    def cold(self) -> tuple[Key, ...]:
        """The brokers and applications whose compiler was still busy."""
        if self.starts_program:
            return ()
        return tuple(key for key, share in self.compiler.items() if share is not None and share >= COLD_SHARE)


class StepOutcome(StrEnum):
    """Outcome at one rate in a capacity search."""

    HELD = "held"
    BROKEN = "broken"
    """A threshold was not met, or the cluster did not keep up with the rate."""
    UNREACHED = "unreached"
    """The generator could not reach the rate, which proves nothing about the cluster."""
    DISTURBED = "disturbed"
    """The rate did not hold while other programs were using much of this machine; the search tries it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One attempt at one rate in a capacity search."""

    rate: float
    """The requested rate, in records per second."""
    outcome: StepOutcome
    reason: str | None
    """The reason why the rate did not hold; None if it held."""
    settled: bool
    """True if the warm-up was long enough for quotas and buffers to take effect (see `capacity.SETTLED_S`)."""
    metrics: Mapping[str, float]
    """The window's metrics, in base units."""
