"""One producer: takes records when they are due and sends them in batches.

A batch opens with a record's due time and closes when it is full or has lingered; its partition is chosen for the
whole batch, as in Kafka's own producer (KIP-480). As due times are known beforehand, so is the closing time: the
producer sleeps until then and makes the batch at once. Nothing that a record meets is left out of its latency,
which runs from the due time.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from pytest_kafkaperf.errors import LoadError
from pytest_kafkaperf.load.board import now_ns
from pytest_kafkaperf.load.kafka import submit
from pytest_kafkaperf.load.ledger import Batch, Ledger
from pytest_kafkaperf.schedule import NS_PER_S, Schedule, exact_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from fractions import Fraction

    from pytest_kafkaperf.load.alarm import Alarm
    from pytest_kafkaperf.load.payload import Payload
    from pytest_kafkaperf.measurement import Produced
    from pytest_kafkaperf.scenario import Scenario

_OUTSTANDING_BYTES = 32 << 20
"""Bound of unacknowledged data of one producer: the default of `buffer.memory` of Kafka's own."""
_OUTSTANDING_BATCHES = 2
"""Batches a partition: one in flight, and one to follow (aiokafka keeps one request a broker in flight)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The measured window, as one producer sees it."""

    start_ns: int
    warm_from_ns: int
    end_ns: int | None
    """Records due before this belong to the window; None: `records` ends it."""
    records: int | None
    """How many records of the window this producer sends; None: `end_ns` ends it."""


class Producer:
    """The load of one producer; `client` is started, and used by nobody else."""

    def __init__(
        self,
        *,
        client: Any,
        scenario: Scenario,
        number: int,
        topic: str,
        payload: Payload,
        on_settled: Callable[[], None],
    ) -> None:
        self.ledger = Ledger()
        self._on_settled = on_settled
        self._client = client
        self._scenario = scenario
        self._number = number
        self._payload = payload
        self._partitions = [TopicPartition(topic, partition) for partition in range(scenario.partitions)]
        self._capacity = self._batch_capacity()
        self._slots = _Slots(scenario.partitions, first=number, batch_bytes=self._capacity * scenario.record_size)
        self._changed: asyncio.Future[None] | None = None
        self._enough = asyncio.Event()
        self._abandoned = False
        self._next = 0

    def give_up(self) -> None:
        """Send nothing more; wait for what is on its way."""
        self._enough.set()

    def abandon(self) -> None:
        """Do not even wait for what is on its way."""
        self._abandoned = True
        self._wake()

    async def run(self, window: Window, alarm: Alarm, *, settle_s: float) -> Produced:
        """Warm up, produce the window's records, and wait until the fate of each is known.

        Waits at most `settle_s` seconds for that; what is on its way then has failed with "no answer".

        Raises:
            LoadError: the client cannot send any more.

        """
        schedule = self._schedule(window)
        await self._send_until_enough(
            self._open_loop(window, alarm, schedule) if schedule else self._closed_loop(window)
        )
        if schedule:
            stop = self._stop(window, schedule)
            self.ledger.give_up(schedule, max(self._next, 0), max(stop, self._next, 0), now_ns())
        elif window.records is not None:
            self.ledger.report.missing = window.records - self.ledger.report.sent
        await self._settle(settle_s)
        return self.ledger.report

    async def _send_until_enough(self, sending: Coroutine[Any, Any, None]) -> None:
        """Run it to its end, or until `give_up`."""
        tasks = [asyncio.ensure_future(sending), asyncio.ensure_future(self._enough.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            ended, _ = await asyncio.gather(*tasks, return_exceptions=True)
        if isinstance(ended, Exception):
            raise ended

    async def _closed_loop(self, window: Window) -> None:
        """Keep as many batches on their way as there are slots."""
        left = window.records
        while left is None or left > 0:
            partition, _ = await self._slot()
            now = now_ns()
            if window.end_ns is not None and now >= window.end_ns:
                return
            warm = now >= window.start_ns
            count = min(self._capacity, left) if warm and left is not None else self._capacity
            count = self._send(partition, self._next, [now] * count, now, measured=count if warm else 0).count
            self._next += count
            if warm and left is not None:
                left -= count

    async def _open_loop(self, window: Window, alarm: Alarm, schedule: Schedule) -> None:
        """Send each record when it is due, and never skip one."""
        linger_ns = round(self._scenario.linger * NS_PER_S)
        stop = self._stop(window, schedule)
        end_ns = schedule.due_ns(stop)
        self._next = schedule.first_after(window.warm_from_ns - 1)
        while self._next < stop:
            partition, room_ns = await self._slot()
            first = self._next
            last = min(first + self._capacity, stop) - 1
            closing_ns = min(schedule.due_ns(first) + linger_ns, schedule.due_ns(last))
            await alarm.until(closing_ns)
            now = now_ns()
            count = min(last, schedule.first_after(now) - 1) - first + 1
            dues = schedule.due_between(first, count)
            measured = min(count, max(0, first + count))
            batch = self._send(partition, first, dues, closing_ns, measured=measured)
            self.ledger.judge_generator(batch, room_ns, end_ns)
            self._next += batch.count

    def _schedule(self, window: Window) -> Schedule | None:
        if self._scenario.rate is None:
            return None
        rate: Fraction = exact_rate(self._scenario.rate)
        return Schedule(start_ns=window.start_ns, rate=rate, producer=self._number, producers=self._scenario.producers)

    @staticmethod
    def _stop(window: Window, schedule: Schedule) -> int:
        """Index of the first record beyond the window."""
        if window.end_ns is None:
            return window.records or 0
        return schedule.first_after(window.end_ns - 1)

    def _send(self, partition: int, first: int, dues: Any, closing_ns: int, *, measured: int) -> Batch:
        """Build a batch and hand it over.

        Raises:
            LoadError: the client cannot send any more.

        """
        paced = not isinstance(dues, list)
        builder = self._client.create_batch()
        count = self._payload.fill(
            builder,
            first=first,
            dues_ns=dues.tolist() if paced else dues,
            timestamp_ms=time.time_ns() // 1_000_000,
        )
        batch = Batch(
            partition=partition,
            count=count,
            measured=max(0, measured - (len(dues) - count)) if paced else min(measured, count),
            dues_ns=dues[:count] if paced else None,
            closing_ns=closing_ns,
            sent_ns=now_ns() if paced else closing_ns,
        )
        try:
            future = submit(self._client, builder, self._partitions[partition])
        except KafkaError as error:
            raise LoadError(f"producer {self._number} cannot send any more: {error!r}") from None
        self.ledger.enter(batch)
        future.add_done_callback(lambda ended: self._ended(batch, ended))
        return batch

    def _ended(self, batch: Batch, future: asyncio.Future[Any]) -> None:
        now = now_ns()
        if future.cancelled():
            return  # the loop is closing; the ledger has counted it
        error = future.exception()
        if error is None:
            self.ledger.acknowledge(batch, now)
        else:
            self.ledger.fail(batch, error)
        self._on_settled()
        self._slots.give_back(batch.partition, now)
        self._wake()

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    async def _slot(self) -> tuple[int, int]:
        """A partition for the next batch, and since when there has been room for it; waits for room."""
        while not self._slots.free:
            await self._change()
        return self._slots.take()

    async def _change(self) -> None:
        """Wait until a batch has ended, or the round is abandoned."""
        self._changed = asyncio.get_running_loop().create_future()
        await self._changed

    async def _settle(self, settle_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(settle_s):
                while self.ledger.outstanding and not self._abandoned:
                    await self._change()
        self.ledger.close()

    def _batch_capacity(self) -> int:
        """How many records a batch takes: found by filling one."""
        builder, capacity, timestamp_ms = self._client.create_batch(), 0, time.time_ns() // 1_000_000
        while self._payload.fill(builder, first=capacity, dues_ns=[0], timestamp_ms=timestamp_ms):
            capacity += 1
        return capacity


class _Slots:
    """Room for batches: bounded by the partition and in bytes. Partitions take turns, whatever the bound."""

    def __init__(self, partitions: int, *, first: int, batch_bytes: int) -> None:
        turns = list(range(partitions)) * _OUTSTANDING_BATCHES
        # Producers begin at different partitions, so that few of them do not meet on the same one.
        shift = first % partitions
        self._turns = collections.deque(turns[shift:] + turns[:shift])
        bound = max(1, _OUTSTANDING_BYTES // batch_bytes)
        self._free_since_ns = collections.deque([0] * min(bound, len(turns)))

    @property
    def free(self) -> int:
        """For how many batches there is room."""
        return len(self._free_since_ns)

    def take(self) -> tuple[int, int]:
        """The partition whose turn it is, and since when its batch has had room."""
        return self._turns.popleft(), self._free_since_ns.popleft()

    def give_back(self, partition: int, now_ns: int) -> None:
        """A batch has ended."""
        self._turns.append(partition)
        self._free_since_ns.append(now_ns)
