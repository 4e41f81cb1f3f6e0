"""The contents of records, encoded in advance: the first records of a template are the body of a batch.

If values are long enough, each begins with a tag of 16 bytes, big-endian: the due time of the record (ns of the
monotonic clock) and its origin (producer in the upper 16 bits, index in the lower 48). On a topic that others write to,
both are XORed with the load's nonce: read with another nonce, a tag has an impossible due time and origin. For records
that go through an application, the tag is the value of the last header, and values stay unchanged. Every record has a
tag if end-to-end latency is measured or records have keys. Otherwise only the first record of each batch has one, which
identifies the batch.
"""

from __future__ import annotations

import functools
import itertools
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.engines.aiokafka.decoder import ReceivedBatch
from pytest_kafkaperf.load.engines.aiokafka.encoder import encode
from pytest_kafkaperf.scenarios.payloads import Samples, size_of_headers, size_of_varint
from pytest_kafkaperf.scenarios.scenario import KEY_BYTES, TAG_BYTES, Scenario

Int64s = npt.NDArray[np.int64]

Nonce = tuple[int, int]
"""Random numbers of 63 bits that are XORed with a due time and an origin."""
NO_NONCE: Nonce = (0, 0)

_MAX_POOL_BYTES = 32 << 20
"""Memory limit of the values, and of the templates, that a worker keeps; it keeps at least one of each."""
_OBJECT_BYTES = 48
"""Memory of a value beyond its bytes: that of a Python object, and a place in a list."""

_TEMPLATES = 64
"""Number of full batches for which a worker makes values if all have one size."""

_MAX_TEMPLATES = 1024

_DECK = 10_000
"""Number of values of a size distribution; it limits the precision of their proportions."""

_MAX_SAMPLES_BYTES = 256 << 20

_TAG = struct.Struct(">qq")

_INDEX_MASK = (1 << 48) - 1

_NO_KEY = bytes(KEY_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """Encoded records and the positions of their parts, as arrays of shape `(records,)`."""

    body: bytes
    count: int
    """Number of records."""
    ends: Int64s
    """End of each record."""
    sizes: Int64s
    """Cumulative bytes of keys and values."""
    keys_at: Int64s
    tags_at: Int64s
    """Position of each tag: the beginning of the value, or the last header's value."""


class Payload:
    """Values and templates of one worker; its producers share them, each with another start.

    Raises:
        LoadError: the file of samples is unusable.

    """

    def __init__(self, scenario: Scenario, *, seed: int, nonce: Nonce = NO_NONCE) -> None:
        self._keyed = scenario.key is not None
        self.headers = scenario.all_headers
        self.tags_in_header = scenario.tags_in_header
        self.nonce = NO_NONCE if scenario.topic is None else nonce
        self._batch_size = scenario.batch_size
        self.values = _values(scenario, random.Random(f"{seed}"))  # noqa: S311 - not for security
        """Never empty."""
        self.tags_all = tags_every_record(scenario)
        sizes = {*map(len, self.values)}
        self.tagged = self.tags_in_header or min(sizes) >= TAG_BYTES
        self.largest = max(sizes)
        """Size in bytes of the largest value."""
        self._mixed = len(sizes) > 1
        kept = _MAX_POOL_BYTES // max(self._batch_size, self.largest)
        self.template = functools.lru_cache(maxsize=max(1, min(_MAX_TEMPLATES, kept)))(self._encoded)
        """Returns the encoded values from a start on that fill a batch."""
        if scenario.consumers and not self.tagged:
            raise LoadError(
                f"the samples in {scenario.payload} have values smaller than {TAG_BYTES} B: with consumers, "
                f"end-to-end timing writes {TAG_BYTES} B into each; use longer samples, or consumers=0"
            )

    def after(self, start: int, template: Template, used: int) -> int:
        """Return the start of the next batch, after `used` records of the template at `start`.

        Values of mixed sizes follow one another, so that batches that end early have the same mix as full ones. If all
        values have one size, a few starts serve all batches.
        """
        if self._mixed:
            return (start + used) % len(self.values)
        following = start + template.count
        return following if following + template.count <= len(self.values) else 0

    def _encoded(self, start: int) -> Template:
        key = _NO_KEY if self._keyed else None
        body, ends = encode(((key, value) for value in self._from(start)), self.headers, self._batch_size)
        lengths = np.array([len(value) for value, _ in zip(self._from(start), ends, strict=False)], dtype=np.int64)
        ends_at = np.array(ends, dtype=np.int64)
        values_at = ends_at - size_of_headers(self.headers) - lengths
        return Template(
            body=body,
            count=len(ends),
            ends=ends_at,
            sizes=np.cumsum(lengths + (KEY_BYTES if self._keyed else 0)),
            keys_at=values_at - np.array([size_of_varint(length) for length in lengths.tolist()]) - KEY_BYTES,
            tags_at=ends_at - TAG_BYTES if self.tags_in_header else values_at,
        )

    def _from(self, start: int) -> Iterator[bytes]:
        """Yield all values again and again, from `start` on."""
        for position in itertools.count(start):
            yield self.values[position % len(self.values)]


def mean_value_size(scenario: Scenario) -> float:
    """Return the mean size of a value in bytes; reads the file if the payload consists of samples.

    Raises:
        LoadError: the file of samples is unusable.

    """
    if not isinstance(scenario.payload, Samples):
        return scenario.mean_record_size
    samples = _samples(Path(scenario.payload.path or scenario.payload.file), scenario.payload.delimiter.encode())
    return sum(map(len, samples)) / len(samples)


class Stamp:
    """Writes one producer's tags and keys into batches."""

    def __init__(self, payload: Payload, *, producer: int) -> None:
        self._payload = payload
        self._due_nonce, origin_nonce = payload.nonce
        self._origin = (producer << 48) ^ origin_nonce

    def body(
        self, template: Template, *, indexes: Int64s, dues_ns: Int64s | int, keys: Int64s | None
    ) -> bytes | bytearray:
        """Return the template's first records with these indexes, due times and keys.

        `indexes`, `keys`, and `dues_ns` unless it is one instant for all, have shape `(records,)`.
        """
        count, payload = indexes.size, self._payload
        whole = template.body if count == template.count else template.body[: int(template.ends[count - 1])]
        if not payload.tagged and keys is None:
            return whole
        body = bytearray(whole)
        if keys is not None:
            _write(body, template.keys_at[:count], keys.astype(">i8"))
        if payload.tagged and payload.tags_all:
            _write(body, template.tags_at[:count], self.tags(indexes, dues_ns))
        elif payload.tagged:
            at, due_ns = int(template.tags_at[0]), dues_ns if isinstance(dues_ns, int) else int(dues_ns[0])
            body[at : at + TAG_BYTES] = self.tag(int(indexes[0]), due_ns)
        return body

    def tag(self, index: int, due_ns: int) -> bytes:
        """Return the tag of one record."""
        return _TAG.pack(due_ns ^ self._due_nonce, self._origin ^ (index & _INDEX_MASK))

    def tags(self, indexes: Int64s, dues_ns: Int64s | int) -> npt.NDArray[Any]:
        """Return the tags of records, shape `(records, 2)`, big-endian."""
        tags = np.empty((indexes.size, 2), dtype=">i8")
        tags[:, 0] = dues_ns ^ self._due_nonce
        tags[:, 1] = self._origin ^ (indexes & _INDEX_MASK)
        return tags


def tags_every_record(scenario: Scenario) -> bool:
    """Return True if each record has a tag; otherwise only the first of each batch has one.

    In the latter case the indexes of a batch are consecutive.
    """
    return scenario.consumers > 0 or scenario.key is not None or scenario.client == "record"


def origin(named: Any) -> Any:
    """Return the producer and index in the second half of a tag, for a number or an array.

    Records of the warm-up have negative indexes.
    """
    index = named & _INDEX_MASK
    return named >> 48, index - ((index >> 47) << 48)


def names_of(producers: Int64s, indexes: Int64s) -> Int64s:
    """Return one number per record: `producer * 2**48 + index`, where the index is signed and fits into 48 bits.

    The numbers of one producer are in the same order as its indexes.
    """
    return (producers << 48) + indexes


def _write(body: bytearray, places: Int64s, rows: npt.NDArray[Any]) -> None:
    """Write each row's bytes at its position."""
    data = rows.reshape(len(rows), -1).view(np.uint8)
    np.frombuffer(body, dtype=np.uint8)[places[:, None] + np.arange(data.shape[1])] = data


def _values(scenario: Scenario, source: random.Random) -> Sequence[bytes]:
    """Return at least one value. Random values repeat at a distance beyond the reach of any codec."""
    match scenario.payload:
        case Samples() as samples:
            values = _samples(Path(samples.path or samples.file), samples.delimiter.encode())
            source.shuffle(values)
            return values
        case "zeros":
            make: Callable[[int], bytes] = bytes
        case _:
            make = source.randbytes
    if len(scenario.record_sizes) == 1:
        (size,) = scenario.record_sizes
        most = min(_TEMPLATES * scenario.batch_size // size, _MAX_POOL_BYTES // (size + _OBJECT_BYTES))
        return [make(size) for _ in range(max(1, most))]
    values, left_bytes = [], _MAX_POOL_BYTES
    for size, share in scenario.record_sizes.items():  # large values repeat if memory is short
        count = max(1, round(share * _DECK))
        pool = [make(size) for _ in range(max(1, min(count, left_bytes // size)))]
        left_bytes -= size * len(pool)
        values += itertools.islice(itertools.cycle(pool), count)
    source.shuffle(values)
    return values


def _samples(file: Path, delimiter: bytes) -> list[bytes]:
    try:
        if file.stat().st_size > _MAX_SAMPLES_BYTES:
            raise LoadError(f"the samples in {file} are too large; use at most {_MAX_SAMPLES_BYTES >> 20} MiB")
        samples = [sample for sample in file.read_bytes().split(delimiter) if sample]
    except OSError as error:
        raise LoadError(f"cannot read the samples in {file}: {error.strerror}") from None
    if not samples:
        raise LoadError(f"no samples in {file}: it contains only delimiters")
    return samples


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """A test of records on an existing topic: those of this load, or also of other applications and loads.

    If an application writes the topic, it makes its records from those that it has read.
    """

    scenario: Scenario
    nonce: Nonce

    def part(self, batch: ReceivedBatch, *, start_ns: int, now_ns: int, every: bool = True) -> ReceivedBatch | None:
        """Return the part of a batch read by `now_ns` that belongs to the round starting at `start_ns`, if any.

        Its tags are without the nonce. With `every`, each record has a tag; otherwise the first of each batch has.
        """
        tags = batch.tags ^ np.array(self.nonce)
        own = self._plausible(tags, start_ns, now_ns)
        if self.scenario.output_topic is None:
            is_own = len(tags) == batch.count and (own if every else own[:1]).all()
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
