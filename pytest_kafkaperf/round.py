"""One round: its figures, and whether they can be trusted. A plain value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_kafkaperf.brokers.readings import BrokerCurves, Use
from pytest_kafkaperf.series import Curves
from pytest_kafkaperf.steps import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one worker process had of a round, and what it took."""

    host: str | None
    """Where it ran; None: beside the controller."""
    producers: int
    consumers: int
    cpu_s: float
    busy_ratio: float
    sent: int
    """Records of the window."""
    received: int


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
    shares: tuple[Share, ...] = ()
    """What each worker process had of it."""
    e2e_uncertainty_s: float | None = None
    """How far end-to-end latency may be off where records were sent and received on different machines."""
