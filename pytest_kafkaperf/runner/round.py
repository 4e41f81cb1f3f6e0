"""One round: its figures, and whether they can be trusted. A plain value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.monitoring.readings import BrokerCurves, Use
    from pytest_kafkaperf.load.messages import WorkerShare
    from pytest_kafkaperf.load.timeseries import Curves


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round: its metrics in base units, and whether they can be trusted."""

    metrics: Mapping[str, float]
    problems: tuple[str, ...] = ()
    """Why the round is INVALID; empty when it is valid."""
    warnings: tuple[str, ...] = ()
    series: Mapping[str, Curves] = field(default_factory=dict)
    """Over time, for plots, warm-up included: `produce` and, with consumers, `consume`."""
    brokers: BrokerCurves | None = None
    """What brokers used and told on the same time line; None where nothing is known of them."""
    uses: Mapping[str, Use] = field(default_factory=dict)
    """What each broker used in the window."""
    events: tuple[tuple[float, str], ...] = ()
    """What happened to brokers and partitions: seconds from the round's start, and the text that warnings have, too."""
    steps: tuple[Step, ...] = ()
    """What a search for the capacity has tried: the round is its last step, at the rate that was found."""
    at_least: bool = False
    """Whether the metric `capacity` is a lower bound: no higher rate was tried, or could be made."""
    shares: tuple[WorkerShare, ...] = ()
    """What each worker process had of it."""
    e2e_uncertainty_s: float | None = None
    """How far end-to-end latency may be off where records were sent and received on different machines."""


class StepOutcome(StrEnum):
    """How a rate went."""

    HELD = "held"
    BROKEN = "broken"
    """A limit did not hold, or the cluster did not take the rate."""
    UNREACHED = "unreached"
    """The generator could not make the rate: of the cluster it says nothing."""
    DISTURBED = "disturbed"
    """It did not hold, while other programs took so much of the machine that it may be theirs: tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One rate, held for a while."""

    rate: float
    """That was asked for, in records a second."""
    outcome: StepOutcome
    reason: str | None
    """Why it did not hold."""
    settled: bool
    """Whether it was warm for so long that no buffer hid what it costs (see `capacity`)."""
    metrics: Mapping[str, float]
    """Of its window, in base units."""
