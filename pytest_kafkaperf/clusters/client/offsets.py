"""Requests for the offsets that consumer groups have committed on a topic, and for its end offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from aiokafka import errors as kafka_errors
from aiokafka.client import CoordinationType
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.structs import TopicPartition

_LATEST = -1
"""The timestamp that stands for the end offset in a ListOffsets request."""


class OffsetReader:
    """Reads offsets of one topic, in the order of its partitions; remembers the coordinators of groups."""

    def __init__(self, topic: str, partitions: int) -> None:
        self._topic = topic
        self._partitions = range(partitions)
        self._coordinators: dict[str, int] = {}

    def forget(self, client: Any) -> None:
        """Look coordinators and leaders up again, because one has moved."""
        self._coordinators.clear()
        client.force_metadata_update()

    async def committed(self, client: Any, group: str) -> list[int]:
        """Return the offset that a group has committed on each partition; -1 where it has none.

        Raises:
            KafkaError: the group's coordinator has moved, or this client is not permitted to see the group.

        """
        if group not in self._coordinators:
            self._coordinators[group] = await client.coordinator_lookup(CoordinationType.GROUP, group)
        request = OffsetFetchRequest(group, [(self._topic, list(self._partitions))])
        answer = await client.send(self._coordinators[group], request)
        if code := getattr(answer, "error_code", 0):  # of the whole group; the topics are absent
            raise kafka_errors.for_code(code)
        return _by_partition([(partition, code, offset) for partition, offset, _, code in answer.topics[0][1]])

    async def ends(self, client: Any) -> list[int]:
        """Return the end offset of each partition.

        Raises:
            KafkaError: a leader has moved.

        """
        if self._topic not in client.cluster.topics():
            await client.set_topics([self._topic])
        leaders: dict[int, list[tuple[int, int]]] = {}
        for partition in self._partitions:
            leader = client.cluster.leader_for_partition(TopicPartition(self._topic, partition))
            leaders.setdefault(-1 if leader is None else leader, []).append((partition, _LATEST))
        requests = [(leader, OffsetRequest(-1, 0, [(self._topic, parts)])) for leader, parts in leaders.items()]
        answers = await asyncio.gather(*(client.send(leader, request) for leader, request in requests))
        return _by_partition([(part, code, end) for one in answers for part, code, _, end, *_ in one.topics[0][1]])


def _by_partition(rows: Sequence[tuple[int, int, int]]) -> list[int]:
    """Return the offsets of rows of partition, error code and offset."""
    for _, code, _ in rows:
        if code:
            raise kafka_errors.for_code(code)
    return [offset for _, _, offset in sorted(rows)]
