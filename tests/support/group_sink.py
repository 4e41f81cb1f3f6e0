"""An application that takes a known time for each record and commits at a known interval, by librdkafka.

Run as a script: `group_sink.py classic|consumer TOPIC GROUP MILLISECONDS_PER_RECORD COMMIT_INTERVAL_MS`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

POLL_S = 0.01


def serve(protocol: str, topic: str, group: str, delay_s: float, commit_s: float) -> None:
    """Take records one after the other until SIGTERM."""
    from confluent_kafka import Consumer  # noqa: PLC0415 - not needed by tests that start it

    consumer = Consumer(
        {
            "bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"],
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
        }
    )
    consumer.subscribe([topic])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        take(consumer, topic, delay_s, commit_s)
    finally:
        consumer.close()  # leaves the group


def take(consumer: Any, topic: str, delay_s: float, commit_s: float) -> None:
    """Take records, and commit what is done at an interval."""
    from confluent_kafka import TopicPartition  # noqa: PLC0415 - as above

    done: dict[int, int] = {}
    free_s = 0.0
    next_s = time.time() + commit_s
    while True:
        message = consumer.poll(POLL_S)
        if message is not None and message.error() is None:
            _, created_ms = message.timestamp()
            free_s = max(free_s, created_ms / 1000) + delay_s
            time.sleep(max(0.0, free_s - time.time()))
            done[message.partition()] = message.offset() + 1
        if done and time.time() >= next_s:
            offsets = [TopicPartition(topic, partition, offset) for partition, offset in done.items()]
            consumer.commit(offsets=offsets, asynchronous=False)
            done = {}
            next_s = time.time() + commit_s


if __name__ == "__main__":
    _, protocol_name, topic_name, group_name, delay_ms, commit_ms = sys.argv
    serve(protocol_name, topic_name, group_name, float(delay_ms) / 1000, float(commit_ms) / 1000)
