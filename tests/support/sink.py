"""An application whose only observable is its consumer group: run as a script.

It takes a known time for each record, one after the other, from when the record was sent or its predecessor was done:
so delays of the machine do not add up. It commits at a known interval.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import aiokafka
from aiokafka.structs import TopicPartition

START_TIMEOUT_S = 300


async def run(given: argparse.Namespace) -> None:
    """Process records until SIGTERM, then commit what is done and leave the group."""
    consumer = aiokafka.AIOKafkaConsumer(
        given.topic,
        bootstrap_servers=given.bootstrap_servers,
        group_id=given.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    done: dict[TopicPartition, int] = {}
    this = asyncio.current_task()
    assert this is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    async with consumer:
        while not consumer.assignment():
            await asyncio.sleep(0.01)
        for partition in consumer.assignment():
            done[partition] = await consumer.position(partition)
        if given.commit_ms:
            await consumer.commit(done)
            committing = asyncio.create_task(commit(consumer, done, given.commit_ms / 1000))
        print("ready", flush=True)  # noqa: T201 - the test waits for it
        free_s = time.time()
        try:
            async for record in consumer:
                free_s = max(free_s, record.timestamp / 1000) + given.delay_ms / 1000
                await asyncio.sleep(max(0.0, free_s - time.time()))
                done[TopicPartition(record.topic, record.partition)] = record.offset + 1
        finally:
            if given.commit_ms:
                committing.cancel()
                await consumer.commit(done)


async def commit(consumer: aiokafka.AIOKafkaConsumer, done: dict[TopicPartition, int], interval_s: float) -> None:
    """Commit what is done, at instants that do not drift."""
    begun_s = time.monotonic()
    for number in itertools.count(1):
        await asyncio.sleep(max(0.0, begun_s + number * interval_s - time.monotonic()))
        await consumer.commit(dict(done))


@contextmanager
def running_sink(
    servers: str, topic: str, group: str, *, delay_ms: float = 20, commit_ms: float = 250
) -> Iterator[subprocess.Popen[str]]:
    """Run it until the block ends; it has joined its group."""
    options = {
        "bootstrap-servers": servers,
        "topic": topic,
        "group": group,
        "delay-ms": delay_ms,
        "commit-ms": commit_ms,
    }
    command = [sys.executable, __file__, *(f"--{name}={value}" for name, value in options.items())]
    with running_when_ready(command, START_TIMEOUT_S) as process:
        yield process


@contextmanager
def running_when_ready(command: Sequence[str], patience_s: float) -> Iterator[subprocess.Popen[str]]:
    """Run a program until the block ends; it has printed "ready"."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        timer = threading.Timer(patience_s, process.kill)
        timer.start()
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            timer.cancel()
            yield process
        finally:
            timer.cancel()
            process.terminate()
            process.send_signal(signal.SIGCONT)  # a suspended one ends only after that
            process.wait(patience_s)


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    for name in ("--bootstrap-servers", "--topic", "--group"):
        options.add_argument(name, required=True)
    for name in ("--delay-ms", "--commit-ms"):
        options.add_argument(name, type=float, required=True)
    with suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(run(options.parse_args()))
