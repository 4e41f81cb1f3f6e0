"""The load: orders from the shop's own serializers, and what identifies an order in each topic.

Worker processes import these functions by name.
"""

from __future__ import annotations

import io
import json

import fastavro
import shop

from pytest_kafkaperf import Record

_PREFIX_BYTES = 5
"""Size of the prefix that serializers write before the value: a zero byte and the schema's id."""
_MESSAGE = b"\x00"
"""Protobuf also has the position of the message in its schema: here, it is the first one."""
_ORDER = fastavro.parse_schema(json.loads(shop.ORDER_SCHEMA))
_ACCEPTED = fastavro.parse_schema(json.loads(shop.ACCEPTED_SCHEMA))


def make_avro_order(index, random):
    """Return the order with this index as an Avro record, with the customer as its key."""
    order = _order(index, random)
    return Record(key=order["customer"], value=shop.avro_order(order))


def make_protobuf_order(index, random):
    """Return the order with this index as a Protobuf record."""
    return shop.protobuf_order(_order(index, random))


def _order(index, random):
    return {
        "id": f"o-{index}",
        "customer": f"c-{random.randrange(5_000)}",
        "sku": f"s-{random.randrange(100_000):05}",
        "quantity": random.randint(1, 9),
        "price_cents": random.randint(100, 20_000),
        "note": "please ring twice" if random.random() < 0.1 else None,
    }


def id_of_avro_order(record):
    """Return the id of an order from `orders-avro`."""
    return _read_avro(record, _ORDER)["id"]


def id_of_protobuf_order(record):
    """Return the id of an order from `orders-protobuf`."""
    return shop.OrderMessage.FromString(record.value[_PREFIX_BYTES:].removeprefix(_MESSAGE)).id


def id_of_accepted_order(record):
    """Return the id of the order that a record from `orders-accepted` belongs to."""
    return _read_avro(record, _ACCEPTED)["order_id"]


def _read_avro(record, schema):
    return fastavro.schemaless_reader(io.BytesIO(record.value[_PREFIX_BYTES:]), schema)
