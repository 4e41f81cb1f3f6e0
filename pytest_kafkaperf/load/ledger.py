"""Ledger of one producer's batches: outcomes as counts and histograms."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pytest_kafkaperf.load.identity import Int64s
from pytest_kafkaperf.load.messages import Produced
from pytest_kafkaperf.load.recorder import Series
from pytest_kafkaperf.load.schedule import Schedule
from pytest_kafkaperf.scenarios.scenario import Scenario

LATE_NS = 100_000_000
"""Minimum delay of a sendable record for which the generator is blamed; shorter delays count as Kafka's latency."""
TAIL_NS = 1_000_000_000
"""Time after the window during which the cluster can still accept records, because a short pause is not an overload."""
_AWAKE_NS = 10_000_000
"""Timer delay that does not yet indicate a slow generator. The last batch can close just before the window ends."""

_FOLD_BATCHES = 64
"""Number of acknowledged batches whose latencies are recorded together. Recording them takes about a millisecond."""
_FOLD_CLOSED_LOOP_BATCHES = 512
"""Number of batches recorded together in a closed loop, where all records in a batch have the same latency."""

MAX_NAMED = 1 << 20
"""Maximum number of unknown records whose indexes are kept for an audit."""

_MISSING_SAMPLES = 1 << 20
"""Maximum number of latency samples for records that were never sent. Above that, every nth record counts n times."""


class Batch(NamedTuple):
    """Batch in flight, or a single record if the client builds the batches.

    It is a tuple for speed, because a client that builds its own batches needs one per record.
    """

    partition: int | None
    """None if the client chooses the partition."""
    indexes: Int64s
    """Record indexes, shape `(records,)`."""
    measured: int
    """Number of records due in the window. They are the last records in the batch."""
    measured_bytes: int
    """Size of the measured records' keys and values in bytes."""
    dues_ns: Int64s | None
    """Due times, shape `(records,)`; None if all are due when they are sent."""
    closing_ns: int | None
    """Time at which the batch should be sent; None in a closed loop."""
    sent_ns: int
    """Time at which the batch was sent."""
    identities: Int64s | None = None
    """Hash of each record's identity, shape `(records,)`; None if records carry tags."""

    @property
    def records(self) -> int:
        """Number of records."""
        return self.indexes.size

    @property
    def measured_dues_ns(self) -> Int64s:
        """Due times of the measured records, shape `(measured,)`."""
        if self.dues_ns is None:
            return np.full(self.measured, self.sent_ns, dtype=np.int64)
        return self.dues_ns[self.records - self.measured :]


class Ledger:
    """Ledger of one producer's sent, acknowledged and failed records."""

    def __init__(self, scenario: Scenario, *, on_visible: Callable[[int], None], producer: int = 0) -> None:
        self.report = Produced(producer=producer)
        self.series = Series()
        """Acknowledgements, and latencies by due time, including the warm-up except for its failures."""
        self.sent = 0
        self.settled = 0
        """Records with a known outcome: acknowledged or failed."""
        self._on_visible = on_visible
        """Function that takes the number of further records that consumers are expected to receive."""
        self._transactional = scenario.transaction_size is not None
        self._committed_only = scenario.isolation_level == "read_committed"
        self._keeps_places = bool(scenario.watch_group)
        self.ending = False
        """True while the open transaction is being ended."""
        self._open: list[tuple[Batch, tuple[int, int] | None]] = []
        """Acknowledged but uncommitted batches in the open transaction, with their partition and offset."""
        self._marked: set[int] = set()
        """Partitions in the open transaction. When it ends, a marker is written to the log of each."""
        self.must_abort = False
        """True if a batch in the open transaction has failed."""
        self._in_flight: dict[int, Batch] = {}
        """Batches in flight, by object identity."""
        self._last: dict[int, tuple[int, int]] = {}
        """Last acknowledged batch's offset and first index, by partition."""
        self._unfolded: list[tuple[Batch, int]] = []
        self.end_ns: int | None = None
        """End of the window; None if the window ends after a number of records."""
        self._failed: list[tuple[Batch, int]] = []
        """Failed batches that contain records of the window, each with its failure time."""
        self._closed = False

    @property
    def answered(self) -> int:
        """Settled records, except those in a transaction that is being ended."""
        waiting = sum(batch.records for batch, _ in self._open) if self.ending else 0
        return self.settled - waiting

    @property
    def outstanding(self) -> int:
        """Sent records with an unknown outcome."""
        return self.sent - self.settled

    def enter(self, batch: Batch) -> None:
        """Count a batch as sent."""
        self.sent += batch.records
        self._in_flight[id(batch)] = batch
        if batch.measured:
            dues_ns, report = batch.dues_ns, self.report
            first_due_ns = batch.sent_ns if dues_ns is None else int(dues_ns[batch.records - batch.measured])
            report.sent += batch.measured
            if report.first_due_ns is None or first_due_ns < report.first_due_ns:
                report.first_due_ns = first_due_ns

    def acknowledge(self, batch: Batch, ack_ns: int, location: tuple[int, int] | None) -> None:
        """Count a batch as acknowledged; `location` is its partition and offset if known."""
        if self._closed:
            return
        self._settle(batch)
        if location is not None:
            self._locate(batch, *location)
        if not self._transactional:
            self._count(batch, ack_ns, location)
            return
        self._open.append((batch, location))
        if not self._committed_only:
            self._on_visible(batch.records)

    def end_transaction(self, ended_ns: int, *, committed: bool) -> None:
        """Count the batches in the ended transaction as committed or aborted.

        If the transaction was aborted because another batch failed, its batches are errors as well, because they should
        have been committed.
        """
        if self._closed:
            return
        batches, failed, self._open, self.must_abort = self._open, self.must_abort, [], False
        self.report.markers_by_partition.update(self._marked)
        self._marked.clear()
        for batch, location in batches:
            if committed:
                self._count(batch, ended_ns, location)
                continue
            self.report.aborted += batch.measured
            if failed:
                self._discard(batch)
                self._wait_in_vain(batch, ended_ns)
                self.report.aborted_by_failure += batch.measured
                self.report.failures["aborted because another batch failed"] += batch.measured

    def fail(self, batch: Batch, reason: str, failed_ns: int, *, refused: bool) -> None:
        """Count a batch as permanently failed; `reason` is the error's name.

        A `refused` batch is certainly not in the log. After any other failure, the batch may be in the log.
        """
        if self._closed:
            return
        self._settle(batch)
        self.must_abort = self._transactional
        self._lose(batch, reason, failed_ns, known=refused)

    def close(self, now_ns: int) -> None:
        """End the round; batches still in flight count as failed, with an unknown outcome."""
        self.fold()
        self._closed = True
        for batch in list(self._in_flight.values()):
            self._settle(batch)
            self._lose(batch, "no answer", now_ns, known=False)
        for batch, _ in self._open:
            self._discard(batch)
            self._lose(batch, "transaction neither committed nor aborted", now_ns, known=True)
        self._fold_failed(now_ns if self.end_ns is None else self.end_ns)

    def _locate(self, batch: Batch, partition: int, offset: int) -> None:
        self.report.acknowledged_by_partition[partition] += batch.records
        index = batch.indexes.item(0)
        last_offset, last_index = self._last.get(partition, (-1, index))
        if offset <= last_offset or index < last_index:
            self.report.disordered += batch.records
        self._last[partition] = offset, index
        if self._transactional:
            self._marked.add(partition)

    def _count(self, batch: Batch, ack_ns: int, location: tuple[int, int] | None) -> None:
        if self._keeps_places and location is not None and location[1] >= 0 and batch.measured:
            dues_ns = batch.measured_dues_ns
            first = location[1] + batch.records - batch.measured
            self.report.places.extend((location[0], first, batch.measured, int(dues_ns[0]), int(dues_ns[-1])))
        if not self._transactional or self._committed_only:
            self._on_visible(batch.records)
        if batch.identities is not None:
            dues = np.full(batch.records, batch.sent_ns) if batch.dues_ns is None else batch.dues_ns
            self.report.identities.append(np.column_stack([batch.identities, dues]))
        self._unfolded.append((batch, ack_ns))
        if len(self._unfolded) >= (_FOLD_CLOSED_LOOP_BATCHES if batch.dues_ns is None else _FOLD_BATCHES):
            self.fold()

    def _settle(self, batch: Batch) -> None:
        del self._in_flight[id(batch)]
        self.settled += batch.records

    def _lose(self, batch: Batch, reason: str, failed_ns: int, *, known: bool) -> None:
        report, count = self.report, batch.records
        self._wait_in_vain(batch, failed_ns)
        report.failed += count
        report.failed_in_window += batch.measured
        report.failures[reason] += count
        if not known:
            report.unknown += count
            if report.unknown <= MAX_NAMED:
                report.unknown_indexes.append(batch.indexes)
            if batch.identities is not None:
                report.unknown_identities.append(batch.identities)

    def _discard(self, batch: Batch) -> None:
        """Remember records that an application may have read although they were never committed."""
        self.report.discarded += batch.records
        if self.report.discarded <= MAX_NAMED:
            self.report.discarded_indexes.append(batch.indexes)

    def _wait_in_vain(self, batch: Batch, failed_ns: int) -> None:
        """Include the window's failed records in the latency (see `_fold_failed`)."""
        if batch.measured:
            kept = batch if batch.dues_ns is not None else batch._replace(indexes=batch.indexes[:0])  # to save memory
            self._failed.append((kept, failed_ns))
        if self.end_ns is not None and len(self._failed) >= _FOLD_BATCHES:
            self._fold_failed(self.end_ns)

    def _fold_failed(self, end_ns: int) -> None:
        """Record failed records as if they had waited until the window ended, or until their failure if that was later.

        If only the time until the failure counted, a quick rejection would look better than a slow acknowledgement.
        """
        rows, self._failed = self._failed, []
        if not rows:
            return
        ends = np.array([max(failed_ns, end_ns) for _, failed_ns in rows], dtype=np.int64)
        dues = np.concatenate([batch.measured_dues_ns for batch, _ in rows])
        waited = np.repeat(ends, [batch.measured for batch, _ in rows]) - dues
        self.report.latency.record(waited)
        self.series.record(dues, waited)

    def count_delayed(self, batch: Batch, allowed_ns: int, end_ns: int) -> None:
        """Count the records that only the generator delayed.

        `allowed_ns` is the time from which the in-flight limit allowed the batch; `end_ns` is the end of the window.
        """
        late_ns = batch.sent_ns - max(batch.closing_ns or 0, allowed_ns)
        if batch.measured:
            self.report.latest_ns = max(self.report.latest_ns, late_ns)
        if late_ns > LATE_NS:
            dues = batch.measured_dues_ns
            self.report.late += int(np.searchsorted(dues, batch.sent_ns - LATE_NS))  # records due later are not late
        if max(batch.closing_ns or 0, allowed_ns) > end_ns + TAIL_NS:
            self.report.overdue += batch.measured
        if batch.sent_ns > end_ns:
            self.report.sent_late += batch.measured
            if late_ns > _AWAKE_NS and batch.sent_ns - late_ns <= end_ns:
                self.report.behind += batch.measured

    def count_missing(self, schedule: Schedule, first: int, stop: int, now_ns: int) -> None:
        """Count records `first` to `stop` as missing. Those already due add their waiting time to the latencies."""
        self.report.missing += stop - first
        due = min(stop, schedule.first_after(now_ns)) - first
        if due <= 0:
            return
        stride = -(-due // _MISSING_SAMPLES)
        counts = np.full(-(-due // stride), stride, dtype=np.int64)
        counts[-1] = due - stride * (counts.size - 1)
        self._add_waits(schedule.due_between(first, counts.size, stride=stride), now_ns, counts)

    def count_unsent(self, dues_ns: Int64s, now_ns: int) -> None:
        """Count the window's records that were gathered but never sent as missing, as `count_missing` does."""
        self.report.missing += dues_ns.size
        self._add_waits(dues_ns[dues_ns <= now_ns], now_ns)

    def _add_waits(self, dues_ns: Int64s, now_ns: int, counts: Int64s | None = None) -> None:
        waited_ns = now_ns - dues_ns
        self.report.latency.record(waited_ns, counts)
        self.report.delay.record(waited_ns, counts)
        self.series.record(dues_ns, waited_ns, counts)

    def fold(self) -> None:
        """Record the latencies of batches acknowledged since the last call."""
        rows, self._unfolded = self._unfolded, []
        if not rows:
            return
        report = self.report
        acks = np.array([ack_ns for _, ack_ns in rows], dtype=np.int64)
        records = np.array([batch.records for batch, _ in rows], dtype=np.int64)
        self.series.count(acks, records)
        measured = np.array([batch.measured for batch, _ in rows], dtype=np.int64)
        if rows[0][0].dues_ns is None:
            sent = np.array([batch.sent_ns for batch, _ in rows], dtype=np.int64)
            report.latency.record((acks - sent)[measured > 0], measured[measured > 0])
            self.series.record(sent, acks - sent, records)
        else:
            dues = np.concatenate([batch.dues_ns for batch, _ in rows if batch.dues_ns is not None])
            latencies = np.repeat(acks, records) - dues
            places = np.arange(dues.size) - np.repeat(np.cumsum(records) - records, records)
            report.latency.record(latencies[places >= np.repeat(records - measured, records)])
            self.series.record(dues, latencies)
        delays = [(one.sent_ns - one.closing_ns, one.measured) for one, _ in rows if one.closing_ns is not None]
        if delays:
            late, counts = np.array(delays, dtype=np.int64).T
            report.delay.record(np.maximum(late, 0)[counts > 0], counts[counts > 0])
        report.acknowledged += int(measured.sum())
        report.bytes += sum(batch.measured_bytes for batch, _ in rows)
        if measured.any():
            report.last_ack_ns = max(report.last_ack_ns or 0, int(acks[measured > 0].max()))
