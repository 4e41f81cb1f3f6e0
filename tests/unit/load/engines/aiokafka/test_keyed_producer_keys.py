"""Keys and their partitions, against aiokafka's own partitioner and the shares that were asked for."""

from __future__ import annotations

import collections
import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest
from aiokafka.partitioner import DefaultPartitioner, murmur2
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.load.engines.aiokafka.keyed_producer import (
    KeySource,
    partitions_of,
    partitions_of_bytes,
    shares_of,
)
from pytest_kafkaperf.scenarios.payloads import parse_keys
from pytest_kafkaperf.scenarios.scenario import KEY_BYTES

if TYPE_CHECKING:
    from pytest_kafkaperf.load.identity import Int64s

DRAWS = 200_000


def source(keys: str, *, producer: int = 0, producers: int = 1, seed: int = 1) -> KeySource:
    return KeySource(parse_keys(keys), producer=producer, producers=producers, seed=seed)


def drawn(keys: str, count: int = DRAWS, *, producer: int = 0, seed: int = 1) -> Int64s:
    return source(keys, producer=producer, seed=seed).next(np.arange(count))


@given(keys=st.lists(st.integers(-(2**63), 2**63 - 1)), partitions=st.integers(1, 10_000))
def test_partitions_are_those_of_kafkas_default_partitioner(keys: list[int], partitions: int) -> None:
    """Whoever reads the topic by key finds a record where any other producer would have put it."""
    encoded = [key.to_bytes(KEY_BYTES, "big", signed=True) for key in keys]
    there = list(range(partitions))

    found = partitions_of(np.array(keys, dtype=np.int64), partitions).tolist()
    assert found == [(murmur2(key) & 0x7FFFFFFF) % partitions for key in encoded]
    assert found == [DefaultPartitioner()(key, there, there) for key in encoded]


@given(keys=st.lists(st.binary(max_size=30)), partitions=st.integers(1, 10_000))
def test_keys_of_any_length_have_the_partitions_of_kafkas_default_partitioner(
    keys: list[bytes], partitions: int
) -> None:
    """A payload function chooses its own keys, and the last bytes of a word that is not full are hashed differently."""
    found = partitions_of_bytes(keys, partitions)

    assert found.tolist() == [(murmur2(key) & 0x7FFFFFFF) % partitions for key in keys]


def test_hashes_are_those_of_kafkas_java_client() -> None:
    """Both Python versions could be wrong together: `Utils.murmur2` of Kafka 4.3's own client gave these."""
    hashes = {0: -522759933, 1: 2100486060, -1: 185950397, 2**63 - 1: -1236687672}

    for key, value in hashes.items():
        expected = (value & 0x7FFFFFFF) % 10_000
        assert partitions_of(np.array([key]), 10_000).tolist() == [expected]


def test_uniform_keys_come_equally_often() -> None:
    """All of them, and no others."""
    counts = np.bincount(drawn("uniform:50"), minlength=50)

    assert counts.size == 50
    chi_squared = float(((counts - DRAWS / 50) ** 2 / (DRAWS / 50)).sum())
    assert chi_squared < 94.6  # 49 degrees of freedom, p = 0.0001


@pytest.mark.parametrize(("keys", "exponent"), [("zipf:50", 1.0), ("zipf:50:0.5", 0.5), ("zipf:50:2", 2.0)])
def test_zipf_keys_come_by_their_rank(keys: str, exponent: float) -> None:
    """Key k in proportion to 1 / (k + 1) ** exponent: a hot key is as hot as was asked for."""
    weights = np.arange(1, 51) ** -exponent
    expected = DRAWS * weights / weights.sum()
    counts = np.bincount(drawn(keys), minlength=50)

    assert counts.size == 50
    assert float(((counts - expected) ** 2 / expected).sum()) < 94.6  # 49 degrees of freedom, p = 0.0001


@given(keys=st.sampled_from(["uniform:1", "uniform:3", "zipf:1", "zipf:3", "zipf:1M:3", "zipf:1M:0.01"]))
def test_keys_are_within_their_number(keys: str) -> None:
    """The shares of a table of a million keys do not quite make 1: the rest must not be a key beyond."""
    found = drawn(keys, 1000)

    assert found.min() >= 0
    assert found.max() < (parse_keys(keys).count or 0)


@pytest.mark.parametrize("keys", ["uniform:1000", "zipf:1000"])
def test_draws_are_seeded_and_differ_between_producers(keys: str) -> None:
    """A round can be repeated; two producers do not send the same keys."""
    first = drawn(keys, 100).tolist()

    assert drawn(keys, 100).tolist() == first
    assert drawn(keys, 100, seed=2).tolist() != first
    assert drawn(keys, 100, producer=1).tolist() != first


@given(parts=st.lists(st.integers(0, 50), max_size=10), keys=st.sampled_from(["uniform:9", "zipf:9", "sequential"]))
def test_it_does_not_matter_how_many_keys_are_drawn_at_once(parts: list[int], keys: str) -> None:
    """A producer takes records as they come due."""
    bits, whole = source(keys), source(keys)
    ends = np.cumsum([0, *parts])
    pieces = [bits.next(np.arange(first, last)).tolist() for first, last in itertools.pairwise(ends.tolist())]

    assert list(itertools.chain.from_iterable(pieces)) == whole.next(np.arange(ends[-1])).tolist()


@given(producers=st.integers(1, 20), warmup=st.integers(0, 50), count=st.integers(1, 50))
def test_sequential_keys_are_unique_over_all_producers(producers: int, warmup: int, count: int) -> None:
    """A key is the record's index in the whole load, below zero in the warm-up."""
    indexes = np.arange(-warmup, count)
    tally = collections.Counter(
        key
        for producer in range(producers)
        for key in source("sequential", producer=producer, producers=producers).next(indexes).tolist()
    )

    assert sorted(tally) == list(range(-warmup * producers, count * producers))
    assert set(tally.values()) == {1}


def test_producers_of_a_process_share_the_table_of_zipf_keys() -> None:
    """That of a million keys has 8 MB, and there may be hundreds of producers."""
    assert shares_of(1000, 1.0) is shares_of(1000, 1.0)
    assert shares_of(1000, 2.0)[0] > shares_of(1000, 1.0)[0]
