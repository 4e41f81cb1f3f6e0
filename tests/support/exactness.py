"""Records that are lost, duplicated and reordered, as a round counts them and as an independent consumer reads them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import aiokafka
import pytest

from pytest_kafkaperf.clusters.admin.admin import Admin
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.load import controller
from pytest_kafkaperf.scenarios.scenario import TAG_BYTES
from tests.support.patience import PATIENCE_S
from tests.support.proxy import ProxiedBroker, proxied_broker
from tests.support.rounds import Load, Once, Ran

QUICK_RETURN = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "200"}
"""With Kafka's 9 s, a killed broker waits that long for the registration of its former self to expire."""


SWALLOWED = 3


LOOPS: dict[str, dict[str, Any]] = {
    "open": {"rate": 2000, "duration": "8 s"},
    "closed": {"duration": "8 s", "batch_size": "4 KiB"},
}


RETRIES: dict[str, dict[str, Any]] = {
    "idempotent": {"idempotence": True},
    "one by one": {"producer_config": {"max.in.flight.requests.per.connection": 1}},
    "plain": {},  # five requests are on their way, and what is sent again may come after what was sent later
}


ENDS = {"stopped": False, "killed": True}


@dataclass(slots=True)
class ConsumedLog:
    """A topic's whole log as an independent consumer reads it: values by partition, in order."""

    values: dict[int, list[bytes]] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(map(len, self.values.values()))

    @property
    def duplicated(self) -> int:
        """No two records are sent with the same tag."""
        return self.total - len({value for values in self.values.values() for value in values})

    @property
    def reordered(self) -> int:
        """Records behind one that their producer made later, duplicates aside."""
        count = 0
        for values in self.values.values():
            latest: dict[int, int] = {}
            for value in dict.fromkeys(values):
                producer, index = _origin(value)
                count += index < latest.get(producer, index)
                latest[producer] = max(index, latest.get(producer, index))
        return count


def _origin(value: bytes) -> tuple[int, int]:
    """Producer and index, as the tag has them: 16 and 48 bits, the index signed."""
    tag = int.from_bytes(value[8:TAG_BYTES])
    index = tag & ((1 << 48) - 1)
    return tag >> 48, index - (1 << 48) * (index >> 47)


@pytest.fixture(scope="module")
def restartable() -> Iterator[ProxiedBroker]:
    """A broker that is ready soon after it was killed, behind a proxy."""
    with proxied_broker(**QUICK_RETURN) as started:
        yield started


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may need longer to start a broker than anybody would wait for a silent one."""
    monkeypatch.setattr(controller, "SILENCE_TIMEOUT_S", 25)  # and less than a batch is tried for


@pytest.fixture
def consumed_log(monkeypatch: pytest.MonkeyPatch, restartable: ProxiedBroker) -> ConsumedLog:
    """Read when the run is about to delete the topic."""
    read = ConsumedLog()
    delete_topic = Admin.delete_topic

    def read_and_delete(self: Admin, topic: str, **arguments: float) -> None:
        # In a thread: the caller may have a running loop.
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            read.values.update(thread.submit(asyncio.run, _read(restartable.direct, topic)).result())
        delete_topic(self, topic, **arguments)

    monkeypatch.setattr(Admin, "delete_topic", read_and_delete)
    return read


async def _read(cluster: Cluster, topic: str) -> dict[int, list[bytes]]:
    """With aiokafka as anybody would use it, from the first offset to the last."""
    values: dict[int, list[bytes]] = {}
    servers = cluster.bootstrap_servers
    consumer = aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest")
    async with asyncio.timeout(PATIENCE_S), consumer:
        ends = await consumer.end_offsets(consumer.assignment())
        while any([await consumer.position(partition) < end for partition, end in ends.items()]):
            for partition, records in (await consumer.getmany(timeout_ms=1000)).items():
                values.setdefault(partition.partition, []).extend(record.value for record in records)
    return values


@dataclass(slots=True)
class Restart:
    """Restarts a broker during the round, which must not wait for it."""

    broker: ProxiedBroker
    kill: bool
    _thread: concurrent.futures.ThreadPoolExecutor = field(
        default_factory=lambda: concurrent.futures.ThreadPoolExecutor(1)
    )
    _done: concurrent.futures.Future[None] | None = None

    def begin(self) -> None:
        self._done = self._thread.submit(functools.partial(self.broker.restart, kill=self.kill))

    def join(self) -> None:
        assert self._done is not None
        self._done.result(PATIENCE_S)
        self._thread.shutdown()


def assert_exact(ran: Ran, log: ConsumedLog) -> None:
    """Compare the values of a round with the log."""
    assert log.total == ran.growth
    assert ran.metrics["errors"] == 0
    assert ran.metrics["duplicated"] == log.duplicated
    assert ran.metrics["lost"] == 0
    assert log.total - log.duplicated == sum(ran.report.acknowledged().values())
    assert sum(part.total for part in ran.consumed) == log.total
    assert ran.metrics["reordered"] == log.reordered
    assert ran.faults == []


def restart_under_load(
    restartable: ProxiedBroker, load: Load, log: ConsumedLog, *, retries: str, loop: str, end: str
) -> None:
    """Restart the broker under load: records that are sent again are counted, or not there at all with idempotence."""
    restart = Restart(restartable, ENDS[end])
    in_the_middle = Once(restart.begin, after_s=1.5)
    ran = load(restartable.direct, consumers=1, on_progress=in_the_middle, **LOOPS[loop], **RETRIES[retries])
    restart.join()

    assert_exact(ran, log)
    assert ran.metrics["produce.latency.max"] > 0.5  # it was away, and that shows
    if retries == "idempotent":
        assert (log.duplicated, log.reordered) == (0, 0)


def swallow_answers(restartable: ProxiedBroker, load: Load, log: ConsumedLog, *, retries: str, loop: str) -> None:
    """Lose answers of the broker: it has the records, and the client sends them again, in order where it must."""
    swallowed_before = restartable.proxy.swallowed
    in_the_middle = Once(lambda: restartable.proxy.swallow(SWALLOWED), after_s=1)
    ran = load(
        restartable.proxied,
        consumers=1,
        on_progress=in_the_middle,
        **(LOOPS[loop] | {"duration": "3 s"}),
        **RETRIES[retries],
    )

    assert restartable.proxy.swallowed - swallowed_before == SWALLOWED
    assert_exact(ran, log)
    assert (log.duplicated == 0) == (retries == "idempotent")
    repeated = sum(worker.repeated_batches for worker in ran.report.workers)
    assert (repeated == 0) == (retries == "idempotent")
    if retries != "plain":
        assert log.reordered == 0


def swallow_answers_without_consumers(restartable: ProxiedBroker, load: Load, log: ConsumedLog, *, loop: str) -> None:
    """Lose answers of the broker where only batches have tags: the surplus of the log is what is duplicated."""
    in_the_middle = Once(lambda: restartable.proxy.swallow(SWALLOWED), after_s=1)
    ran = load(restartable.proxied, on_progress=in_the_middle, **(LOOPS[loop] | {"duration": "3 s"}))

    assert ran.faults == []
    acknowledged = sum(ran.report.acknowledged().values())
    assert (ran.metrics["errors"], ran.metrics["lost"]) == (0, 0)
    assert ran.metrics["duplicated"] == log.total - acknowledged > 0
