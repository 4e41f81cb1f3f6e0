"""What became of the batches of one producer, kept as counts and histograms."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from aiokafka import errors as kafka_errors

from pytest_kafkaperf.load.messages import Produced
from pytest_kafkaperf.load.schedule import Schedule
from pytest_kafkaperf.load.timeseries import Series

if TYPE_CHECKING:
    from pytest_kafkaperf.load.payload import Int64s

LATE_NS = 100_000_000
"""A record sent this much later than it could have been is the generator's failure, not Kafka's latency."""

_FOLD_BATCHES = 64
"""Acknowledged batches whose latencies are recorded at once: few enough to be done in about a millisecond."""

_REFUSALS = (
    kafka_errors.MessageSizeTooLargeError,
    kafka_errors.RecordListTooLargeError,
    kafka_errors.TopicAuthorizationFailedError,
    kafka_errors.InvalidTopicError,
    kafka_errors.PolicyViolationError,
)
"""The broker has said that the batch is not in the log. Any other failure leaves that open.

Only errors after which nothing is sent again: what a last attempt was told says nothing of the ones before it.
"""

MAX_NAMED = 1 << 20
"""Records of unknown fate whose indexes are kept, for an audit."""

_MISSING_SAMPLES = 1 << 20
"""Of more records than this that were never sent, every n-th stands for n."""


class Batch(NamedTuple):
    """A batch on its way, or one record of a client that batches by itself. A tuple: there is one a record then."""

    partition: int | None
    """None where the client chooses it."""
    indexes: Int64s
    """Of its records, shape `(records,)`."""
    measured: int
    """How many of its last records are due in the window."""
    measured_bytes: int
    """Keys and values of those."""
    dues_ns: Int64s | None
    """Due times, shape `(records,)`; None where all are due when they are sent."""
    closing_ns: int | None
    """When it was to be sent; None in closed loop."""
    sent_ns: int
    """When it was."""

    @property
    def records(self) -> int:
        """How many it holds."""
        return self.indexes.size

    @property
    def measured_dues_ns(self) -> Int64s:
        """Due times of its records that are due in the window, shape `(measured,)`."""
        if self.dues_ns is None:
            return np.full(self.measured, self.sent_ns, dtype=np.int64)
        return self.dues_ns[self.records - self.measured :]


class Ledger:
    """Counts what is sent, acknowledged and failed."""

    def __init__(
        self,
        *,
        on_visible: Callable[[int], None],
        producer: int = 0,
        transactional: bool = False,
        committed_only: bool = False,
    ) -> None:
        self.report = Produced(producer=producer)
        self.series: Series | None = None
        """Takes acknowledgements, and latencies at the time when records were due; warm-up included."""
        self.sent = 0
        self.settled = 0
        """Records whose send ended, well or not."""
        self._on_visible = on_visible
        """Takes how many more records consumers are to receive."""
        self._transactional = transactional
        self._committed_only = committed_only
        self.ending = False
        """Whether the open transaction is being ended."""
        self._open: list[Batch] = []
        """What the transaction holds that is acknowledged and not committed."""
        self._marked: set[int] = set()
        """Partitions of the transaction: its end stands in the log of each."""
        self._failed_in_transaction = False
        self._on_their_way: dict[int, Batch] = {}
        """By identity."""
        self._last_offsets: dict[int, int] = {}
        self._unfolded: list[tuple[Batch, int]] = []
        self._closed = False

    @property
    def answered(self) -> int:
        """Records that nobody waits for: settled, and not of a transaction that is just being ended."""
        waiting = sum(batch.records for batch in self._open) if self.ending else 0
        return self.settled - waiting

    @property
    def outstanding(self) -> int:
        """Records that were sent and whose fate is not known."""
        return self.sent - self.settled

    def enter(self, batch: Batch) -> None:
        """A batch was sent."""
        self.sent += batch.records
        self._on_their_way[id(batch)] = batch
        if batch.measured:
            first_due_ns = (
                batch.sent_ns if batch.dues_ns is None else int(batch.dues_ns[batch.records - batch.measured])
            )
            self.report.sent += batch.measured
            self.report.first_due_ns = min(self.report.first_due_ns or first_due_ns, first_due_ns)

    def acknowledge(self, batch: Batch, ack_ns: int, where: tuple[int, int] | None) -> None:
        """A batch is in the log, as far as `acks` promises it; `where` are partition and offset, if that is known."""
        if self._closed:
            return
        self._settle(batch)
        if where is not None:
            self._locate(batch, *where)
        if not self._transactional:
            self._count(batch, ack_ns)
            return
        self._open.append(batch)
        if not self._committed_only:
            self._on_visible(batch.records)

    def end_transaction(self, ended_ns: int, *, committed: bool) -> None:
        """The transaction that held all batches since the last one has ended."""
        if self._closed:
            return
        batches, self._open, self._failed_in_transaction = self._open, [], False
        markers = self.report.markers_by_partition
        markers.update({partition: markers.get(partition, 0) + 1 for partition in self._marked})
        self._marked.clear()
        for batch in batches:
            if committed:
                self._count(batch, ended_ns)
            else:
                self.report.aborted += batch.measured

    @property
    def must_abort(self) -> bool:
        """Whether something of the open transaction has failed."""
        return self._failed_in_transaction

    def fail(self, batch: Batch, error: BaseException) -> None:
        """A batch was not acknowledged and will not be sent again."""
        if self._closed:
            return
        self._settle(batch)
        self._failed_in_transaction = self._transactional
        self._lose(batch, type(error).__name__, known=isinstance(error, _REFUSALS))

    def close(self) -> None:
        """The round ends: of batches that are on their way still, nobody will know."""
        self.fold()
        self._closed = True
        for batch in list(self._on_their_way.values()):
            self._settle(batch)
            self._lose(batch, "no answer", known=False)
        for batch in self._open:
            self._lose(batch, "transaction not ended", known=True)

    def _locate(self, batch: Batch, partition: int, offset: int) -> None:
        tally = self.report.acknowledged_by_partition
        tally[partition] = tally.get(partition, 0) + batch.records
        if offset <= self._last_offsets.get(partition, -1):
            self.report.disordered += batch.records
        self._last_offsets[partition] = offset
        self._marked.add(partition)

    def _count(self, batch: Batch, ack_ns: int) -> None:
        if not self._transactional or self._committed_only:
            self._on_visible(batch.records)
        self._unfolded.append((batch, ack_ns))
        if len(self._unfolded) >= _FOLD_BATCHES:
            self.fold()

    def _settle(self, batch: Batch) -> None:
        del self._on_their_way[id(batch)]
        self.settled += batch.records

    def _lose(self, batch: Batch, reason: str, *, known: bool) -> None:
        report, count = self.report, batch.records
        report.failed += count
        report.failures[reason] = report.failures.get(reason, 0) + count
        if not known:
            report.unknown += count
            if report.unknown <= MAX_NAMED:
                report.unknown_indexes.append(batch.indexes)

    def judge_generator(self, batch: Batch, room_ns: int, end_ns: int) -> None:
        """Count records that the generator alone held back.

        `room_ns` is since when there was room for the batch, `end_ns` the end of the window.
        """
        late_ns = batch.sent_ns - max(batch.closing_ns or 0, room_ns)
        if late_ns > LATE_NS:
            dues = batch.measured_dues_ns
            self.report.late += int(np.searchsorted(dues, batch.sent_ns - LATE_NS))  # those due since are not late
        if batch.sent_ns > end_ns:
            self.report.sent_late += batch.measured
            if batch.sent_ns - late_ns <= end_ns:
                self.report.behind += batch.measured

    def give_up(self, schedule: Schedule, first: int, stop: int, now_ns: int) -> None:
        """Records `first` to `stop` were never sent. Those due have waited until now at least; they count, as that."""
        self.report.missing += stop - first
        due = min(stop, schedule.first_after(now_ns)) - first
        if due <= 0:
            return
        stride = -(-due // _MISSING_SAMPLES)
        counts = np.full(-(-due // stride), stride, dtype=np.int64)
        counts[-1] = due - stride * (counts.size - 1)
        waited = now_ns - schedule.due_between(first, counts.size, stride=stride)
        self.report.latency.record(waited, counts)
        self.report.delay.record(waited, counts)

    def forgo(self, dues_ns: Int64s, now_ns: int) -> None:
        """Records of the window that were taken and never sent; they count as those of `give_up`."""
        self.report.missing += dues_ns.size
        waited = now_ns - dues_ns[dues_ns <= now_ns]
        self.report.latency.record(waited)
        self.report.delay.record(waited)

    def fold(self) -> None:
        """Record what was acknowledged since the last time."""
        rows, self._unfolded = self._unfolded, []
        if not rows:
            return
        report = self.report
        acks = np.array([ack_ns for _, ack_ns in rows], dtype=np.int64)
        records = np.array([batch.records for batch, _ in rows], dtype=np.int64)
        measured = np.array([batch.measured for batch, _ in rows], dtype=np.int64)
        if rows[0][0].dues_ns is None:
            sent = np.array([batch.sent_ns for batch, _ in rows], dtype=np.int64)
            report.latency.record((acks - sent)[measured > 0], measured[measured > 0])
            self._trace(acks, records, sent, acks - sent, records)
        else:
            dues = np.concatenate([batch.dues_ns for batch, _ in rows if batch.dues_ns is not None])
            latencies = np.repeat(acks, records) - dues
            places = np.arange(dues.size) - np.repeat(np.cumsum(records) - records, records)
            report.latency.record(latencies[places >= np.repeat(records - measured, records)])
            self._trace(acks, records, dues, latencies, None)
        delays = [(one.sent_ns - one.closing_ns, one.measured) for one, _ in rows if one.closing_ns is not None]
        if delays:
            late, counts = np.array(delays, dtype=np.int64).T
            report.delay.record(np.maximum(late, 0)[counts > 0], counts[counts > 0])
        report.acknowledged += int(measured.sum())
        report.bytes += sum(batch.measured_bytes for batch, _ in rows)
        if measured.any():
            report.last_ack_ns = max(report.last_ack_ns or 0, int(acks[measured > 0].max()))

    def _trace(
        self, acks_ns: Int64s, records: Int64s, dues_ns: Int64s, latencies_ns: Int64s, counts: Int64s | None
    ) -> None:
        if self.series is not None:
            self.series.count(acks_ns, records)
            self.series.record(dues_ns, latencies_ns, counts)
