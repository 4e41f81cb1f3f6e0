"""An application that loses no record when it is killed: it commits only what it has written. Run as a script.

Several instances share the partitions of its topic. Users' projects get a copy of this file.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

SESSION_MS = 6000
"""Time after which Kafka gives the partitions of a killed instance to the others; brokers allow no shorter one."""


async def serve(source: str, target: str, group: str) -> None:
    """Move records until SIGTERM, then leave the group."""
    this = asyncio.current_task()
    assert this is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    servers = os.environ["KAFKA_BOOTSTRAP_SERVERS"]
    consumer = AIOKafkaConsumer(
        source,
        bootstrap_servers=servers,
        group_id=group,
        client_id=f"{group}-{os.environ['KAFKAPERF_INSTANCE']}",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
    )
    async with consumer, AIOKafkaProducer(bootstrap_servers=servers) as producer:
        while True:
            batches = await consumer.getmany(timeout_ms=100)
            sent = [
                await producer.send(target, record.value, key=record.key, headers=[*record.headers])
                for records in batches.values()
                for record in records
            ]
            await asyncio.gather(*sent)
            ends = {partition: records[-1].offset + 1 for partition, records in batches.items()}
            if ends:
                with contextlib.suppress(Exception):  # the partitions have moved: another instance writes them again
                    await consumer.commit(ends)


if __name__ == "__main__":
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(serve(*sys.argv[1:]))
