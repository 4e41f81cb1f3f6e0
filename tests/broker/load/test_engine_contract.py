"""What every client engine must do: send what its assignment says, receive it, and report both."""

from __future__ import annotations

import collections
import secrets
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_kafkaperf.clusters.admin.admin import Admin
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.load.audit import AuditTask
from pytest_kafkaperf.load.backends.processes import Processes
from pytest_kafkaperf.load.controller import WorkerPool
from pytest_kafkaperf.load.engines.engine import engines
from pytest_kafkaperf.load.identity import NO_NONCE
from pytest_kafkaperf.load.messages import Assignment, Audit, LoadReport
from pytest_kafkaperf.load.schedule import Schedule, records_of_producer
from pytest_kafkaperf.load.shared_counters import SharedCounters
from pytest_kafkaperf.scenarios.scenario import KEY_BYTES, Scenario
from tests.support.topic_log import read_log

PRODUCERS = {0: (0, 2), 1: (1,)}
"""Numbers of the producers of each worker."""
LOADS: dict[str, dict[str, Any]] = {
    "closed loop": {"records": 1001},
    "keys": {"records": 1001, "key": "uniform:50", "compression": "lz4"},
    "open loop": {"rate": 1000, "duration": "1 s"},
}


@pytest.fixture(params=[client for engine in engines() for client in engine.clients])
def client(request: pytest.FixtureRequest) -> str:
    """A value of the scenario's field `client`."""
    return str(request.param)


@pytest.fixture
def topic(broker: Cluster) -> Iterator[str]:
    """A topic with two partitions."""
    name, admin = f"engine-{secrets.token_hex(4)}", Admin(broker.bootstrap_servers, broker.access)
    admin.create_topic(name, Scenario.of({"partitions": 2}))
    yield name
    admin.delete_topic(name)


def scenario_of(client: str, fields: dict[str, Any]) -> Scenario:
    common = {"client": client, "producers": 3, "consumers": 1, "partitions": 2, "warmup": 0}
    return Scenario.of({**common, **fields})


def assigned(servers: str, topic: str, scenario: Scenario, counters: SharedCounters) -> list[Assignment]:
    """Divide the load between two workers; the second one also consumes."""
    return [
        Assignment(
            worker=worker,
            counters=counters.path,
            bootstrap_servers=servers,
            access=Cluster(bootstrap_servers=servers).access,
            topic=topic,
            group=topic,
            scenario=scenario,
            read_partitions=2,
            producers=producers,
            consumers=(0,) if worker else (),
        )
        for worker, producers in PRODUCERS.items()
    ]


def run(pool: WorkerPool, servers: str, topic: str, scenario: Scenario) -> LoadReport:
    counters = pool.counters(groups=1)
    return pool.run(assigned(servers, topic, scenario, counters), counters, check=lambda: None, progress=lambda _: None)


@pytest.mark.parametrize("fields", LOADS.values(), ids=LOADS)
def test_an_engine_does_what_its_assignment_says(
    broker: Cluster, topic: str, client: str, fields: dict[str, Any]
) -> None:
    """The log is what an independent reader finds; the engine's own reports and its audit must agree with it."""
    scenario = scenario_of(client, fields)
    with WorkerPool(2, Processes) as pool:
        report = run(pool, broker.bootstrap_servers, topic, scenario)
        assert report.problems == []
        log = read_log(broker.bootstrap_servers, topic)
        ends = collections.Counter(record.partition for record in log.records)
        task = AuditTask(
            bootstrap_servers=broker.bootstrap_servers,
            access=broker.access,
            topic=topic,
            scenario=scenario,
            offsets={partition: (0, end) for partition, end in ends.items()},
            failed=[],
            acknowledged=len(log.records),
            nonce=NO_NONCE,
        )
        assert pool.audit(task) == Audit(lost=0, duplicated=0, reordered=0)

    assert [[part.producer for part in worker.produced] for worker in report.workers] == [[0, 2], [1]]
    total = scenario.records or 1000
    for part in report.produced:
        sent = sorted((record for record in log.records if record.producer == part.producer), key=lambda one: one.index)
        assert [record.index for record in sent] == list(range(records_of_producer(total, part.producer, 3)))
        assert part.sent == part.acknowledged == part.latency.total == len(sent)
        assert part.bytes == sum(len(record.value) + len(record.key or b"") for record in sent)
        assert dict(part.acknowledged_by_partition) == collections.Counter(record.partition for record in sent)
        assert (part.failed, part.unknown, part.missing) == (0, 0, 0)
        assert {len(record.key or b"") for record in sent} == {0 if scenario.key is None else KEY_BYTES}
        if scenario.rate is not None:
            schedule = Schedule.of(scenario.rate, start_ns=report.start_ns or 0, producer=part.producer, producers=3)
            assert [record.due_ns for record in sent] == [schedule.due_ns(record.index) for record in sent]
    (consumed,) = report.consumed
    assert (consumed.received, consumed.total, consumed.unread, consumed.disordered) == (total, total, 0, 0)
    assert consumed.bytes == sum(part.bytes for part in report.produced)
    assert consumed.latency.total == total


def test_an_engine_audits_a_log_without_new_records(broker: Cluster, topic: str, client: str) -> None:
    """A topic may refuse all records; then, the reader has nothing to wait for before it is closed."""
    task = AuditTask(
        bootstrap_servers=broker.bootstrap_servers,
        access=broker.access,
        topic=topic,
        scenario=scenario_of(client, LOADS["closed loop"]),
        offsets={0: (0, 0), 1: (0, 0)},
        failed=[],
        acknowledged=0,
        nonce=NO_NONCE,
    )
    with WorkerPool(1, Processes) as pool:
        assert pool.audit(task) == Audit(lost=0, duplicated=0, reordered=0)


def test_an_engine_names_the_client_that_cannot_connect(client: str) -> None:
    """The text is the reason of the round, and all that the user has to go by."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        servers = f"127.0.0.1:{unused.getsockname()[1]}"
        with WorkerPool(2, Processes) as pool:
            report = run(pool, servers, "topic", scenario_of(client, LOADS["closed loop"]))
    assert report.problems
    for problem in report.problems:
        assert "could not connect to" in problem.text
        assert servers in problem.text
