"""Other applications on the same cluster: topics that exist already, and producers that write to them meanwhile."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import random
import threading
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiokafka
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import GroupLoadInProgressError

from pytest_kafkaperf.clusters.admin.connection import connected
from pytest_kafkaperf.clusters.admin.run_names import PREFIX
from pytest_kafkaperf.clusters.admin.wire import ask_for_topics
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.notices import NoticeKind
from pytest_kafkaperf.runner.rounds.round import Round
from tests.support.patience import PATIENCE_S

SIZES = (10, 16, 200)
"""Bytes of values: too short for a tag, just as long as one, and longer."""
_PAUSE_S = 0.002
_LOADING_PAUSE_S = 0.05
_PER_TRANSACTION = 7

T = TypeVar("T")


def on_a_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run it to its end in a thread: the caller may have a running loop."""

    async def bounded() -> T:
        async with asyncio.timeout(PATIENCE_S):
            return await work

    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, bounded()).result()


def make_topic(cluster: Cluster, *names: str, partitions: int = 3, **config: str) -> None:
    """As an operator would, and return when every broker knows them; dots of properties are written as underscores."""
    properties = {key.replace("_", "."): value for key, value in config.items()}
    new = [NewTopic(name, num_partitions=partitions, replication_factor=1, topic_configs=properties) for name in names]

    async def make() -> None:
        async with _admin(cluster) as admin:
            answer = await admin.create_topics(new)
            assert {code for _, code, *_ in answer.topic_errors} == {0}
        async with connected(cluster.bootstrap_servers, cluster.access) as client:
            for broker in client.cluster.brokers():
                while not await _topics_on(client, broker.nodeId) >= {*names}:
                    await asyncio.sleep(_LOADING_PAUSE_S)  # a broker hears of a topic after the controller has answered

    on_a_loop(make())


async def _topics_on(client: Any, broker: int) -> set[str]:
    answer = await client.send(broker, ask_for_topics())
    return {topic["topic"] for topic in answer.to_object()["topics"]}


def read_new_committed(cluster: Cluster, topic: str) -> None:
    """Write a record to each partition, and read it as a consumer with read_committed does, behind all others."""

    async def write_and_read() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
        consumer = aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed"
        )
        async with producer, consumer:
            await consumer.seek_to_end()
            left = {partition.partition for partition in consumer.assignment()}
            for partition in left:
                await producer.send_and_wait(topic, b"new", partition=partition)
            while left:
                record = await consumer.getone()
                left -= {record.partition} if record.value == b"new" else set()

    on_a_loop(write_and_read())


def drop_topic(cluster: Cluster, name: str) -> None:
    """As an operator would."""

    async def drop() -> None:
        async with _admin(cluster) as admin:
            await admin.delete_topics([name])

    on_a_loop(drop())


def drop_topics_of_runs(cluster: Cluster) -> None:
    """Remove what a killed run has left until a later run would sweep it: other tests require that none is left."""
    for name in topics(cluster):
        if name.startswith(PREFIX):
            drop_topic(cluster, name)


def topics(cluster: Cluster) -> set[str]:
    """All but Kafka's own."""

    async def listed() -> set[str]:
        async with _admin(cluster) as admin:
            return {topic for topic in await admin.list_topics() if not topic.startswith("__")}

    return on_a_loop(listed())


def topics_soon(cluster: Cluster, expected: set[str]) -> set[str]:
    """Return the topics as soon as every broker has exactly those that are expected; at the latest, what one has."""

    async def seen() -> set[str]:
        found: set[str] = set()
        deadline_s = time.monotonic() + PATIENCE_S / 2
        async with connected(cluster.bootstrap_servers, cluster.access) as client:
            for broker in client.cluster.brokers():
                while True:
                    found = {name for name in await _topics_on(client, broker.nodeId) if not name.startswith("__")}
                    if found == expected or time.monotonic() > deadline_s:
                        break
                    await asyncio.sleep(_LOADING_PAUSE_S)
                if found != expected:
                    break
        return found

    return on_a_loop(seen())


def topics_of_runs(cluster: Cluster) -> list[str]:
    """Those that runs have left, as soon as none is: a broker hears of a deletion after the controller has answered."""
    deadline_s = time.monotonic() + PATIENCE_S
    while left := sorted(name for name in topics(cluster) if name.startswith(PREFIX)):
        if time.monotonic() > deadline_s:
            break
    return left


def topic_properties(cluster: Cluster, name: str) -> dict[str, str]:
    """Return the properties of a topic, with their defaults."""

    async def described() -> dict[str, str]:
        async with _admin(cluster) as admin:
            (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
            ((_, _, _, _, entries),) = answer.resources
            return {key: value for key, value, *_ in entries}

    return on_a_loop(described())


def groups(cluster: Cluster) -> set[str]:
    """All consumer groups."""

    async def listed() -> set[str]:
        async with _admin(cluster) as admin:
            return set(await group_names(admin))

    return on_a_loop(listed())


async def group_names(admin: AIOKafkaAdminClient) -> list[str]:
    """All of them; the coordinator of a cluster's first groups takes a moment to be one. The caller bounds the wait."""
    while True:
        try:
            return [name for name, *_ in await admin.list_consumer_groups()]
        except GroupLoadInProgressError:
            await asyncio.sleep(_LOADING_PAUSE_S)  # no response says when it is one


def commit_as(cluster: Cluster, *groups: str, topic: str) -> None:
    """Leave groups behind that have committed an offset and have no members."""

    async def commit(group: str) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers, group_id=group, enable_auto_commit=False
        )
        await consumer.start()
        consumer.assign([aiokafka.TopicPartition(topic, 0)])
        await consumer.commit({aiokafka.TopicPartition(topic, 0): 0})
        await consumer.stop()

    async def commit_all() -> None:
        await asyncio.gather(*map(commit, groups))

    on_a_loop(commit_all())


@contextlib.asynccontextmanager
async def _admin(cluster: Cluster) -> Any:
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers, **cluster.client_config)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


def left_behind(one: Round) -> list[str]:
    """What a round says of things that it could not remove; a busy machine may be told of, too."""
    return [str(notice) for notice in one.warnings if notice.kind is NoticeKind.LEFT_BEHIND]


@dataclass(slots=True)
class Stranger:
    """Writes random values until it is told to end: plain ones, or in transactions, of which some are aborted."""

    cluster: Cluster
    topic: str
    transactional: bool
    written: int = 0
    _end: threading.Event = field(default_factory=threading.Event)

    async def write(self) -> None:
        source = random.Random(7)
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self.cluster.bootstrap_servers,
            transactional_id="stranger" if self.transactional else None,
        )
        await producer.start()
        try:
            while not self._end.is_set():
                await (self._transaction(producer, source) if self.transactional else self._one(producer, source))
                await asyncio.sleep(_PAUSE_S)
        finally:
            await producer.stop()

    async def _transaction(self, producer: aiokafka.AIOKafkaProducer, source: random.Random) -> None:
        await producer.begin_transaction()
        for _ in range(_PER_TRANSACTION):
            await self._one(producer, source)
        await (producer.abort_transaction() if source.random() < 0.5 else producer.commit_transaction())

    async def _one(self, producer: aiokafka.AIOKafkaProducer, source: random.Random) -> None:
        value = None if source.random() < 0.1 else source.randbytes(source.choice(SIZES))
        await producer.send_and_wait(self.topic, value, key=b"theirs")
        self.written += 1

    def end(self) -> None:
        self._end.set()


@contextlib.contextmanager
def strangers(cluster: Cluster, topic: str) -> Iterator[list[Stranger]]:
    """Two producers that write to the topic for the length of the block."""
    both = [Stranger(cluster, topic, transactional=transactional) for transactional in (False, True)]
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        futures = [threads.submit(asyncio.run, one.write()) for one in both]
        try:
            yield both
        finally:
            for one in both:
                one.end()
    for future in futures:
        future.result()
