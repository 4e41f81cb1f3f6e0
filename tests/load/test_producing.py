"""Room for batches: bounded, and shared out fairly."""

from __future__ import annotations

from pytest_kafkaperf.load.producing import _Slots


def test_every_partition_gets_its_turn_even_when_few_batches_fit() -> None:
    """Large batches and many partitions: the bound in bytes must not leave partitions without records."""
    slots = _Slots(1000, first=0, batch_bytes=10 << 20)
    assert slots.free == 3

    taken = []
    for now_ns in range(2000):
        partition, _ = slots.take()
        taken.append(partition)
        slots.give_back(partition, now_ns)
    assert taken == list(range(1000)) * 2


def test_a_partition_has_two_batches_on_their_way_at_most() -> None:
    """One in flight, and one to follow."""
    slots = _Slots(3, first=1, batch_bytes=16 << 10)

    assert slots.free == 6
    assert [slots.take()[0] for _ in range(6)] == [1, 2, 0, 1, 2, 0]
    assert slots.free == 0


def test_a_batch_that_exceeds_the_bound_goes_alone() -> None:
    """There is always room for one, or nothing would ever be sent."""
    assert _Slots(6, first=0, batch_bytes=1 << 30).free == 1


def test_room_is_told_with_its_age() -> None:
    """A generator that leaves room unused is told from a cluster that gives none."""
    slots = _Slots(1, first=0, batch_bytes=1)

    assert slots.take() == (0, 0)
    assert slots.take() == (0, 0)
    slots.give_back(0, 500)
    slots.give_back(0, 700)
    assert [slots.take(), slots.take()] == [(0, 500), (0, 700)]
