"""Keys of one producer's records, and the partitions that Kafka's default partitioner gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.scenario import KEY_BYTES

if TYPE_CHECKING:
    from pytest_kafkaperf.keys import Keys
    from pytest_kafkaperf.load.payload import Int64s

_SEED = 0x9747B28C
_M = np.uint32(0x5BD1E995)
_R = np.uint32(24)


class KeySource:
    """Draws the keys of one producer's records; seeded, in the order of the records."""

    def __init__(self, keys: Keys, *, producer: int, producers: int, seed: int) -> None:
        self._kind = keys.kind
        self._count = keys.count or 0
        self._producer = producer
        self._producers = producers
        self._random = np.random.default_rng((seed, producer))
        self._shares: npt.NDArray[np.float64] | None = None
        if keys.kind == "zipf":
            weights = np.arange(1, self._count + 1, dtype=np.float64) ** -(keys.exponent or 1.0)
            self._shares = np.cumsum(weights / weights.sum())

    def next(self, indexes: Int64s) -> Int64s:
        """The keys of the producer's next records, shape of `indexes`; sequential ones count over all producers."""
        if self._kind == "sequential":
            return indexes * self._producers + self._producer
        if self._shares is None:
            return self._random.integers(0, self._count, size=indexes.size)
        drawn = np.searchsorted(self._shares, self._random.random(indexes.size), side="right")
        return np.minimum(drawn, self._count - 1)  # the last share may be rounded to less than 1


def partitions_of(keys: Int64s, partitions: int) -> Int64s:
    """The partition of each key, shape `(keys,)`: murmur2 of its 8 bytes, as Kafka's default partitioner has it.

    Source: `org.apache.kafka.common.utils.Utils.murmur2` and `toPositive` (the algorithm is A. Appleby's MurmurHash2).
    """
    words = keys.astype(">i8").view("<u4").reshape(-1, 2)
    hashes = np.full(keys.size, _SEED ^ KEY_BYTES, dtype=np.uint32)
    for word in (words[:, 0].astype(np.uint32), words[:, 1].astype(np.uint32)):
        mixed = word * _M
        mixed ^= mixed >> _R
        hashes = (hashes * _M) ^ (mixed * _M)
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    return (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64) % partitions
