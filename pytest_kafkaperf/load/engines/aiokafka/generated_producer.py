"""Producer of records that are encoded one by one, because a function makes them or the plugin must identify them.

Records are made and encoded ahead of the time at which they are due, in short slices while the producer would otherwise
wait. A batch is then built quickly, because a response that arrives meanwhile has to wait and seems to take longer.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.clock import Timer, now_ns
from pytest_kafkaperf.load.engines.aiokafka.batch_producer import Body, Records
from pytest_kafkaperf.load.engines.aiokafka.encoder import encode_content, join_records
from pytest_kafkaperf.load.engines.aiokafka.keyed_producer import KeyedProducer, partitions_of_bytes
from pytest_kafkaperf.load.engines.aiokafka.producers import ProducerSetup, Window
from pytest_kafkaperf.load.generation import INDEXES, Generator, Identifier, PlainRecord, unchanged
from pytest_kafkaperf.load.identity import Int64s, Tagger
from pytest_kafkaperf.load.messages import Produced
from pytest_kafkaperf.load.payload import Payload
from pytest_kafkaperf.load.recorder import Series
from pytest_kafkaperf.scenarios.payloads import Generated
from pytest_kafkaperf.scenarios.scenario import KEY_BYTES, TAG_BYTES, Scenario

_MOST_OVER = 2
"""Factor by which a batch may exceed its size if records are larger than the first ones."""
_FRAMING_BYTES = 10
"""Approximate size of a record's length, attributes and deltas."""
_AHEAD = 4096
"""Number of records that are made ahead of their due time."""
_REFILL = _AHEAD // 2
"""Number of records below which others are made. This is much less often than for each batch, whose response would
arrive at the same time and have to wait."""
_SLICE_NS = 100_000
"""Time for which a slice of this work can delay the processing of a response."""
_LOOP_ITERATIONS = 4
"""Number of event loop iterations in which aiokafka passes a response on, from its socket to the batch. Without them, a
response that arrives while records are gathered would also have to wait until their batch is built."""
_FIRST_NS = NS_PER_S // 2
"""Time limit for records that are made before the load begins."""


class _Prepared(NamedTuple):
    """Record that is ready to be sent."""

    key: bytes | None
    content: bytes
    """Result of `encode_content`: everything except its offset and its tag."""
    size_bytes: int
    """Size of its key and value."""
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
        self._plain_headers, self._tag_name = self._payload.headers, None
        if self._payload.tags_in_header:
            self._plain_headers, self._tag_name = self._payload.headers[:-1], self._payload.headers[-1][0]
        self._limit_bytes = _MOST_OVER * self._payload.batch_size
        self._tag_bytes = 0 if self._tag_name is None else TAG_BYTES
        self._finish: Callable[[PlainRecord], Any] = self._prepared
        if self._keys is not None:  # they depend on the records' indexes, which are known when records are due
            self._finish = unchanged
        self._generator: Generator[Any] | None = None
        if isinstance(self._scenario.payload, Generated) and self._scenario.payload.pool is None:
            generated, producers = self._scenario.payload, self._scenario.producers
            self._generator = Generator(generated, self._finish, load=self._seed, producer=number, producers=producers)
        self._turns = self._payload.records or [PlainRecord(None, value) for value in self._payload.values]
        self._tagger = Tagger(self._payload.nonce, producer=number)
        self._made = 0
        """Number of records taken from the generator or the pool; identifies records until they are sent."""
        self._waiting: dict[int, _Prepared] = {}
        self._largest = 0
        """Largest size in a batch of any record so far, in bytes."""
        self._start_ns = 0
        """Start of the window."""
        self._refilling = False
        """True from the time at which there are fewer than `_REFILL` records until there are `_AHEAD`."""
        if self._generator is not None:
            self._generator.make_ahead(_AHEAD, most_ns=_FIRST_NS)

    async def run(self, window: Window, timer: Timer, series: Series, *, settle_s: float) -> Produced:
        """Send the window's records, and report how long the payload function took."""
        self._start_ns = window.start_ns
        report = await super().run(window, timer, series, settle_s=settle_s)
        if self._generator is not None:
            report.generated, report.generating_s = self._generator.made, self._generator.spent_ns / NS_PER_S
        return report

    def _gather(self, indexes: Int64s, dues_ns: Int64s) -> None:
        prepared = self._with_keys(self._next_records(indexes.size), indexes)
        if self._scenario.rate is None:  # a closed loop's records are due when they are ready
            now = now_ns()
            if dues_ns[0] < self._start_ns:  # consumers must not count a warm-up record, although the window may begin
                now = min(now, self._start_ns - 1)
            dues_ns = np.full(indexes.size, now)
        numbers = np.arange(self._made, self._made + indexes.size)
        self._waiting.update(zip(numbers.tolist(), prepared, strict=True))
        partitions = self._partitions_of(prepared)
        self._made += indexes.size
        self._gathering.add(partitions, indexes, dues_ns, numbers)

    def _next_records(self, count: int) -> list[Any]:
        """Return the next records, as `_finish` has converted them."""
        if self._generator is not None:
            return self._generator.take(count)
        first, turns = self._made * self._scenario.producers + self._number, len(self._turns)
        places = range(first, first + count * self._scenario.producers, self._scenario.producers)
        return [self._finish(self._turns[place % turns]) for place in places]

    def _with_keys(self, records: list[Any], indexes: Int64s) -> list[_Prepared]:
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
        return [self._prepared(one._replace(key=key)) for one, key in zip(records, keys, strict=True)]

    def _prepared(self, record: PlainRecord) -> _Prepared:
        identity = 0 if self._identifier is None else self._identifier.hash_of(record)
        if identity is None:
            raise LoadError(
                f"identify: {self._scenario.identify.input} found nothing in an input record with the key "
                f"{record.key!r} and the value {record.value[:100]!r}; each record must have an identity"
            )
        key, value, headers = record
        content = encode_content(
            (key, value, (*headers, *self._plain_headers)), last_header=self._tag_name, last_bytes=self._tag_bytes
        )
        self._largest = max(self._largest, self._size_of(content))
        return _Prepared(key, content, len(key or b"") + len(value), identity)

    def _size_of(self, content: bytes) -> int:
        """Return about the number of bytes that a record takes in a batch."""
        return len(content) + self._tag_bytes + _FRAMING_BYTES

    def _partitions_of(self, records: Sequence[_Prepared]) -> Int64s:
        partitions = self._scenario.partitions
        turns = (self._made + np.arange(len(records))) // self._template.count
        found: Int64s = (turns + self._number) % partitions
        with_key = {place: one.key for place, one in enumerate(records) if one.key is not None}
        if with_key:
            found[[*with_key]] = partitions_of_bytes([*with_key.values()], partitions)
        return found

    def _next_batch(self, partition: int) -> tuple[int, bool]:
        most, size_bytes = min(self._template.count, self._gathering.count(partition)), 0
        if most * self._largest > self._limit_bytes:
            for count, number in enumerate(itertools.islice(self._gathering.keys(partition), most)):
                size_bytes += self._size_of(self._waiting[number].content)
                if count and size_bytes > self._limit_bytes:
                    return count, True
        return most, most == self._template.count

    def _body(self, records: Records, *, now: int, measured: int) -> Body:
        indexes, dues_ns, numbers = records
        assert numbers is not None  # noqa: S101 - for the type checker
        sent = [self._waiting.pop(number) for number in numbers.tolist()]
        tags = b""
        if self._tag_name is not None:
            tags = self._tagger.tags(indexes, now if dues_ns is None else dues_ns).tobytes()
        return Body(
            join_records([one.content for one in sent], tags),
            sum(one.size_bytes for one in sent[len(sent) - measured :]),
            None if self._identifier is None else np.array([one.identity for one in sent], dtype=np.int64),
        )

    async def _send_ready(self, now: int | None, measured_from: int) -> None:
        await asyncio.sleep(0)  # a function that keeps this process busy must not delay the processing of responses
        await super()._send_ready(now, measured_from)

    async def _send_due(self, now: int, end_ns: int) -> set[int]:
        for _ in range(_LOOP_ITERATIONS):
            await asyncio.sleep(0)
        return await super()._send_due(now, end_ns)

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
