"""Everything that is known about a finished load, from its workers and its observers."""

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
    """Number of offsets added to the topic's log, by partition; None if unknown."""
    audit: Audit | Unaudited | None = None
    """Contents of the log, or the reason why an audit was impossible; None if the counts agree."""
    gone: Problem | None = None
    """The problem if the topic was deleted during the load; None if no deletion was detected."""
    dead_letters: int | None = None
    """Number of records added to the dead-letter topic; None if there is no such topic, or it could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """A load as seen by its workers, the log and the observers; created when all of them have finished."""

    load: LoadReport
    log: LogComparison = LogComparison()
    action_problems: Sequence[Problem] = ()
    """Actions that failed or did not run."""
    samples: Mapping[Key, Sequence[Sample]] = field(default_factory=dict)
    """Readings from each broker."""
    compilers: Mapping[Key, Usage | None] = field(default_factory=dict)
    """Compiler CPU time of each broker and application, by program; None if unknown."""
    unread: Sequence[Notice] = ()
    """Warnings that some broker metrics, or the topic's partitions, could not be read."""
    states: Sequence[tuple[int, PartitionState]] = ()
    """Changes in the state of the topic's partitions, each with its instant."""
    groups: Mapping[str, GroupOffsets] = field(default_factory=dict)
    """Offsets for each watched consumer group."""
    actions: Sequence[Event] = ()
    """Actions on brokers during the round."""
    acted_ns: int | None = None
    """Time of the round's first `kafka_perf.at(...)` action; None if there was none."""
    application_events: Sequence[Event] = ()
    """Application starts and stops that the test performed."""
    recorded: Mapping[str, float] = field(default_factory=dict)
    """Values of custom metrics, by name."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Reasons not to trust the load, starting with a deleted topic, which explains the others."""
        gone = () if self.log.gone is None else (self.log.gone,)
        return (*gone, *self.load.problems, *self.action_problems)

    @property
    def broken(self) -> bool:
        """True if no further round can run, because the cluster, the workers or the topic are gone."""
        return self.load.broken or self.log.gone is not None
