"""The shop's schemas, and its serializers, which the service and the perf tests share."""

from __future__ import annotations

import functools
import json
import os

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

AVRO_ORDERS, PROTOBUF_ORDERS, ACCEPTED = "orders-avro", "orders-protobuf", "orders-accepted"
"""Names of the topics."""

ORDER_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "customer", "type": "string"},
            {"name": "sku", "type": "string"},
            {"name": "quantity", "type": "int"},
            {"name": "price_cents", "type": "long"},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)

ACCEPTED_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Accepted",
        "namespace": "shop",
        "fields": [
            {"name": "order_id", "type": "string"},
            {"name": "total_cents", "type": "long"},
            {"name": "priority", "type": {"type": "enum", "name": "Priority", "symbols": ["STANDARD", "EXPRESS"]}},
        ],
    }
)


def _order_message():
    """Return the class that protoc would generate. Generated code works only with some versions of protobuf."""
    file = FileDescriptorProto(name="shop/order.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    text, int32, int64 = (getattr(FieldDescriptorProto, f"TYPE_{name}") for name in ("STRING", "INT32", "INT64"))
    fields = {"id": text, "customer": text, "sku": text, "quantity": int32, "price_cents": int64, "note": text}
    for number, (name, kind) in enumerate(fields.items(), start=1):
        message.field.add(name=name, number=number, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL)
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


OrderMessage = _order_message()


@functools.cache
def registry() -> SchemaRegistryClient:
    """Return this process's client of the schema registry."""
    return SchemaRegistryClient({"url": os.environ["SCHEMA_REGISTRY_URL"]})


@functools.cache
def _avro_serializer(schema: str) -> AvroSerializer:
    return AvroSerializer(registry(), schema)


@functools.cache
def _protobuf_serializer() -> ProtobufSerializer:
    return ProtobufSerializer(OrderMessage, registry())


def avro_order(order: dict) -> bytes:
    """Serialize an order for the topic `orders-avro`."""
    return _avro_serializer(ORDER_SCHEMA)(order, SerializationContext(AVRO_ORDERS, MessageField.VALUE))


def protobuf_order(order: dict) -> bytes:
    """Serialize an order for the topic `orders-protobuf`."""
    return _protobuf_serializer()(OrderMessage(**order), SerializationContext(PROTOBUF_ORDERS, MessageField.VALUE))


def accepted(order_id: str, total_cents: int, priority: str) -> bytes:
    """Serialize an accepted order for the topic `orders-accepted`."""
    value = {"order_id": order_id, "total_cents": total_cents, "priority": priority}
    return _avro_serializer(ACCEPTED_SCHEMA)(value, SerializationContext(ACCEPTED, MessageField.VALUE))
