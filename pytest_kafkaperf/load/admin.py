"""Topics: made for a test, counted, and removed again. Every request is bounded."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import time
from typing import TYPE_CHECKING, Any, TypeVar

import aiokafka
from aiokafka import errors as kafka_errors
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.structs import TopicPartition

from pytest_kafkaperf.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from pytest_kafkaperf.scenario import Scenario

TIMEOUT_S = 20
"""Bound of each call here, the wait for its effect included."""
_TICK_S = 0.05

T = TypeVar("T")


class Admin:
    """What a test needs of the cluster besides load; connects for each call."""

    def __init__(self, bootstrap_servers: str, client_config: Mapping[str, Any]) -> None:
        self._servers = bootstrap_servers
        self._config = dict(client_config)

    def create_topic(self, topic: str, scenario: Scenario) -> None:
        """Create the topic of a scenario and wait until each partition has a leader.

        Raises:
            ClusterError: refused by the cluster, or not done in time.

        """
        self._call(self._create_topic(topic, scenario), f"create topic {topic!r}")

    def delete_topic(self, topic: str, *, timeout_s: float = TIMEOUT_S) -> None:
        """Delete a topic that `create_topic` made; one that is not there is fine.

        Raises:
            ClusterError: refused by the cluster, or not done in time.

        """
        self._call(self._delete_topic(topic), f"delete topic {topic!r}", timeout_s)

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        """The offset after the last record, by partition.

        Raises:
            ClusterError: the cluster did not answer in time.

        """
        return self._call(self._end_offsets(topic, partitions), f"read the end offsets of {topic!r}")

    async def _create_topic(self, topic: str, scenario: Scenario) -> None:
        new = NewTopic(
            topic,
            num_partitions=scenario.partitions,
            replication_factor=scenario.replication_factor,
            topic_configs=dict(scenario.topic_config),
        )
        async with _stopping(AIOKafkaAdminClient(bootstrap_servers=self._servers, **self._config)) as admin:
            response = await admin.create_topics([new], timeout_ms=TIMEOUT_S * 1000)
            for _, code, *message in response.topic_errors:
                if code:
                    reason = next(filter(None, message), kafka_errors.for_code(code).__name__)
                    raise ClusterError(f"the cluster refused the topic of this scenario: {reason}")
            while not _has_leaders(await admin.describe_topics([topic]), scenario.partitions):
                await asyncio.sleep(_TICK_S)

    async def _delete_topic(self, topic: str) -> None:
        async with _stopping(AIOKafkaAdminClient(bootstrap_servers=self._servers, **self._config)) as admin:
            response = await admin.delete_topics([topic], timeout_ms=TIMEOUT_S * 1000)
            for _, code in response.topic_error_codes:
                error = kafka_errors.for_code(code)
                if error not in (kafka_errors.NoError, kafka_errors.UnknownTopicOrPartitionError):
                    raise ClusterError(f"the cluster refused to delete topic {topic!r}: {error.__name__}")

    async def _end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=self._servers, **self._config)
        async with _stopping(consumer):
            wanted = [TopicPartition(topic, partition) for partition in range(partitions)]
            ends = await consumer.end_offsets(wanted)
        return {where.partition: end for where, end in ends.items()}

    def _call(self, work: Coroutine[Any, Any, T], what: str, timeout_s: float = TIMEOUT_S) -> T:
        """Run it on a loop and a thread of its own: the caller may have a running loop."""
        with concurrent.futures.ThreadPoolExecutor(1, "kafkaperf-admin") as thread:
            return thread.submit(asyncio.run, self._bounded(work, what, timeout_s)).result()

    async def _bounded(self, work: Coroutine[Any, Any, T], what: str, timeout_s: float) -> T:
        started_s = time.monotonic()
        try:
            async with asyncio.timeout(timeout_s):
                return await work
        except (TimeoutError, kafka_errors.KafkaError) as error:
            elapsed_s = time.monotonic() - started_s
            reason = f"no answer in {elapsed_s:.0f} s" if isinstance(error, TimeoutError) else repr(error)
            raise ClusterError(f"could not {what} on {self._servers}: {reason}") from None


@contextlib.asynccontextmanager
async def _stopping(client: Any) -> Any:
    try:
        await client.start()
        yield client
    finally:
        stop = client.close if hasattr(client, "close") else client.stop
        with contextlib.suppress(kafka_errors.KafkaError, TimeoutError):
            async with asyncio.timeout(2):
                await stop()


def _has_leaders(descriptions: list[dict[str, Any]], partitions: int) -> bool:
    found = [part for topic in descriptions for part in topic["partitions"]]
    return len(found) == partitions and all(part["leader"] >= 0 for part in found)
