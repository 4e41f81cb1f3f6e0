"""An application that passes records on: `python relay.py SERVERS SOURCE TARGET`.

Reads one topic and writes each record with its headers to another, in batches, as fast as librdkafka can. Prints
`ready` when it has its partitions, and ends after SIGTERM.
"""

from __future__ import annotations

import signal
import sys

import confluent_kafka

_CHUNK_RECORDS = 10_000
_POLL_TIMEOUT_S = 0.2
_FLUSH_TIMEOUT_S = 30
_FULL_TIMEOUT_S = 1.0


def main() -> None:
    """Pass records on until SIGTERM."""
    servers, source, target = sys.argv[1:]
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "linger.ms": 5, "acks": 1})
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": source, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([source], on_assign=lambda *_: print("ready", flush=True))
    try:
        while not ended:
            for message in consumer.consume(_CHUNK_RECORDS, _POLL_TIMEOUT_S):
                if message.error():
                    sys.exit(str(message.error()))
                _pass_on(producer, message, target)
            producer.poll(0)
    finally:
        producer.flush(_FLUSH_TIMEOUT_S)
        consumer.close()


def _pass_on(producer: confluent_kafka.Producer, message: confluent_kafka.Message, target: str) -> None:
    while True:
        try:
            producer.produce(target, message.value(), message.key(), headers=message.headers())
        except BufferError:  # the queue is full
            producer.poll(_FULL_TIMEOUT_S)
        else:
            return


if __name__ == "__main__":
    main()
