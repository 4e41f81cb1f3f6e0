"""Whose a batch is, on a topic that others write to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.load.identity import ReceivedBatch, RecordFilter, Tagger
from pytest_kafkaperf.scenarios.scenario import Scenario

SECOND = 1_000_000_000
START = 5_000 * SECOND
NOW = START + 3 * SECOND
WARM = START - 2 * SECOND
NONCE = (0x0123_4567_89AB_CDEF, 0x7EDC_BA98_7654_3210)
FIELDS = {"topic": "orders", "producers": 2, "warmup": "2 s"}
OWN = RecordFilter(Scenario.of(FIELDS), NONCE)
APPLICATION = RecordFilter(Scenario.of(FIELDS | {"output_topic": "billed", "consumers": 1}), NONCE)

Tag = tuple[int, int, int]
"""Due time, producer and index."""


def batch(*tags: Tag, count: int | None = None) -> ReceivedBatch:
    rows = [[due ^ NONCE[0], ((producer << 48) | (index & (2**48 - 1))) ^ NONCE[1]] for due, producer, index in tags]
    encoded = np.array(rows, dtype=np.int64).reshape(-1, 2)
    return ReceivedBatch(offset=0, count=len(tags) if count is None else count, tags=encoded, size_bytes=0)


def held(received: ReceivedBatch, *, every: bool = True) -> bool:
    return OWN.part(received, start_ns=START, now_ns=NOW, every=every) is not None


@pytest.mark.parametrize("tag", [(WARM, 0, -2_000_000), (START, 1, 0), (NOW, 1, 12_345), (START - 1, 0, -1)])
def test_a_record_of_this_round_is_our_own(tag: Tag) -> None:
    """From the first of the warm-up to the one that was just sent."""
    assert held(batch(tag))


@pytest.mark.parametrize(
    "tag",
    [
        (WARM - 1, 0, 0),  # of the round before
        (NOW + 1, 0, 0),
        (0, 0, 0),  # zeros
        (-START, 0, 0),
        (START, 2, 0),  # there is no such producer
        (START, -1, 0),
        (START, 0, 2**47 - 1),
        (START, 0, -(2**47)),
    ],
)
def test_any_other_record_is_foreign(tag: Tag) -> None:
    """Each part of a tag must be one that this round has."""
    assert not held(batch(tag))
    assert not held(batch((START, 0, 0), tag))


@pytest.mark.parametrize("is_application", [False, True])
@pytest.mark.parametrize("every", [False, True])
def test_a_record_of_another_run_at_the_same_time_is_foreign(*, is_application: bool, every: bool) -> None:
    """Its due time and its origin are those of this round, too; only the nonce differs."""
    dues_ns = np.arange(START, NOW, SECOND // 2)
    read = []
    for nonce in (NONCE, (NONCE[0] ^ 1 << 60, NONCE[1]), (NONCE[0], NONCE[1] ^ 1 << 62)):
        tags = Tagger(nonce, producer=1).tags(np.arange(6), dues_ns)
        received = ReceivedBatch(offset=0, count=6, tags=tags.astype(np.int64), size_bytes=600)
        record_filter = APPLICATION if is_application else OWN
        read.append(record_filter.part(received, start_ns=START, now_ns=NOW, every=every))

    own, *others = read
    assert others == [None, None]
    assert own is not None
    assert own.tags.tolist() == [[due_ns, (1 << 48) | index] for index, due_ns in enumerate(dues_ns.tolist())]


def test_a_batch_with_a_record_too_short_for_a_tag_is_foreign() -> None:
    """All our records have room for one, or the audit is not begun."""
    assert not held(batch((START, 0, 0), count=2))
    assert not held(batch(count=3))


def test_the_first_tag_tells_where_the_others_are_filling() -> None:
    """Without consumers and keys only the first record of a batch has one."""
    assert held(batch((START, 0, 0), (17, 99, 1)), every=False)
    assert not held(batch((17, 99, 1), (START, 0, 0)), every=False)


@given(st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=50))
def test_random_values_are_foreign(values: list[bytes]) -> None:
    """The chance that one looks like ours is far below one in 10**12."""
    tags = np.frombuffer(b"".join(values), ">i8").astype(np.int64).reshape(-1, 2)
    received = ReceivedBatch(offset=0, count=len(values), tags=tags, size_bytes=0)

    assert not held(received)
    assert not held(received, every=False)


def test_of_an_applications_batch_the_part_counts_that_was_made_of_ours() -> None:
    """It may put our records next to those of others into one batch; without `output_topic` no producer does."""
    mixed = batch((START, 1, 5), (0, 0, 0), (NOW + 1, 0, 0), (WARM, 0, -3), count=8)
    part = APPLICATION.part(replace(mixed, size_bytes=800), start_ns=START, now_ns=NOW)
    assert part is not None
    assert (part.count, part.tags.tolist(), part.size_bytes) == (2, (mixed.tags[[0, 3]] ^ NONCE).tolist(), 200)
    assert OWN.part(mixed, start_ns=START, now_ns=NOW) is None
    assert APPLICATION.part(batch((0, 0, 0)), start_ns=START, now_ns=NOW) is None
