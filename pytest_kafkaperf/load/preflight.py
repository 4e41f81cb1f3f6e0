"""What would go wrong under load, seen before it starts: each problem with what was asked for and what to do.

Every request is bounded and changes nothing. What a broker does not tell, or does not tell this client, is no problem.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiokafka import errors as kafka_errors

from pytest_kafkaperf.errors import ClusterError, nearest
from pytest_kafkaperf.load.admin import visible_topics
from pytest_kafkaperf.load.grants import Operation, Resource, granted, refusal
from pytest_kafkaperf.load.kafka import admin, api, connected, coordination, transaction, types
from pytest_kafkaperf.load.names import PREFIX
from pytest_kafkaperf.load.payload import size_of_headers, size_of_varint
from pytest_kafkaperf.scenario import KEY_BYTES

if TYPE_CHECKING:
    from pytest_kafkaperf.access import Access
    from pytest_kafkaperf.scenario import Scenario

TIMEOUT_S = 10
"""Bound of one look at a cluster."""
_SHOWS_UP_S = 2
"""Bound of waiting for a topic that a broker does not know: it may have been made a moment ago, through another."""
_COORDINATOR_S = 5
"""Bound of waiting for the broker that keeps a group or a transactional id; the load waits longer."""
_TICK_S = 0.05
_FEW_TOPICS = 20
"""So many are all named where none is near."""
_BATCH_OVERHEAD_BYTES = 61
"""The header of a batch (https://kafka.apache.org/documentation/#recordbatch)."""
_TRANSACTION_TIMEOUT_MS = 60_000
"""Default of aiokafka's producer, and of Kafka's own."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What a run is going to use."""

    topic: str
    group: str
    """Of its first consumers."""
    transactional_id: str
    """Of its first producer."""


_READS = frozenset({Operation.READ, Operation.DESCRIBE})
"""What a run does with a topic that it only reads."""
_PROPERTIES = ("cleanup.policy", "max.message.bytes", "min.insync.replicas")


class Preflight:
    """Looks at one cluster; connects for each call."""

    def __init__(self, bootstrap_servers: str, access: Access) -> None:
        self._servers = bootstrap_servers
        self._access = access

    def resolve(self, scenario: Scenario) -> Scenario:
        """The scenario with partitions and replicas of the topic that it names.

        Raises:
            ClusterError: there is no such topic, or it cannot be seen.

        """
        if scenario.topic is None:
            return scenario
        resolved: Scenario = self._call(self._resolve(scenario, scenario.topic))
        return resolved

    def read_partitions(self, scenario: Scenario) -> int:
        """How many partitions the topic has that consumers read.

        Raises:
            ClusterError: there is no such topic, or it cannot be seen.

        """
        if scenario.output_topic is None:
            return scenario.partitions
        partitions: int = self._call(self._read_partitions(scenario.output_topic))
        return partitions

    def check(self, scenario: Scenario, names: Names, *, guarded: bool) -> None:
        """Look at what the run is going to use; its topic is there.

        Args:
            scenario: resolved.
            names: what is going to be used.
            guarded: whether the cluster may refuse groups and transactional ids, so that it is worth to ask.

        Raises:
            ClusterError: what would go wrong under load, every problem in a line.

        """
        found = self._call(self._problems(scenario, names, guarded=guarded))
        if found:
            raise ClusterError("\n".join(found))

    async def _resolve(self, scenario: Scenario, topic: str) -> Scenario:
        async with connected(self._servers, self._access) as client:
            sight = await self._topic(client, topic, needed_operations(scenario))
        return scenario.model_copy(
            update={"partitions": sight.partitions, "replication_factor": sight.replication_factor}
        )

    async def _read_partitions(self, topic: str) -> int:
        async with connected(self._servers, self._access) as client:
            return (await self._topic(client, topic, _READS)).partitions

    async def _problems(self, scenario: Scenario, names: Names, *, guarded: bool) -> list[str]:
        own = scenario.topic is None
        async with connected(self._servers, self._access) as client:
            sight = await self._topic(client, names.topic, needed_operations(scenario), own=own)
            found = list(topic_problems(scenario, sight))
            if sight.operations is not None and (missing := needed_operations(scenario) - sight.operations):
                found.append(self._refused(missing, _topics(names.topic, own=own)))
            if scenario.output_topic is not None:
                output = await self._topic(client, scenario.output_topic, _READS)
                if output.leaderless:
                    found.append(_leaderless(f"topic {output.name!r}", output))
                if output.operations is not None and (missing := _READS - output.operations):
                    found.append(self._refused(missing, _topics(output.name, own=False)))
            if guarded and scenario.consumers:
                found += await self._group_problems(client, names.group)
            if guarded and scenario.transaction_size is not None:
                found += await self._transaction_problems(client, names.transactional_id, scenario)
        return found

    async def _topic(self, client: Any, topic: str, needed: Iterable[Operation], *, own: bool = False) -> TopicSight:
        deadline = time.monotonic() + (TIMEOUT_S if own else _SHOWS_UP_S)
        while True:
            answer = await client.send(client.get_random_node(), _AskTopic(topic))
            (described,) = answer.topics
            error = kafka_errors.for_code(described[0])
            if error is not kafka_errors.UnknownTopicOrPartitionError or time.monotonic() > deadline:
                break
            await asyncio.sleep(_TICK_S)
        if error is kafka_errors.UnknownTopicOrPartitionError:
            raise ClusterError(f"{_absent(topic, await visible_topics(client))} (on {self._servers})")
        if error is kafka_errors.TopicAuthorizationFailedError:
            raise ClusterError(self._refused(needed, _topics(topic, own=own)))
        if error is not kafka_errors.NoError:
            raise ClusterError(f"the cluster at {self._servers} tells nothing of topic {topic!r}: {error.__name__}")
        return _sight(topic, described, await _config(client, topic))

    async def _group_problems(self, client: Any, group: str) -> list[str]:
        error, answer = await _of_coordinator(client, group, 0, _AskGroup(group))
        if answer is not None:
            ((code, *_, field_of_operations),) = answer.groups
            error, operations = kafka_errors.for_code(code), granted(field_of_operations)
            if operations is not None and error is kafka_errors.NoError and Operation.READ not in operations:
                error = kafka_errors.GroupAuthorizationFailedError
        if error is not kafka_errors.GroupAuthorizationFailedError:
            return []
        return [self._refused([Operation.READ, Operation.DELETE], Resource(kind="group", name=PREFIX, prefixed=True))]

    async def _transaction_problems(self, client: Any, transactional_id: str, scenario: Scenario) -> list[str]:
        timeout_ms = scenario.producer_config.get("transaction_timeout_ms", _TRANSACTION_TIMEOUT_MS)
        request = transaction.InitProducerIdRequest(transactional_id, timeout_ms)
        error, answer = await _of_coordinator(client, transactional_id, 1, request)
        if answer is not None:
            error = kafka_errors.for_code(answer.error_code)
        if error is kafka_errors.TransactionalIdAuthorizationFailed:
            resource = Resource(kind="transactional-id", name=PREFIX, prefixed=True)
            return [self._refused([Operation.WRITE, Operation.DESCRIBE], resource)]
        if error is kafka_errors.InvalidTransactionTimeout:
            most = "the cluster's transaction.max.timeout.ms"
            return [f"transaction_timeout_ms {timeout_ms} is more than {most}; give a smaller one in producer_config"]
        return []

    def _refused(self, operations: Iterable[Operation], resource: Resource) -> str:
        return refusal(operations, resource, self._access, self._servers)

    def _call(self, work: Any) -> Any:
        """Run it on a loop and a thread of its own: the caller may have a running loop."""
        with concurrent.futures.ThreadPoolExecutor(1, "kafkaperf-preflight") as thread:
            return thread.submit(asyncio.run, self._bounded(work)).result()

    async def _bounded(self, work: Any) -> Any:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await work
        except TimeoutError:
            raise ClusterError(f"{self._servers} did not answer within {TIMEOUT_S} s before the load") from None
        except (kafka_errors.KafkaError, NotImplementedError) as error:
            raise ClusterError(f"could not look at {self._servers} before the load: {error}") from None


def needed_operations(scenario: Scenario) -> frozenset[Operation]:
    """What a run does with its topic."""
    reading = {Operation.READ} if scenario.consumers and scenario.output_topic is None else set()
    return frozenset({Operation.WRITE, Operation.DESCRIBE} | reading)


def topic_problems(scenario: Scenario, sight: TopicSight) -> Iterator[str]:
    """Why a topic does not do for a scenario."""
    named = f"topic {sight.name!r}" if scenario.topic is not None else "the topic of this scenario"
    if sight.leaderless:
        yield _leaderless(named, sight)
    policy = sight.config.get("cleanup.policy", "")
    if "compact" in policy and scenario.key is None:
        yield (
            f"{named} is compacted (cleanup.policy={policy}), and the cluster refuses records without a key there; "
            "give a key, for example key='uniform:1000', or use a topic that is not compacted"
        )
    # More than there are replicas is no obstacle: brokers then ask for all of them (tried with 3.9.1, 4.0.0, 4.3.1).
    least = min(int(sight.config.get("min.insync.replicas", "1")), sight.replication_factor)
    if scenario.acks == "all" and not sight.leaderless and sight.in_sync < least:
        yield (
            f"acks='all' on {named}: min.insync.replicas asks for {least} replicas in sync, and a partition has "
            f"{sight.in_sync} of {sight.replication_factor}; start the brokers again that are down, or use acks=1"
        )
    room = sight.config.get("max.message.bytes")
    largest = largest_batch_bytes(scenario)
    if room is not None and largest > int(room) and scenario.compression is None:
        raised = "set in topic_config" if scenario.topic is None else "have the topic's owner set"
        yield (
            f"{named} takes batches of up to {room} B (max.message.bytes), and this scenario can make one of "
            f"{largest} B (batch_size={scenario.batch_size}, largest record with its batch "
            f"{_largest_alone_bytes(scenario)} B); use a smaller {_too_large(scenario, int(room))}, or "
            f"{raised} max.message.bytes={largest}"
        )


def _leaderless(named: str, sight: TopicSight) -> str:
    """What is said of a topic that cannot be used in whole."""
    partitions = ", ".join(map(str, sight.leaderless))
    return f"{named} has no leader for partition {partitions}: brokers of the cluster are down; start them again"


def largest_batch_bytes(scenario: Scenario) -> int:
    """The most that a batch of this scenario can have, before compression."""
    return max(scenario.batch_size, _largest_alone_bytes(scenario))


def _largest_alone_bytes(scenario: Scenario) -> int:
    """A batch that holds nothing but the largest record; of samples, which are not read here, nothing is known."""
    if scenario.record_size is None:
        return 0
    value_bytes = scenario.max_record_size
    key_bytes = 0 if scenario.key is None else KEY_BYTES
    body_bytes = (
        4  # attributes, deltas of timestamp and offset, length of the key: a byte each
        + key_bytes
        + size_of_varint(value_bytes)
        + value_bytes
        + size_of_headers(scenario.all_headers)
    )
    return _BATCH_OVERHEAD_BYTES + size_of_varint(body_bytes) + body_bytes


def _too_large(scenario: Scenario, room_bytes: int) -> str:
    too_large = {
        "batch_size": scenario.batch_size > room_bytes,
        "record_size": _largest_alone_bytes(scenario) > room_bytes,
    }
    return " and ".join(name for name, is_too_large in too_large.items() if is_too_large)


def _topics(topic: str, *, own: bool) -> Resource:
    """Rights on a run's own topic are rights on all that it will ever make."""
    return Resource(kind="topic", name=PREFIX if own else topic, prefixed=own)


def _absent(topic: str, visible: Iterable[str]) -> str:
    others = sorted(name for name in visible if not name.startswith(("__", PREFIX)))
    hint = nearest(topic, others) if others else ""
    if others and not hint.startswith("did you mean") and len(others) > _FEW_TOPICS:
        hint = f"none of the {len(others)} topics that can be seen has a like name"
    create = "a topic that is named must exist: create it, or leave topic out for one of the run's own"
    return f"topic {topic!r} does not exist{f', {hint}' if hint else ''}; {create}".replace("?;", "?")


def _sight(topic: str, described: Any, config: Mapping[str, str]) -> TopicSight:
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


async def _config(client: Any, topic: str) -> dict[str, str]:
    request = admin.DescribeConfigsRequest([(_TOPIC_RESOURCE, topic, list(_PROPERTIES))])
    answer = await client.send(client.get_random_node(), request)
    return {
        name: value
        for code, _, _, _, entries in answer.resources
        if not code
        for name, value, *_ in entries
        if value is not None
    }


async def _of_coordinator(client: Any, key: str, kind: int, request: Any) -> tuple[type[Exception] | None, Any]:
    """What the coordinator of a group (0) or of a transactional id (1) answers; the error where there is no answer."""
    deadline = time.monotonic() + _COORDINATOR_S
    while True:
        found = await client.send(client.get_random_node(), coordination.FindCoordinatorRequest(key, kind))
        error: type[Exception] = kafka_errors.for_code(found.error_code)
        if error is kafka_errors.NoError:
            with contextlib.suppress(kafka_errors.NodeNotReadyError, kafka_errors.KafkaConnectionError):
                answer = await client.send(found.coordinator_id, request)
                codes = [answer.error_code] if hasattr(answer, "error_code") else [one[0] for one in answer.groups]
                if not any(kafka_errors.for_code(code) in _LATER for code in codes):
                    return None, answer
        elif error not in _LATER:
            return error, None
        if time.monotonic() > deadline:
            return error, None
        await asyncio.sleep(_TICK_S)


_LATER = (
    kafka_errors.GroupCoordinatorNotAvailableError,
    kafka_errors.GroupLoadInProgressError,
    kafka_errors.NotCoordinatorForGroupError,
)
"""A coordinator that is about to be one."""
_TOPIC_RESOURCE = 2
"""Of `DescribeConfigs`."""


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


class _AskTopic(api.Request[_AskTopicStruct]):  # type: ignore[misc]
    """One topic, which is not created by being asked for."""

    API_KEY = 3

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def build(self, request_struct_class: type[_AskTopicStruct]) -> _AskTopicStruct:
        return request_struct_class([self._topic], False, False, True)


class _AskGroupStruct(api.RequestStruct):  # type: ignore[misc]
    """DescribeGroups v3; aiokafka's own forgets the operations in the answer."""

    API_KEY = 15
    API_VERSION = 3
    RESPONSE_TYPE = admin.DescribeGroupsResponse_v3
    SCHEMA = types.Schema(
        ("groups", types.Array(types.String("utf-8"))), ("include_authorized_operations", types.Boolean)
    )


class _AskGroup(api.Request[_AskGroupStruct]):  # type: ignore[misc]
    API_KEY = 15

    def __init__(self, group: str) -> None:
        self._group = group

    def build(self, request_struct_class: type[_AskGroupStruct]) -> _AskGroupStruct:
        return request_struct_class([self._group], True)
