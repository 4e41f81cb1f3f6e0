"""Messages between the controller and its workers: assignments and reports, as plain picklable values."""

from __future__ import annotations

import array
import collections
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.monitoring.watchers import GroupOffsets
from pytest_kafkaperf.core.notices import Notice
from pytest_kafkaperf.core.problems import Cause, Problem
from pytest_kafkaperf.load.identity import NO_NONCE, Nonce, RecordSet
from pytest_kafkaperf.load.recorder import Histogram, Series
from pytest_kafkaperf.scenarios.scenario import Scenario


@dataclass(slots=True, kw_only=True)
class Produced:
    """One producer's results. Counts refer to the window unless stated otherwise."""

    producer: int = 0
    sent: int = 0
    acknowledged: int = 0
    """Acknowledged records; with transactions, committed records."""
    bytes: int = 0
    """Size of the acknowledged records' keys and values in bytes."""
    aborted: int = 0
    """Records in aborted transactions."""
    aborted_by_failure: int = 0
    """Records in transactions that were aborted because another batch failed."""
    failed: int = 0
    """Records that failed permanently, including those in the warm-up."""
    failed_in_window: int = 0
    unknown: int = 0
    """Failed records that may still be in the log."""
    unknown_indexes: list[npt.NDArray[np.int64]] = field(default_factory=list)
    """Indexes of unknown records, up to a limit."""
    discarded_indexes: list[npt.NDArray[np.int64]] = field(default_factory=list)
    """Indexes of records in the log whose transaction was not committed because of a failure, up to a limit."""
    discarded: int = 0
    """Number of these records, even above the limit."""
    missing: int = 0
    """Records due in the window that were never sent."""
    overdue: int = 0
    """Records due at a fixed rate that the in-flight limit blocked until `TAIL_NS` after the window."""
    late: int = 0
    """Records that the generator sent more than `LATE_NS` later than it could have."""
    latest_ns: int = 0
    """Longest delay of any record in the window that was caused only by the generator."""
    behind: int = 0
    """Records that were unsent at the end of the window although the in-flight limit would have allowed them."""
    sent_late: int = 0
    """Records sent after the window ended, for any reason."""
    first_due_ns: int | None = None
    last_ack_ns: int | None = None
    latency: Histogram = field(default_factory=Histogram)
    delay: Histogram = field(default_factory=Histogram)
    acknowledged_by_partition: collections.Counter[int] = field(default_factory=collections.Counter)
    """Records that must be in the log, including those in the warm-up and in aborted transactions."""
    markers_by_partition: collections.Counter[int] = field(default_factory=collections.Counter)
    """Transaction markers, each of which takes up an offset in the log."""
    disordered: int = 0
    """Records whose acknowledgement order differs from their send order or log order. They require an audit."""
    failures: collections.Counter[str] = field(default_factory=collections.Counter)
    """Failed records by error name."""
    identities: list[npt.NDArray[np.int64]] = field(default_factory=list)
    """Identity and due time of each acknowledged record, shape `(records, 2)`, if records carry no tags."""
    unknown_identities: list[npt.NDArray[np.int64]] = field(default_factory=list)
    """Identities of unknown records."""
    generated: int = 0
    """Records that a payload function made."""
    generating_s: float = 0.0
    """Time spent in the payload function."""
    places: array.array[int] = field(default_factory=lambda: array.array("q"))
    """Locations of the window's records in the log, for watched groups: each batch's partition, first offset, number of
    records, first due time and last due time."""


@dataclass(slots=True, kw_only=True)
class Consumed:
    """One consumer's results. Counts refer to records due in the window unless stated otherwise."""

    group: int = 0
    received: int = 0
    bytes: int = 0
    last_ns: int | None = None
    latency: Histogram = field(default_factory=Histogram)
    unread: int = 0
    """Records between the consumer's position and the end of the log when the consumer stopped waiting for them."""
    total: int = 0
    """All received records, including those in the warm-up."""
    disordered: int = 0
    """Records that did not follow their predecessor from the same producer and partition. They require an audit."""
    came_out: RecordSet = field(default_factory=RecordSet)
    """Records in an application's output, including those from the warm-up."""
    repeated: int = 0
    """Records in an application's output that had already been received."""
    ahead_ns: int = 0
    """Maximum time by which a record's timestamp is later than its receipt; only without producers."""
    unmatched: int = 0
    """Records in an application's output that match no record of the round, including records from other programs."""
    arrivals: list[npt.NDArray[np.int64]] = field(default_factory=list)
    """Identity and arrival time of each record in an application's output, shape `(records, 2)`, if records carry no
    tags."""
    first_output: str = ""
    """Description of the first record in an application's output, if records carry no tags."""
    reassigned: bool = False
    """True if the group rebalanced during the read. If the consumer could not commit before, it may skip records."""
    pause_ns: int = 0
    """Longest time without partitions since the window opened, because the group rebalanced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Clock reading from a machine in a Dask cluster."""

    name: str
    """Identifier shared by all processes on the machine."""
    host: str
    """Machine's host name."""
    offset_ns: int
    """Offset to add to get the common clock's time (in a reading) or the controller's time (in a report)."""
    uncertainty_ns: int
    """Maximum error of the offset, relative to the clock with which all machines' clocks were compared."""
    is_here: bool = False
    """True if the worker ran on the controller's machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerShare:
    """One worker process's share of a round, and the resources that it used."""

    host: str | None
    """Host name; None if the process ran on the controller's machine."""
    producers: int
    consumers: int
    cpu_s: float
    busy_ratio: float
    sent: int
    """Records in the window."""
    received: int


@dataclass(slots=True, kw_only=True)
class WorkerReport:
    """One worker's results."""

    produced: list[Produced] = field(default_factory=list)
    consumed: list[Consumed] = field(default_factory=list)
    produce_series: Series = field(default_factory=Series)
    """Acknowledgements, and produce latency by due time."""
    consume_series: Series = field(default_factory=Series)
    """Received records, and end-to-end latency by due time."""
    cpu_s: float = 0.0
    """The process's user and system CPU seconds in the window."""
    busy_ratio: float = 0.0
    """Share of the window in which the process ran or waited for a core. A value near 1 indicates a bottleneck."""
    repeated_batches: int = 0
    """Batches that were resent after an attempt that may have succeeded. The log may contain copies of them."""
    notes: list[Notice] = field(default_factory=list)
    """Distinct warnings from the client library."""
    clock: Clock | None = None
    """Clock reading; None if the worker ran on the controller's machine and used its clock."""

    @property
    def share(self) -> WorkerShare:
        """The worker's share of the round."""
        return WorkerShare(
            host=None if self.clock is None else self.clock.host,
            producers=len(self.produced),
            consumers=len(self.consumed),
            cpu_s=self.cpu_s,
            busy_ratio=self.busy_ratio,
            sent=sum(part.sent for part in self.produced),
            received=sum(part.received for part in self.consumed),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Exact record counts from a log audit."""

    lost: int
    """Acknowledged records that are missing from the log."""
    duplicated: int
    """Additional copies of records in the log."""
    reordered: int
    """Records that follow later records from the same producer in their partition."""


@dataclass(frozen=True, slots=True)
class Unaudited:
    """Result of an audit that was not possible."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """Comparison of an application's input and output, for the group that received the fewest records."""

    audit: Audit
    """Output records that are missing or surplus."""
    output_ratio: float | None
    """Share of the expected output; if the number of outputs is a range, share of the input with any output. None
    without input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """Reports from a load's workers, and the controller's own observations."""

    workers: Sequence[WorkerReport]
    start_ns: int | None
    """Start of the window; None if it never opened."""
    drain_ns: int | None = None
    """Instant after production at which consumers start reading the rest; None if production did not finish."""
    problems: Sequence[Problem] = ()
    lag_max: int | None = None
    lag_end: int | None = None
    """Slowest consumer group's highest and last lag in the window; None if the lag was not sampled."""
    catch_up: GroupOffsets | None = None
    """Readings for the slowest consumer group that started with a backlog: received and visible records."""
    joined: Joined | None = None
    """Comparison of an application's input and output by their identities; None if records carry tags."""
    broken: bool = False
    """True if no further round can run because the cluster or the workers are gone."""

    @classmethod
    def failed(cls, cause: Cause, error: Exception) -> LoadReport:
        """Return the report for a load that did not start and prevents any further round."""
        return cls(workers=(), start_ns=None, problems=(Problem(cause, {"reason": str(error)}),), broken=True)

    @property
    def produced(self) -> list[Produced]:
        """Results from all producers."""
        return [part for worker in self.workers for part in worker.produced]

    @property
    def consumed(self) -> list[Consumed]:
        """Results from all consumers."""
        return [part for worker in self.workers for part in worker.consumed]

    @property
    def places(self) -> npt.NDArray[np.int64]:
        """Locations of the window's records in the log, as in `Produced.places`, shape `(batches, 5)`."""
        parts = [np.frombuffer(part.places, dtype=np.int64) for part in self.produced if part.places]
        return np.concatenate(parts or [np.empty(0, dtype=np.int64)]).reshape(-1, 5)

    def acknowledged(self) -> dict[int, int]:
        """Return how many records, including those in the warm-up, must be in the log, by partition."""
        return _summed(part.acknowledged_by_partition for part in self.produced)

    def expected_growth(self) -> dict[int, int]:
        """Return the minimum number of offsets by which the log must grow, by partition."""
        return _summed(
            tally for part in self.produced for tally in (part.acknowledged_by_partition, part.markers_by_partition)
        )

    def received(self) -> dict[int, int]:
        """Return the number of records received in the window, by consumer group."""
        return _summed({part.group: part.received} for part in self.consumed)

    def unknown(self) -> int:
        """Return the number of records whose presence in the log is uncertain."""
        return sum(part.unknown for part in self.produced)

    def disordered(self) -> int:
        """Return the number of records that were acknowledged out of order."""
        return sum(part.disordered for part in self.produced)

    def differences(self, growth: Mapping[int, int]) -> tuple[int, int]:
        """Return the total numbers of missing and surplus records across all partitions, given the log's `growth`."""
        expected = self.expected_growth()
        gaps = [expected.get(part, 0) - growth.get(part, 0) for part in expected.keys() | growth.keys()]
        return sum(gap for gap in gaps if gap > 0), -sum(gap for gap in gaps if gap < 0)

    def is_in_doubt(self, growth: Mapping[int, int]) -> bool:
        """Return True if the counts disagree, or may agree only by chance. In both cases, only an audit is conclusive.

        For example, the copy of a resent batch may hide a lost record.
        """
        disordered = self.disordered() + sum(part.disordered for part in self.consumed)
        doubts = self.unknown() + disordered + sum(worker.repeated_batches for worker in self.workers)
        return self.differences(growth) != (0, 0) or doubts > 0


def _summed(tallies: Iterable[Mapping[int, int]]) -> dict[int, int]:
    total: collections.Counter[int] = collections.Counter()
    for tally in tallies:
        total.update(tally)
    return dict(total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One worker's part of a round."""

    worker: int
    """Worker index, which selects the worker's row in the shared counters."""
    counters: str
    """Path to the shared counters' file."""
    bootstrap_servers: str
    access: Access
    topic: str
    group: str
    """Prefix for consumer groups and transactional ids; a number follows it."""
    scenario: Scenario
    read_partitions: int
    """Partitions of the topic that the consumers read."""
    producers: tuple[int, ...] = ()
    """Numbers of the producers that this worker runs."""
    consumers: tuple[int, ...] = ()
    """Group number of each consumer that this worker runs."""
    seed: int = 0
    """Random seed for the payload."""
    nonce: Nonce = NO_NONCE
    """Nonce for the tags."""
