"""What records hold: random bytes, with a tag in front where end-to-end time is measured.

The tag is 16 bytes, big-endian: when the record was due (ns of the monotonic clock), then its origin (producer in
the upper 16 bits, index in the lower 48).
"""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING, Any, Protocol

from pytest_kafkaperf.scenario import TAG_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kafkaperf.scenario import Scenario

_MIN_POOL_BYTES = 128 << 10
_MAX_POOL_BYTES = 32 << 20
_TAG = struct.Struct(">qq")
_INDEX_MASK = (1 << 48) - 1


class Builder(Protocol):
    """aiokafka's `BatchBuilder`, as far as it is used here."""

    def append(self, *, timestamp: int | None, key: bytes | None, value: bytes | None) -> Any:
        """Add a record; None when the batch is full."""


class Payload:
    """Makes the values of one producer's records. Incompressible, seeded."""

    def __init__(self, scenario: Scenario, *, producer: int, seed: int) -> None:
        self._tagged = scenario.consumers > 0
        self._origin = producer << 48
        size_bytes = scenario.record_size - (TAG_BYTES if self._tagged else 0)
        # No value comes twice in a batch, where a codec would find it.
        pool_bytes = min(max(scenario.batch_size, _MIN_POOL_BYTES), _MAX_POOL_BYTES)
        count = pool_bytes // scenario.record_size + 1
        source = random.Random(f"{seed}/{producer}")  # noqa: S311 - a load, not a secret
        self._pool = [source.randbytes(size_bytes) for _ in range(count)]

    def fill(self, builder: Builder, *, first: int, dues_ns: Sequence[int], timestamp_ms: int) -> int:
        """Append records `first`, `first + 1`, ... due at `dues_ns`; returns how many the batch took."""
        append, pool, size = builder.append, self._pool, len(self._pool)
        for taken, due_ns in enumerate(dues_ns):
            index = first + taken
            value = pool[index % size]
            if self._tagged:
                value = _TAG.pack(due_ns, self._origin | (index & _INDEX_MASK)) + value
            if append(timestamp=timestamp_ms, key=None, value=value) is None:
                return taken
        return len(dues_ns)
