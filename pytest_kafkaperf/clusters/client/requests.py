"""Requests to a cluster that aiokafka's own clients do not make, each within a bound."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiokafka import errors as kafka_errors
from aiokafka.protocol import admin, api, coordination, types
from aiokafka.protocol import group as membership

from pytest_kafkaperf.clusters.client.acls import Operation, granted

_PROPERTIES = ("cleanup.policy", "max.message.bytes", "min.insync.replicas")

_TOPIC_RESOURCE = 2
"""Of `DescribeConfigs`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
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


def topic_metadata(topic: str, described: Any, config: Mapping[str, str]) -> TopicMetadata:
    """What the answer to `AskTopic` says of one topic, and its properties."""
    _, _, _, partitions, *operations = described
    return TopicMetadata(
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


_COORDINATOR_S = 5
"""Bound of waiting for the broker that keeps a group or a transactional id; the load waits longer."""

_TICK_S = 0.05

LATER: tuple[type[Exception], ...] = (
    kafka_errors.GroupCoordinatorNotAvailableError,
    kafka_errors.GroupLoadInProgressError,
    kafka_errors.NotCoordinatorForGroupError,
)
"""A coordinator that is about to be one."""


async def ask_coordinator(client: Any, key: str, kind: int, request: Any) -> tuple[type[Exception] | None, Any]:
    """What the coordinator of a group (0) or of a transactional id (1) answers; the error where there is no answer."""
    deadline = time.monotonic() + _COORDINATOR_S
    while True:
        found = await client.send(client.get_random_node(), coordination.FindCoordinatorRequest(key, kind))
        error: type[Exception] = kafka_errors.for_code(found.error_code)
        if error is kafka_errors.NoError:
            with contextlib.suppress(kafka_errors.NodeNotReadyError, kafka_errors.KafkaConnectionError):
                answer = await client.send(found.coordinator_id, request)
                codes = [answer.error_code] if hasattr(answer, "error_code") else [one[0] for one in answer.groups]
                if not any(kafka_errors.for_code(code) in LATER for code in codes):
                    return None, answer
        elif error not in LATER:
            return error, None
        if time.monotonic() > deadline:
            return error, None
        await asyncio.sleep(_TICK_S)


async def dismiss(client: Any, group: str) -> None:
    """Let the members of a group leave it in their place: a worker that was killed counts as one for 10 s more."""
    _, answer = await ask_coordinator(client, group, 0, AskGroup(group))
    if answer is not None:
        _, _, _, _, _, members, *_ = answer.groups[0]
        for member, *_ in members:
            await ask_coordinator(client, group, 0, membership.LeaveGroupRequest(group, member))


class _AskGroupStruct(api.RequestStruct):  # type: ignore[misc] # aiokafka ships no types
    """DescribeGroups v3; aiokafka's own forgets the operations in the answer."""

    API_KEY = 15
    API_VERSION = 3
    RESPONSE_TYPE = admin.DescribeGroupsResponse_v3
    SCHEMA = types.Schema(
        ("groups", types.Array(types.String("utf-8"))), ("include_authorized_operations", types.Boolean)
    )


class AskGroup(api.Request[_AskGroupStruct]):  # type: ignore[misc]
    """One group, and what this client may do with it."""

    API_KEY = 15

    def __init__(self, group: str) -> None:
        self._group = group

    def build(self, request_struct_class: type[_AskGroupStruct]) -> _AskGroupStruct:
        """As aiokafka asks for it."""
        return request_struct_class([self._group], True)
