"""The sink: stores every order before it commits the offset, and stores it only once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping

from confluent_kafka import Consumer, KafkaException, Message

from orders_sink.store import Order, Store

SOURCE, GROUP = "orders", "orders-sink"
LOG = logging.getLogger(__name__)
_BATCH = 100
"""Maximum number of orders in a transaction."""
_WAIT_S = 0.1
"""Time to wait for more orders."""


def run(store: Store, connection: Mapping[str, str], stopped: threading.Event) -> None:
    """Read and store orders until `stopped` is set; then finish and commit what was read."""
    own = {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**connection, **own})
    consumer.subscribe([SOURCE])
    try:
        while not stopped.is_set():
            messages = consumer.consume(_BATCH, _WAIT_S)
            if messages:
                store.add(orders(messages))
                commit(consumer)
    finally:
        consumer.close()


def orders(messages: Iterable[Message]) -> Iterator[Order]:
    """Read messages, and skip those that are not orders.

    Raises:
        KafkaException: Kafka reports an error instead of a message.

    """
    for message in messages:
        if error := message.error():
            raise KafkaException(error)
        partition, position = message.partition(), message.offset()
        try:
            yield Order.read(message.value() or b"", partition=partition, position=position)
        except ValueError as problem:
            LOG.warning("left out offset %d of partition %d: %s", position, partition, problem)


def commit(consumer: Consumer) -> None:
    """Commit everything that was read. If this fails, orders are read again, but not stored again."""
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        LOG.warning("could not commit, trying again with the next orders: %s", error)
