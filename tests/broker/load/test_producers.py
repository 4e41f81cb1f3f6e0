"""Several producers: in one process or in many, each sends its share, by its own client with the given parameters."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.problems import ProblemKind
from tests.support.proxy import ProxiedBroker
from tests.support.topic_log import Log

if TYPE_CHECKING:
    from tests.support.rounds import Load


@pytest.mark.parametrize("fields", [{}, {"key": "uniform:100", "rate": 2000}])
def test_producers_share_processes_where_there_are_more_of_them_than_cores(
    broker: Cluster, load: Load, log: Log, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    """Each still sends what is its own, and no two take each other's records for theirs."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    ran = load(broker, records=2003, producers=5, consumers=1, warmup=0, **fields)

    assert ran.faults == []
    assert [[part.producer for part in worker.produced] for worker in ran.report.workers] == [[0, 2, 4], [1, 3], []]
    assert {part.producer: part.sent for part in ran.produced} == {0: 401, 1: 401, 2: 401, 3: 400, 4: 400}
    for part in ran.produced:
        indexes = sorted(record.index for record in log.records if record.producer == part.producer)
        assert indexes == list(range(part.sent))
        assert part.acknowledged == part.latency.total == part.sent
    assert len({record.value for record in log.records}) == sum(part.received for part in ran.consumed) == 2003


def test_requests_on_their_way_are_as_many_as_they_may_be(behind: ProxiedBroker, load: Load) -> None:
    """Kafka's own parameter, which aiokafka lacks: on a long way more of them bring more records across."""
    behind.proxy.delay(0.05)  # the client has sent all that it may before the first answer
    fields: dict[str, Any] = {"records": 200, "partitions": 1, "batch_size": 1000, "linger": 0, "warmup": 0}
    for count in (1, 5):
        behind.proxy.recount()
        ran = load(behind.proxied, producer_config={"max.in.flight.requests.per.connection": count}, **fields)
        assert ran.round.problems == ()
        assert behind.proxy.most_unanswered == count


def test_a_parameter_that_the_broker_refuses_is_told_in_its_words(broker: Cluster, load: Load) -> None:
    """It has reached the client, and the client the broker, which allows a transaction 15 minutes."""
    ran = load(broker, transaction_size=10, producer_config={"transaction_timeout_ms": 2_000_000}, records=100)

    (problem,) = ran.round.problems
    assert problem.kind is ProblemKind.WORKER_FAILED
    assert problem.text.startswith("producer 0 could not ")
    assert "InvalidTransactionTimeout" in problem.text
