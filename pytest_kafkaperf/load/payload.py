"""What records hold. Encoded ahead: any number of a template's first records is the body of a batch.

Where values have room for it, a tag stands in their head: 16 bytes, big-endian, when the record was due (ns of the
monotonic clock), then its origin (producer in the upper 16 bits, index in the lower 48). Of what goes through an
application it stands in a header, the last one, and values are left as they are. Every record has one where
end-to-end time is measured or records have keys; otherwise the first of each batch has, for its batch to be known.
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
from pytest_kafkaperf.load.batch_decoder import ReceivedBatch
from pytest_kafkaperf.load.batch_encoder import encode
from pytest_kafkaperf.scenario.records import Samples, size_of_headers, size_of_varint
from pytest_kafkaperf.scenario.scenario import KEY_BYTES, TAG_BYTES, Scenario

Int64s = npt.NDArray[np.int64]

_MAX_POOL_BYTES = 32 << 20
"""Of values and of templates that a worker keeps; one of each at least."""

_TEMPLATES = 64
"""Of values of one size."""

_MAX_TEMPLATES = 1024

_DECK = 10_000
"""Values of a size distribution: its weights hold to that part."""

_MAX_SAMPLES_BYTES = 256 << 20

_TAG = struct.Struct(">qq")

_INDEX_MASK = (1 << 48) - 1

_NO_KEY = bytes(KEY_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """Encoded records, and where things stand in them; arrays of shape `(records,)`."""

    body: bytes
    ends: Int64s
    """Where each record ends."""
    sizes: Int64s
    """Bytes of keys and values up to each record, it included."""
    keys_at: Int64s
    tags_at: Int64s
    """Where a tag goes: into the head of each value, or into the last header."""

    @property
    def count(self) -> int:
        """Records in it."""
        return self.ends.size


class Payload:
    """Values and templates of one worker; its producers share them, each beginning elsewhere.

    Raises:
        LoadError: the file of samples cannot be used.

    """

    def __init__(self, scenario: Scenario, *, seed: int) -> None:
        self._random = random.Random(f"{seed}")  # noqa: S311 - a load, not a secret
        self._keyed = scenario.key is not None
        self.headers = scenario.all_headers
        self.tags_in_header = scenario.tags_in_header
        self._batch_size = scenario.batch_size
        self.values = _Values(scenario, self._random).values()
        """At least one."""
        self.tags_all = tags_every_record(scenario)
        sizes = {*map(len, self.values)}
        self.tagged = self.tags_in_header or min(sizes) >= TAG_BYTES
        self.largest = max(sizes)
        """Bytes of the largest value."""
        self._mixed = len(sizes) > 1
        kept = _MAX_POOL_BYTES // max(self._batch_size, self.largest)
        self._template = functools.lru_cache(maxsize=max(1, min(_MAX_TEMPLATES, kept)))(self._encoded)
        if scenario.consumers and not self.tagged:
            raise LoadError(
                f"the samples in {scenario.payload} have values of less than {TAG_BYTES} B: with consumers, "
                f"end-to-end timing writes {TAG_BYTES} B into each; use longer samples, or consumers=0"
            )

    def template(self, start: int) -> Template:
        """As many values from one on as a batch takes, encoded."""
        return self._template(start)

    def after(self, start: int, template: Template, used: int) -> int:
        """Where the next batch begins, when so many records of the template at `start` were used.

        Each value follows the one before, so that batches that end early are as mixed as full ones. Where all are of
        one size it does not matter which comes, and few starts serve for all batches.
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
            ends=ends_at,
            sizes=np.cumsum(lengths + (KEY_BYTES if self._keyed else 0)),
            keys_at=values_at - np.array([size_of_varint(length) for length in lengths.tolist()]) - KEY_BYTES,
            tags_at=ends_at - TAG_BYTES if self.tags_in_header else values_at,
        )

    def _from(self, start: int) -> Iterator[bytes]:
        """All values, again and again, from one on."""
        place = start
        while True:
            yield self.values[place % len(self.values)]
            place += 1


class Stamp:
    """Writes one producer's tags and keys into batches."""

    def __init__(self, payload: Payload, *, producer: int) -> None:
        self._payload = payload
        self._producer = producer

    def body(
        self, template: Template, *, indexes: Int64s, dues_ns: Int64s | int, keys: Int64s | None
    ) -> bytes | bytearray:
        """The template's first records as those of `indexes`, due at `dues_ns`.

        Indexes, due times where they differ, and keys are of shape `(records,)`.
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
        """The tag of one record."""
        return _TAG.pack(due_ns, (self._producer << 48) | (index & _INDEX_MASK))

    def tags(self, indexes: Int64s, dues_ns: Int64s | int) -> npt.NDArray[Any]:
        """The tags of records, shape `(records, 2)`, big-endian."""
        tags = np.empty((indexes.size, 2), dtype=">i8")
        tags[:, 0] = dues_ns
        tags[:, 1] = (self._producer << 48) | (indexes & _INDEX_MASK)
        return tags


def tags_every_record(scenario: Scenario) -> bool:
    """Whether each record has a tag, or the first of each batch only, whose records then follow one another."""
    return scenario.consumers > 0 or scenario.key is not None or scenario.client == "record"


def origin(named: Any) -> Any:
    """Producer and index that the second half of a tag names, of a number or of each in an array.

    A warm-up record's index is below zero.
    """
    index = named & _INDEX_MASK
    return named >> 48, index - ((index >> 47) << 48)


def names_of(producers: Int64s, indexes: Int64s) -> Int64s:
    """One number a record, ascending with its index within a producer (an index has 48 bits, with its sign)."""
    return (producers << 48) + indexes


def _write(body: bytearray, places: Int64s, rows: npt.NDArray[Any]) -> None:
    """Write each row's bytes at its place."""
    data = rows.reshape(len(rows), -1).view(np.uint8)
    np.frombuffer(body, dtype=np.uint8)[places[:, None] + np.arange(data.shape[1])] = data


class _Values:
    """The values that a scenario asks for; tags are written into them later."""

    def __init__(self, scenario: Scenario, source: random.Random) -> None:
        self._scenario = scenario
        self._random = source

    def values(self) -> Sequence[bytes]:
        """At least one; random ones that come again are far from each other, where no codec finds them."""
        scenario = self._scenario
        match scenario.payload:
            case Samples() as samples:
                return self._samples(Path(samples.path or samples.file), samples.delimiter.encode())
            case "zeros":
                make: Callable[[int], bytes] = bytes
            case _:
                make = self._random.randbytes
        if len(scenario.record_sizes) > 1:
            return self._deck(make)
        (size,) = scenario.record_sizes
        pool_bytes = min(_TEMPLATES * scenario.batch_size, _MAX_POOL_BYTES)
        return [make(size) for _ in range(max(1, pool_bytes // size))]

    def _deck(self, make: Callable[[int], bytes]) -> Sequence[bytes]:
        """Values of all sizes in the asked shares; the largest come again and again where memory is short."""
        deck: list[bytes] = []
        room_bytes = _MAX_POOL_BYTES
        for size, share in self._scenario.record_sizes.items():
            count = max(1, round(share * _DECK))
            pool = [make(size) for _ in range(max(1, min(count, room_bytes // size)))]
            room_bytes -= size * len(pool)
            deck += itertools.islice(itertools.cycle(pool), count)
        self._random.shuffle(deck)
        return deck

    def _samples(self, file: Path, delimiter: bytes) -> Sequence[bytes]:
        try:
            if file.stat().st_size > _MAX_SAMPLES_BYTES:
                raise LoadError(f"the samples in {file} are too many: use at most {_MAX_SAMPLES_BYTES >> 20} MiB")
            samples = [sample for sample in file.read_bytes().split(delimiter) if sample]
        except OSError as error:
            raise LoadError(f"cannot read the samples in {file}: {error.strerror}") from None
        if not samples:
            raise LoadError(f"no samples in {file}: it holds nothing but delimiters")
        self._random.shuffle(samples)
        return samples


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """What the records of one round have in common."""

    producers: int
    warmup_ns: int
    is_application: bool = False
    """Whether an application writes the topic, of records that it has read."""

    @classmethod
    def of(cls, scenario: Scenario) -> RecordFilter | None:
        """None on a topic of the run's own, where all records are."""
        if scenario.topic is None:
            return None
        return cls(
            producers=scenario.producers,
            warmup_ns=round(scenario.warmup * NS_PER_S),
            is_application=scenario.output_topic is not None,
        )

    def part(self, batch: ReceivedBatch, *, start_ns: int, now_ns: int) -> ReceivedBatch | None:
        """What of a batch that was read by now is of the round whose window opens at `start_ns`."""
        if not self.is_application:
            return batch if self.holds(batch, start_ns=start_ns, now_ns=now_ns) else None
        tags = batch.tags[self._plausible(batch.tags, start_ns, now_ns)]
        if not len(tags):
            return None
        return replace(batch, count=len(tags), tags=tags, size_bytes=round(batch.size_bytes * len(tags) / batch.count))

    def holds(self, batch: ReceivedBatch, *, start_ns: int, now_ns: int, every: bool = True) -> bool:
        """Whether a batch that was read by now is of the round whose window opens at `start_ns`.

        With `every` each record has a tag, else the first of each batch.
        """
        if len(batch.tags) < batch.count:
            return False
        return bool(self._plausible(batch.tags if every else batch.tags[:1], start_ns, now_ns).all())

    def _plausible(self, tags: npt.NDArray[np.int64], start_ns: int, now_ns: int) -> npt.NDArray[np.bool_]:
        dues_ns = tags[:, 0]
        producers, indexes = origin(tags[:, 1])
        first_ns = start_ns - self.warmup_ns
        most = now_ns - first_ns  # records: one a nanosecond
        due = (dues_ns >= first_ns) & (dues_ns <= now_ns)
        named = (producers >= 0) & (producers < self.producers) & (indexes >= -most) & (indexes <= most)
        plausible: npt.NDArray[np.bool_] = due & named
        return plausible
