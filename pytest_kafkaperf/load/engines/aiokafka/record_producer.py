"""Producer of single records, which leaves batching to the client, as aiokafka applications do."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
from aiokafka.errors import KafkaError, KafkaTimeoutError, MessageSizeTooLargeError

from pytest_kafkaperf.load.clock import Timer, now_ns
from pytest_kafkaperf.load.engines.aiokafka.keyed_producer import KeySource
from pytest_kafkaperf.load.engines.aiokafka.producers import Producer, ProducerSetup, Window
from pytest_kafkaperf.load.identity import Int64s, Tagger
from pytest_kafkaperf.load.ledger import Batch
from pytest_kafkaperf.load.schedule import Schedule
from pytest_kafkaperf.scenarios.scenario import KEY_BYTES, TAG_BYTES

_AT_ONCE = 256
"""Number of records prepared together, low enough that their due times and keys need little memory."""


class RecordProducer(Producer):
    """Producer that sends each record with `AIOKafkaProducer.send`."""

    def __init__(self, client: Any, number: int, setup: ProducerSetup) -> None:
        super().__init__(client, number, setup)
        scenario = self._scenario
        self._values = self._payload.values
        self._tagger = Tagger(self._payload.nonce, producer=number)
        self._keys: KeySource | None = None
        if scenario.key is not None:
            self._keys = KeySource(scenario.key, producer=number, producers=scenario.producers, seed=self._seed)

    async def _closed_loop(self, window: Window) -> None:
        left = window.records
        while left is None or left > 0:
            count = _AT_ONCE if left is None else min(_AT_ONCE, left)
            keys = self._keys_of(np.arange(self._next, self._next + count))
            for place in range(count):
                await self._limit_to_transaction(1)
                now = now_ns()
                if window.end_ns is not None and now >= window.end_ns:
                    return
                measured = 1 if now >= window.start_ns else 0
                await self._send(self._next, None, keys[place], now=now, measured=measured)
                self._next += 1
                if left is not None:
                    left -= measured
            await asyncio.sleep(0)  # `send` itself waits only while the client's buffer is full

    async def _open_loop(self, window: Window, timer: Timer, schedule: Schedule) -> None:
        stop = window.stop(schedule)
        end_ns = schedule.due_ns(stop)
        self._next = schedule.first_after(window.warm_from_ns - 1)
        allowed_ns = 0
        loop, waited = asyncio.get_running_loop(), asyncio.Event()
        while self._next < stop:
            await timer.until(schedule.due_ns(self._next))
            count = min(schedule.first_after(now_ns()), stop, self._next + _AT_ONCE) - self._next
            dues_ns = schedule.due_between(self._next, count)
            keys = self._keys_of(np.arange(self._next, self._next + count))
            for place, due_ns in enumerate(dues_ns.tolist()):
                await self._limit_to_transaction(1)
                measured = 1 if self._next >= 0 else 0
                turn = loop.call_soon(waited.set)  # runs only if the client waits for space in its buffer
                batch = await self._send(self._next, due_ns, keys[place], now=now_ns(), measured=measured)
                turn.cancel()
                self.ledger.count_delayed(batch, max(allowed_ns, self._begun_ns), end_ns)
                self._next += 1
                if waited.is_set():
                    waited.clear()
                    allowed_ns = now_ns()
            await asyncio.sleep(0)

    def _keys_of(self, indexes: Int64s) -> list[bytes | None]:
        if self._keys is None:
            return [None] * indexes.size
        return [key.to_bytes(KEY_BYTES, "big", signed=True) for key in self._keys.next(indexes).tolist()]

    async def _send(self, index: int, due_ns: int | None, key: bytes | None, *, now: int, measured: int) -> Batch:
        """Hand one record to the client, which waits while its buffer is full.

        Raises:
            LoadError: the client can no longer send.

        """
        value, headers = self._values[index % len(self._values)], self._payload.headers
        if self._payload.tagged:
            tag = self._tagger.tag(index, now if due_ns is None else due_ns)
            if self._payload.tags_in_header:
                headers = [*headers[:-1], (headers[-1][0], tag)]
            else:
                value = tag + value[TAG_BYTES:]
        batch = Batch(
            partition=None,
            indexes=np.array([index]),
            measured=measured,
            measured_bytes=measured * (len(value) + (0 if key is None else KEY_BYTES)),
            dues_ns=None if due_ns is None else np.array([due_ns], dtype=np.int64),
            closing_ns=due_ns,
            sent_ns=now,
        )
        try:
            future = await self._client.send(self._topic, value, key=key, headers=headers)
        except KafkaError as error:
            if not isinstance(error, KafkaTimeoutError | MessageSizeTooLargeError):
                raise self._refused(error) from None
            self.ledger.enter(batch)
            self._fail(batch, error, now_ns())
            return batch
        self._enter(batch)
        future.add_done_callback(lambda ended: self._sent(batch, ended))
        return batch

    async def _all_settled(self) -> None:
        """If a transaction ends, first flush records that linger in the client, as an application's commit does."""
        if self._transactions is not None:  # the event loop keeps only a weak reference to the task
            self._flushing = asyncio.ensure_future(self._client._message_accumulator.flush_for_commit())  # noqa: SLF001
        await super()._all_settled()

    def _sent(self, batch: Batch, future: asyncio.Future[Any]) -> None:
        if future.cancelled():
            return  # the event loop is closing, and the ledger has already counted the batch
        error = future.exception()
        metadata = None if error else future.result()
        self._ended(batch, None if metadata is None else (metadata.partition, metadata.offset), error)

    def _give_back(self, batch: Batch, now: int) -> None:
        """Do nothing, because the client itself limits in-flight batches to one per partition, plus one more."""
