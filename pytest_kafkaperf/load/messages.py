"""What a worker reports of a round. Plain picklable values."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.clusters.access import Access
from pytest_kafkaperf.clusters.monitoring.partitions import PartitionState
from pytest_kafkaperf.clusters.monitoring.samples import Sample
from pytest_kafkaperf.core.problems import Problem, ProblemKind
from pytest_kafkaperf.load.histogram import Histogram
from pytest_kafkaperf.load.timeseries import Series
from pytest_kafkaperf.scenario.scenario import Scenario


@dataclass(slots=True, kw_only=True)
class Produced:
    """What one producer did. Counts of the window, unless they say otherwise."""

    producer: int = 0
    sent: int = 0
    acknowledged: int = 0
    """With transactions: committed."""
    bytes: int = 0
    """Keys and values of what was acknowledged."""
    aborted: int = 0
    """Records of transactions that were aborted."""
    failed: int = 0
    """Records whose send failed for good, warm-up included."""
    unknown: int = 0
    """Of the failed, those that may stand in the log all the same."""
    unknown_indexes: list[npt.NDArray[np.int64]] = field(default_factory=list)
    """Indexes of those, as long as they are not too many."""
    missing: int = 0
    """Records due in the window that were never sent."""
    late: int = 0
    """Records sent more than `LATE_NS` after they could have been: the generator's doing."""
    behind: int = 0
    """Records unsent at the end of the window although there was room for them."""
    sent_late: int = 0
    """Records sent after the end of the window, whatever held them."""
    first_due_ns: int | None = None
    last_ack_ns: int | None = None
    latency: Histogram = field(default_factory=Histogram)
    delay: Histogram = field(default_factory=Histogram)
    acknowledged_by_partition: dict[int, int] = field(default_factory=dict)
    """Warm-up and aborted transactions included: what must stand in the log."""
    markers_by_partition: dict[int, int] = field(default_factory=dict)
    """Ends of transactions, each of which takes an offset in the log."""
    disordered: int = 0
    """Records whose acknowledgement named an offset that is not beyond all before it: to be looked at."""
    failures: dict[str, int] = field(default_factory=dict)
    """Records by the error that ended them."""


@dataclass(slots=True, kw_only=True)
class Consumed:
    """What one consumer received: records due in the window."""

    group: int = 0
    received: int = 0
    bytes: int = 0
    last_ns: int | None = None
    latency: Histogram = field(default_factory=Histogram)
    unread: int = 0
    """Records in the log beyond the position when the wait for the rest ended."""
    total: int = 0
    """Records received in all, warm-up included."""
    disordered: int = 0
    """Records that did not continue those of their producer and partition: to be looked at."""
    names: list[npt.NDArray[np.int64]] = field(default_factory=list)
    """Of what an application put out: which records it was made of (see `load.payload`), each once."""
    repeated: int = 0
    """Of what an application put out: how much it had put out before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The clock of a machine of a Dask cluster, by which a worker there told instants."""

    name: str
    """One for all processes of that machine."""
    host: str
    """The machine, for people."""
    offset_ns: int
    """What was added to it for the controller's time."""
    uncertainty_ns: int
    """How far it may be, at most, from the one that all machines' clocks were compared with."""
    is_here: bool
    """Whether that machine is the controller's after all."""


@dataclass(slots=True, kw_only=True)
class WorkerReport:
    """What one worker did."""

    worker: int
    produced: list[Produced] = field(default_factory=list)
    consumed: list[Consumed] = field(default_factory=list)
    produce_series: Series = field(default_factory=lambda: Series(0))
    """Acknowledgements, and produce latency by due time."""
    consume_series: Series = field(default_factory=lambda: Series(0))
    """Receptions, and end-to-end latency by due time."""
    cpu_s: float = 0.0
    """User and system seconds of the process in the window."""
    busy_ratio: float = 0.0
    """Share of the window in which the process ran or waited for a core: near 1 it is the bottleneck."""
    notes: list[str] = field(default_factory=list)
    """What the client library warned of, each once."""
    clock: Clock | None = None
    """None: the controller's own, of a worker that it started itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerShare:
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
class Audit:
    """What an audit of the log found: records, exactly."""

    lost: int
    """Acknowledged, and not in the log."""
    duplicated: int
    """In the log beyond once."""
    reordered: int
    """In the log behind later ones of the same producer and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """What the workers of one round reported, and what the controller saw."""

    workers: Sequence[WorkerReport]
    start_ns: int | None
    """When the window opened; None when it never did."""
    drain_ns: int | None = None
    """When production was over and the rest could be read; None when it never was."""
    problems: Sequence[Problem] = ()
    lag_max: int = 0
    lag_end: int = 0
    log_growth: Mapping[int, int] | None = None
    """Offsets that the topic's log gained, by partition; None where it cannot be told."""
    audit: Audit | str | None = None
    """What the log really holds, or why it could not be looked at; None where counts leave no doubt."""
    samples: Mapping[str | int, Sequence[Sample]] = field(default_factory=dict)
    """Readings of the brokers, by broker."""
    unread: Sequence[str] = ()
    """Why some of what brokers tell could not be read."""
    states: Sequence[tuple[int, PartitionState]] = ()
    """What the topic's partitions were like, each with its instant."""
    actions: Sequence[tuple[int, str]] = ()
    """What was done to brokers, each with its instant."""
    broken: bool = False
    """The cluster or the workers are gone: no further round can run."""

    @classmethod
    def failed(cls, kind: ProblemKind, error: Exception) -> LoadReport:
        """Return the report of a load that did not start and after which no further round can run."""
        return cls(workers=(), start_ns=None, problems=(Problem(kind, str(error)),), broken=True)

    @property
    def produced(self) -> list[Produced]:
        """Of all producers."""
        return [part for worker in self.workers for part in worker.produced]

    @property
    def consumed(self) -> list[Consumed]:
        """Of all consumers."""
        return [part for worker in self.workers for part in worker.consumed]

    def acknowledged(self) -> dict[int, int]:
        """Acknowledged records by partition, warm-up included: what must stand in the log."""
        return _summed(part.acknowledged_by_partition for part in self.produced)

    def expected_growth(self) -> dict[int, int]:
        """Offsets that the log must gain at least, by partition."""
        return _summed(
            tally for part in self.produced for tally in (part.acknowledged_by_partition, part.markers_by_partition)
        )

    def received(self) -> dict[int, int]:
        """Received records of the window by consumer group."""
        return _summed({part.group: part.received} for part in self.consumed)

    def unknown(self) -> int:
        """Records that may stand in the log or not."""
        return sum(part.unknown for part in self.produced)

    def disordered(self) -> int:
        """Records whose acknowledgements were not in order."""
        return sum(part.disordered for part in self.produced)

    def log_differences(self) -> tuple[int, int]:
        """How many records the log lacks, and has beyond what was acknowledged, partition by partition."""
        expected, growth = self.expected_growth(), self.log_growth or {}
        gaps = [expected.get(part, 0) - growth.get(part, 0) for part in expected.keys() | growth.keys()]
        return sum(gap for gap in gaps if gap > 0), -sum(gap for gap in gaps if gap < 0)

    @property
    def in_doubt(self) -> bool:
        """Whether counts leave open what the log holds: only an audit can tell."""
        disordered = self.disordered() + sum(part.disordered for part in self.consumed)
        return self.log_growth is not None and (
            self.log_differences() != (0, 0) or self.unknown() > 0 or disordered > 0
        )


def _summed(tallies: Iterable[Mapping[int, int]]) -> dict[int, int]:
    total: collections.Counter[int] = collections.Counter()
    for tally in tallies:
        total.update(tally)
    return dict(total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One worker's part of one round."""

    worker: int
    """Index of the worker: its row of the shared counters."""
    counters: str
    """Path of the counters that all workers and the controller share."""
    bootstrap_servers: str
    access: Access
    topic: str
    group: str
    """Name of the consumer groups, but for their numbers; and of transactional producers."""
    scenario: Scenario
    read_partitions: int
    """Of the topic that consumers read."""
    producers: tuple[int, ...] = ()
    """Which of the scenario's producers this worker runs."""
    consumers: tuple[int, ...] = ()
    """The group of each consumer that this worker runs."""
    seed: int = 0
    """Of the payload."""
