"""Lost, duplicated and reordered records are counted exactly, whatever happens to the broker in the middle."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiokafka
import pytest

from pytest_kafkaperf.clusters.client.admin import Admin
from pytest_kafkaperf.clusters.spec import Cluster
from pytest_kafkaperf.load import controller
from pytest_kafkaperf.scenario.scenario import TAG_BYTES
from tests.support.proxy import ProxiedBroker, proxied_broker
from tests.support.rounds import Load, Once, Ran

pytestmark = [pytest.mark.broker, pytest.mark.slow]

READ_TIMEOUT_S = 60
QUICK_RETURN = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "200"}
"""With Kafka's 9 s, a killed broker waits that long for the registration of its former self to expire."""
SWALLOWED = 3
LOOPS: dict[str, dict[str, Any]] = {
    "open": {"rate": 2000, "duration": 8},
    "closed": {"duration": 8, "batch_size": "4 KiB"},
}
RETRIES: dict[str, dict[str, Any]] = {
    "idempotent": {"idempotence": True},
    "one by one": {"producer_config": {"max.in.flight.requests.per.connection": 1}},
    "plain": {},  # five requests are on their way, and what is sent again may come after what was sent later
}
ENDS = {"stopped": False, "killed": True}
RESTARTS = [("idempotent", "open", "killed"), ("plain", "closed", "stopped")]
"""Those that always run: each kind of retries, of load and of end is in one of them."""
LOST_ANSWERS = [("idempotent", "open"), ("one by one", "closed"), ("plain", "open")]
"""The same of answers that are lost."""


def cases(always: Sequence[tuple[str, ...]], *names: Iterable[str]) -> list[Any]:
    """All combinations; those that do not always run state for another kind what those do for one."""
    return [
        pytest.param(*case, id="-".join(case), marks=[] if case in always else pytest.mark.extended)
        for case in itertools.product(*names)
    ]


@dataclass(slots=True)
class Log:
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
    with proxied_broker(**QUICK_RETURN) as started:
        yield started


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may need longer to start a broker than anybody would wait for a silent one."""
    monkeypatch.setattr(controller, "SILENCE_TIMEOUT_S", 25)  # and less than a batch is tried for


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, restartable: ProxiedBroker) -> Log:
    """Read when the run is about to delete the topic."""
    read = Log()
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
    async with asyncio.timeout(READ_TIMEOUT_S), consumer:
        ends = await consumer.end_offsets(consumer.assignment())
        while any([await consumer.position(partition) < end for partition, end in ends.items()]):
            for partition, records in (await consumer.getmany(timeout_ms=1000)).items():
                values.setdefault(partition.partition, []).extend(record.value for record in records)
    return values


@dataclass(slots=True)
class Restart:
    """Restarts a broker beside the round, which must not wait for it."""

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
        self._done.result(READ_TIMEOUT_S)
        self._thread.shutdown()


def assert_exact(ran: Ran, log: Log) -> None:
    """What the round says is what stands in the log."""
    assert log.total == ran.growth
    assert ran.metrics["errors"] == 0
    assert ran.metrics["duplicated"] == log.duplicated
    assert ran.metrics["lost"] == 0
    assert log.total - log.duplicated == sum(ran.report.acknowledged().values())
    assert sum(part.total for part in ran.consumed) == log.total
    assert ran.metrics["reordered"] == log.reordered
    assert ran.faults == []


@pytest.mark.parametrize(("retries", "loop", "end"), cases(RESTARTS, ["idempotent", "plain"], LOOPS, ENDS))
def test_a_restarted_broker_loses_nothing(
    restartable: ProxiedBroker, load: Load, log: Log, *, retries: str, loop: str, end: str
) -> None:
    """What is sent again because no answer came is counted, or, with idempotence, not there at all."""
    restart = Restart(restartable, ENDS[end])
    in_the_middle = Once(restart.begin, after_s=1.5)
    ran = load(restartable.direct, consumers=1, on_progress=in_the_middle, **LOOPS[loop], **RETRIES[retries])
    restart.join()

    assert_exact(ran, log)
    assert ran.metrics["produce.latency.max"] > 0.5  # it was away, and that shows
    if retries == "idempotent":
        assert (log.duplicated, log.reordered) == (0, 0)


@pytest.mark.parametrize(("retries", "loop"), cases(LOST_ANSWERS, RETRIES, LOOPS))
def test_records_whose_answers_are_lost_stand_twice_in_the_log_but_for_idempotence(
    restartable: ProxiedBroker, load: Load, log: Log, retries: str, loop: str
) -> None:
    """The broker has them, the client cannot know, and sends them again; in their order where they go one by one."""
    swallowed_before = restartable.proxy.swallowed
    in_the_middle = Once(lambda: restartable.proxy.swallow(SWALLOWED), after_s=1)
    ran = load(
        restartable.proxied,
        consumers=1,
        on_progress=in_the_middle,
        **(LOOPS[loop] | {"duration": 3}),
        **RETRIES[retries],
    )

    assert restartable.proxy.swallowed - swallowed_before == SWALLOWED
    assert_exact(ran, log)
    assert (log.duplicated == 0) == (retries == "idempotent")
    if retries != "plain":
        assert log.reordered == 0


@pytest.mark.parametrize("loop", cases([("open",)], LOOPS))
def test_duplicates_are_counted_without_a_tag_in_each_record(
    restartable: ProxiedBroker, load: Load, log: Log, loop: str
) -> None:
    """Without consumers only batches are known by their tags: what the log has beyond what was sent must come out."""
    in_the_middle = Once(lambda: restartable.proxy.swallow(SWALLOWED), after_s=1)
    ran = load(restartable.proxied, on_progress=in_the_middle, **(LOOPS[loop] | {"duration": 3}))

    assert ran.faults == []
    acknowledged = sum(ran.report.acknowledged().values())
    assert (ran.metrics["errors"], ran.metrics["lost"]) == (0, 0)
    assert ran.metrics["duplicated"] == log.total - acknowledged > 0
