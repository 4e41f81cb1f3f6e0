"""A test's requests other than load: topics, groups, transactions and broker properties. Each call has a timeout."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import aiokafka
from aiokafka import errors as kafka_errors
from aiokafka.protocol import admin as requests
from aiokafka.protocol import transaction

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.admin.acls import Operation, Resource, refusal
from pytest_kafkaperf.clusters.admin.connection import address_of, call, close, connected, soon
from pytest_kafkaperf.clusters.admin.groups import describe_group, remove_members
from pytest_kafkaperf.clusters.admin.run_names import (
    PREFIX,
    SUFFIX_BYTES,
    prefix_of,
    retention,
    round_name,
    run_name,
    stale_groups,
    stale_topics,
)
from pytest_kafkaperf.clusters.admin.wire import (
    TRANSIENT,
    UNREACHABLE,
    CreateTopic,
    ask_any,
    ask_controller,
    ask_coordinator,
    ask_end_offsets,
    ask_for_topics,
    ask_soon,
)
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.scenarios.scenario import Scenario

TIMEOUT_S = 20
"""Timeout for each call, including the wait for its effect."""
LOOK_TIMEOUT_S = 5
"""Timeout for requests that no measurement depends on."""
SWEEP_TIMEOUT_S = 10
"""Timeout for removing leftovers of crashed runs."""
_TICK_S = 0.05
_LEADERS_TICK_S = 0.01
"""Pause before a topic's leaders are asked again. Each load waits for the leaders of its new topic."""
_TRANSACTION_TIMEOUT_MS = 60_000
"""Default of aiokafka's and Kafka's own producers."""
_MOVING = (
    *UNREACHABLE,
    kafka_errors.LeaderNotAvailableError,
    kafka_errors.NotLeaderForPartitionError,
    kafka_errors.UnknownTopicOrPartitionError,
)
"""Errors while a partition has no leader, or has one that not all brokers know yet."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """A property as reported by a broker."""

    value: str
    changed: bool
    """True if the property was set to a value other than its default."""


class TopicGoneError(ClusterError):
    """A topic that existed is no longer known to the cluster."""


class TopicExistsError(ClusterError):
    """A topic could not be created because it already exists."""


class TopicRefusedError(ClusterError):
    """The client is not permitted to create a topic. The topic may already exist."""


class Admin:
    """Client for a test's requests other than load. It connects separately for each call."""

    def __init__(self, bootstrap_servers: str, access: Access) -> None:
        self._servers = bootstrap_servers
        self._access = access
        self._config = access.arguments()

    def create_topic(self, topic: str, scenario: Scenario, on_created: Callable[[], None] = lambda: None) -> None:
        """Create a scenario's topic, call `on_created`, and wait until each partition has a leader.

        Raises:
            ClusterError: the cluster rejected the topic, or the request took too long.
            TopicExistsError: the topic already exists.
            TopicRefusedError: this client is not permitted to create it.

        """
        self._call(self._create_topic(topic, scenario, on_created), f"create topic {topic!r}")

    def delete_topic(self, topic: str, *, timeout_s: float = TIMEOUT_S) -> None:
        """Delete a topic that `create_topic` created; do nothing if it no longer exists.

        Raises:
            ClusterError: the cluster rejected it, or it took too long.

        """
        self._call(self._delete_topic(topic), f"delete topic {topic!r}", timeout_s)

    def delete_groups(self, groups: Sequence[str], *, timeout_s: float = TIMEOUT_S) -> None:
        """Delete a run's consumer groups once the load is over; skip groups that no longer exist.

        Raises:
            ClusterError: the cluster rejected it, or it took too long.

        """
        self._call(self._delete_groups(groups), "delete consumer groups", timeout_s)

    def abort_transactions(
        self, transactional_ids: Sequence[str], scenario: Scenario, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Abort open transactions, as a new producer with the same id would; the old producer can no longer write.

        Raises:
            ClusterError: the cluster rejected it, or it took too long.

        """
        work = self._abort_transactions(transactional_ids, transaction_timeout_ms(scenario))
        self._call(work, "abort open transactions", timeout_s)

    def sweep(self, prefix: str = PREFIX, *, now: datetime.datetime | None = None) -> list[str]:
        """Remove topics and groups from runs that should have ended more than a day ago; return the names.

        Names are removed only if they have exactly the format for a run with this prefix (see `run_names`), and if this
        client may see and delete them. `now` is this machine's time; None to read its clock. A run must also have ended
        according to a broker's clock, because this machine's clock may be fast.

        Raises:
            ClusterError: the cluster did not respond in time.

        """
        now = now or datetime.datetime.now(datetime.UTC)
        return self._call(self._sweep(now, prefix), "look for leftovers of crashed runs", SWEEP_TIMEOUT_S)

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        """Return the offset after the last record, by partition.

        Raises:
            TopicGoneError: the cluster no longer knows the topic.
            ClusterError: the cluster did not respond in time.

        """
        return self._call(self._end_offsets(topic, partitions), f"read the end offsets of {topic!r}")

    def is_gone(self, topic: str) -> bool:
        """Return True if the cluster reports that it does not know the topic."""
        try:
            return self._call(self._is_gone(topic), f"look up topic {topic!r}", LOOK_TIMEOUT_S)
        except ClusterError:
            return False

    def broker_properties(self) -> dict[int, dict[str, Property]]:
        """Return each broker's properties, by broker id and name, without secret values; empty for a silent broker.

        Raises:
            ClusterError: this client is not permitted to read them, or no broker responded in time.

        """
        return self._call(self._broker_properties(), "read the brokers' properties", 2 * LOOK_TIMEOUT_S)

    async def _create_topic(self, topic: str, scenario: Scenario, on_created: Callable[[], None]) -> None:
        config = {**retention(topic, datetime.datetime.now(datetime.UTC)), **scenario.topic_config}
        request = CreateTopic(topic, scenario, config, TIMEOUT_S * 1000)
        async with connected(self._servers, self._access) as client:
            response = await ask_controller(client, request)
            for _, code, *message in response.topic_errors:
                # A broker's metadata may still contain a deleted topic, so only this reply is reliable.
                if code == kafka_errors.TopicAlreadyExistsError.errno:
                    raise TopicExistsError(f"topic {topic!r} already exists")
                if code:
                    raise self._refused(topic, scenario, config, code, next(filter(None, message), ""))
            on_created()
            while not _has_leaders(await self._described(client, topic), scenario.partitions):
                await asyncio.sleep(_TICK_S)

    def _refused(
        self, topic: str, scenario: Scenario, config: Mapping[str, str], code: int, message: str
    ) -> ClusterError:
        """Return the error for a topic that could not be created, including the fix."""
        error = kafka_errors.for_code(code)
        if error in (kafka_errors.TopicAuthorizationFailedError, kafka_errors.ClusterAuthorizationFailedError):
            resource = _own("topic", topic)
            other = "; or use an existing topic: topic='NAME'" if resource.prefixed else ""
            refused = refusal(_ON_OWN_TOPICS, resource, self._access, self._servers)
            return TopicRefusedError(f"the run cannot create its topic: {refused}{other}")
        replicas = "the cluster's default" if scenario.replication_factor is None else scenario.replication_factor
        given = {"partitions": scenario.partitions, "replication_factor": replicas, **config}
        requested = ", ".join(f"{name}={value}" for name, value in given.items())
        return ClusterError(
            f"the cluster at {self._servers} rejected the topic of this scenario ({requested}): "
            f"{message.rstrip('.') or error.__name__}; change partitions, replication_factor or topic_config, or use "
            "an existing topic: topic='NAME'"
        )

    async def _described(self, client: Any, topic: str) -> list[dict[str, Any]]:
        answer = await ask_any(client, ask_for_topics([topic]))
        described: list[dict[str, Any]] = answer.to_object()["topics"]
        if any(one["error_code"] == kafka_errors.TopicAuthorizationFailedError.errno for one in described):
            refused = refusal([Operation.DESCRIBE], _own("topic", topic), self._access, self._servers)
            raise ClusterError(f"the run cannot see the topic that it created: {refused}")
        return described

    async def _delete_topic(self, topic: str) -> None:
        request = requests.DeleteTopicsRequest([topic], TIMEOUT_S * 1000)
        async with connected(self._servers, self._access) as client:
            response = await ask_controller(client, request)
            for _, code in response.topic_error_codes:
                error = kafka_errors.for_code(code)
                if error not in (kafka_errors.NoError, kafka_errors.UnknownTopicOrPartitionError):
                    raise ClusterError(f"the cluster rejected the deletion of topic {topic!r}: {error.__name__}")

    async def _delete_groups(self, groups: Sequence[str]) -> None:
        emptied: set[str] = set()
        async with connected(self._servers, self._access) as client:
            while True:
                answers = await _try_to_delete(client, groups)
                nonempty = {group for group, error in answers.items() if error is kafka_errors.NonEmptyGroup} - emptied
                for group in nonempty:
                    await remove_members(client, group)
                emptied |= nonempty
                groups = [group for group, error in answers.items() if error in TRANSIENT or group in nonempty]
                refused = {group: error for group, error in answers.items() if error and group not in groups}
                if refused:
                    raise ClusterError(self._group_refusal(refused))
                if not groups:
                    return
                await asyncio.sleep(_TICK_S)

    def _group_refusal(self, refused: Mapping[str, type[Exception]]) -> str:
        group, error = next(iter(refused.items()))
        if error is kafka_errors.GroupAuthorizationFailedError:
            reason = refusal([Operation.DELETE], _own("group", group), self._access, self._servers)
        elif error is kafka_errors.NonEmptyGroup:
            reason = "it still has members"
        else:
            reason = error.__name__
        more = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
        return f"could not delete consumer group {group!r}{more}: {reason}"

    async def _abort_transactions(self, transactional_ids: Sequence[str], timeout_ms: int) -> None:
        async with connected(self._servers, self._access) as client:
            await asyncio.gather(*(_init_producer(client, each, timeout_ms) for each in transactional_ids))

    async def _sweep(self, now: datetime.datetime, prefix: str) -> list[str]:
        async with connected(self._servers, self._access) as client:
            topics = stale_topics(await visible_topics(client), now, prefix)
            groups = stale_groups(await visible_groups(client), now, prefix)
            if topics or groups:
                now = await self._broker_time(now, prefix)
                topics = stale_topics(topics, now, prefix)
                groups = stale_groups(groups, now, prefix)
            answers = await _try_to_delete(client, groups) if groups else {}
            removed = [group for group, error in answers.items() if error is None]
            if not topics:
                return removed
            response = await ask_controller(client, requests.DeleteTopicsRequest(topics, SWEEP_TIMEOUT_S * 1000))
            removed += [topic for topic, code in response.topic_error_codes if not code]
        return removed

    async def _broker_time(self, now: datetime.datetime, prefix: str) -> datetime.datetime:
        """Return the time at which a broker, by its own clock, appends a record to a new topic (KIP-32)."""
        end = now + datetime.timedelta(seconds=SWEEP_TIMEOUT_S)
        topic = round_name(run_name(end, secrets.token_bytes(SUFFIX_BYTES), prefix), 1)
        config = {"message.timestamp.type": "LogAppendTime"}
        try:
            await self._create_topic(topic, Scenario(partitions=1, topic_config=config), lambda: None)
            async with _started(aiokafka.AIOKafkaProducer(bootstrap_servers=self._servers, **self._config)) as producer:
                appended = await producer.send_and_wait(topic, b"", partition=0)
        finally:
            async with asyncio.timeout(LOOK_TIMEOUT_S):
                await self._delete_topic(topic)
        return datetime.datetime.fromtimestamp(appended.timestamp / 1000, datetime.UTC)

    async def _end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        deadline = time.monotonic() + LOOK_TIMEOUT_S
        async with connected(self._servers, self._access) as client:
            while True:
                answer = await ask_any(client, ask_for_topics([topic]))
                error = kafka_errors.for_code(answer.topics[0][0])
                if error is kafka_errors.NoError:
                    client.cluster.update_metadata(answer)
                    with contextlib.suppress(*_MOVING, TimeoutError):
                        async with soon(client):
                            return dict(enumerate(await ask_end_offsets(client, topic, partitions)))
                elif error not in _MOVING:
                    raise error(topic)
                elif time.monotonic() > deadline:  # until then, a broker's metadata may lack a new topic
                    raise TopicGoneError(f"topic {topic!r} was deleted")
                await asyncio.sleep(_LEADERS_TICK_S)

    async def _is_gone(self, topic: str) -> bool:
        async with connected(self._servers, self._access) as client:
            answer = await ask_any(client, ask_for_topics([topic]))
        return bool(answer.topics[0][0] == kafka_errors.UnknownTopicOrPartitionError.errno)

    async def _broker_properties(self) -> dict[int, dict[str, Property]]:
        async with connected(self._servers, self._access) as client:
            brokers = list(client.cluster.brokers())
        found = await asyncio.gather(*(_properties_of(broker, self._access) for broker in brokers))
        if not any(found):
            raise ClusterError(f"the brokers at {self._servers} do not report their properties")
        return {broker.nodeId: properties for broker, properties in zip(brokers, found, strict=True)}

    def _call(self, work: Coroutine[Any, Any, T], what: str, timeout_s: float = TIMEOUT_S) -> T:
        return call(work, what, self._servers, timeout_s=timeout_s)


def transaction_timeout_ms(scenario: Scenario) -> int:
    """Return the time after which the cluster aborts a transaction whose producer is gone."""
    return int(scenario.producer_config.get("transaction_timeout_ms", _TRANSACTION_TIMEOUT_MS))


@contextlib.asynccontextmanager
async def _started(client: Any) -> AsyncIterator[Any]:
    """Start one of aiokafka's clients and stop it afterwards."""
    try:
        await client.start()
        yield client
    finally:
        await close(client)


def _own(kind: Literal["topic", "group"], name: str) -> Resource:
    """Return the prefix resource for a run's own topic or group; otherwise, return the resource itself."""
    prefix = prefix_of(name)
    return Resource(kind=kind, name=prefix, prefixed=prefix != name)


_ON_OWN_TOPICS = (Operation.CREATE, Operation.DESCRIBE, Operation.WRITE, Operation.READ, Operation.DELETE)
"""Operations that a run performs on topics that it creates."""
_BROKER_RESOURCE = 4
_CHANGED = (2, 3, 4)
"""Sources of a value in DescribeConfigs: set at run time for one broker or for all brokers, or in a broker's file."""
_DEFAULT = 5
"""Source of a default value."""


async def _try_to_delete(client: Any, groups: Sequence[str]) -> dict[str, type[Exception] | None]:
    """Return the error for each group that was not deleted, and None for the others.

    Only a group's coordinator can delete the group, so the request is sent to every broker.
    """
    answers: dict[str, type[Exception] | None] = dict.fromkeys(groups, kafka_errors.NotCoordinatorForGroupError)
    for broker in client.cluster.brokers():
        try:
            response = await ask_soon(client, broker.nodeId, requests.DeleteGroupsRequest(list(groups)))
        except UNREACHABLE:  # if this was the coordinator, another broker has taken over
            continue
        for group, code in response.results:
            error = kafka_errors.for_code(code)
            if error in (kafka_errors.NoError, kafka_errors.GroupIdNotFound):
                answers[group] = None
            elif error is not kafka_errors.NotCoordinatorForGroupError:
                answers[group] = error
    return answers


async def _init_producer(client: Any, transactional_id: str, timeout_ms: int) -> None:
    """Request new epochs for a transactional id until the coordinator has aborted the open transaction (KIP-98)."""
    request = transaction.InitProducerIdRequest(transactional_id, timeout_ms)
    while True:
        error, _ = await ask_coordinator(client, transactional_id, 1, request)
        if error is kafka_errors.NoError:
            return
        if error not in (kafka_errors.ConcurrentTransactions, *TRANSIENT):
            raise ClusterError(f"the cluster rejected {transactional_id!r}: {error.__name__}")
        await asyncio.sleep(_TICK_S)


async def _properties_of(broker: Any, access: Access) -> dict[str, Property]:
    """Read properties with DescribeConfigs (KIP-133, KIP-226); empty if the broker is silent or denies access."""
    request = requests.DescribeConfigsRequest([(_BROKER_RESOURCE, str(broker.nodeId), None)], include_synonyms=True)
    try:
        # Each broker gets a separate client, as a client connects to one at a time.
        async with asyncio.timeout(LOOK_TIMEOUT_S), connected(address_of(broker), access) as client:
            answer = await client.send(broker.nodeId, request)
    except (TimeoutError, *UNREACHABLE, kafka_errors.IncompatibleBrokerVersion, NotImplementedError):
        return {}
    found = {}
    for code, _, _, _, entries in answer.resources:
        for name, value, _, source, is_sensitive, synonyms in [] if code else entries:
            if value is None or is_sensitive:
                continue
            is_default = (value, _DEFAULT) in [(other, origin) for _, other, origin in synonyms]
            found[name] = Property(value=value, changed=source in _CHANGED and not is_default)
    return found


async def visible_topics(client: Any) -> list[str]:
    """Return all topics that this client can see."""
    answer = await ask_any(client, ask_for_topics())
    return [topic["topic"] for topic in answer.to_object()["topics"]]


async def visible_groups(client: Any) -> list[str]:
    """Return all groups that this client can see, except those whose coordinator does not respond."""
    found: list[str] = []
    for broker in client.cluster.brokers():
        with contextlib.suppress(*UNREACHABLE):
            answer = await client.send(broker.nodeId, requests.ListGroupsRequest())
            found += [group for group, *_ in answer.groups]
    return found


def groups_with_members(servers: str, access: Access) -> list[str]:
    """Return all groups with members that this client can see.

    Raises:
        ClusterError: the cluster did not answer in time.

    """

    async def ask() -> list[str]:
        found = []
        async with connected(servers, access) as client:
            for group in sorted(await visible_groups(client)):
                with contextlib.suppress(kafka_errors.KafkaError):  # such as a group that this client may not see
                    if (await describe_group(client, group)).members:
                        found.append(group)
        return found

    return call(ask(), "list the consumer groups", servers, timeout_s=LOOK_TIMEOUT_S)


def _has_leaders(descriptions: list[dict[str, Any]], partitions: int) -> bool:
    found = [part for topic in descriptions for part in topic["partitions"]]
    return len(found) == partitions and all(part["leader"] >= 0 for part in found)
