"""The service: `python service.py avro` reads Avro orders, and `python service.py protobuf` reads Protobuf orders.

It writes accepted orders as new Avro records, without the headers of the original records.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading

import shop
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

EXPRESS_FROM_CENTS = 50_000
INVALID = (SerializationError, ValueError, IndexError, EOFError)
"""Errors of the deserializers and of `accepted` for values that are not orders."""
LOG = logging.getLogger(__name__)
_MAX_RECORDS, _WAIT_S = 500, 0.01


def reader(kind):
    """Return the topic of this kind of orders, and a function that reads an order's value.

    The Avro deserializer gets the schema with which the order was written from the registry. It raises one of `INVALID`
    if the value does not match it.
    """
    if kind == "avro":
        return shop.AVRO_ORDERS, AvroDeserializer(shop.registry(), shop.ORDER_SCHEMA)
    # Without the registry: from Apicurio 3.3.3, this deserializer cannot fetch schemas that its serializer registered.
    read = ProtobufDeserializer(shop.OrderMessage, {})

    def read_fields(value, context):
        message = read(value, context)
        return {field.name: getattr(message, field.name) for field in message.DESCRIPTOR.fields}

    return shop.PROTOBUF_ORDERS, read_fields


def accepted(order):
    """Return the record for an order.

    Raises:
        ValueError: the order is empty.

    """
    if not order["id"] or order["quantity"] < 1:
        raise ValueError(f"an empty order: {order}")
    total_cents = order["quantity"] * order["price_cents"]
    return shop.accepted(order["id"], total_cents, "EXPRESS" if total_cents >= EXPRESS_FROM_CENTS else "STANDARD")


def run(kind, stopped):
    """Read, check and write orders until `stopped` is set."""
    topic, read = reader(kind)
    context = SerializationContext(topic, MessageField.VALUE)
    servers = {"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]}
    producer = Producer({**servers, "enable.idempotence": True, "linger.ms": 2})
    own = {"group.id": "acceptance", "auto.offset.reset": "earliest", "enable.auto.offset.store": False}
    consumer = Consumer({**servers, **own})
    consumer.subscribe([topic])
    try:
        while not stopped.is_set():
            messages = consumer.consume(_MAX_RECORDS, _WAIT_S)
            for message in messages:
                if error := message.error():
                    raise KafkaException(error)
                try:
                    value = accepted(read(message.value(), context))
                except INVALID as problem:
                    LOG.warning("left out offset %d of %d: %s", message.offset(), message.partition(), problem)
                else:
                    producer.produce(shop.ACCEPTED, value, key=message.key())
            producer.flush()
            for message in messages:
                consumer.store_offsets(message)  # committed in the background
    finally:
        consumer.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    run(sys.argv[1], ended)
