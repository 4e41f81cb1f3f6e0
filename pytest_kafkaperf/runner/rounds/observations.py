"""Everything that is known of one load when it is over: what the workers report, and what was seen meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_kafkaperf.clusters.monitoring.compiler import Usage
from pytest_kafkaperf.clusters.monitoring.partitions import PartitionState
from pytest_kafkaperf.clusters.monitoring.readings import Key
from pytest_kafkaperf.clusters.monitoring.tracks import Sample
from pytest_kafkaperf.clusters.monitoring.watchers import GroupOffsets
from pytest_kafkaperf.core.notices import Event, Notice
from pytest_kafkaperf.core.problems import Problem
from pytest_kafkaperf.load.messages import Audit, LoadReport, Unaudited


@dataclass(frozen=True, slots=True, kw_only=True)
class LogComparison:
    """The log of a load's topic, compared with the acknowledged records."""

    growth: Mapping[int, int] | None = None
    """Offsets added to the topic's log, by partition; None if unknown."""
    audit: Audit | Unaudited | None = None
    """Contents of the log, or the reason why no audit was possible; None if the counts agree."""
    gone: Problem | None = None
    """The topic was deleted while the load ran; None if nothing shows that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """One load as its workers, the log and the observers saw it; made once, when all of them are done."""

    load: LoadReport
    log: LogComparison = LogComparison()
    action_problems: Sequence[Problem] = ()
    """Actions that failed, or that did not run."""
    samples: Mapping[Key, Sequence[Sample]] = field(default_factory=dict)
    """Readings of the brokers, by broker."""
    compilers: Mapping[Key, Usage | None] = field(default_factory=dict)
    """CPU time of the compilers of brokers and applications, by broker; None: unknown."""
    unread: Sequence[Notice] = ()
    """Warnings that some broker metrics, or the topic's partitions, could not be read."""
    states: Sequence[tuple[int, PartitionState]] = ()
    """States of the topic's partitions that changed, each with its instant."""
    groups: Mapping[str, GroupOffsets] = field(default_factory=dict)
    """Offsets of the watched consumer groups, by group."""
    actions: Sequence[Event] = ()
    """Actions on brokers during the round."""
    acted_ns: int | None = None
    """Instant of the first `kafka_perf.at(...)` action of the round; None if there was none."""
    application_events: Sequence[Event] = ()
    """Stops and starts of applications by the test."""
    recorded: Mapping[str, float] = field(default_factory=dict)
    """Metrics that the test records, by name."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Reasons not to trust the load; a topic that is gone explains the others."""
        gone = () if self.log.gone is None else (self.log.gone,)
        return (*gone, *self.load.problems, *self.action_problems)

    @property
    def broken(self) -> bool:
        """True if the cluster, the workers or the topic are gone, so that no further round can run."""
        return self.load.broken or self.log.gone is not None
