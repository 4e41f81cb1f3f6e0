"""Topics as a cluster tells of them, and the requests that ask for one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_kafkaperf.load.grants import Operation, granted
from pytest_kafkaperf.load.kafka import admin, api, types

_PROPERTIES = ("cleanup.policy", "max.message.bytes", "min.insync.replicas")
_TOPIC_RESOURCE = 2
"""Of `DescribeConfigs`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSight:
    """What a cluster tells of a topic."""

    name: str
    partitions: int
    replication_factor: int
    """Of the partition that has the fewest replicas."""
    in_sync: int
    """Replicas that have all records, of the partition that has the fewest of those."""
    leaderless: tuple[int, ...] = ()
    """Partitions that nobody can write to or read from."""
    operations: frozenset[Operation] | None = None
    """What this client may do with it; None where it is not told."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Those of `_PROPERTIES` that are told."""


def sight_of(topic: str, described: Any, config: Mapping[str, str]) -> TopicSight:
    """What the answer to `AskTopic` says of one topic, and its properties."""
    _, _, _, partitions, *operations = described
    return TopicSight(
        name=topic,
        partitions=len(partitions),
        replication_factor=min((len(replicas) for _, _, _, _, replicas, *_ in partitions), default=0),
        in_sync=min((len(in_sync) for _, _, _, _, _, in_sync, *_ in partitions), default=0),
        leaderless=tuple(sorted(number for _, number, leader, *_ in partitions if leader < 0)),
        operations=granted(operations[0]) if operations else None,
        config=config,
    )


async def config_of(client: Any, topic: str) -> dict[str, str]:
    """Those of `_PROPERTIES` that the cluster tells; one request."""
    request = admin.DescribeConfigsRequest([(_TOPIC_RESOURCE, topic, list(_PROPERTIES))])
    answer = await client.send(client.get_random_node(), request)
    return {
        name: value
        for code, _, _, _, entries in answer.resources
        if not code
        for name, value, *_ in entries
        if value is not None
    }


class _TopicAnswer(api.Response):  # type: ignore[misc] # aiokafka ships no types
    """Metadata v8, the first that tells operations (KIP-430), and the last before flexible versions."""

    API_KEY = 3
    API_VERSION = 8
    SCHEMA = types.Schema(
        ("throttle_time_ms", types.Int32),
        (
            "brokers",
            types.Array(
                ("node_id", types.Int32),
                ("host", types.String("utf-8")),
                ("port", types.Int32),
                ("rack", types.String("utf-8")),
            ),
        ),
        ("cluster_id", types.String("utf-8")),
        ("controller_id", types.Int32),
        (
            "topics",
            types.Array(
                ("error_code", types.Int16),
                ("topic", types.String("utf-8")),
                ("is_internal", types.Boolean),
                (
                    "partitions",
                    types.Array(
                        ("error_code", types.Int16),
                        ("partition", types.Int32),
                        ("leader", types.Int32),
                        ("leader_epoch", types.Int32),
                        ("replicas", types.Array(types.Int32)),
                        ("isr", types.Array(types.Int32)),
                        ("offline_replicas", types.Array(types.Int32)),
                    ),
                ),
                ("authorized_operations", types.Int32),
            ),
        ),
        ("cluster_authorized_operations", types.Int32),
    )


class _AskTopicStruct(api.RequestStruct):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 8
    RESPONSE_TYPE = _TopicAnswer
    SCHEMA = types.Schema(
        ("topics", types.Array(types.String("utf-8"))),
        ("allow_auto_topic_creation", types.Boolean),
        ("include_cluster_authorized_operations", types.Boolean),
        ("include_topic_authorized_operations", types.Boolean),
    )


class AskTopic(api.Request[_AskTopicStruct]):  # type: ignore[misc]
    """One topic, which is not created by being asked for."""

    API_KEY = 3

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def build(self, request_struct_class: type[_AskTopicStruct]) -> _AskTopicStruct:
        """As aiokafka asks for it."""
        return request_struct_class([self._topic], False, False, True)
