"""Room for batches: bounded by the partition and in bytes, and shared out fairly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.load.engines.aiokafka.batch_producer import InFlightLimit

MIB = 1 << 20
SMALL = 16 << 10


def taken(room: InFlightLimit) -> list[int]:
    """Whose turn it is, until there is no more room."""
    partitions = []
    while room.free():
        partitions.append(room.take()[0])
    return partitions


def test_every_partition_gets_its_turn_even_when_few_batches_fit() -> None:
    """Large batches and many partitions: the bound in bytes must not leave partitions without records."""
    room = InFlightLimit(1000, first=0, batches=6, batch_bytes=10 * MIB)
    order = []
    for now_ns in range(2000):
        partition, _ = room.take()
        order.append(partition)
        room.give_back(partition, now_ns)

    assert order == list(range(1000)) * 2


@pytest.mark.parametrize("batches", [1, 2, 6])
def test_a_partition_has_so_many_batches_on_their_way_at_most(batches: int) -> None:
    """No more than can be sent at once, and one to follow: beyond that records do better to wait for each other."""
    assert taken(InFlightLimit(3, batches=batches, first=1, batch_bytes=SMALL)) == [1, 2, 0] * batches


def test_a_full_partition_does_not_hold_up_the_others() -> None:
    """Its leader may be slow or gone: the rest of the cluster gets its load all the same."""
    room = InFlightLimit(3, batches=6, first=0, batch_bytes=SMALL)
    for _ in range(6):
        assert room.free(1)
        room.take(1)

    assert not room.free(1)
    assert taken(room) == [0, 2] * 6
    room.give_back(1, 5)
    assert (room.free(1), room.free(0), taken(room)) == (True, False, [1])


def test_what_is_on_its_way_is_bounded_in_bytes() -> None:
    """A cluster that takes nothing must not fill the worker's memory."""
    room = InFlightLimit(100, batches=6, first=0, batch_bytes=MIB)

    assert len(taken(room)) == 32
    assert not room.free(99)


def test_a_batch_that_exceeds_the_bound_goes_alone() -> None:
    """There is always room for one, or nothing would ever be sent."""
    assert taken(InFlightLimit(6, batches=6, first=0, batch_bytes=1 << 30)) == [0]


def test_room_is_told_with_its_age() -> None:
    """A generator that leaves room unused is told from a cluster that gives none."""
    room = InFlightLimit(1, batches=2, first=0, batch_bytes=SMALL)

    assert [room.take(), room.take()] == [(0, 0), (0, 0)]
    room.give_back(0, 500)
    room.give_back(0, 700)
    assert [room.take(), room.take()] == [(0, 500), (0, 700)]


def test_room_of_a_partition_is_as_old_as_the_later_of_its_two_bounds() -> None:
    """There may have been room in bytes for long while the partition was full, or the other way round."""
    room = InFlightLimit(2, batches=1, first=0, batch_bytes=SMALL)
    room.take(0)
    room.give_back(0, 500)

    assert room.take(1) == (1, 0)
    assert room.take(0) == (0, 500)
    room.give_back(1, 600)
    room.give_back(0, 700)
    assert room.take(0) == (0, 700)


@given(
    partitions=st.integers(1, 5),
    batches=st.integers(1, 6),
    batch_mib=st.integers(1, 40),
    steps=st.lists(st.none() | st.integers(0, 4) | st.tuples(st.integers(0, 40)), max_size=80),
)
def test_room_is_what_is_not_taken(
    partitions: int, batches: int, batch_mib: int, steps: list[int | tuple[int] | None]
) -> None:
    """Against a list of what is on its way; None takes a turn, a number that partition, a tuple gives one back."""
    room = InFlightLimit(partitions, batches=batches, first=0, batch_bytes=batch_mib * MIB)
    bound = min(max(1, 32 // batch_mib), batches * partitions)
    on_their_way: list[int] = []
    for step in steps:
        match step:
            case (place,):
                if on_their_way:
                    room.give_back(on_their_way.pop(place % len(on_their_way)), 0)
            case None:
                if room.free():
                    on_their_way.append(room.take()[0])
            case _:
                if room.free(step % partitions):
                    on_their_way.append(room.take(step % partitions)[0])
        open_ = [partition for partition in range(partitions) if on_their_way.count(partition) < batches]
        room_left = len(on_their_way) < bound
        assert [room.free(partition) for partition in range(partitions)] == [
            room_left and partition in open_ for partition in range(partitions)
        ]
        assert room.free() == (room_left and bool(open_))
