"""Record identity: tags, and the way in which consumers and audits interpret them.

A tag consists of 16 big-endian bytes: the record's due time (monotonic clock, in ns) and its origin (the producer in
the upper 16 bits, the index in the lower 48). On an existing topic, both are XORed with the load's nonce, so a tag that
is read with a different nonce has an impossible due time and origin. Every record has a tag if end-to-end latency is
measured or records have keys. Otherwise, only the first record of each batch has a tag, which identifies the batch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.scenarios.scenario import Scenario

Int64s = npt.NDArray[np.int64]

Nonce = tuple[int, int]
"""Random 63-bit numbers that are XORed with a due time and an origin."""
NO_NONCE: Nonce = (0, 0)

_TAG = struct.Struct(">qq")

_INDEX_MASK = (1 << 48) - 1


class Tagger:
    """Tag generator for one producer's records."""

    def __init__(self, nonce: Nonce, *, producer: int) -> None:
        self._due_nonce, origin_nonce = nonce
        self._origin = (producer << 48) ^ origin_nonce

    def tag(self, index: int, due_ns: int) -> bytes:
        """Return one record's tag."""
        return _TAG.pack(due_ns ^ self._due_nonce, self._origin ^ (index & _INDEX_MASK))

    def tags(self, indexes: Int64s, dues_ns: Int64s | int) -> npt.NDArray[Any]:
        """Return the big-endian tags of several records, shape `(records, 2)`."""
        tags = np.empty((indexes.size, 2), dtype=">i8")
        tags[:, 0] = dues_ns ^ self._due_nonce
        tags[:, 1] = self._origin ^ (indexes & _INDEX_MASK)
        return tags


def tags_every_record(scenario: Scenario) -> bool:
    """Return True if each record has a tag; otherwise, only the first record of each batch has one.

    In the latter case, the indexes within a batch are consecutive.
    """
    return scenario.consumers > 0 or scenario.key is not None or scenario.client == "record"


def origin(named: Any) -> Any:
    """Return the producer and index from the second half of a tag, given as a number or an array.

    Warm-up records have negative indexes.
    """
    index = named & _INDEX_MASK
    return named >> 48, index - ((index >> 47) << 48)


def names_of(producers: Int64s, indexes: Int64s) -> Int64s:
    """Return one number per record: `producer * 2**48 + index`, where the index is signed and fits into 48 bits.

    A producer's numbers have the same order as its indexes.
    """
    return (producers << 48) + indexes


class Source(Protocol):
    """Batch as fetched by an engine."""

    def created_ms(self, fetch_offset: int, since_ms: float) -> list[int]:
        """Return the producer's timestamps (CreateTime), starting at the given offset and time."""

    def describe_first(self) -> str:
        """Describe the first record without its content (see `generation.description_of`)."""


@dataclass(frozen=True, slots=True)
class ReceivedBatch:
    """Record batch as received by a consumer, without the records before the fetch offset."""

    offset: int
    """Offset of the first record."""
    count: int
    """Number of records."""
    tags: Int64s
    """Due time and origin of each record whose value is long enough to contain a tag, shape `(records, 2)`."""
    size_bytes: int
    """Total size of the keys and values in bytes."""
    source: Source | None = None
    """Batch as it was fetched."""

    def only(self, these: npt.NDArray[np.bool_]) -> ReceivedBatch | None:
        """Return the batch with only some of its records, assuming an average size; None if none are left."""
        count = int(these.sum())
        size_bytes = round(self.size_bytes * count / self.count)
        return replace(self, count=count, tags=self.tags[these], size_bytes=size_bytes) if count else None


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Filter that separates this load's records from other records on an existing topic.

    If an application writes to the topic, its records are derived from the records that it has read.
    """

    scenario: Scenario
    nonce: Nonce

    def part(self, batch: ReceivedBatch, *, start_ns: int, now_ns: int, every: bool = True) -> ReceivedBatch | None:
        """Return the part of a batch, read by `now_ns`, that belongs to the round starting at `start_ns`.

        The nonce is removed from the tags. With `every`, each record has a tag; otherwise, only the first record of
        each batch has one. Returns None if no record belongs to the round.
        """
        tags = batch.tags ^ np.array(self.nonce)
        own = self._plausible(tags, start_ns, now_ns)
        if self.scenario.output_topic is None:
            is_tagged = len(tags) == batch.count or (len(tags) == 1 and not every)
            is_own = is_tagged and (own if every else own[:1]).all()
            return replace(batch, tags=tags) if is_own else None
        return replace(batch, tags=tags).only(own)

    def _plausible(self, tags: npt.NDArray[np.int64], start_ns: int, now_ns: int) -> npt.NDArray[np.bool_]:
        dues_ns = tags[:, 0]
        producers, indexes = origin(tags[:, 1])
        first_ns = start_ns - round(self.scenario.warmup * NS_PER_S)
        most = now_ns - first_ns  # at most one record per nanosecond
        due = (dues_ns >= first_ns) & (dues_ns <= now_ns)
        named = (producers >= 0) & (producers < self.scenario.producers) & (indexes >= -most) & (indexes <= most)
        plausible: npt.NDArray[np.bool_] = due & named
        return plausible


_CHUNK_BITS = 14
"""Number of low bits in which names in one 4 KiB chunk differ. A producer's names are consecutive."""
_PLACES = (1 << _CHUNK_BITS) - 1
_IN_SET, _MEASURED = 0b01, 0b10
_ALL_MEASURED = 0b10101010


class RecordSet:
    """Set of records identified by name (see `names_of`). Some of the records are measured."""

    def __init__(self) -> None:
        self._chunks: dict[int, bytearray] = {}
        """Two bits for each record, grouped by the upper bits of its name."""

    @classmethod
    def union(cls, sets: Iterable[RecordSet]) -> Self:
        """Return the union of all `sets`."""
        union = cls()
        for one in sets:
            for number, chunk in one._chunks.items():  # noqa: SLF001 - another set of the same class
                known = np.frombuffer(union._chunks.setdefault(number, bytearray(len(chunk))), np.uint8)
                known |= np.frombuffer(chunk, np.uint8)
        return union

    def add(self, name: int, *, measured: bool) -> bool:
        """Add a record; return False if the set already contained it."""
        number = name >> _CHUNK_BITS
        chunk = self._chunks.get(number)
        if chunk is None:
            chunk = self._chunks[number] = bytearray((_PLACES + 1) // 4)
        byte, shift = (name & _PLACES) >> 2, (name & 3) << 1
        if chunk[byte] >> shift & _IN_SET:
            return False
        chunk[byte] |= (_IN_SET | _MEASURED if measured else _IN_SET) << shift
        return True

    def measured(self) -> int:
        """Return the number of measured records."""
        chunks = (np.frombuffer(chunk, np.uint8) for chunk in self._chunks.values())
        return sum(int(np.bitwise_count(chunk & _ALL_MEASURED).sum()) for chunk in chunks)

    def has_measured(self, name: int) -> bool:
        """Return True if the set contains the record and the record is measured."""
        chunk = self._chunks.get(name >> _CHUNK_BITS)
        return chunk is not None and bool(chunk[(name & _PLACES) >> 2] >> ((name & 3) << 1) & _MEASURED)
