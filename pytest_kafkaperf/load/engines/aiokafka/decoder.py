"""Vectorized decoding of fetched record batches.

Measurements need only the tag at the start of each value, and the sizes of the key and the value. The decoder still
reads every byte, because it always checks a batch's CRC, which covers all records.

There are two ways to decode a batch. If all records have the same layout, they are equidistant. The decoder then uses
NumPy to compare every byte outside timestamps, keys and values with that layout, and to extract all tags at once.
Otherwise (mixed sizes, null values, offsets removed by compaction), even if only a single byte differs, the batch is
decoded record by record with aiokafka's own parser.

The format is magic 2 (https://kafka.apache.org/documentation/#messageformat). The decoder uses aiokafka's codecs, its
CRC-32C and varint functions, and `DefaultRecordBatch`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException, UnsupportedCodecError, UnsupportedForMessageFormatError
from aiokafka.record import control_record, default_records
from aiokafka.record.util import decode_varint, encode_varint

from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.load.clock import now_ns
from pytest_kafkaperf.load.engines.aiokafka.encoder import DECODERS, crc32c
from pytest_kafkaperf.load.generation import Identifier, description_of
from pytest_kafkaperf.load.identity import Int64s, Nonce, ReceivedBatch
from pytest_kafkaperf.scenarios.identify import HEADER, Identity, name_of
from pytest_kafkaperf.scenarios.scenario import TAG_BYTES, Scenario

_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH = struct.Struct(">i")
_LENGTH_AT = struct.calcsize(">q")
_AFTER_LENGTH = struct.calcsize(">qi")
_MAGIC_AT = struct.calcsize(">qii")
_ATTRIBUTES_AT = struct.calcsize(">qiibI")

_MAGIC = 2

_CODEC_BITS, _APPEND_TIME_BIT, _TRANSACTIONAL_BIT, _CONTROL_BIT = 0x07, 0x08, 0x10, 0x20

_DELTA_STOPS = (1 << 6, 1 << 13, 1 << 20)
"""Offset deltas below these limits take 1, 2 and 3 bytes."""
_TAG = np.dtype(">i8")

TagOf = Callable[[Any], bytes | None]
"""Function that returns the tag of a record written by an application."""


class FetchedBatch(NamedTuple):
    """Complete batch with a valid CRC. Only its header is decoded, not its records."""

    base_offset: int
    last_offset_delta: int
    attributes: int
    producer_id: int
    """The producer's id; -1 if the producer is neither idempotent nor transactional."""
    record_count: int
    encoded: memoryview
    """Encoded header and records."""
    arrived_ns: int
    """Time at which the response arrived."""

    @property
    def next_offset(self) -> int:
        """Next offset to read. Compaction can remove any record, but does not change this offset."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def is_transactional(self) -> bool:
        """True if the records belong to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL_BIT)

    @property
    def is_control_batch(self) -> bool:
        """True if the batch is a transaction marker instead of records."""
        return bool(self.attributes & _CONTROL_BIT)

    def aborts(self) -> bool:
        """Return True if the batch marks an aborted transaction."""
        return self.is_control_batch and any(
            control_record.ControlRecord.parse(marker.key) == control_record.ABORT_MARKER
            for marker in default_records.DefaultRecordBatch(self.encoded)
        )

    def created_ms(self, fetch_offset: int, since_ms: float) -> list[int]:
        """Return the producer's timestamps (CreateTime), starting at the given offset and time."""
        is_new = _HEADER.unpack_from(self.encoded)[8] >= since_ms  # the batch's largest timestamp
        stamped = is_new and not self.attributes & _APPEND_TIME_BIT
        records = default_records.DefaultRecordBatch(self.uncompressed()) if stamped else ()
        return [one.timestamp for one in records if one.offset >= fetch_offset and one.timestamp >= since_ms]

    def received(self, fetch_offset: int, tag_of: TagOf | None = None) -> ReceivedBatch | None:
        """Decode the records from `fetch_offset` on; return None if there are none.

        `tag_of` returns the tag of a record written by an application.

        Raises:
            CorruptRecordException: the records do not match the header, although the CRC is valid.
            UnsupportedCodecError: aiokafka does not support the codec.

        """
        if self.is_control_batch:
            return None
        plain = self.uncompressed()
        if tag_of is not None:
            return _one_by_one(self, plain, fetch_offset, tag_of)
        uniform = uniform_tags(plain, self.record_count)
        if uniform is None:
            return _one_by_one(self, plain, fetch_offset)
        tags, record_bytes = uniform
        skipped = max(0, fetch_offset - self.base_offset)
        count = self.record_count - skipped
        if count <= 0:
            return None
        return ReceivedBatch(self.base_offset + skipped, count, tags[skipped:], count * record_bytes, self)

    def identified(self, fetch_offset: int, identifier: Identifier) -> ReceivedBatch | None:
        """Decode the records from `fetch_offset` on, with their identities; return None if there are none.

        The rows of `tags` contain each identified record's hash and the time at which it arrived.

        Raises:
            LoadError: the user's function failed.

        """
        if self.is_control_batch:
            return None
        hashes, count, size_bytes, first_offset = [], 0, 0, None
        for record in default_records.DefaultRecordBatch(self.uncompressed()):
            if record.offset >= fetch_offset:
                first_offset = record.offset if first_offset is None else first_offset
                count += 1
                size_bytes += len(record.key or b"") + len(record.value or b"")
                found = identifier.hash_of(record)
                if found is not None:
                    hashes.append(found)
        if first_offset is None:
            return None
        tags = np.empty((len(hashes), 2), dtype=np.int64)
        tags[:, 0], tags[:, 1] = hashes, self.arrived_ns
        return ReceivedBatch(first_offset, count, tags, size_bytes, self)

    def describe_first(self) -> str:
        """Describe the first record without its content (see `generation.description_of`)."""
        return description_of(next(iter(default_records.DefaultRecordBatch(self.uncompressed()))))

    def uncompressed(self) -> memoryview:
        """Return the uncompressed records."""
        used = self.attributes & _CODEC_BITS
        if not used:
            return self.encoded
        if used not in DECODERS:
            raise UnsupportedCodecError(f"unknown codec {used} at offset {self.base_offset}")
        header = bytearray(self.encoded[: _HEADER.size])
        header[_ATTRIBUTES_AT + 1] ^= used
        return memoryview(bytes(header) + DECODERS[used](self.encoded[_HEADER.size :].tobytes()))


class FetchedBatches:
    """Batches for one partition in a broker's fetch response.

    A fetch response is cut off at its size limit. As Kafka's protocol requires, an incomplete batch at the end is
    ignored. The class takes the place of aiokafka's `MemoryRecords` and keeps the names that aiokafka's fetcher uses.
    """

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._at = 0
        self._arrived_ns = now_ns()

    def size_in_bytes(self) -> int:
        """Return the response size, including an incomplete batch."""
        return len(self._data)

    def has_next(self) -> bool:
        """Return True if a complete batch follows."""
        return self._end() is not None

    def checked(self, partition: object) -> Iterator[FetchedBatch]:
        """Yield each remaining complete batch after checking its CRC. Errors show the partition.

        Raises:
            CorruptRecordException: a batch is damaged.
            UnsupportedForMessageFormatError: a batch is in a format older than Kafka 0.11.

        """
        while (end := self._end()) is not None:
            encoded = self._data[self._at : end]
            self._at = end
            yield _checked(encoded, partition, self._arrived_ns)

    def _end(self) -> int | None:
        size = len(self._data)
        if self._at + _AFTER_LENGTH > size:
            return None
        length: int = _LENGTH.unpack_from(self._data, self._at + _LENGTH_AT)[0]
        # A batch with a negative length is treated as empty, not as incomplete, so that `_checked` rejects it.
        end = self._at + _AFTER_LENGTH + max(0, length)
        return end if end <= size else None


def _checked(encoded: memoryview, partition: object, arrived_ns: int) -> FetchedBatch:
    size = len(encoded)
    if size > _MAGIC_AT and encoded[_MAGIC_AT] != _MAGIC:
        raise UnsupportedForMessageFormatError(
            f"message format {encoded[_MAGIC_AT]} in {_location(encoded, partition)}: must be format {_MAGIC} (Kafka "
            "0.11 or newer); use newer brokers"
        )
    if size < _HEADER.size:
        raise CorruptRecordException(
            f"a batch of {size} bytes in {_location(encoded, partition)} is shorter than its header"
        )
    base, _, _, _, crc, attributes, last_delta, _, _, producer_id, _, _, count = _HEADER.unpack_from(encoded)
    if crc32c(bytes(encoded[_ATTRIBUTES_AT:])) != crc:
        raise CorruptRecordException(f"wrong CRC in {_location(encoded, partition)}")
    return FetchedBatch(base, last_delta, attributes, producer_id, count, encoded, arrived_ns)


def _location(encoded: memoryview, partition: object) -> str:
    return f"{partition} at offset {int.from_bytes(encoded[:_LENGTH_AT], 'big')}"


def _one_by_one(
    source: FetchedBatch, plain: memoryview, fetch_offset: int, tag_of: TagOf = lambda record: record.value
) -> ReceivedBatch | None:
    """Decode any batch slowly, record by record."""
    first_offset, heads, size_bytes = None, [], 0
    for record in default_records.DefaultRecordBatch(plain):
        if record.offset >= fetch_offset:
            heads.append((tag_of(record) or b"")[:TAG_BYTES])
            size_bytes += len(record.key or b"") + len(record.value or b"")
            if first_offset is None:
                first_offset = record.offset
    if first_offset is None:
        return None
    tags = b"".join(head for head in heads if len(head) == TAG_BYTES)
    found = np.frombuffer(tags, _TAG).astype(np.int64).reshape(-1, 2)
    return ReceivedBatch(first_offset, len(heads), found, size_bytes, source)


def uniform_tags(plain: memoryview, count: int) -> tuple[Int64s, int] | None:
    """Return all tags, decoded at once, and the key and value size per record; None if the records differ in layout.

    The comparison includes offsets, so a uniform batch has no gaps.
    """
    first = next(iter(default_records.DefaultRecordBatch(plain)), None)
    if first is None or first.value is None or not TAG_BYTES <= len(first.value) <= len(plain) // count:
        return None
    key_bytes, value_bytes = None if first.key is None else len(first.key), len(first.value)
    first_bytes, after_length = decode_varint(plain, _HEADER.size)
    # Later records are longer by at most three bytes; any other total size means that the layouts differ.
    if not 0 <= len(plain) - _HEADER.size - count * (after_length - _HEADER.size + first_bytes) <= 3 * count:
        return None
    spans, tail_bytes = record_layout(key_bytes, value_bytes, first_bytes, (count - 1).bit_length())
    tail = bytes(plain[after_length + first_bytes - tail_bytes : after_length + first_bytes])
    tags = np.empty((count, 2), dtype=np.int64)
    at, done = _HEADER.size, 0
    for span in spans:
        rows = min(count, span.stop) - done
        if at + rows * span.stride > len(plain) or not span.fits(plain, at, rows, tail):
            return None
        tags[done : done + rows] = np.ndarray((rows, 2), _TAG, plain, at + span.head.itemsize, (span.stride, 8))
        at, done = at + rows * span.stride, done + rows
    return (tags, (key_bytes or 0) + value_bytes) if (at, done) == (len(plain), count) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """Consecutive, equidistant records in a uniform batch. Their offset deltas have the same length."""

    stop: int
    """Index of the first record after the span."""
    stride: int
    """Distance from one record to the next, in bytes."""
    head: np.dtype[Any]
    """Bytes before a value, as one field."""
    mask: npt.NDArray[np.uint8]
    """Bits of all heads that the layout prescribes."""
    prescribed: bytes

    def fits(self, plain: memoryview, at: int, rows: int, tail: bytes) -> bool:
        """Return True if the records from `at` on have this layout; `tail` follows each value."""
        heads = np.ndarray(rows, self.head, plain, at, self.stride).tobytes()
        if (np.frombuffer(heads, np.uint8) & self.mask[: len(heads)]).tobytes() != self.prescribed[: len(heads)]:
            return False
        tails = np.ndarray(rows, f"V{len(tail)}", plain, at + self.stride - len(tail), self.stride)
        return tails.tobytes() == tail * rows


@lru_cache(maxsize=64)
def record_layout(
    key_bytes: int | None, value_bytes: int, first_bytes: int, count_bits: int
) -> tuple[tuple[_Span, ...], int]:
    """Return the spans of up to `2**count_bits` records; the first record takes `first_bytes` after its length field.

    Also returns the number of bytes after each value.
    """
    key_length, value_length = _varint(-1 if key_bytes is None else key_bytes), _varint(value_bytes)
    spans: list[_Span] = []
    for delta_bytes, delta_stop in enumerate(_DELTA_STOPS, start=1):
        start, stop = spans[-1].stop if spans else 0, min(delta_stop, 1 << count_bits)
        if start == stop:
            break
        body_bytes = first_bytes + delta_bytes - 1
        length = _varint(body_bytes)
        fields = (  # contents, and the mask of the prescribed bits
            (length, 0xFF),
            (b"\0", 0xFF),  # attributes
            (b"\0", 0x80),  # any one-byte timestamp delta
            (bytes(delta_bytes), 0xFF),
            (key_length, 0xFF),
            (bytes(key_bytes or 0), 0),
            (value_length, 0xFF),
        )
        row = b"".join(content for content, _ in fields)
        mask = b"".join(bytes([bits]) * len(content) for content, bits in fields)
        heads = np.tile(np.frombuffer(row, np.uint8), (stop - start, 1))
        heads[:, len(length) + 2 : len(length) + 2 + delta_bytes] = _deltas(start, stop, delta_bytes)
        spans.append(
            _Span(
                stop=stop,
                stride=len(length) + body_bytes,
                head=np.dtype(f"V{len(row)}"),
                mask=np.tile(np.frombuffer(mask, np.uint8), stop - start),
                prescribed=heads.tobytes(),
            )
        )
    return tuple(spans), first_bytes - 3 - len(key_length) - (key_bytes or 0) - len(value_length) - value_bytes


def _deltas(start: int, stop: int, width: int) -> npt.NDArray[np.int64]:
    """Return the numbers from `start` to `stop` as varints, one per row, each `width` bytes long."""
    shifts = 7 * np.arange(width)
    continued = np.where(np.arange(width) < width - 1, 0x80, 0)
    return ((2 * np.arange(start, stop)[:, np.newaxis] >> shifts) & 0x7F) | continued


def _varint(value: int) -> bytes:
    encoded = bytearray()
    encode_varint(value, encoded.append)
    return bytes(encoded)


class BatchedRecords(fetcher.PartitionRecords):  # type: ignore[misc]
    """Data fetched from a partition, decoded into one `ReceivedBatch` per batch; it replaces aiokafka's own class."""

    tag_of: TagOf | None = None
    identifier: Identifier | None = None
    gaps: ClassVar[int] = 0
    """Number of offsets without a record or transaction marker in everything that this process has read, because of
    compaction."""

    def _unpack_records(self) -> Iterator[ReceivedBatch]:
        for batch in self._records.checked(self._tp):
            BatchedRecords.gaps += max(0, batch.next_offset - self.next_fetch_offset - batch.record_count)
            if self._isolation_level == fetcher.READ_COMMITTED:
                self._consume_aborted_up_to(batch.base_offset)
                if batch.aborts():
                    self._aborted_producers.discard(batch.producer_id)
            aborted = batch.is_transactional and batch.producer_id in self._aborted_producers
            received = None if aborted else self._decoded(batch)
            self.next_fetch_offset: int = batch.next_offset
            if received is not None:
                yield received

    def _decoded(self, batch: FetchedBatch) -> ReceivedBatch | None:
        if self.identifier is None:
            return batch.received(self.next_fetch_offset, self.tag_of)
        return batch.identified(self.next_fetch_offset, self.identifier)


def reader_of(scenario: Scenario, nonce: Nonce) -> type[BatchedRecords]:
    """Return the class that decodes fetched data for a scenario's consumers."""
    output = scenario.identify.output
    if scenario.joins_identities:
        hashing = Identifier(output, nonce)

        class _IdentifiedRecords(BatchedRecords):
            identifier = hashing

        return _IdentifiedRecords
    if output.function is None and not scenario.tags_in_header:
        return BatchedRecords
    found = tag_in_header if output.function is None else _with_named_errors(output.function)

    class _ApplicationRecords(BatchedRecords):
        tag_of = staticmethod(found)

    return _ApplicationRecords


def tag_in_header(record: Any) -> bytes | None:
    """Return the tag that an application copied into its output record's headers."""
    found: bytes | None = next((value for name, value in record.headers if name == HEADER), None)
    return found


def _with_named_errors(function: Identity) -> TagOf:
    """Wrap the test's function so that errors show its name."""

    def tag_of(record: Any) -> bytes | None:
        try:
            tag = function(record)
        except Exception as error:
            raise LoadError(
                f"identify: {name_of(function)} failed at offset {record.offset}: {type(error).__name__}: {error}"
            ) from error
        if tag is not None and not isinstance(tag, bytes):
            raise LoadError(
                f"identify: {name_of(function)} returned {type(tag).__name__}; return the {TAG_BYTES} bytes of the tag "
                "in the input record, or None"
            )
        return tag

    return tag_of
