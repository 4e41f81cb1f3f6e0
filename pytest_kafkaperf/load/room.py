"""Room for batches on their way: bounded by the partition and in bytes. Partitions take turns."""

from __future__ import annotations

import collections

_OUTSTANDING_BYTES = 32 << 20
"""Bound of unacknowledged data of one producer: the default of `buffer.memory` of Kafka's own."""


class Room:
    """What one producer may have on its way: so many batches a partition.

    No more than can be sent at once, and one to follow: while a batch has no room, more records can still join it.
    """

    def __init__(self, partitions: int, *, batches: int, first: int, batch_bytes: int) -> None:
        self._batches = batches
        # Producers begin at different partitions, so that few of them do not meet on the same one.
        self._turns = collections.deque((first + turn) % partitions for turn in range(partitions))
        self._taken = [0] * partitions
        self._full: set[int] = set()
        self._not_full_since_ns = [0] * partitions
        bound = max(1, _OUTSTANDING_BYTES // batch_bytes)
        self._free_since_ns = collections.deque([0] * min(bound, partitions * batches))

    def free(self, partition: int | None = None) -> bool:
        """Whether a batch may go to a partition; to any, without one."""
        return bool(self._free_since_ns) and (
            len(self._full) < len(self._taken) if partition is None else partition not in self._full
        )

    def take(self, partition: int | None = None) -> tuple[int, int]:
        """The partition, or the one whose turn it is, and since when its batch has had room (ns)."""
        since_ns = self._free_since_ns.popleft()
        if partition is None:
            partition = self._next()
        else:
            since_ns = max(since_ns, self._not_full_since_ns[partition])
        self._taken[partition] += 1
        if self._taken[partition] == self._batches:
            self._full.add(partition)
        return partition, since_ns

    def give_back(self, partition: int, now_ns: int) -> None:
        """A batch has ended."""
        self._taken[partition] -= 1
        if partition in self._full:
            self._full.remove(partition)
            self._not_full_since_ns[partition] = now_ns
        self._free_since_ns.append(now_ns)

    def _next(self) -> int:
        """The first in turn that is not full; the turn goes on."""
        while True:
            partition = self._turns[0]
            self._turns.rotate(-1)
            if partition not in self._full:
                return partition
