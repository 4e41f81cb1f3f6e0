"""The producer of explicit batches, and its kind for records without keys.

A batch opens with a record's due time and closes when it is full or has lingered; without keys its partition is
chosen for the whole batch, as in Kafka's own producer (KIP-480). As due times are known beforehand, so is the closing
time: the producer sleeps until then and makes the batch at once.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from pytest_kafkaperf.load.board import now_ns
from pytest_kafkaperf.load.clients import batches_in_flight
from pytest_kafkaperf.load.kafka import make_batch, submit
from pytest_kafkaperf.load.ledger import Batch
from pytest_kafkaperf.load.payload import Stamp
from pytest_kafkaperf.load.producing import Producer, Window
from pytest_kafkaperf.load.room import Room
from pytest_kafkaperf.units import NS_PER_S

if TYPE_CHECKING:
    from pytest_kafkaperf.load.alarm import Alarm
    from pytest_kafkaperf.load.payload import Int64s, Template
    from pytest_kafkaperf.schedule import Schedule


_DIFFERENT_STARTS = 32
"""Producers of a worker begin in different places of the payload; as many of them as matter."""


class BatchProducer(Producer):
    """Sends records without keys in explicit batches."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        partitions = self._scenario.partitions
        self._start = 0
        """In the payload, of the next batch."""
        self._template = self._payload.template(0)
        for _ in range(self._number % _DIFFERENT_STARTS):
            self._go_on(self._template.count)
        self._stamp = Stamp(self._payload, producer=self._number)
        self._partitions = [TopicPartition(self._topic, partition) for partition in range(partitions)]
        largest = max(self._payload.largest, self._scenario.batch_size)
        batches = batches_in_flight(self._scenario) + 1
        self._slots = Room(partitions, batches=batches, first=self._number, batch_bytes=largest)
        self._linger_ns = round(self._scenario.linger * NS_PER_S)

    async def _closed_loop(self, window: Window) -> None:
        left = window.records
        while left is None or left > 0:
            partition, _ = await self._slot()
            count = await self._room_in_transaction(self._template.count)
            now = now_ns()
            if window.end_ns is not None and now >= window.end_ns:
                return
            warm = now >= window.start_ns
            count = min(count, left) if warm and left is not None else count
            indexes = np.arange(self._next, self._next + count)
            self._send(partition, indexes, None, now=now, measured=count if warm else 0)
            self._next += count
            if warm and left is not None:
                left -= count

    async def _open_loop(self, window: Window, alarm: Alarm, schedule: Schedule) -> None:
        stop = window.stop(schedule)
        end_ns = schedule.due_ns(stop)
        self._next = schedule.first_after(window.warm_from_ns - 1)
        while self._next < stop:
            partition, room_ns = await self._slot()
            room = await self._room_in_transaction(self._template.count)
            first = self._next
            last = min(first + room, stop) - 1
            closing_ns = min(schedule.due_ns(first) + self._linger_ns, schedule.due_ns(last))
            await alarm.until(closing_ns)
            now = now_ns()
            count = min(last, schedule.first_after(now) - 1) - first + 1
            batch = self._send(
                partition,
                np.arange(first, first + count),
                schedule.due_between(first, count),
                now=now,
                measured=min(count, max(0, first + count)),
                closing_ns=closing_ns,
            )
            self.ledger.judge_generator(batch, max(room_ns, self._begun_ns), end_ns)
            self._next += count

    def _send(
        self,
        partition: int,
        indexes: Int64s,
        dues_ns: Int64s | None,
        *,
        now: int,
        measured: int,
        closing_ns: int | None = None,
        keys: Int64s | None = None,
    ) -> Batch:
        """Build a batch of the next template's first records and hand it over.

        `dues_ns` without a value means now; `measured` of the last records are due in the window.

        Raises:
            LoadError: the client cannot send any more.

        """
        template, count = self._template, indexes.size
        self._go_on(count)
        made = make_batch(
            self._client,
            self._stamp.body(template, indexes=indexes, dues_ns=now if dues_ns is None else dues_ns, keys=keys),
            count,
            timestamp_ms=time.time_ns() // 1_000_000,
        )
        batch = Batch(
            partition=partition,
            indexes=indexes,
            measured=measured,
            measured_bytes=_bytes_of_last(template, count, measured),
            dues_ns=dues_ns,
            closing_ns=closing_ns,
            sent_ns=now if dues_ns is None else now_ns(),
        )
        try:
            future = submit(self._client, made, self._partitions[partition])
        except KafkaError as error:
            raise self._refused(error) from None
        self._follow(batch, future)
        return batch

    def _go_on(self, used: int) -> None:
        """Turn to the template of the next batch, after so many records of this one."""
        self._start = self._payload.after(self._start, self._template, used)
        self._template = self._payload.template(self._start)

    async def _slot(self) -> tuple[int, int]:
        """A partition for the next batch, and since when there has been room for it; waits for room."""
        while not self._slots.free():
            await self._change()
        return self._slots.take()

    def _give_back(self, batch: Batch, now: int) -> None:
        if batch.partition is not None:
            self._slots.give_back(batch.partition, now)


def _bytes_of_last(template: Template, count: int, measured: int) -> int:
    """Bytes of keys and values of the last `measured` of the template's first `count` records."""
    before = int(template.sizes[count - measured - 1]) if measured < count else 0
    return int(template.sizes[count - 1]) - before
