"""Requests to whichever broker can answer them, including some that aiokafka does not have (such as KIP-554)."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import random
import secrets
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiokafka import errors as kafka_errors
from aiokafka.protocol import admin, api, coordination, metadata, types
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.structs import TopicPartition

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.admin.acls import Operation, granted
from pytest_kafkaperf.clusters.admin.connection import call, connected, soon
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.scenarios.scenario import Scenario

_PROPERTIES = ("cleanup.policy", "max.message.bytes", "min.insync.replicas")

_TOPIC_RESOURCE = 2
"""Resource type for topics in `DescribeConfigs`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """A topic as described by a cluster."""

    name: str
    partitions: int
    replication_factor: int
    """Minimum across all partitions."""
    in_sync: int
    """Minimum number of in-sync replicas across all partitions."""
    leaderless: tuple[int, ...] = ()
    """Partitions without a leader, which cannot be written to or read from."""
    operations: frozenset[Operation] | None = None
    """Operations that this client is permitted to perform; None if the cluster does not report them."""
    config: Mapping[str, str] = field(default_factory=dict)
    """The `_PROPERTIES` that the cluster reports."""

    @classmethod
    async def of(cls, client: Any, topic: str, described: Any) -> TopicMetadata:
        """Convert one topic from a metadata response, and query the topic's properties."""
        _, _, _, partitions, *operations = described
        return cls(
            name=topic,
            partitions=len(partitions),
            replication_factor=min((len(replicas) for _, _, _, _, replicas, *_ in partitions), default=0),
            in_sync=min((len(in_sync) for _, _, _, _, _, in_sync, *_ in partitions), default=0),
            leaderless=tuple(sorted(number for _, number, leader, *_ in partitions if leader < 0)),
            operations=granted(operations[0]) if operations else None,
            config=await _config_of(client, topic),
        )


async def _config_of(client: Any, topic: str) -> dict[str, str]:
    """Request a topic's `_PROPERTIES`, and return those that the cluster reports."""
    request = admin.DescribeConfigsRequest([(_TOPIC_RESOURCE, topic, list(_PROPERTIES))])
    answer = await ask_any(client, request)
    found: dict[str, str] = {}
    for code, _, _, _, entries in answer.resources:
        if not code:
            found |= {name: value for name, value, *_ in entries if value is not None}
    return found


_TEXT = types.String("utf-8")
_BROKERS = types.Array(("node_id", types.Int32), ("host", _TEXT), ("port", types.Int32), ("rack", _TEXT))
_PARTITIONS = types.Array(
    ("error_code", types.Int16),
    ("partition", types.Int32),
    ("leader", types.Int32),
    ("leader_epoch", types.Int32),
    ("replicas", types.Array(types.Int32)),
    ("isr", types.Array(types.Int32)),
    ("offline_replicas", types.Array(types.Int32)),
)
_TOPICS = types.Array(
    ("error_code", types.Int16),
    ("topic", _TEXT),
    ("is_internal", types.Boolean),
    ("partitions", _PARTITIONS),
    ("authorized_operations", types.Int32),
)


class _MetadataResponse(api.Response):  # type: ignore[misc] # aiokafka ships no types
    """Metadata v8: the first version with permitted operations (KIP-430), and the last before flexible versions."""

    API_KEY = 3
    API_VERSION = 8
    SCHEMA = types.Schema(
        ("throttle_time_ms", types.Int32),
        ("brokers", _BROKERS),
        ("cluster_id", _TEXT),
        ("controller_id", types.Int32),
        ("topics", _TOPICS),
        ("cluster_authorized_operations", types.Int32),
    )


class _MetadataStruct(api.RequestStruct):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 8
    RESPONSE_TYPE = _MetadataResponse
    SCHEMA = types.Schema(
        ("topics", types.Array(_TEXT)),
        ("allow_auto_topic_creation", types.Boolean),
        ("include_cluster_authorized_operations", types.Boolean),
        ("include_topic_authorized_operations", types.Boolean),
    )


class DescribeTopic(api.Request[_MetadataStruct]):  # type: ignore[misc]
    """Request for one topic's metadata and permitted operations, which does not create the topic."""

    API_KEY = 3

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def build(self, request_struct_class: type[_MetadataStruct]) -> _MetadataStruct:
        """Build the request; called by aiokafka."""
        return request_struct_class([self._topic], False, False, True)


_COORDINATOR_S = 12
"""Time to wait for the coordinator of a group or a transactional id. A cluster may report one that has stopped until
`broker.session.timeout.ms` (9 s) has passed."""

_TICK_S = 0.05
_LATEST = -1
"""Timestamp for the end offset in a ListOffsets request."""
_NO_LEADER = -1
"""Leader id in a metadata response for a partition whose replicas are all down."""

UNREACHABLE = (kafka_errors.KafkaConnectionError, kafka_errors.NodeNotReadyError, kafka_errors.RequestTimedOutError)
"""aiokafka's errors when a broker is down or does not respond."""
TRANSIENT: tuple[type[Exception], ...] = (
    kafka_errors.GroupCoordinatorNotAvailableError,
    kafka_errors.GroupLoadInProgressError,
    kafka_errors.NotCoordinatorForGroupError,
)
"""Errors that indicate that a coordinator will soon be available."""


ask_for_topics = functools.partial(metadata.MetadataRequest, allow_auto_topic_creation=False)
"""A metadata request that does not create the topics it queries."""


async def ask_any(client: Any, request: Any) -> Any:
    """Send a request to any broker. The client may still know brokers that have just stopped, or that are paused."""
    brokers = [broker.nodeId for broker in client.cluster.brokers()]
    random.shuffle(brokers)
    for broker in brokers[:-1]:
        with contextlib.suppress(*UNREACHABLE):
            return await ask_soon(client, broker, request)
    return await client.send(brokers[-1] if brokers else None, request)


async def ask_soon(client: Any, broker: int, request: Any) -> Any:
    """Send a request to one broker; raise one of `UNREACHABLE` if it does not answer soon."""
    try:
        async with soon(client):
            return await client.send(broker, request)
    except TimeoutError:
        raise kafka_errors.RequestTimedOutError from None


async def ask_coordinator(
    client: Any, key: str, kind: int, request: Any, known: dict[str, int] | None = None
) -> tuple[type[Exception], Any]:
    """Send a request to the coordinator of a group (kind 0) or transactional id (kind 1).

    `known` contains coordinators by key from earlier requests. It is updated, so that later ones need no lookup.

    Returns:
        The error (including one in the response) or `NoError`, and the response or None.

    """
    known = {} if known is None else known
    deadline = time.monotonic() + _COORDINATOR_S
    while True:
        answer = None
        if key not in known:
            found = await ask_any(client, coordination.FindCoordinatorRequest(key, kind))
            error = kafka_errors.for_code(found.error_code)
            if error is kafka_errors.NoError:
                known[key] = found.coordinator_id
        if key in known:
            error = kafka_errors.GroupCoordinatorNotAvailableError
            with contextlib.suppress(*UNREACHABLE):
                answer = await ask_soon(client, known[key], request)
                error = kafka_errors.for_code(_code_of(answer))
        if error in TRANSIENT:
            known.pop(key, None)  # the coordinator may have moved
        if error not in TRANSIENT or time.monotonic() > deadline:
            return error, answer
        await asyncio.sleep(_TICK_S)


async def ask_controller(client: Any, request: Any) -> Any:
    """Send a request to the controller, which a client may not know yet; the caller sets the timeout.

    A KRaft cluster reports any of its brokers as the controller, for some seconds even one that has just stopped.
    """
    while True:
        controller = client.cluster.controller
        if controller is not None and await _is_ready(client, controller.nodeId):
            return await client.send(controller.nodeId, request)
        client.cluster.update_metadata(await ask_any(client, ask_for_topics([])))
        await asyncio.sleep(_TICK_S)


async def ask_end_offsets(client: Any, topic: str, partitions: int) -> list[int]:
    """Return the end offset of each partition, from the leaders that the client knows.

    Raises:
        aiokafka.errors.KafkaError: a leader is unknown, or did not answer.

    """
    leaders: dict[int | None, list[tuple[int, int]]] = defaultdict(list)
    for partition in range(partitions):
        leader = client.cluster.leader_for_partition(TopicPartition(topic, partition))
        leaders[leader].append((partition, _LATEST))
    if leaders.keys() & {None, _NO_LEADER}:  # aiokafka would log an error for each attempt to reach it
        raise kafka_errors.LeaderNotAvailableError(topic)
    requests = [(leader, OffsetRequest(-1, 0, [(topic, parts)])) for leader, parts in leaders.items()]
    answers = await asyncio.gather(*(client.send(leader, request) for leader, request in requests))
    return by_partition((part, code, end) for one in answers for part, code, _, end, *_ in one.topics[0][1])


def by_partition(rows: Iterable[tuple[int, int, int]]) -> list[int]:
    """Return the offsets from rows that consist of partition, error code and offset; raise the first error."""
    ordered = sorted(rows)
    for _, code, _ in ordered:
        if code:
            raise kafka_errors.for_code(code)
    return [offset for _, _, offset in ordered]


async def _is_ready(client: Any, broker: int) -> bool:
    """Return True if a broker accepts the client's connection soon."""
    try:
        async with soon(client):
            return bool(await client.ready(broker))
    except TimeoutError:
        return False


def read_identity(servers: str, access: Access, *, timeout_s: float) -> tuple[str | None, int]:
    """Return the cluster id, and the number of brokers; the id is None before Kafka 0.10.1.

    Raises:
        ClusterError: the cluster did not answer in time.

    """

    async def ask() -> tuple[str | None, int]:
        async with connected(servers, access) as client:
            answer = await ask_any(client, ask_for_topics([]))
        return getattr(answer, "cluster_id", None), len(answer.brokers)

    return call(ask(), "read the cluster id", servers, timeout_s=timeout_s)


def _code_of(answer: Any) -> int:
    """Return the error code of a response about one group or transactional id."""
    if hasattr(answer, "error_code"):
        return int(answer.error_code)
    group = answer.groups[0]
    return int(group[0] if isinstance(group, tuple) else group.error_code)


class _CreateTopicsStruct(admin.CreateTopicsRequest_v3):  # type: ignore[misc] # aiokafka ships no types
    """CreateTopics v4: like v3, but a replication factor of -1 selects the cluster's default (KIP-464)."""

    API_VERSION = 4


class CreateTopic(api.Request[_CreateTopicsStruct]):  # type: ignore[misc]
    """Request for a new topic. aiokafka's own request does not have a version 4."""

    API_KEY = 19

    def __init__(self, topic: str, scenario: Scenario, config: Mapping[str, str], timeout_ms: int) -> None:
        replicas = -1 if scenario.replication_factor is None else scenario.replication_factor
        self._new: tuple[Any, ...] = (topic, scenario.partitions, replicas, [], list(config.items()))
        self._timeout_ms = timeout_ms

    def build(self, request_struct_class: type[_CreateTopicsStruct]) -> _CreateTopicsStruct:
        """Build the request; called by aiokafka."""
        return request_struct_class([self._new], self._timeout_ms, False)


_TIMEOUT_S = 20
_ITERATIONS = 4096
"""Number of iterations, which each client connection computes: Kafka's minimum, which RFC 7677 also recommends."""
_SALT_BYTES = 16
_SCRAM_SHA_512 = 2


def create_scram_user(servers: str, access: Access, *, name: str, password: str) -> None:
    """Create a SCRAM-SHA-512 user or change its password.

    Raises:
        ClusterError: the cluster rejected it, or it took too long.

    """
    call(_create(servers, access, name, password), f"create the user {name!r}", servers, timeout_s=_TIMEOUT_S)


async def _create(servers: str, access: Access, name: str, password: str) -> None:
    salt = secrets.token_bytes(_SALT_BYTES)
    salted = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ITERATIONS)
    async with connected(servers, access) as client:
        answer = await ask_any(client, _AlterUser(name, salt, salted))  # any broker forwards it to the controller
    for _, code, message, _ in answer.results:
        if code:
            raise ClusterError(f"{servers} rejected the creation of user {name!r}: {message or f'error {code}'}")


_COMPACT_TEXT = types.CompactString("utf-8")
_TAGS = ("tags", types.TaggedFields)
_RESULTS = types.CompactArray(
    ("user", _COMPACT_TEXT), ("error_code", types.Int16), ("error_message", _COMPACT_TEXT), _TAGS
)
_DELETIONS = types.CompactArray(("name", _COMPACT_TEXT), ("mechanism", types.Int8), _TAGS)
_UPSERTIONS = types.CompactArray(
    ("name", _COMPACT_TEXT),
    ("mechanism", types.Int8),
    ("iterations", types.Int32),
    ("salt", types.CompactBytes),
    ("salted_password", types.CompactBytes),
    _TAGS,
)


class _AlterUserResponse(api.Response):  # type: ignore[misc] # aiokafka ships no types
    API_KEY = 51
    API_VERSION = 0
    SCHEMA = types.Schema(("throttle_time_ms", types.Int32), ("results", _RESULTS), _TAGS)


class _AlterUserStruct(api.RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY = 51
    API_VERSION = 0
    RESPONSE_TYPE = _AlterUserResponse
    SCHEMA = types.Schema(("deletions", _DELETIONS), ("upsertions", _UPSERTIONS), _TAGS)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"  # aiokafka logs its requests, and these bytes allow a login


class _AlterUser(api.Request[_AlterUserStruct]):  # type: ignore[misc]
    API_KEY = 51

    def __init__(self, name: str, salt: bytes, salted: bytes) -> None:
        self._upsertion: tuple[Any, ...] = (name, _SCRAM_SHA_512, _ITERATIONS, salt, salted, {})

    def build(self, request_struct_class: type[_AlterUserStruct]) -> _AlterUserStruct:
        return request_struct_class([], [self._upsertion], {})
