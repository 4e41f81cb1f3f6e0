"""An application between two topics that can be slow or hang, lose one record or all, or write one again: a script.

It passes headers on, or wraps what it has read and drops them. For the tests of `output_topic`.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import itertools
import json
import signal
from typing import Any

import aiokafka

POLL_MS = 20


def unwrapped(record: Any) -> bytes | None:
    """The head of the value that went in, of one that was wrapped: a function as a test gives it."""
    if not record.value.startswith(b"{"):
        return None
    return base64.b64decode(json.loads(record.value)["original"])[:16]


def wrong_type(record: Any) -> Any:
    """A function that gives no bytes."""
    return len(record.value)


def failing(record: Any) -> bytes:
    """A function with a mistake in it."""
    found: bytes = record.headers[7]
    return found


class Relay:
    """Passes each record on, at the same time as the others."""

    def __init__(self, given: argparse.Namespace, producer: aiokafka.AIOKafkaProducer) -> None:
        self._given = given
        self._producer = producer
        self._numbers = itertools.count(1)

    async def work(self, record: Any) -> None:
        given, number = self._given, next(self._numbers)
        if given.hang_after is not None and number > given.hang_after:
            await asyncio.Event().wait()
        if given.delay_ms:
            await asyncio.sleep(given.delay_ms / 1000)
        if given.refuse or number == given.lose:
            return
        value, headers = record.value, list(record.headers)
        key = None
        if given.wrap:
            value, headers = json.dumps({"original": base64.b64encode(value).decode()}).encode(), []
        if given.rebuild:
            named = json.loads(value)["id"]
            value, headers, key = json.dumps({"ref": named}).encode(), [], named.encode()
        target = given.dead_letters if number == given.reject else given.target
        for _ in range(given.copies + (number == given.repeat)):
            await self._producer.send_and_wait(target, value, headers=headers, key=key)


async def run(given: argparse.Namespace) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    servers = given.bootstrap_servers
    consumer = aiokafka.AIOKafkaConsumer(
        given.source, bootstrap_servers=servers, auto_offset_reset="earliest", group_id=given.group
    )
    async with consumer, aiokafka.AIOKafkaProducer(bootstrap_servers=servers) as producer:
        relay, tasks = Relay(given, producer), set()
        print("ready", flush=True)  # noqa: T201 - the test waits for it
        while not stopped.is_set():
            for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
                for record in records:
                    task = asyncio.create_task(relay.work(record))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    for name in ("--bootstrap-servers", "--source", "--target"):
        options.add_argument(name, required=True)
    options.add_argument("--delay-ms", type=float, default=0)
    options.add_argument("--hang-after", type=int, help="how many records, of which each comes out")
    options.add_argument("--lose", type=int, help="which record, from 1")
    options.add_argument("--repeat", type=int, help="which record, from 1")
    options.add_argument("--wrap", action="store_true")
    options.add_argument("--rebuild", action="store_true", help="write new records, with the id in another field")
    options.add_argument("--copies", type=int, default=1, help="output records for each input record")
    options.add_argument("--reject", type=int, help="which record goes to the dead letters, from 1")
    options.add_argument("--dead-letters", help="topic")
    options.add_argument("--refuse", action="store_true", help="write nothing")
    options.add_argument("--group", help="consumer group")
    asyncio.run(run(options.parse_args()))
