"""Checks for problems that would make the load fail; the errors include the fix.

Every request has a timeout and does not change anything, except that the cluster remembers the first transactional id
of a run with transactions. A broker that does not report some information to this client is not considered a problem.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeVar

from aiokafka import errors as kafka_errors
from aiokafka.protocol import transaction

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.admin.acls import Operation, Resource, refusal
from pytest_kafkaperf.clusters.admin.admin import transaction_timeout_ms, visible_groups, visible_topics
from pytest_kafkaperf.clusters.admin.connection import call, connected
from pytest_kafkaperf.clusters.admin.groups import describe_group, permitted_operations, unsupported_protocols
from pytest_kafkaperf.clusters.admin.run_names import PREFIX, prefix_of
from pytest_kafkaperf.clusters.admin.wire import DescribeTopic, TopicMetadata, ask_any, ask_coordinator
from pytest_kafkaperf.core.errors import ClusterError, nearest, suggestion
from pytest_kafkaperf.scenarios.payloads import Generated
from pytest_kafkaperf.scenarios.scenario import Scenario

TIMEOUT_S = 30
"""Combined timeout for all requests in one call, each of which may wait for a coordinator on new brokers."""

_UNKNOWN_TOPIC_TIMEOUT_S = 2
"""Time to wait for a topic that is unknown to a broker, because another broker may have just created it."""

_TICK_S = 0.05

T = TypeVar("T")

_READS = frozenset({Operation.READ, Operation.DESCRIBE})
"""Operations that a run performs on a read-only topic."""


TopicField = Literal["topic", "output_topic", "dead_letter_topic"]
"""Scenario field that contains a topic."""
_CREATE: Mapping[TopicField, str] = {
    "topic": "create it, or leave out topic so that the run creates one",
    "output_topic": "create it, or add it to kafka_app(topics=...) so that the test creates it",
    "dead_letter_topic": "create it, or add it to kafka_app(topics=...) so that the test creates it",
}


class Preflight:
    """Checks of one cluster before the load. Each call opens a separate connection."""

    def __init__(self, bootstrap_servers: str, access: Access) -> None:
        self._servers = bootstrap_servers
        self._access = access

    def resolve(self, scenario: Scenario) -> Scenario:
        """Return the scenario with the partitions and replicas of its existing topic, if any.

        Raises:
            ClusterError: there is no such topic, or this client is not permitted to see it.

        """
        if scenario.topic is None:
            return scenario
        topic = scenario.topic
        needed = needed_operations(scenario)
        found = self._call(lambda client: self._topic(client, topic, needed))
        update = {"partitions": found.partitions, "replication_factor": found.replication_factor}
        return scenario.model_copy(update=update)

    def read_partitions(self, scenario: Scenario) -> int:
        """Return the number of partitions in the topic that consumers read.

        Raises:
            ClusterError: there is no such topic, or this client is not permitted to see it.

        """
        output = scenario.output_topic
        if output is None:
            return scenario.partitions
        return self._call(lambda client: self._topic(client, output, _READS, field="output_topic")).partitions

    def dead_letter_partitions(self, scenario: Scenario) -> int:
        """Return the number of partitions in the dead-letter topic; 0 without one; raises as `read_partitions` does."""
        name = scenario.dead_letter_topic
        if name is None:
            return 0
        return self._call(lambda client: self._topic(client, name, _READS, field="dead_letter_topic")).partitions

    def check(self, scenario: Scenario, topic: str, member: str, *, guarded: bool) -> None:
        """Check the resources that the run will use; its topic already exists.

        Args:
            scenario: the resolved scenario.
            topic: the topic that the run writes or reads.
            member: the name of its first consumer group, which is also its first transactional id.
            guarded: True if the cluster may deny access to groups and transactional ids, in which case these are also
                checked.

        Raises:
            ClusterError: the load would fail; the message contains one line per problem.

        """
        found = self._call(lambda client: self._problems(client, scenario, topic, member, guarded=guarded))
        if found:
            raise ClusterError("\n".join(found))

    async def _problems(self, client: Any, scenario: Scenario, topic: str, member: str, *, guarded: bool) -> list[str]:
        own = scenario.topic is None
        metadata = await self._topic(client, topic, needed_operations(scenario), own=own)
        found = list(topic_problems(scenario, metadata))
        needed = needed_operations(scenario) | ({Operation.DELETE} if own else set())
        if metadata.operations is not None and (missing := needed - metadata.operations):
            found.append(self._refused(missing, _topics(topic, own=own)))
        if scenario.output_topic is not None:
            output = await self._topic(client, scenario.output_topic, _READS, field="output_topic")
            if output.leaderless:
                found.append(leaderless(f"topic {output.name!r}", output))
            if output.operations is not None and (missing := _READS - output.operations):
                found.append(self._refused(missing, _topics(output.name, own=False)))
        for group in scenario.watch_group:
            found += await self._watched_group_problems(client, group)
        if guarded and scenario.consumers:
            found += await self._group_problems(client, member)
        if guarded and scenario.transaction_size is not None:
            found += await self._transaction_problems(client, member, scenario)
        return found

    async def _topic(
        self,
        client: Any,
        topic: str,
        needed: Iterable[Operation],
        *,
        own: bool = False,
        field: TopicField = "topic",
    ) -> TopicMetadata:
        deadline = time.monotonic() + (TIMEOUT_S if own else _UNKNOWN_TOPIC_TIMEOUT_S)
        while True:
            answer = await ask_any(client, DescribeTopic(topic))
            (described,) = answer.topics
            error = kafka_errors.for_code(described[0])
            if error is not kafka_errors.UnknownTopicOrPartitionError or time.monotonic() > deadline:
                break
            await asyncio.sleep(_TICK_S)
        if error is kafka_errors.UnknownTopicOrPartitionError:
            raise ClusterError(f"{absent(topic, await visible_topics(client), field)} (on {self._servers})")
        if error is kafka_errors.TopicAuthorizationFailedError:
            raise ClusterError(self._refused(needed, _topics(topic, own=own)))
        if error is not kafka_errors.NoError:
            raise ClusterError(f"the cluster at {self._servers} does not describe topic {topic!r}: {error.__name__}")
        return await TopicMetadata.of(client, topic, described)

    async def _group_problems(self, client: Any, group: str) -> list[str]:
        needed = {Operation.READ, Operation.DELETE}
        try:
            operations = await permitted_operations(client, group)
        except kafka_errors.GroupAuthorizationFailedError:
            operations = frozenset()
        except kafka_errors.KafkaError:
            operations = None
        if operations is None or needed <= operations:
            return []
        return [self._refused(needed, Resource(kind="group", name=prefix_of(group), prefixed=True))]

    async def _watched_group_problems(self, client: Any, group: str) -> list[str]:
        try:
            found = await describe_group(client, group)
        except kafka_errors.GroupAuthorizationFailedError:
            return [self._refused([Operation.DESCRIBE], Resource(kind="group", name=group))]
        if found.protocol is not None:
            return []
        groups = await visible_groups(client)
        hint = suggestion(group, sorted(name for name in groups if not name.startswith(PREFIX)))
        start = "start the application, and wait until it has joined its group before the load"
        unseen = unsupported_protocols(found)
        why = f"; {unseen}" if unseen else ""
        return [f"group {group!r} does not exist{f', {hint}' if hint else ';'} {start} (on {self._servers}){why}"]

    async def _transaction_problems(self, client: Any, transactional_id: str, scenario: Scenario) -> list[str]:
        timeout_ms = transaction_timeout_ms(scenario)
        request = transaction.InitProducerIdRequest(transactional_id, timeout_ms)
        error, _ = await ask_coordinator(client, transactional_id, 1, request)
        if error is kafka_errors.TransactionalIdAuthorizationFailed:
            resource = Resource(kind="transactional-id", name=prefix_of(transactional_id), prefixed=True)
            return [self._refused([Operation.WRITE, Operation.DESCRIBE], resource)]
        if error is kafka_errors.InvalidTransactionTimeout:
            limit = "the cluster's transaction.max.timeout.ms"
            return [f"transaction_timeout_ms {timeout_ms} is more than {limit}; use a smaller value in producer_config"]
        return []

    def _refused(self, operations: Iterable[Operation], resource: Resource) -> str:
        return refusal(operations, resource, self._access, self._servers)

    def _call(self, ask: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Call a coroutine function with a connected client, and return its result."""

        async def asked() -> T:
            async with connected(self._servers, self._access) as client:
                return await ask(client)

        return call(asked(), "check the topics and groups of the load", self._servers, timeout_s=TIMEOUT_S)


def needed_operations(scenario: Scenario) -> frozenset[Operation]:
    """Return a run's operations on its topic; acknowledged records are read back to count losses."""
    needed = {Operation.DESCRIBE}
    if scenario.producers:
        needed.add(Operation.WRITE)
    is_audited = scenario.producers and scenario.acks != 0
    if scenario.output_topic is None and (scenario.consumers or is_audited):
        needed.add(Operation.READ)
    return frozenset(needed)


def _topics(topic: str, *, own: bool) -> Resource:
    """Return the topic as a resource. For a run's own topic, it covers all runs' topics, so one grant is enough."""
    return Resource(kind="topic", name=prefix_of(topic) if own else topic, prefixed=own)


_FEW_TOPICS = 20
"""Maximum number of topics that an error lists if none has a similar name."""
_FRAMING_BYTES = 61 + 13
"""Size of a batch header plus the overhead of a large record without a key or headers."""


def topic_problems(scenario: Scenario, metadata: TopicMetadata) -> Iterator[str]:
    """Yield the reasons why a topic does not fit a scenario."""
    named = f"topic {metadata.name!r}" if scenario.topic is not None else "the topic of this scenario"
    if metadata.leaderless:
        yield leaderless(named, metadata)
    if not scenario.producers:
        return
    policy = metadata.config.get("cleanup.policy", "")
    if "compact" in policy and scenario.key is None and not isinstance(scenario.payload, Generated):
        yield (
            f"{named} is compacted (cleanup.policy={policy}), so the cluster refuses records without a key; set key, "
            "for example key='uniform:1000', or use a topic that is not compacted"
        )
    # A value above the number of replicas is not a problem: brokers then require all replicas (tested with Kafka 3.9.1,
    # 4.0.0 and 4.3.1).
    required = min(int(metadata.config.get("min.insync.replicas", "1")), metadata.replication_factor)
    if scenario.acks == "all" and not metadata.leaderless and metadata.in_sync < required:
        yield (
            f"acks='all' on {named}: min.insync.replicas requires {required} replicas in sync, but a partition has "
            f"{metadata.in_sync} of {metadata.replication_factor}; start the brokers that are down, or use acks=1"
        )
    max_bytes = metadata.config.get("max.message.bytes")
    # Sample sizes are not read.
    record_bytes = 0 if scenario.record_size is None else max(scenario.record_sizes) + _FRAMING_BYTES
    if max_bytes is not None and max(scenario.batch_size, record_bytes) > int(max_bytes) and not scenario.compression:
        records = f" and records in batches of up to {record_bytes} B" if record_bytes else ""
        yield (
            f"{named} takes batches of up to {max_bytes} B (max.message.bytes), but this scenario has "
            f"batch_size={scenario.batch_size}{records}; use smaller ones, or "
            "raise the topic's max.message.bytes (topic_config)"
        )


def leaderless(named: str, metadata: TopicMetadata) -> str:
    """Return the problem text for a topic that has partitions without a leader."""
    partitions = ", ".join(map(str, metadata.leaderless))
    return f"{named} has no leader for partition {partitions}: brokers of the cluster are down; start them"


def gone(topic: str) -> str:
    """Return the problem text for a topic that was deleted during the load."""
    return f"topic {topic!r} was deleted while the load ran; exclude it from jobs that delete topics"


def absent(topic: str, visible: Iterable[str], field: TopicField) -> str:
    """Return the problem text for a field whose topic does not exist, and suggest topics with similar names."""
    others = sorted(name for name in visible if not name.startswith(("__", PREFIX)))
    create = _CREATE[field]
    hint = suggestion(topic, others)
    if hint is None and len(others) > _FEW_TOPICS:
        hint = f"none of the {len(others)} visible topics has a similar name;"
    elif hint is None and others:
        hint = f"{nearest(topic, others)};"
    return f"{field} {topic!r} does not exist{f', {hint}' if hint else ';'} {create}"
