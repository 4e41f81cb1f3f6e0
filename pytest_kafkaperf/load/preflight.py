"""What would go wrong under load, seen before it starts: each problem with what was asked for and what to do.

Every request is bounded, and changes nothing: only the first transactional id of a run that has one is known to the
cluster from then on. What a broker does not tell, or does not tell this client, is no problem.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from aiokafka import errors as kafka_errors

from pytest_kafkaperf.errors import ClusterError
from pytest_kafkaperf.load.admin import visible_topics
from pytest_kafkaperf.load.calls import call
from pytest_kafkaperf.load.coordinators import AskGroup, ask_coordinator
from pytest_kafkaperf.load.grants import Operation, Resource, granted, refusal
from pytest_kafkaperf.load.kafka import connected, transaction
from pytest_kafkaperf.load.names import PREFIX
from pytest_kafkaperf.load.obstacles import absent, leaderless, topic_problems
from pytest_kafkaperf.load.topics import AskTopic, TopicSight, config_of, sight_of

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from pytest_kafkaperf.access import Access
    from pytest_kafkaperf.scenario import Scenario

TIMEOUT_S = 10
"""Bound of one look at a cluster."""
_SHOWS_UP_S = 2
"""Bound of waiting for a topic that a broker does not know: it may have been made a moment ago, through another."""
_TICK_S = 0.05
_TRANSACTION_TIMEOUT_MS = 60_000
"""Default of aiokafka's producer, and of Kafka's own."""

T = TypeVar("T")

_READS = frozenset({Operation.READ, Operation.DESCRIBE})
"""What a run does with a topic that it only reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What a run is going to use."""

    topic: str
    group: str
    """Of its first consumers."""
    transactional_id: str
    """Of its first producer."""


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
        return self._call(self._resolve(scenario, scenario.topic))

    def read_partitions(self, scenario: Scenario) -> int:
        """How many partitions the topic has that consumers read.

        Raises:
            ClusterError: there is no such topic, or it cannot be seen.

        """
        if scenario.output_topic is None:
            return scenario.partitions
        return self._call(self._read_partitions(scenario.output_topic))

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
                    found.append(leaderless(f"topic {output.name!r}", output))
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
            answer = await client.send(client.get_random_node(), AskTopic(topic))
            (described,) = answer.topics
            error = kafka_errors.for_code(described[0])
            if error is not kafka_errors.UnknownTopicOrPartitionError or time.monotonic() > deadline:
                break
            await asyncio.sleep(_TICK_S)
        if error is kafka_errors.UnknownTopicOrPartitionError:
            raise ClusterError(f"{absent(topic, await visible_topics(client))} (on {self._servers})")
        if error is kafka_errors.TopicAuthorizationFailedError:
            raise ClusterError(self._refused(needed, _topics(topic, own=own)))
        if error is not kafka_errors.NoError:
            raise ClusterError(f"the cluster at {self._servers} tells nothing of topic {topic!r}: {error.__name__}")
        return sight_of(topic, described, await config_of(client, topic))

    async def _group_problems(self, client: Any, group: str) -> list[str]:
        error, answer = await ask_coordinator(client, group, 0, AskGroup(group))
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
        error, answer = await ask_coordinator(client, transactional_id, 1, request)
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

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return call(work, timeout_s=TIMEOUT_S)
        except TimeoutError:
            raise ClusterError(f"{self._servers} did not answer within {TIMEOUT_S} s before the load") from None
        except (kafka_errors.KafkaError, NotImplementedError) as error:
            raise ClusterError(f"could not look at {self._servers} before the load: {error}") from None


def needed_operations(scenario: Scenario) -> frozenset[Operation]:
    """What a run does with its topic."""
    reading = {Operation.READ} if scenario.consumers and scenario.output_topic is None else set()
    return frozenset({Operation.WRITE, Operation.DESCRIBE} | reading)


def _topics(topic: str, *, own: bool) -> Resource:
    """Rights on a run's own topic are rights on all that it will ever make."""
    return Resource(kind="topic", name=PREFIX if own else topic, prefixed=own)
