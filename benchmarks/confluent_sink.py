"""A sink on confluent-kafka that works as `tests/support/sink.py` does, with a known time for each record."""

from __future__ import annotations

import argparse
import signal
import threading
import time

from confluent_kafka import Consumer, TopicPartition

_POLL_S = 0.02


def main() -> None:
    """Process records until SIGTERM, then commit what is done and leave the group."""
    options = argparse.ArgumentParser(description=__doc__)
    for name in ("--bootstrap-servers", "--topic", "--group"):
        options.add_argument(name, required=True)
    for name in ("--delay-ms", "--commit-ms"):
        options.add_argument(name, type=float, required=True)
    given = options.parse_args()
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    consumer = Consumer(
        {
            "bootstrap.servers": given.bootstrap_servers,
            "group.id": given.group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    done: dict[int, int] = {}

    def commit(*, wait: bool = False) -> None:
        offsets = [TopicPartition(given.topic, partition, offset) for partition, offset in done.items()]
        if offsets:
            consumer.commit(offsets=offsets, asynchronous=not wait)

    def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
        found = consumer.committed(partitions, timeout=10)
        done.update({each.partition: max(0, each.offset) for each in found})
        commit(wait=True)

    consumer.subscribe([given.topic], on_assign=assigned)
    free_s, due_s = time.time(), time.monotonic()
    try:
        while not stopped.is_set():
            message = consumer.poll(_POLL_S)
            if message is not None and message.error() is None:
                free_s = max(free_s, message.timestamp()[1] / 1000) + given.delay_ms / 1000
                time.sleep(max(0.0, free_s - time.time()))
                done[message.partition()] = message.offset() + 1
            if time.monotonic() >= due_s:
                commit()
                due_s += given.commit_ms / 1000
    finally:
        commit(wait=True)
        consumer.close()


if __name__ == "__main__":
    main()
