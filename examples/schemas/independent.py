"""An independent reader of a topic: it knows only the records and the registry, not the shop's schemas or serializers.

It fetches each schema by the id in the record, and fails if a record does not match its schema exactly.
"""

from __future__ import annotations

import base64
import io
import json
import time
import urllib.request

import fastavro
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_TIMEOUT_S = 30


def read_topic(bootstrap_servers, topic, registry_url):
    """Return the decoded values of all records in a topic.

    Raises:
        ValueError: a value does not match its schema.
        TimeoutError: the end of the topic was not reached in time.

    """
    deserializer = Deserializer(registry_url)
    return [deserializer.read(value) for value in _values(bootstrap_servers, topic)]


class Deserializer:
    """Decoder of Avro and Protobuf values, which have their schema's id in front of them."""

    def __init__(self, registry_url):
        self._url = registry_url
        self._readers = {}

    def read(self, value):
        """Return the fields of a value."""
        if value[0] != 0:
            raise ValueError(f"no schema id in {value!r}")
        schema_id = int.from_bytes(value[1:5], "big")
        if schema_id not in self._readers:
            self._readers[schema_id] = self._reader(schema_id)
        return self._readers[schema_id](value[5:])

    def _reader(self, schema_id):
        address = f"{self._url}/schemas/ids/{schema_id}"
        with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as response:  # noqa: S310 - the registry's
            found = json.load(response)
        if found.get("schemaType", "AVRO") == "AVRO":
            return _avro_reader(json.loads(found["schema"]))
        return _protobuf_reader(FileDescriptorProto.FromString(base64.b64decode(found["schema"])))


def _avro_reader(schema):
    parsed = fastavro.parse_schema(schema)

    def read(content):
        stream = io.BytesIO(content)
        fields = fastavro.schemaless_reader(stream, parsed)
        if rest := stream.read():
            raise ValueError(f"{len(rest)} bytes after the value: {content!r}")
        fastavro.validate(fields, parsed)
        return fields

    return read


def _protobuf_reader(file):
    pool = DescriptorPool()
    pool.Add(file)
    message_class = GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.{file.message_type[0].name}"))

    def read(content):
        if content[0] != 0:
            raise ValueError(f"not the first message of the schema: {content!r}")
        message = message_class.FromString(content[1:])
        if message.SerializeToString() != content[1:]:
            raise ValueError(f"fields that are not in the schema: {content!r}")
        return {field.name: getattr(message, field.name) for field in message.DESCRIPTOR.fields}

    return read


def _values(bootstrap_servers, topic):
    """Return the values of all records between the first and the last offset of each partition."""
    own = {"group.id": "independent", "enable.auto.commit": False, "enable.partition.eof": False}
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, **own})
    try:
        found = consumer.list_topics(topic, _TIMEOUT_S).topics[topic]
        partitions = [TopicPartition(topic, number, OFFSET_BEGINNING) for number in found.partitions]
        offsets = [consumer.get_watermark_offsets(partition, _TIMEOUT_S) for partition in partitions]
        count = sum(end - first for first, end in offsets)
        consumer.assign(partitions)
        values, deadline = [], time.monotonic() + _TIMEOUT_S
        while len(values) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"read only {len(values)} of {count} records of {topic} within {_TIMEOUT_S} s")
            for message in consumer.consume(1000, 0.1):
                if error := message.error():
                    raise KafkaException(error)
                values.append(message.value())
        return values
    finally:
        consumer.close()
