"""The load of a Python application on confluent-kafka: `python run_librdkafka.py produce|drain ASSIGNMENT`.

ASSIGNMENT is JSON: `servers`, `topic`, `records`, `config`, and for produce `record_size_bytes`. Prints `{"records": n,
"elapsed_s": seconds}`. Produce runs from before the first `produce()` to the end of `flush()`, with a delivery callback
that counts each record. Drain runs from the assignment of the partitions to the last record, and reads each value; the
time of joining the group is left out, as in this project's own metrics.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import confluent_kafka

if TYPE_CHECKING:
    from collections.abc import Mapping

_QUEUE_RECORDS = 1_000_000
"""With a smaller queue, `produce()` refuses records more often."""
_FULL_POLL_S = 0.01
_FLUSH_TIMEOUT_S = 120
_SILENCE_TIMEOUT_S = 30
_CHUNK_RECORDS = 1000


def produce(servers: str, topic: str, records: int, record_size_bytes: int, config: Mapping[str, Any]) -> float:
    """Return the seconds from the first `produce()` until each record is delivered."""
    failures: list[str] = []
    delivered = 0

    def on_delivery(error: Any, _: Any) -> None:
        nonlocal delivered
        if error is None:
            delivered += 1
        else:
            failures.append(str(error))

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "queue.buffering.max.messages": _QUEUE_RECORDS, **config}
    )
    value = b"x" * record_size_bytes
    started_s = time.perf_counter()
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, value, on_delivery=on_delivery)
                break
            except BufferError:  # bounded by librdkafka's own `message.timeout.ms`, which empties the queue
                producer.poll(_FULL_POLL_S)
        producer.poll(0)
    left = producer.flush(_FLUSH_TIMEOUT_S)
    elapsed_s = time.perf_counter() - started_s
    if failures or left or delivered != records:
        sys.exit(f"{delivered} of {records} records delivered, {left} on their way, failed: {failures[:3]}")
    return elapsed_s


def drain(servers: str, topic: str, records: int, config: Mapping[str, Any]) -> float:
    """Return the seconds from the assignment of the partitions until each record is read."""
    assigned_s: list[float] = []
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"{topic}-{time.time_ns()}",
            "auto.offset.reset": "earliest",
            **config,
        }
    )
    consumer.subscribe([topic], on_assign=lambda *_: assigned_s.append(time.perf_counter()))
    received = size_bytes = 0
    heard_s = time.perf_counter()
    try:
        while received < records:
            messages = consumer.consume(num_messages=_CHUNK_RECORDS, timeout=1.0)
            for message in messages:
                if message.error():
                    sys.exit(str(message.error()))
                size_bytes += len(message.value() or b"")
            received += len(messages)
            if messages:
                heard_s = time.perf_counter()
            elif time.perf_counter() - heard_s > _SILENCE_TIMEOUT_S:
                sys.exit(f"{received} of {records} records, then none for {_SILENCE_TIMEOUT_S} s")
        return time.perf_counter() - assigned_s[0]
    finally:
        consumer.close()


def main() -> None:
    """Run the load and print the time."""
    action, assignment = sys.argv[1:]
    arguments = json.loads(assignment)
    elapsed_s = produce(**arguments) if action == "produce" else drain(**arguments)
    print(json.dumps({"records": arguments["records"], "elapsed_s": elapsed_s}))


if __name__ == "__main__":
    main()
