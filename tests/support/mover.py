"""An application under test: it moves records, with their headers, from one topic to another.

Users' projects get a copy of this file. Run it as a program with the servers, or await `moving` on a loop.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

SOURCE, TARGET = "moved-in", "moved-out"
_PARTITIONS = 2


class Mover:
    """Moves records in a task of the running loop, from `async with` to its end."""

    def __init__(self, servers: str, **client_config: Any) -> None:
        self._config = {**client_config, "bootstrap_servers": servers}
        self.moved = 0

    async def __aenter__(self) -> Self:
        admin = AIOKafkaAdminClient(**self._config)
        await admin.start()
        await admin.create_topics([NewTopic(name, _PARTITIONS, 1) for name in (SOURCE, TARGET)])
        await admin.close()
        self._consumer = AIOKafkaConsumer(**self._config)
        self._producer = AIOKafkaProducer(**self._config)
        await self._consumer.start()
        await self._producer.start()
        self._consumer.assign([TopicPartition(SOURCE, number) for number in range(_PARTITIONS)])
        await self._consumer.seek_to_end()
        self._task = asyncio.create_task(self._move())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._consumer.stop()
        await self._producer.stop()

    async def _move(self) -> None:
        async for record in self._consumer:
            await self._producer.send(TARGET, record.value, key=record.key, headers=[*record.headers])
            self.moved += 1


async def _serve(servers: str) -> None:
    async with Mover(servers):
        print("ready", flush=True)  # noqa: T201 - the fixture waits for it
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
