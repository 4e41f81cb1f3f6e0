"""Encoding of record batches (format magic 2, with codecs and CRC) and produce requests, and decoding of responses.

Only versions 5 to 7 of the produce request (Kafka 1.0 and later) are supported. They have the same format:
https://kafka.apache.org/protocol#The_Messages_Produce
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import google_crc32c
from aiokafka import codec
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record import default_records
from aiokafka.record.util import calc_crc32c, encode_varint


class EncodedBatch:
    """Batch of encoded records that replaces aiokafka's `BatchBuilder`.

    The format is magic 2 (KIP-98; https://kafka.apache.org/documentation/#recordbatch).
    """

    _HEADER = struct.Struct(">qiibI")
    """Base offset, length, partition leader epoch, magic, CRC."""
    _REST = struct.Struct(">hiqqqhii")
    """Attributes, last offset delta, first and maximum timestamp, producer id, epoch, base sequence, count."""
    _BEFORE_LENGTH_ENDS = 12
    _TRANSACTIONAL = 0x10

    __slots__ = ("_attributes", "_body", "_built", "_count", "_origin", "_timestamp_ms")

    def __init__(
        self, body: bytes | bytearray, count: int, *, timestamp_ms: int, codec: int = 0, transactional: bool = False
    ) -> None:
        self._body = body
        self._count = count
        self._timestamp_ms = timestamp_ms
        self._attributes = codec | (self._TRANSACTIONAL if transactional else 0)
        self._origin = (-1, -1, -1)
        self._built: bytes | None = None

    def record_count(self) -> int:
        """Return the number of records."""
        return self._count

    def close(self) -> None:
        """Do nothing, because the batch is already closed."""

    def _set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        self._origin = (producer_id, producer_epoch, base_sequence)

    def _build(self) -> bytes:
        if self._built is None:
            attributes, body = self._attributes, self._body
            if codec := attributes & _CODEC_MASK:  # as in Kafka's own producer, even if this makes the batch larger
                body = _ENCODERS[codec](bytes(body))
            rest = self._REST.pack(
                attributes, self._count - 1, self._timestamp_ms, self._timestamp_ms, *self._origin, self._count
            )
            checked = rest + body
            length = self._HEADER.size - self._BEFORE_LENGTH_ENDS + len(checked)
            self._built = self._HEADER.pack(0, length, -1, 2, crc32c(checked)) + checked
            self._body = b""
        return self._built


_CODEC_MASK = 0x07

CODECS = {None: 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

DECODERS = {1: codec.gzip_decode, 2: codec.snappy_decode, 3: codec.lz4_decode, 4: codec.zstd_decode}

_ENCODERS = {1: codec.gzip_encode, 2: codec.snappy_encode, 3: codec.lz4_encode, 4: codec.zstd_encode}


crc32c: Callable[[bytes], int] = google_crc32c.value if google_crc32c.implementation == "c" else calc_crc32c
"""Function that returns the CRC-32C of a batch, using the CPU's instruction if available."""


_NO_LIMIT = (1 << 31) - 1

EncodedRecord = tuple[bytes | None, bytes, Sequence[tuple[str, bytes | None]]]
"""Key, value and headers."""


def encode_records(records: Iterable[EncodedRecord], batch_size: int = _NO_LIMIT) -> tuple[bytes, list[int]]:
    """Encode records as the body of one uncompressed batch: as many as fit, but at least one.

    Returns the body and the end position of each record in it. All records have the batch's timestamp.
    """
    builder = default_records.DefaultRecordBatchBuilder(
        2, 0, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1, batch_size=batch_size
    )
    ends: list[int] = []
    end = 0
    for key, value, headers in records:
        appended = builder.append(len(ends), 0, key, value, headers)
        if appended is None:
            break
        end += appended.size
        ends.append(end)
    return bytes(builder.build())[-end:], ends


def encode_content(record: EncodedRecord, *, last_header: str | None = None, last_bytes: int = 0) -> bytes:
    """Encode what follows a record's offset in a batch, so that only `join_records` is left to do when it is sent.

    With `last_header`, the record gets one more header, whose value of `last_bytes` is appended by `join_records`.
    """
    key, value, headers = record
    parts = [_NO_KEY if key is None else _varint(len(key)) + key, _varint(len(value)), value]
    parts.append(_varint(len(headers) + (last_header is not None)))
    for name, content in headers:
        parts += (_start_of_header(name, -1 if content is None else len(content)), content or b"")
    if last_header is not None:
        parts.append(_start_of_header(last_header, last_bytes))
    return b"".join(parts)


def join_records(contents: Sequence[bytes], endings: bytes = b"") -> bytes:
    """Return the body of one uncompressed batch, like `encode_records`, from the results of `encode_content`.

    `endings` are the values of all last headers, in the same order and of the same size.
    """
    size = len(endings) // max(1, len(contents))
    parts: list[bytes] = []
    for place, content in enumerate(contents):
        offset = _varint(place)
        length = len(_ATTRIBUTES_AND_TIMESTAMP) + len(offset) + len(content) + size
        ending = endings[place * size : (place + 1) * size]
        parts += (_varint(length), _ATTRIBUTES_AND_TIMESTAMP, offset, content, ending)
    return b"".join(parts)


@functools.lru_cache(maxsize=1 << 16)
def _varint(number: int) -> bytes:
    """Return a signed number in the variable-length format of records."""
    encoded = bytearray()
    encode_varint(number, encoded.append)
    return bytes(encoded)


@functools.lru_cache(maxsize=1 << 10)
def _start_of_header(name: str, size_bytes: int) -> bytes:
    encoded = name.encode()
    return _varint(len(encoded)) + encoded + _varint(size_bytes)


_NO_KEY = _varint(-1)
_ATTRIBUTES_AND_TIMESTAMP = bytes(1) + _varint(0)
"""A record has no attributes, and all records have the batch's timestamp."""

API_KEY = ProduceRequest.API_KEY
_OLDEST, _NEWEST = 5, 7

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_HEADER = struct.Struct(">ihhi")
"""Size of the rest, API key and version, correlation id. The client id follows."""
_FIELDS = struct.Struct(">hhii")
"""Transactional id (none), acks, timeout, number of topics."""
_PARTITION = struct.Struct(">ii")
"""Partition and size of its batch. The batch follows."""
_OUTCOME = struct.Struct(">ihqqq")
"""Partition, error code, offset, timestamp, first offset of the log."""


class Response(NamedTuple):
    """Response fields that aiokafka's sender reads."""

    topics: list[tuple[str, list[tuple[int, int, int, int, int]]]]
    API_VERSION: int = _NEWEST

    @classmethod
    def decode(cls, data: bytes) -> Response:
        """Decode a response, including its header (the correlation id)."""
        topics: list[tuple[str, list[tuple[int, int, int, int, int]]]] = []
        (count,), at = _INT32.unpack_from(data, _INT32.size), 2 * _INT32.size
        for _ in range(count):
            name = at + _INT16.size
            at = name + _INT16.unpack_from(data, at)[0]
            rows = at + _INT32.size
            topic, at = data[name:at].decode(), rows + _INT32.unpack_from(data, at)[0] * _OUTCOME.size
            topics.append((topic, list(_OUTCOME.iter_unpack(data[rows:at]))))
        return cls(topics)


def correlation_id_of(response: bytes) -> int:
    """Return a response's correlation id, which is the same as in its request."""
    return int.from_bytes(response[: _INT32.size], "big")


def version_for(supported: tuple[int, int]) -> int | None:
    """Return the version to use with a broker that supports a range of versions; None if no version is suitable."""
    oldest, newest = max(supported[0], _OLDEST), min(supported[1], _NEWEST)
    return newest if oldest <= newest else None


def encode_request(
    batches: Mapping[str, list[tuple[int, bytes]]],
    *,
    version: int,
    correlation_id: int,
    client_id: str,
    acks: int,
    timeout_ms: int,
) -> bytes:
    """Encode a request with its size and header; `batches` contains each topic's partitions and encoded batches."""
    parts = [b"", _FIELDS.pack(-1, acks, timeout_ms, len(batches))]
    for topic, partitions in batches.items():
        parts.append(_text(topic) + _INT32.pack(len(partitions)))
        for partition, batch in partitions:
            parts += (_PARTITION.pack(partition, len(batch)), batch)
    client = _text(client_id)
    size = _HEADER.size - _INT32.size + len(client) + sum(map(len, parts))
    parts[0] = _HEADER.pack(size, API_KEY, version, correlation_id) + client
    return b"".join(parts)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _INT16.pack(len(encoded)) + encoded
