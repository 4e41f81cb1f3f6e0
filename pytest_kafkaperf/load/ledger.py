"""What became of the batches of one producer, kept as counts and histograms."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from aiokafka import errors as kafka_errors

from pytest_kafkaperf.measurement import Produced

if TYPE_CHECKING:
    from pytest_kafkaperf.schedule import Schedule

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

_MISSING_SAMPLES = 1 << 20
"""Of more records than this that were never sent, every n-th stands for n."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch on its way."""

    partition: int
    count: int
    measured: int
    """How many of its last records are due in the window."""
    dues_ns: npt.NDArray[np.int64] | None
    """Due times, shape `(count,)`; None in closed loop, where all are due when they are sent."""
    closing_ns: int
    """When it was to be sent."""
    sent_ns: int
    """When it was."""

    @property
    def first_due_ns(self) -> int:
        """Due time of its first record that is due in the window."""
        return self.sent_ns if self.dues_ns is None else int(self.dues_ns[self.count - self.measured])


class Ledger:
    """Counts what is sent, acknowledged and failed."""

    def __init__(self) -> None:
        self.report = Produced()
        self.sent = 0
        self.settled = 0
        self.acknowledged = 0
        self._unfolded: list[tuple[Batch, int]] = []
        self._closed = False

    @property
    def outstanding(self) -> int:
        """Records that were sent and whose fate is not known."""
        return self.sent - self.settled

    def enter(self, batch: Batch) -> None:
        """A batch was sent."""
        self.sent += batch.count
        if batch.measured:
            first_due_ns = batch.first_due_ns
            self.report.sent += batch.measured
            self.report.first_due_ns = min(self.report.first_due_ns or first_due_ns, first_due_ns)

    def acknowledge(self, batch: Batch, ack_ns: int) -> None:
        """A batch is in the log, as far as `acks` promises it."""
        if self._closed:
            return
        self.settled += batch.count
        self.acknowledged += batch.count
        tally = self.report.acknowledged_by_partition
        tally[batch.partition] = tally.get(batch.partition, 0) + batch.count
        if batch.measured:
            self._unfolded.append((batch, ack_ns))
            if len(self._unfolded) >= _FOLD_BATCHES:
                self.fold()

    def fail(self, batch: Batch, error: BaseException) -> None:
        """A batch was not acknowledged and will not be sent again."""
        if self._closed:
            return
        self.settled += batch.count
        self.report.failed += batch.count
        if not isinstance(error, _REFUSALS):
            self.report.unknown += batch.count
        name = type(error).__name__
        self.report.failures[name] = self.report.failures.get(name, 0) + batch.count

    def close(self) -> None:
        """The round ends: of batches that are on their way still, nobody will know."""
        self.fold()
        self._closed = True
        if self.outstanding:
            self.report.failures["no answer"] = self.outstanding
            self.report.failed += self.outstanding
            self.report.unknown += self.outstanding
            self.settled = self.sent

    def judge_generator(self, batch: Batch, room_ns: int, end_ns: int) -> None:
        """Count records that the generator alone held back.

        `room_ns` is since when there was room for the batch, `end_ns` the end of the window.
        """
        late_ns = batch.sent_ns - max(batch.closing_ns, room_ns)
        if late_ns > LATE_NS and batch.dues_ns is not None:
            dues = batch.dues_ns[batch.count - batch.measured :]
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

    def fold(self) -> None:
        """Record the latencies of what was acknowledged since the last time."""
        rows, self._unfolded = self._unfolded, []
        if not rows:
            return
        report = self.report
        counts = np.array([batch.measured for batch, _ in rows], dtype=np.int64)
        sent = np.array([batch.sent_ns for batch, _ in rows], dtype=np.int64)
        acks = np.array([ack_ns for _, ack_ns in rows], dtype=np.int64)
        dues = [batch.dues_ns[batch.count - batch.measured :] for batch, _ in rows if batch.dues_ns is not None]
        if dues:
            closings = np.array([batch.closing_ns for batch, _ in rows], dtype=np.int64)
            report.latency.record(np.repeat(acks, counts) - np.concatenate(dues))
            report.delay.record(np.maximum(sent - closings, 0), counts)
        else:
            report.latency.record(acks - sent, counts)
        report.acknowledged += int(counts.sum())
        report.last_ack_ns = max(itertools.chain([report.last_ack_ns or 0], acks.tolist()))
