"""Producer of explicit batches, for records without keys.

A batch opens at a record's due time and closes when it is full or its linger time has passed. Without keys, the whole
batch goes to one partition, as in Kafka's own producer (KIP-480). Because due times are known in advance, the closing
time is also known, so the producer sleeps until then and builds the whole batch at once.
"""

from __future__ import annotations

import collections
import time
from typing import Any, NamedTuple

import numpy as np
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.clock import Timer, now_ns
from pytest_kafkaperf.load.engines.aiokafka.clients import batches_in_flight, submit
from pytest_kafkaperf.load.engines.aiokafka.encoder import CODECS, EncodedBatch
from pytest_kafkaperf.load.engines.aiokafka.producers import Producer, ProducerSetup, Window
from pytest_kafkaperf.load.engines.aiokafka.templates import Stamp, Template
from pytest_kafkaperf.load.identity import Int64s
from pytest_kafkaperf.load.ledger import Batch
from pytest_kafkaperf.load.schedule import Schedule

_DIFFERENT_STARTS = 32
"""Number of different starting points in the payload. A worker's further producers reuse them."""


class Records(NamedTuple):
    """Records of one batch."""

    indexes: Int64s
    """Record indexes, shape `(records,)`."""
    dues_ns: Int64s | None = None
    """Due times, shape `(records,)`; None if records are due when they are sent."""
    keys: Int64s | None = None
    """Keys, shape `(records,)`; None without keys."""


class Body(NamedTuple):
    """Encoded records of one batch."""

    encoded: bytes | bytearray
    measured_bytes: int
    """Size of the measured records' keys and values in bytes."""
    identities: Int64s | None = None
    """Hash of each record's identity, shape `(records,)`; None if records carry tags."""


class BatchProducer(Producer):
    """Producer that sends records without keys in explicit batches."""

    def __init__(self, client: Any, number: int, setup: ProducerSetup) -> None:
        super().__init__(client, number, setup)
        partitions = self._scenario.partitions
        self._start = 0
        """Position in the payload at which the next batch starts."""
        self._template = self._templates.at(0)
        for _ in range(number % _DIFFERENT_STARTS):
            self._advance(self._template.count)
        self._stamp = Stamp(self._payload, producer=number)
        self._partitions = [TopicPartition(self._topic, partition) for partition in range(partitions)]
        largest = max(self._payload.largest, self._scenario.batch_size)
        batches = batches_in_flight(self._scenario) + 1
        self._slots = InFlightLimit(partitions, batches=batches, first=number, batch_bytes=largest)
        self._linger_ns = round(self._scenario.linger * NS_PER_S)

    async def _closed_loop(self, window: Window) -> None:
        left = window.records
        while left is None or left > 0:
            partition, _ = await self._slot()
            count = await self._limit_to_transaction(self._template.count)
            now = now_ns()
            if window.end_ns is not None and now >= window.end_ns:
                return
            warm = now >= window.start_ns
            count = min(count, left) if warm and left is not None else count
            records = Records(np.arange(self._next, self._next + count))
            self._send(partition, records, now=now, measured=count if warm else 0)
            self._next += count
            if warm and left is not None:
                left -= count

    async def _open_loop(self, window: Window, timer: Timer, schedule: Schedule) -> None:
        stop = window.stop(schedule)
        end_ns = schedule.due_ns(stop)
        self._next = schedule.first_after(window.warm_from_ns - 1)
        while self._next < stop:
            partition, allowed_ns = await self._slot()
            first = self._next
            last = min(first + await self._limit_to_transaction(self._template.count), stop) - 1
            closing_ns = min(schedule.due_ns(first) + self._linger_ns, schedule.due_ns(last))
            await timer.until(closing_ns)
            now = now_ns()
            count = min(last, schedule.first_after(now) - 1) - first + 1
            batch = self._send(
                partition,
                Records(np.arange(first, first + count), schedule.due_between(first, count)),
                now=now,
                measured=min(count, max(0, first + count)),
                closing_ns=closing_ns,
            )
            self.ledger.count_delayed(batch, max(allowed_ns, self._begun_ns), end_ns)
            self._next += count

    def _send(
        self, partition: int, records: Records, *, now: int, measured: int, closing_ns: int | None = None
    ) -> Batch:
        """Build a batch from the next template's first records and hand it to the client.

        The last `measured` records are due in the window.

        Raises:
            LoadError: the client can no longer send.

        """
        indexes, dues_ns, _ = records
        body = self._body(records, now=now, measured=measured)
        made = EncodedBatch(
            body.encoded,
            indexes.size,
            timestamp_ms=time.time_ns() // 1_000_000,
            codec=CODECS[self._scenario.compression],
            transactional=self._transactions is not None,
        )
        batch = Batch(
            partition=partition,
            indexes=indexes,
            measured=measured,
            measured_bytes=body.measured_bytes,
            dues_ns=dues_ns,
            closing_ns=closing_ns,
            sent_ns=now if dues_ns is None else now_ns(),
            identities=body.identities,
        )

        def on_ended(offset: int | None, error: BaseException | None) -> None:
            self._ended(batch, None if offset is None else (partition, offset), error)

        try:
            submit(self._client, made, self._partitions[partition], on_ended)
        except KafkaError as error:
            raise self._refused(error) from None
        self._enter(batch)
        return batch

    def _body(self, records: Records, *, now: int, measured: int) -> Body:
        """Return the encoded records; those without due times are due `now`."""
        indexes, dues_ns, keys = records
        template, count = self._template, indexes.size
        self._advance(count)
        encoded = self._stamp.body(template, indexes=indexes, dues_ns=now if dues_ns is None else dues_ns, keys=keys)
        return Body(encoded, _bytes_of_last(template, count, measured))

    def _advance(self, used: int) -> None:
        """Advance to the next batch's template after using `used` records of the current one."""
        self._start = self._templates.after(self._start, self._template, used)
        self._template = self._templates.at(self._start)

    async def _slot(self) -> tuple[int, int]:
        """Wait until the limit allows a batch; return its partition and the time at which its slot became free."""
        while not self._slots.free():
            await self._change()
        return self._slots.take()

    def _give_back(self, batch: Batch, now: int) -> None:
        if batch.partition is not None:
            self._slots.give_back(batch.partition, now)


def _bytes_of_last(template: Template, count: int, measured: int) -> int:
    """Return the key and value bytes of the last `measured` of the template's first `count` records."""
    before = int(template.sizes[count - measured - 1]) if measured < count else 0
    return int(template.sizes[count - 1]) - before


_OUTSTANDING_BYTES = 32 << 20
"""Limit on one producer's unacknowledged data: the default `buffer.memory` of Kafka's own producer."""


class InFlightLimit:
    """In-flight limits of one producer, per partition and in bytes.

    A partition's limit is the number of batches that the client sends concurrently, plus one. Until the limit allows a
    batch, further records can still join it.
    """

    def __init__(self, partitions: int, *, batches: int, first: int, batch_bytes: int) -> None:
        self._batches = batches
        # Producers start with different partitions to spread the load.
        self._turns = collections.deque((first + turn) % partitions for turn in range(partitions))
        self._taken = [0] * partitions
        self._full: set[int] = set()
        self._not_full_since_ns = [0] * partitions
        bound = max(1, _OUTSTANDING_BYTES // batch_bytes)
        self._free_since_ns = collections.deque([0] * min(bound, partitions * batches))

    def free(self, partition: int | None = None) -> bool:
        """Return True if the limit allows a batch to the partition, or to any partition if it is None."""
        return bool(self._free_since_ns) and (
            len(self._full) < len(self._taken) if partition is None else partition not in self._full
        )

    def take(self, partition: int | None = None) -> tuple[int, int]:
        """Take a slot; return its partition (round-robin if None) and the time (ns) at which the slot became free."""
        since_ns = self._free_since_ns.popleft()
        if partition is None:
            partition = self._next()
        else:
            since_ns = max(since_ns, self._not_full_since_ns[partition])
        self._taken[partition] += 1
        if self._taken[partition] == self._batches:
            self._full.add(partition)
        return partition, since_ns

    def give_back(self, partition: int, now_ns: int) -> None:
        """Release the slot of a batch that has ended."""
        self._taken[partition] -= 1
        if partition in self._full:
            self._full.remove(partition)
            self._not_full_since_ns[partition] = now_ns
        self._free_since_ns.append(now_ns)

    def _next(self) -> int:
        """Return the next partition that is not full, in round-robin order."""
        while True:
            partition = self._turns[0]
            self._turns.rotate(-1)
            if partition not in self._full:
                return partition
