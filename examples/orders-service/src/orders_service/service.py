"""The service: writes every order at least once, and exactly once unless it crashes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener
from aiokafka.errors import CommitFailedError
from aiokafka.structs import ConsumerRecord, TopicPartition

from orders_service.enrich import enriched

SOURCE, TARGET, GROUP = "orders", "orders-enriched", "orders-service"
LOG = logging.getLogger(__name__)
_MAX_RECORDS = 1000
"""Maximum number of orders that are processed together."""
_POLL_MS = 100
_COMMIT_S = 1.0


class Service(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Reads `orders` and writes `orders-enriched`."""

    def __init__(self, connection: Mapping[str, Any]) -> None:
        self._consumer = AIOKafkaConsumer(
            group_id=GROUP, auto_offset_reset="earliest", enable_auto_commit=False, **connection
        )
        self._producer = AIOKafkaProducer(enable_idempotence=True, linger_ms=2, **connection)
        self._done: dict[TopicPartition, int] = {}
        """The next offset of each partition, after orders that are written but not committed yet."""

    async def run(self, stopped: asyncio.Event) -> None:
        """Read, enrich and write orders until `stopped` is set; then finish and commit what was read."""
        self._consumer.subscribe([SOURCE], listener=self)
        async with self._producer, self._consumer:
            commit_at = 0.0
            while not stopped.is_set():
                orders = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=_MAX_RECORDS)
                await self._process(orders)
                if time.monotonic() >= commit_at:
                    await self._commit()
                    commit_at = time.monotonic() + _COMMIT_S
            await self._commit()

    async def on_partitions_revoked(self, revoked: object) -> None:
        """Commit before another instance takes over the partitions."""
        await self._commit()

    async def on_partitions_assigned(self, assigned: object) -> None:
        """Do nothing, because Kafka has stored the position to continue from."""

    async def _process(self, orders: Mapping[TopicPartition, Sequence[ConsumerRecord]]) -> None:
        """Write the orders; raise an error if one cannot be written, so that none is committed."""
        written = []
        for records in orders.values():
            for record in records:
                try:
                    value = enriched(record.value or b"")
                except ValueError as error:
                    LOG.warning("left out offset %d of partition %d: %s", record.offset, record.partition, error)
                else:
                    # Copy all headers, for tracing, and because perf tests recognize orders by a header.
                    headers = list(record.headers)
                    written.append(await self._producer.send(TARGET, value, key=record.key, headers=headers))
        await asyncio.gather(*written)
        self._done |= {partition: records[-1].offset + 1 for partition, records in orders.items()}

    async def _commit(self) -> None:
        held = self._consumer.assignment()
        done = {partition: offset for partition, offset in self._done.items() if partition in held}
        self._done.clear()
        try:
            if done:
                await self._consumer.commit(done)
        except CommitFailedError as error:
            LOG.warning("another instance took over the partitions and will write some orders again: %s", error)
