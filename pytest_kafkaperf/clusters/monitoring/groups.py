"""Watcher of consumer groups: the offsets that they have committed on a topic, and the topic's end offsets."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from aiokafka.client import CoordinationType
from aiokafka.errors import KafkaError, LeaderNotAvailableError, for_code
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.structs import TopicPartition

from pytest_kafkaperf.clusters.client.connection import ask_for_topics
from pytest_kafkaperf.clusters.monitoring.watcher import ClientWatcher
from pytest_kafkaperf.clusters.spec import Cluster

INTERVAL_S = 0.1
"""Interval between two readings: the finest commit interval that they show. Each reading takes 1 ms of CPU time here,
and up to 2 ms of the brokers'."""
_LATEST = -1
"""The timestamp that stands for the end offset in a ListOffsets request."""
_NO_LEADER = -1
"""The leader of a partition whose replicas are all down, in a metadata response."""

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffsets:
    """Readings of the offsets of one group."""

    at_ns: Int64s
    """Instants on the monotonic clock, shape `(readings,)`."""
    committed: Int64s
    """Offset after the last committed record, shape `(readings, partitions)`. On a partition without one, it is the
    first of the `ends`."""
    ends: Int64s
    """End offset, shape `(readings, partitions)`; read right after the committed ones."""

    @classmethod
    def of(cls, readings: Sequence[tuple[int, Sequence[int], Sequence[int]]], partitions: int) -> GroupOffsets:
        """Convert readings: instant, committed offset by partition (-1: none), end offset by partition."""
        rows = np.array([(at_ns, *committed, *ends) for at_ns, committed, ends in readings], dtype=np.int64)
        at_ns, committed, ends = np.split(rows.reshape(-1, 1 + 2 * partitions), [1, 1 + partitions], axis=1)
        return cls(at_ns=at_ns[:, 0], committed=np.where(committed < 0, ends[:1], committed), ends=ends)


class GroupWatcher(ClientWatcher):
    """Reads the committed offsets of groups on one topic, and its end offsets, ten times a second."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int, groups: Sequence[str]) -> None:
        super().__init__(cluster.bootstrap_servers, cluster.access, interval_s=INTERVAL_S)
        self._topic = topic
        self._partitions = partitions
        self._coordinators: dict[str, int] = {}
        self._knows_leaders = False
        self._readings: dict[str, list[tuple[int, list[int], list[int]]]] = {group: [] for group in groups}

    def offsets(self) -> dict[str, GroupOffsets]:
        """Return the readings by group; call this after the exit."""
        return {group: GroupOffsets.of(found, self._partitions) for group, found in self._readings.items()}

    def waiting_for(self, offsets: Mapping[int, int], *, timeout_s: float) -> Iterator[None]:
        """Wait until every group has committed these offsets, by partition, or the time is up; yield meanwhile."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s and not all(
            readings and all(readings[-1][1][partition] >= offset for partition, offset in offsets.items())
            for readings in self._readings.values()
        ):
            yield
            self._closing.wait(INTERVAL_S)

    async def _read(self, client: Any) -> None:
        try:
            found = [(group, await self._committed(client, group), time.monotonic_ns()) for group in self._readings]
            ends = await self._ends(client)
        except KafkaError:  # a coordinator or a leader may have moved
            self._coordinators.clear()
            self._knows_leaders = False
            raise
        for group, committed, at_ns in found:
            self._readings[group].append((at_ns, committed, ends))

    async def _committed(self, client: Any, group: str) -> list[int]:
        if group not in self._coordinators:
            self._coordinators[group] = await client.coordinator_lookup(CoordinationType.GROUP, group)
        request = OffsetFetchRequest(group, [(self._topic, list(range(self._partitions)))])
        answer = await client.send(self._coordinators[group], request)
        if code := getattr(answer, "error_code", 0):  # of the whole group; the topics are absent
            raise for_code(code)
        return _by_partition((partition, code, offset) for partition, offset, _, code in answer.topics[0][1])

    async def _ends(self, client: Any) -> list[int]:
        if not self._knows_leaders:  # aiokafka's own request would create a topic that was deleted
            client.cluster.update_metadata(await client.send(client.get_random_node(), ask_for_topics([self._topic])))
            self._knows_leaders = True
        leaders: dict[int | None, list[tuple[int, int]]] = defaultdict(list)
        for partition in range(self._partitions):
            leader = client.cluster.leader_for_partition(TopicPartition(self._topic, partition))
            leaders[leader].append((partition, _LATEST))
        if leaders.keys() & {None, _NO_LEADER}:  # aiokafka would log an error for each attempt to reach it
            raise LeaderNotAvailableError(self._topic)
        requests = [(leader, OffsetRequest(-1, 0, [(self._topic, parts)])) for leader, parts in leaders.items()]
        answers = await asyncio.gather(*(client.send(leader, request) for leader, request in requests))
        return _by_partition((part, code, end) for one in answers for part, code, _, end, *_ in one.topics[0][1])


def _by_partition(rows: Iterable[tuple[int, int, int]]) -> list[int]:
    """Return the offsets of rows of partition, error code and offset."""
    ordered = sorted(rows)
    for _, code, _ in ordered:
        if code:
            raise for_code(code)
    return [offset for _, _, offset in ordered]
