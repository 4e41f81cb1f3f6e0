"""Records that wait for the batches of their partitions, against lists of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.load.engines.aiokafka.keyed_producer import Gathering

PARTITIONS = 4
LINGER_NS = 5
Row = tuple[int, int, int]
"""Index, due time, key."""


@dataclass(slots=True)
class Lists:
    """The slow, obvious version."""

    rows: list[list[Row]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])

    def ready(self, capacity: int, now: int | None) -> list[int]:
        """Whoever takes `capacity` records at each turn sees these."""
        result = []
        for partition, rows in enumerate(self.rows):
            left = rows
            while left and (now is None or len(left) >= capacity or left[0][1] + LINGER_NS <= now):
                result.append(partition)
                left = left[capacity:]
        return result

    def lingers_until(self, excluding: set[int]) -> int | None:
        heads = [rows[0][1] for partition, rows in enumerate(self.rows) if rows and partition not in excluding]
        return min(heads) + LINGER_NS if heads else None


@dataclass(slots=True)
class Both:
    """The same records in both."""

    lists: Lists = field(default_factory=Lists)
    gathering: Gathering = field(default_factory=lambda: Gathering(PARTITIONS))
    next: int = -3
    """Index of the next record; the first are the warm-up's."""

    def add(self, partitions: list[int]) -> None:
        indexes = np.arange(self.next, self.next + len(partitions))
        self.gathering.add(np.array(partitions, dtype=np.int64), indexes, 10 * indexes, -indexes)
        for index, partition in zip(indexes.tolist(), partitions, strict=True):
            self.lists.rows[partition].append((index, 10 * index, -index))
        self.next += len(partitions)

    def take(self, partition: int, count: int) -> tuple[list[Row], list[Row]]:
        columns = self.gathering.take(partition, count)
        assert [column.shape for column in columns] == [(count,)] * 3
        rows = self.lists.rows[partition]
        self.lists.rows[partition] = rows[count:]
        return list(zip(*(column.tolist() for column in columns), strict=True)), rows[:count]

    def assert_equal(self) -> None:
        gathering, rows = self.gathering, self.lists.rows
        assert gathering.total == sum(map(len, rows))
        assert gathering.most(excluding=set()) == max(map(len, rows))
        assert gathering.most(excluding={1}) == max(len(rows[0]), *map(len, rows[2:]))
        assert [gathering.count(partition) for partition in range(PARTITIONS)] == list(map(len, rows))


adds = st.lists(st.integers(0, PARTITIONS - 1), min_size=1, max_size=12)
takes = st.tuples(st.integers(0, PARTITIONS - 1), st.integers(1, 12))


@given(st.lists(adds | takes, max_size=40))
def test_records_are_taken_in_their_order_and_none_is_lost(steps: list[list[int] | tuple[int, int]]) -> None:
    """Whatever came at once and whatever is taken at once."""
    both = Both()
    for step in steps:
        if isinstance(step, list):
            both.add(step)
        elif (count := min(step[1], both.gathering.count(step[0]))) > 0:
            ours, theirs = both.take(step[0], count)
            assert ours == theirs
        both.assert_equal()
    for partition in range(PARTITIONS):
        if both.gathering.count(partition):
            ours, theirs = both.take(partition, both.gathering.count(partition))
            assert ours == theirs
    assert both.gathering.total == 0


@given(st.lists(adds | takes, max_size=40))
def test_the_rest_is_all_that_was_not_taken(steps: list[list[int] | tuple[int, int]]) -> None:
    """A round that ends early counts each of those as never sent, with the time that it waited."""
    both = Both()
    for step in steps:
        if isinstance(step, list):
            both.add(step)
        elif (count := min(step[1], both.gathering.count(step[0]))) > 0:
            both.take(step[0], count)
    indexes, dues_ns = both.gathering.rest()

    assert sorted(zip(indexes.tolist(), dues_ns.tolist(), strict=True)) == sorted(
        row[:2] for rows in both.lists.rows for row in rows
    )


@given(
    parts=st.lists(adds, max_size=5),
    capacity=st.integers(1, 5),
    now=st.none() | st.integers(-40, 400),
    excluding=st.sets(st.integers(0, PARTITIONS - 1)),
)
def test_partitions_are_ready_when_full_or_lingered(
    parts: list[list[int]], capacity: int, now: int | None, excluding: set[int]
) -> None:
    """As often as they have a batch to send; without a `now` until they are empty."""
    both = Both()
    for part in parts:
        both.add(part)
    expected = both.lists.ready(capacity, now)

    assert both.gathering.lingers_until(LINGER_NS, excluding=excluding) == both.lists.lingers_until(excluding)
    turns = []
    for partition in both.gathering.ready(capacity, now, LINGER_NS):
        turns.append(partition)
        ours, theirs = both.take(partition, min(capacity, both.gathering.count(partition)))
        assert ours == theirs
    assert turns == expected
    assert now is not None or both.gathering.total == 0


def test_a_partition_that_is_not_taken_ends_its_turn() -> None:
    """There is no room for it: the others must not wait for that."""
    both = Both()
    both.add([0] * 9 + [2] * 9)

    assert list(both.gathering.ready(4, 0, LINGER_NS)) == [0, 2]


def test_nothing_lingers_where_nothing_waits() -> None:
    """There is no instant to wake up at."""
    gathering = Gathering(PARTITIONS)

    assert (gathering.total, gathering.most(excluding=set(range(PARTITIONS)))) == (0, 0)
    assert gathering.lingers_until(LINGER_NS, excluding=set()) is None
    assert list(gathering.ready(1, None, LINGER_NS)) == []
    assert [column.size for column in gathering.rest()] == [0, 0]
