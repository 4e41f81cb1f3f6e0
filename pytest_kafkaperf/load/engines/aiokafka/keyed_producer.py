"""Producer of records with keys. As in Kafka's own producer, the key determines a record's partition.

Each partition gathers records until its batch is full or its linger time has passed. A partition that has reached its
in-flight limit holds up the other partitions only if too many records have gathered, as with a full `buffer.memory`.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.load.clock import Timer, now_ns
from pytest_kafkaperf.load.engines.aiokafka.batch_producer import BatchProducer, Records
from pytest_kafkaperf.load.engines.aiokafka.producers import ProducerSetup, Window, first_of
from pytest_kafkaperf.load.identity import Int64s
from pytest_kafkaperf.load.schedule import Schedule
from pytest_kafkaperf.scenarios.payloads import Keys
from pytest_kafkaperf.scenarios.scenario import KEY_BYTES

_GATHERED_BYTES = 32 << 20
"""Limit on gathered bytes, like Kafka's default `buffer.memory`. Beyond it, due records wait in the schedule."""

_GATHERED_BATCHES = 2
"""Number of batches per partition that can always gather, so that one of them fills before the limit is reached."""


class KeyedProducer(BatchProducer):
    """Producer that sends records with keys in explicit batches."""

    _at_once = 4096
    """Number of records that a closed loop handles at a time."""
    _most_due = 1 << 48
    """The same for records that are due in an open loop."""

    def __init__(self, client: Any, number: int, setup: ProducerSetup) -> None:
        super().__init__(client, number, setup)
        scenario = self._scenario
        self._keys: KeySource | None = None
        if scenario.key is not None:
            self._keys = KeySource(scenario.key, producer=number, producers=scenario.producers, seed=self._seed)
        self._gathering = Gathering(scenario.partitions)
        record_bytes = len(self._template.body) / self._template.count
        fewest = _GATHERED_BATCHES * scenario.partitions * self._template.count
        self._bound = max(fewest, int(_GATHERED_BYTES / record_bytes))
        self._since_ns = 0
        """Time at which the gathered records last fell below their limit."""
        self._foreseen_ns = 0
        """Earliest closing time of a batch, as known before the last sleep. With mixed sizes, a smaller batch may
        follow."""

    async def _closed_loop(self, window: Window) -> None:
        taken, measured_from, left = 0, None, window.records
        while left is None or left > 0:
            now = now_ns()
            if window.end_ns is not None and now >= window.end_ns:
                break
            count = min(self._template.count * self._scenario.partitions, self._at_once)
            if now >= window.start_ns:
                measured_from = taken if measured_from is None else measured_from
                if left is not None:
                    count = min(count, left)
                    left -= count
            self._gather(np.arange(taken, taken + count), np.full(count, now))
            taken += count
            await self._send_ready(now, taken if measured_from is None else measured_from)
        await self._send_ready(None, taken if measured_from is None else measured_from)

    async def _open_loop(self, window: Window, timer: Timer, schedule: Schedule) -> None:
        stop = window.stop(schedule)
        end_ns = schedule.due_ns(stop)
        taken = self._next = schedule.first_after(window.warm_from_ns - 1)
        while taken < stop or self._gathering.total:
            now = now_ns()
            most = min(self._most_due, self._bound - self._gathering.total)
            due = min(schedule.first_after(now), stop, taken + most)
            if due > taken:
                self._gather(np.arange(taken, due), schedule.due_between(taken, due - taken))
                taken = self._next = due
            blocked = await self._send_due(now, end_ns)
            if any(self._slots.free(partition) for partition in blocked):
                continue  # some batches ended together with a transaction, which `_change` would not detect later
            is_full = self._gathering.total >= self._bound
            closing_ns = self._next_closing_ns(schedule, taken if is_full else stop, blocked)
            await self._until(timer, closing_ns, blocked=bool(blocked))
            self._foreseen_ns = now_ns() if closing_ns is None else min(closing_ns, now_ns())
            if is_full:
                self._since_ns = now_ns()

    def _count_missing(self, schedule: Schedule, stop: int) -> None:
        super()._count_missing(schedule, stop)
        indexes, dues_ns = self._gathering.rest()
        self.ledger.count_unsent(dues_ns[indexes >= 0], now_ns())

    def _next_closing_ns(self, schedule: Schedule, stop: int, blocked: set[int]) -> int | None:
        """Return the next time at which a batch of records before `stop` can close; None if none closes by itself."""
        closings = [self._gathering.lingers_until(self._linger_ns, excluding=blocked)]
        if self._next < stop:
            fills = self._next + max(0, self._template.count - 1 - self._gathering.most(excluding=blocked))
            closings += [schedule.due_ns(self._next) + self._linger_ns, schedule.due_ns(min(fills, stop - 1))]
        return min((closing for closing in closings if closing is not None), default=None)

    def _gather(self, indexes: Int64s, dues_ns: Int64s) -> None:
        assert self._keys is not None  # noqa: S101 - for the type checker
        keys = self._keys.next(indexes)
        self._gathering.add(partitions_of(keys, self._scenario.partitions), indexes, dues_ns, keys)

    async def _send_ready(self, now: int | None, measured_from: int) -> None:
        """In a closed loop, send batches that are full or have lingered (all if `now` is None) as limits allow."""
        for partition in self._gathering.ready(self._template.count, now, self._linger_ns):
            while not self._slots.free(partition):
                await self._change()
            fitting, _ = self._next_batch(partition)
            count = await self._limit_to_transaction(fitting)
            records = Records(*self._gathering.take(partition, count))
            self._slots.take(partition)
            measured = int((records.indexes >= measured_from).sum())
            self._send(partition, records, now=now_ns(), measured=measured)

    async def _send_due(self, now: int, end_ns: int) -> set[int]:
        """In an open loop, send batches that are full or have lingered; return partitions at their in-flight limit."""
        blocked: set[int] = set()
        for partition in self._gathering.ready(self._template.count, now, self._linger_ns):
            if partition in blocked or not self._slots.free(partition):
                blocked.add(partition)
                continue
            fitting, is_full = self._next_batch(partition)
            count = await self._limit_to_transaction(fitting)
            indexes, dues_ns, keys = self._gathering.take(partition, count)
            _, allowed_ns = self._slots.take(partition)
            batch = self._send(
                partition,
                Records(indexes, dues_ns, keys),
                now=now,
                measured=int((indexes >= 0).sum()),
                closing_ns=min(
                    max(int(dues_ns[-1]), self._foreseen_ns) if is_full and count == fitting else now,
                    int(dues_ns[0]) + self._linger_ns,
                ),
            )
            self.ledger.count_delayed(batch, max(allowed_ns, self._since_ns, self._begun_ns), end_ns)
        return blocked

    def _next_batch(self, partition: int) -> tuple[int, bool]:
        """Return how many of a partition's first records fit into a batch, and whether they fill it."""
        count = min(self._template.count, self._gathering.count(partition))
        return count, count == self._template.count

    async def _until(self, timer: Timer, wake_ns: int | None, *, blocked: bool) -> None:
        """Sleep until an instant; if a partition is blocked, return earlier as soon as a batch ends."""
        if wake_ns is None:
            await self._change()
        elif not blocked:
            await timer.until(wake_ns)
        else:
            await first_of(timer.until(wake_ns), self._change())


class Gathering:
    """Records waiting to be batched, by partition and in order of arrival."""

    def __init__(self, partitions: int) -> None:
        self._queues: list[collections.deque[tuple[Int64s, Int64s, Int64s]]] = [
            collections.deque() for _ in range(partitions)
        ]
        self._counts = [0] * partitions
        self.total = 0
        """Number of records across all partitions."""

    def most(self, *, excluding: set[int]) -> int:
        """Return the number of records in the fullest partition, excluding some partitions."""
        return max((count for partition, count in enumerate(self._counts) if partition not in excluding), default=0)

    def rest(self) -> tuple[Int64s, Int64s]:
        """Return the indexes and due times of all records."""
        none = np.empty(0, dtype=np.int64)
        parts = [(none, none), *((indexes, dues_ns) for queue in self._queues for indexes, dues_ns, _ in queue)]
        indexes, dues_ns = zip(*parts, strict=True)
        return np.concatenate(indexes), np.concatenate(dues_ns)

    def count(self, partition: int) -> int:
        """Return the number of records in a partition."""
        return self._counts[partition]

    def keys(self, partition: int) -> Iterator[int]:
        """Yield the keys of a partition's records, in order."""
        for _, _, keys in self._queues[partition]:
            yield from keys.tolist()

    def add(self, partitions: Int64s, indexes: Int64s, dues_ns: Int64s, keys: Int64s) -> None:
        """Add records in the given order; all arrays have shape `(records,)`."""
        order = np.argsort(partitions, kind="stable")
        there, starts = np.unique(partitions[order], return_index=True)
        for partition, rows in zip(there.tolist(), np.split(order, starts[1:]), strict=True):
            self._queues[partition].append((indexes[rows], dues_ns[rows], keys[rows]))
            self._counts[partition] += rows.size
        self.total += indexes.size

    def ready(self, capacity: int, now: int | None, linger_ns: int) -> Iterator[int]:
        """Yield partitions whose batch is full or has lingered by `now`; if `now` is None, partitions with any batch.

        A partition is yielded again as long as it has further batches, unless the caller takes nothing from it.
        """
        for partition, queue in enumerate(self._queues):
            before = -1
            while queue and self._counts[partition] != before:
                before = self._counts[partition]
                if now is None or before >= capacity or queue[0][1][0] + linger_ns <= now:
                    yield partition

    def lingers_until(self, linger_ns: int, *, excluding: set[int]) -> int | None:
        """Return the earliest linger deadline of any batch, excluding some partitions; None if there is no batch."""
        closings = (
            int(queue[0][1][0]) + linger_ns
            for partition, queue in enumerate(self._queues)
            if queue and partition not in excluding
        )
        return min(closings, default=None)

    def take(self, partition: int, count: int) -> tuple[Int64s, Int64s, Int64s]:
        """Remove a partition's first records; return their indexes, due times and keys, each of shape `(count,)`."""
        queue, rows, missing = self._queues[partition], [], count
        while missing:
            head = queue.popleft()
            if head[0].size > missing:
                queue.appendleft((head[0][missing:], head[1][missing:], head[2][missing:]))
                head = (head[0][:missing], head[1][:missing], head[2][:missing])
            rows.append(head)
            missing -= head[0].size
        self._counts[partition] -= count
        self.total -= count
        indexes, dues_ns, keys = (np.concatenate(column) for column in zip(*rows, strict=True))
        return indexes, dues_ns, keys


_SEED = 0x9747B28C

_M = np.uint32(0x5BD1E995)

_R = np.uint32(24)


class KeySource:
    """Seeded random keys for one producer's records, in record order."""

    def __init__(self, keys: Keys, *, producer: int, producers: int, seed: int) -> None:
        self._kind = keys.kind
        self._count = keys.count or 0
        self._producer = producer
        self._producers = producers
        self._random = np.random.default_rng((seed, producer))
        self._shares: npt.NDArray[np.float64] | None = None
        if keys.kind == "zipf":
            self._shares = shares_of(self._count, keys.exponent or 1.0)

    def next(self, indexes: Int64s) -> Int64s:
        """Return the next keys, with the shape of `indexes`. Sequential keys are numbered across all producers."""
        if self._kind == "sequential":
            return indexes * self._producers + self._producer
        if self._shares is None:
            return self._random.integers(0, self._count, size=indexes.size)
        drawn = np.searchsorted(self._shares, self._random.random(indexes.size), side="right")
        return np.minimum(drawn, self._count - 1)  # rounding can leave the last share below 1


@functools.lru_cache(maxsize=1)  # up to 8 MB, shared by all producers in a process
def shares_of(count: int, exponent: float) -> npt.NDArray[np.float64]:
    """Return the cumulative shares of Zipf-distributed keys, shape `(count,)`."""
    weights = np.arange(1, count + 1, dtype=np.float64) ** -exponent
    return np.cumsum(weights / weights.sum())


def partitions_of(keys: Int64s, partitions: int) -> Int64s:
    """Return each key's partition, shape `(keys,)`: murmur2 of its 8 bytes, as in Kafka's default partitioner.

    Source: `org.apache.kafka.common.utils.Utils.murmur2` and `toPositive` (the algorithm is A. Appleby's MurmurHash2).
    """
    return _partitions(keys.astype(">i8").view(np.uint8).reshape(-1, KEY_BYTES), partitions)


def partitions_of_bytes(keys: Sequence[bytes], partitions: int) -> Int64s:
    """Return the partition of each key, shape `(keys,)`, as `partitions_of` does for keys of any length."""
    found = np.empty(len(keys), dtype=np.int64)
    lengths = np.fromiter(map(len, keys), dtype=np.int64, count=len(keys))
    for length in np.unique(lengths).tolist():
        (places,) = np.nonzero(lengths == length)
        joined = b"".join(keys[place] for place in places.tolist())
        found[places] = _partitions(np.frombuffer(joined, np.uint8).reshape(places.size, length), partitions)
    return found


def _partitions(rows: npt.NDArray[np.uint8], partitions: int) -> Int64s:
    """Return the partition of each row of bytes."""
    length = rows.shape[1]
    whole = length // 4 * 4
    hashes = np.full(len(rows), _SEED ^ length, dtype=np.uint32)
    words = np.ascontiguousarray(rows[:, :whole]).view("<u4")
    for column in range(words.shape[1]):
        mixed = words[:, column].astype(np.uint32) * _M
        mixed ^= mixed >> _R
        hashes = (hashes * _M) ^ (mixed * _M)
    if whole < length:
        for place in range(length - whole):
            hashes ^= rows[:, whole + place].astype(np.uint32) << np.uint32(8 * place)
        hashes *= _M
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    return (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64) % partitions
