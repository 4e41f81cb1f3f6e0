"""Producer of records that are encoded one by one, because a function makes them or the plugin must identify them.

Records are made ahead of the time at which they are due, in short slices while the producer would otherwise wait.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.clock import Timer, now_ns
from pytest_kafkaperf.load.engines.aiokafka.batch_producer import Body, Records
from pytest_kafkaperf.load.engines.aiokafka.encoder import encode_records
from pytest_kafkaperf.load.engines.aiokafka.keyed_producer import KeyedProducer, partitions_of_bytes
from pytest_kafkaperf.load.engines.aiokafka.producers import ProducerSetup, Window
from pytest_kafkaperf.load.generation import INDEXES, Generator, Identifier, PlainRecord
from pytest_kafkaperf.load.identity import Int64s, Tagger
from pytest_kafkaperf.load.messages import Produced
from pytest_kafkaperf.load.payload import Payload
from pytest_kafkaperf.load.recorder import Series
from pytest_kafkaperf.scenarios.payloads import Generated
from pytest_kafkaperf.scenarios.scenario import KEY_BYTES, TAG_BYTES, Scenario

_MOST_OVER = 2
"""Factor by which a batch may exceed its size if records are larger than the first ones."""
_FRAMING_BYTES = 10
"""Approximate size of a record's lengths, attributes and deltas."""
_AHEAD = 4096
"""Number of records that are made ahead of their due time."""
_REFILL = _AHEAD // 2
"""Number of records below which others are made. This is much less often than for each batch, whose response would
arrive at the same time and have to wait."""
_SLICE_NS = 100_000
"""Time for which a slice of this work can delay the processing of a response."""
_FIRST_NS = NS_PER_S // 2
"""Time limit for records that are made before the load begins."""


class _Prepared(NamedTuple):
    """Record that is ready to be sent."""

    record: PlainRecord
    identity: int
    """Hash of its identity; 0 if records carry tags."""


class GeneratedProducer(KeyedProducer):
    """Producer that encodes each record separately.

    As in Kafka's own producer, records without keys go to one partition until its batch is full (KIP-480).
    """

    _at_once = 64
    _most_due = 1024

    def __init__(self, client: Any, number: int, setup: ProducerSetup) -> None:
        super().__init__(client, number, setup)
        self._identifier: Identifier | None = None
        if self._scenario.joins_identities:
            self._identifier = Identifier(self._scenario.identify.input, self._payload.nonce)
        self._generator: Generator | None = None
        if isinstance(self._scenario.payload, Generated) and self._scenario.payload.pool is None:
            generated, producers = self._scenario.payload, self._scenario.producers
            self._generator = Generator(generated, load=self._seed, producer=number, producers=producers)
        self._turns = self._payload.records or [PlainRecord(None, value) for value in self._payload.values]
        self._tagger = Tagger(self._payload.nonce, producer=number)
        self._made = 0
        """Number of records taken from the generator or the pool; identifies records until they are sent."""
        self._waiting: dict[int, _Prepared] = {}
        self._refilling = False
        """True from the time at which there are fewer than `_REFILL` records until there are `_AHEAD`."""
        self._plain_headers = self._payload.headers[:-1] if self._payload.tags_in_header else self._payload.headers
        if self._generator is not None:
            self._generator.make_ahead(_AHEAD, most_ns=_FIRST_NS)

    async def run(self, window: Window, timer: Timer, series: Series, *, settle_s: float) -> Produced:
        """Send the window's records, and report how long the payload function took."""
        report = await super().run(window, timer, series, settle_s=settle_s)
        if self._generator is not None:
            report.generated, report.generating_s = self._generator.made, self._generator.spent_ns / NS_PER_S
        return report

    def _gather(self, indexes: Int64s, dues_ns: Int64s) -> None:
        prepared = self._prepared(self._with_keys(self._next_records(indexes.size), indexes))
        if self._scenario.rate is None:  # a closed loop's records are due when they are ready
            dues_ns = np.full(indexes.size, now_ns())
        numbers = np.arange(self._made, self._made + indexes.size)
        self._waiting.update(zip(numbers.tolist(), prepared, strict=True))
        partitions = self._partitions_of([one.record.key for one in prepared])
        self._made += indexes.size
        self._gathering.add(partitions, indexes, dues_ns, numbers)

    def _next_records(self, count: int) -> list[PlainRecord]:
        if self._generator is not None:
            return self._generator.take(count)
        first, turns = self._made * self._scenario.producers + self._number, len(self._turns)
        return [self._turns[(first + place * self._scenario.producers) % turns] for place in range(count)]

    def _with_keys(self, records: list[PlainRecord], indexes: Int64s) -> list[PlainRecord]:
        """Return the records with keys from the scenario's distribution, if it has one."""
        if self._keys is None:
            return records
        is_sequential = self._scenario.key is not None and self._scenario.key.kind == "sequential"
        first = self._seed * INDEXES if is_sequential else 0  # as for generated records, each load has other keys
        keys = [(first + key).to_bytes(KEY_BYTES, "big", signed=True) for key in self._keys.next(indexes).tolist()]
        if any(one.key is not None for one in records):
            raise LoadError(
                f"payload: {self._scenario.payload} returned a record with a key, but key={self._scenario.key} is set; "
                "remove key"
            )
        return [one._replace(key=key) for one, key in zip(records, keys, strict=True)]

    def _prepared(self, records: Sequence[PlainRecord]) -> list[_Prepared]:
        identifier = self._identifier
        if identifier is None:
            return [_Prepared(one, 0) for one in records]
        prepared = []
        for one in records:
            identity = identifier.hash_of(one)
            if identity is None:
                raise LoadError(
                    f"identify: {self._scenario.identify.input} found nothing in an input record with the key "
                    f"{one.key!r} and the value {one.value[:100]!r}; each record must have an identity"
                )
            prepared.append(_Prepared(one, identity))
        return prepared

    def _partitions_of(self, keys: Sequence[bytes | None]) -> Int64s:
        partitions = self._scenario.partitions
        turns = (self._made + np.arange(len(keys))) // self._template.count
        found: Int64s = (turns + self._number) % partitions
        with_key = [place for place, key in enumerate(keys) if key is not None]
        if with_key:
            found[with_key] = partitions_of_bytes([keys[place] or b"" for place in with_key], partitions)
        return found

    def _next_batch(self, partition: int) -> tuple[int, bool]:
        most, size_bytes = min(self._template.count, self._gathering.count(partition)), 0
        for count, number in enumerate(itertools.islice(self._gathering.keys(partition), most)):
            size_bytes += self._size_of(self._waiting[number].record)
            if count and size_bytes > _MOST_OVER * self._payload.batch_size:
                return count, True
        return most, most == self._template.count

    def _size_of(self, record: PlainRecord) -> int:
        """Return about the number of bytes that a record takes in a batch."""
        headers = sum(len(name) + len(value) + 2 for name, value in (*record.headers, *self._payload.headers))
        return len(record.key or b"") + len(record.value) + headers + _FRAMING_BYTES

    def _body(self, records: Records, *, now: int, measured: int) -> Body:
        indexes, dues_ns, numbers = records
        assert numbers is not None  # noqa: S101 - for the type checker
        sent = [self._waiting.pop(number) for number in numbers.tolist()]
        tags = self._tagger.tags(indexes, now if dues_ns is None else dues_ns).tobytes()
        encoded, _ = encode_records(
            (one.record.key, one.record.value, self._headers(one.record, tags, place)) for place, one in enumerate(sent)
        )
        last = sent[len(sent) - measured :]
        return Body(
            encoded,
            sum(len(one.record.key or b"") + len(one.record.value) for one in last),
            None if self._identifier is None else np.array([one.identity for one in sent], dtype=np.int64),
        )

    def _headers(self, record: PlainRecord, tags: bytes, place: int) -> list[tuple[str, bytes]]:
        headers = [*record.headers, *self._plain_headers]
        if self._payload.tags_in_header:
            name, _ = self._payload.headers[-1]
            headers.append((name, tags[place * TAG_BYTES : (place + 1) * TAG_BYTES]))
        return headers

    async def _send_ready(self, now: int | None, measured_from: int) -> None:
        await asyncio.sleep(0)  # a function that keeps this process busy must not delay the processing of responses
        await super()._send_ready(now, measured_from)

    async def _until(self, timer: Timer, wake_ns: int | None, *, blocked: bool) -> None:
        await asyncio.sleep(0)
        if wake_ns is not None and not blocked:
            await self._make_ahead(wake_ns)
        await super()._until(timer, wake_ns, blocked=blocked)

    async def _make_ahead(self, until_ns: int) -> None:
        """Make records in slices, and let responses be processed between them."""
        generator = self._generator
        if generator is None:
            return
        self._refilling = self._refilling or generator.waiting < _REFILL
        slice_ns = _SLICE_NS + generator.mean_ns  # a slice ends with the record that exceeds its time
        while self._refilling and now_ns() + slice_ns < until_ns:
            self._refilling = not generator.make_ahead(_AHEAD, most_ns=_SLICE_NS)
            await asyncio.sleep(0)


def encodes_each_record(scenario: Scenario, payload: Payload) -> bool:
    """Return True if batches cannot be made from templates: a function makes each record, or its parts differ."""
    if scenario.joins_identities:
        return True
    if not isinstance(scenario.payload, Generated):
        return False
    return scenario.payload.pool is None or any(one.key is not None or one.headers for one in payload.records)
