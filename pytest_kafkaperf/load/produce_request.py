"""Produce requests and their responses, encoded and decoded in a few calls; aiokafka takes several for each field.

Only versions 5 to 7 (Kafka 1.0 and later), which are alike: https://kafka.apache.org/protocol#The_Messages_Produce
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from aiokafka.protocol.produce import ProduceRequest

API_KEY = ProduceRequest.API_KEY
_OLDEST, _NEWEST = 5, 7

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_HEADER = struct.Struct(">ihhi")
"""Size of the rest, API key and version, correlation id; the client id follows."""
_FIELDS = struct.Struct(">hhii")
"""Transactional id (none), acks, timeout, number of topics."""
_PARTITION = struct.Struct(">ii")
"""Partition and size of its batch; the batch follows."""
_OUTCOME = struct.Struct(">ihqqq")
"""Partition, error code, offset, timestamp, first offset of the log."""


class Response(NamedTuple):
    """The fields of a response that aiokafka's sender reads."""

    topics: list[tuple[str, list[tuple[int, int, int, int, int]]]]
    API_VERSION: int = _NEWEST

    @classmethod
    def decode(cls, data: bytes) -> Response:
        """Decode a response with its header, the correlation id."""
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
    """Return the correlation id of a response, which is that of its request."""
    return int.from_bytes(response[: _INT32.size], "big")


def version_for(supported: tuple[int, int]) -> int | None:
    """Return the version for a broker that supports those from the first to the second; None if none fits."""
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
    """Encode a request with its size and its header; `batches` has partitions and encoded batches of each topic."""
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
