"""What stands in the log, compared with what was acknowledged: exact, against looking at each record by itself."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.load.audit import compare, named_records, outcome, refuse_compacted
from pytest_kafkaperf.load.identity import ReceivedBatch, names_of
from pytest_kafkaperf.load.messages import Audit, Consumed

if TYPE_CHECKING:
    from pytest_kafkaperf.load.identity import Int64s

Name = tuple[int, int]
"""Producer and index."""
MAX_INDEX = 2**47 - 1


def audited(log: list[list[Name]], acknowledged: int, failed: list[Name] | None = None) -> Audit:
    """Of a log of partitions."""
    by_partition = [columns(partition) for partition in log if partition]
    by_producer: dict[int, list[int]] = {}
    for producer, index in failed or []:
        by_producer.setdefault(producer, []).append(index)
    missed = [(producer, np.array(indexes, dtype=np.int64)) for producer, indexes in by_producer.items()]
    return compare(by_partition, missed, acknowledged)


def columns(names: list[Name]) -> tuple[Int64s, Int64s]:
    producers, indexes = zip(*names, strict=True)
    return np.array(producers, dtype=np.int64), np.array(indexes, dtype=np.int64)


def one_by_one(log: list[list[Name]], acknowledged: list[Name]) -> Audit:
    """The slow, obvious version: it knows each acknowledged record by name, not only how many there are."""
    everything = [name for partition in log for name in partition]
    reordered = 0
    for partition in log:
        first = list(dict.fromkeys(partition))
        reordered += sum(
            any(earlier[0] == name[0] and earlier[1] > name[1] for earlier in first[:place])
            for place, name in enumerate(first)
        )
    return Audit(
        lost=len(set(acknowledged) - set(everything)),
        duplicated=len(everything) - len(set(everything)),
        reordered=reordered,
    )


FOUR = [(0, 0), (0, 1), (0, 2), (0, 3)]


@pytest.mark.parametrize(
    ("log", "acknowledged", "expected"),
    [
        ([FOUR], 4, (0, 0, 0)),
        ([], 0, (0, 0, 0)),
        ([], 4, (4, 0, 0)),
        ([FOUR[:2], FOUR[2:]], 4, (0, 0, 0)),
        ([FOUR[:1] + FOUR[2:]], 4, (1, 0, 0)),
        ([FOUR + FOUR[3:]], 4, (0, 1, 0)),  # sent again at once: twice there, and not behind a later one
        ([FOUR + FOUR[:1]], 4, (0, 1, 0)),  # of two the first counts: the second is a duplicate, no more
        ([FOUR, FOUR], 4, (0, 4, 0)),  # in another partition, too
        ([[(0, 1), (0, 0), (0, 2), (0, 3)]], 4, (0, 0, 1)),
        ([[(0, 3), (0, 0), (0, 1), (0, 2)]], 4, (0, 0, 3)),  # three of them stand behind a later one
        ([[(0, 1), (0, 2)], [(0, 0), (0, 3)]], 4, (0, 0, 0)),  # partitions have an order each
        ([[(1, 0), (0, 0), (1, 1), (0, 1)]], 4, (0, 0, 0)),  # and so have producers
        ([[(0, 1), (1, 0), (0, 0), (1, 1)]], 4, (0, 0, 1)),
        ([[(0, 0), (0, 0), (0, 2), (0, 1)]], 4, (1, 1, 1)),  # one of each hides nothing
    ],
)
def test_lost_duplicated_and_reordered_records_are_counted(
    log: list[list[Name]], acknowledged: int, expected: tuple[int, int, int]
) -> None:
    """Each by itself: a surplus of the log may hide a gap where only its length is known."""
    assert dataclasses.astuple(audited(log, acknowledged)) == expected


def test_indexes_of_the_warm_up_are_below_zero_and_before_the_windows() -> None:
    """A producer's last warm-up record must not be taken for the last of the producer before it."""
    log = [[(0, -2), (1, -1), (0, -1), (1, 0), (0, 0), (2, -MAX_INDEX - 1), (1, MAX_INDEX)]]

    assert audited(log, 7) == Audit(lost=0, duplicated=0, reordered=0)
    assert audited([[(1, 0), (1, -1)]], 2) == Audit(lost=0, duplicated=0, reordered=1)
    assert audited([[(0, MAX_INDEX), (1, -MAX_INDEX - 1)]], 2) == Audit(lost=0, duplicated=0, reordered=0)


def test_a_failed_record_may_stand_in_the_log() -> None:
    """No answer came: it is neither lost, where it is not there, nor does it stand in for one that is."""
    assert audited([FOUR], 3, failed=[(0, 3)]) == Audit(lost=0, duplicated=0, reordered=0)
    assert audited([FOUR[:3]], 3, failed=[(0, 3)]) == Audit(lost=0, duplicated=0, reordered=0)
    assert audited([FOUR[1:]], 3, failed=[(0, 3)]) == Audit(lost=1, duplicated=0, reordered=0)
    assert audited([FOUR + FOUR[3:]], 3, failed=[(0, 3)]) == Audit(lost=0, duplicated=1, reordered=0)
    assert audited([[(0, 3), (0, 0), (0, 1)]], 3, failed=[(0, 3)]) == Audit(lost=1, duplicated=0, reordered=2)
    assert audited([FOUR], 4, failed=[(1, 3)]) == Audit(lost=0, duplicated=0, reordered=0)  # another producer's


names = st.tuples(st.sampled_from([0, 1, 2, 999]), st.integers(-6, 6) | st.just(MAX_INDEX))


@given(sent=st.lists(names, unique=True, max_size=20), data=st.data())
def test_any_log_is_audited_as_by_looking_at_each_record(sent: list[Name], data: st.DataObject) -> None:
    """Records that are lost, sent again, that failed and came through all the same, in any order, anywhere."""
    failed = set(data.draw(st.lists(st.sampled_from(sent)))) if sent else set()
    there = data.draw(st.lists(st.sampled_from(sent), max_size=30)) if sent else []
    places = data.draw(st.lists(st.integers(0, 2), min_size=len(there), max_size=len(there)))
    log: list[list[Name]] = [[], [], []]
    for name, place in zip(there, places, strict=True):
        log[place].append(name)
    acknowledged = [name for name in sent if name not in failed]

    assert audited(log, len(acknowledged), sorted(failed)) == one_by_one(log, acknowledged)


def received(tags: list[tuple[int, int]], count: int) -> ReceivedBatch:
    encoded = np.array([[7, (producer << 48) | (index & (2**48 - 1))] for producer, index in tags], dtype=np.int64)
    return ReceivedBatch(offset=0, count=count, tags=encoded.reshape(-1, 2), size_bytes=0)


def test_records_are_known_by_their_tags_or_follow_the_first_of_their_batch() -> None:
    """Where no consumer needs each due time, only the first record of a batch has a tag; the rest is its filling."""
    batch = received([(3, -2), (0, 12345), (77, 1)], 3)

    every = [column.tolist() for column in named_records(batch, every=True)]
    assert every == [[3, 0, 77], [-2, 12345, 1]]
    first = [column.tolist() for column in named_records(batch, every=False)]
    assert first == [[3, 3, 3], [-2, -1, 0]]


@pytest.mark.parametrize(
    ("members", "acknowledged", "expected"),
    [
        ([(0, FOUR, 0)], 4, (0, 0)),
        ([(0, FOUR[:2], 0), (0, FOUR[2:], 0)], 4, (0, 0)),
        ([(0, FOUR[:3], 1)], 4, (1, 1)),
        ([(0, FOUR, 0), (0, FOUR[:2], 0)], 4, (0, 2)),  # one member got it, another got it again
        ([(0, FOUR, 0), (1, FOUR[:3], 0)], 4, (1, 0)),  # each group is to get all
        ([(0, [*FOUR, (1, 7)], 0)], 5, (1, 0)),  # that of (1, 7) failed: it does not make up for one that is lost
        ([(0, [], 0)], 4, (4, 0)),
    ],
)
def test_what_came_out_is_compared_with_what_was_acknowledged(
    members: list[tuple[int, list[Name], int]], acknowledged: int, expected: tuple[int, int]
) -> None:
    """Through an application: members are of a group, have received records, and some of them again."""
    parts = [Consumed(group=group, repeated=repeated) for group, _, repeated in members]
    for part, (_, names, _) in zip(parts, members, strict=True):
        for name in names_of(*columns(names)).tolist() if names else ():
            part.came_out.add(name, measured=True)
    failed = [(1, np.array([7], dtype=np.int64))]
    assert outcome(parts, failed, acknowledged) == Audit(lost=expected[0], duplicated=expected[1], reordered=0)


def test_a_record_without_a_tag_in_the_log_ends_the_audit() -> None:
    """It is too short for one: nobody can tell which records stand in the log."""
    with pytest.raises(LoadError, match="^the log contains records smaller than 16 B, which have no tag$"):
        named_records(received([(0, 1)], 2), every=False)


@pytest.mark.parametrize(
    ("tags", "count", "every", "indexes"),
    [
        ([(0, 5)], 3, False, [5, 6, 7]),  # of a pool
        ([(0, 5), (0, 9), (0, 6)], 3, False, [5, 9, 6]),  # of a pool with keys
        ([(0, 5), (0, 9), (0, 6)], 3, True, [5, 9, 6]),
    ],
)
def test_generated_records_have_one_tag_each_or_one_in_a_batch(
    tags: list[tuple[int, int]], count: int, indexes: list[int], *, every: bool
) -> None:
    """Their tags are in headers, which each record or only a batch's first record has."""
    producers, found = named_records(received(tags, count), every=every, is_generated=True)
    assert (producers.tolist(), found.tolist()) == ([0] * count, indexes)


@pytest.mark.parametrize(("lost", "gaps", "refused"), [(3, 5, True), (3, 2, False), (0, 5, False)])
def test_what_compaction_may_have_removed_is_not_lost(lost: int, gaps: int, *, refused: bool) -> None:
    """Kafka did what it was asked to. A record that was lost leaves no gap: its offset is taken by another one."""
    found = Audit(lost=lost, duplicated=0, reordered=0)
    expected = pytest.raises(
        LoadError, match=r"^compaction has removed 5 records from the topic, 3 of them possibly from"
    )
    with expected if refused else contextlib.nullcontext():
        refuse_compacted(found, gaps)
