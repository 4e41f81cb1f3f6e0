"""A service between two topics: it reads orders, adds the customer's segment, and writes them to the other topic.

    KAFKA_BOOTSTRAP_SERVERS=localhost:9092 python enricher.py

An order is JSON with `id`, `customer` and `amount`. The service logs and skips records that it cannot read. It copies
all headers, for example those of tracing. It connects to brokers without login or encryption.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import aiokafka
from aiokafka.structs import TopicPartition

LOG = logging.getLogger("enricher")
SEGMENTS = ("consumer", "business", "partner")
Lookup = Callable[[str], Awaitable[str]]
_AT_ONCE = 1000
"""The maximum number of orders that are processed at the same time."""
_COMMIT_S = 1.0
_POLL_MS = 50


class Directory:
    """The customer directory. A real one is a network service; this one answers after a given delay."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self._delay_s = delay_s

    async def segment(self, customer: str) -> str:
        """Return the segment of a customer."""
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        return SEGMENTS[sum(customer.encode()) % len(SEGMENTS)]


async def enriched(value: bytes, lookup: Lookup) -> bytes:
    """Return an order with its customer's segment.

    Raises:
        ValueError: the value is not an order.

    """
    order = json.loads(value)
    match order:
        case {"customer": str(customer)}:
            return json.dumps({**order, "segment": await lookup(customer)}).encode()
        case _:
            raise ValueError("an order names its customer")


class Enricher:
    """The service: `run` until it is stopped."""

    def __init__(self, lookup: Lookup, *, source: str, target: str, **connection: Any) -> None:
        self._lookup = lookup
        self._target = target
        self._consumer = aiokafka.AIOKafkaConsumer(
            source, group_id="enricher", auto_offset_reset="earliest", enable_auto_commit=False, **connection
        )
        self._producer = aiokafka.AIOKafkaProducer(linger_ms=2, **connection)
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._open: dict[TopicPartition, collections.deque[tuple[int, asyncio.Task[None]]]] = {}
        """Offsets with the tasks that process their records, by partition, in the order of offsets."""
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """Make `run` finish the orders that it has read, and return."""
        self._stopped.set()

    async def run(self) -> None:
        """Read, enrich and write, as fast as orders come."""
        await self._producer.start()
        await self._consumer.start()
        committing = asyncio.create_task(self._commit_again_and_again())
        try:
            while not self._stopped.is_set():
                if committing.done():
                    committing.result()  # raises its error: an order that cannot be written must not be skipped
                for partition, records in (await self._consumer.getmany(timeout_ms=_POLL_MS)).items():
                    for record in records:
                        await self._room.acquire()
                        task = asyncio.create_task(self._work(record))
                        self._open.setdefault(partition, collections.deque()).append((record.offset, task))
        finally:
            committing.cancel()
            tasks = [task for open_ in self._open.values() for _, task in open_]
            await asyncio.gather(committing, *tasks, return_exceptions=True)
            with contextlib.suppress(aiokafka.errors.KafkaError):
                await self._commit()
            await self._consumer.stop()
            await self._producer.stop()

    async def _work(self, record: Any) -> None:
        try:
            value = await enriched(record.value or b"", self._lookup)
        except ValueError as error:
            LOG.warning("left out: offset %d of %s: %s", record.offset, record.topic, error)
        else:
            await (await self._producer.send(self._target, value, key=record.key, headers=list(record.headers)))
        finally:
            self._room.release()

    async def _commit_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(_COMMIT_S)
            await self._commit()

    async def _commit(self) -> None:
        """Commit the offset of each partition up to its first order that is still being processed.

        Raises:
            KafkaError: an order could not be written; the next consumer reads it and all later ones again.

        """
        done: dict[TopicPartition, int] = {}
        for partition, open_ in self._open.items():
            while open_ and open_[0][1].done():
                open_[0][1].result()
                offset, _ = open_.popleft()
                done[partition] = offset + 1
        held = self._consumer.assignment()
        if mine := {partition: offset for partition, offset in done.items() if partition in held}:
            await self._consumer.commit(mine)


def main() -> None:
    """Run the service until it gets SIGTERM or SIGINT."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--source", default="orders")
    options.add_argument("--target", default="orders-enriched")
    options.add_argument("--lookup-ms", type=float, default=0.0, help="delay of the customer directory, in ms")
    given = options.parse_args()
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(_serve(given))


async def _serve(given: argparse.Namespace) -> None:
    service = Enricher(
        Directory(given.lookup_ms / 1000).segment,
        source=given.source,
        target=given.target,
        bootstrap_servers=os.environ["KAFKA_BOOTSTRAP_SERVERS"],
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, service.stop)
    await service.run()


if __name__ == "__main__":
    main()
