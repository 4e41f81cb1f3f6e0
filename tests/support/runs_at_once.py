"""Runs at once on one topic, each in a process of its own, as CI jobs that share a cluster are."""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import multiprocessing
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiokafka
from aiokafka.structs import RecordMetadata, TopicPartition

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.load.backends import processes
from pytest_kafkaperf.load.engines.aiokafka.worker import work
from pytest_kafkaperf.load.engines.engine import engine_of
from pytest_kafkaperf.load.messages import Assignment, WorkerReport
from pytest_kafkaperf.runner.rounds import side_rounds
from pytest_kafkaperf.runner.rounds.fold import fold
from pytest_kafkaperf.runner.rounds.observations import Observations
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.patience import PATIENCE_S
from tests.support.rounds import run_scenario

COUNTS = ("errors", "lost", "duplicated", "reordered")
LOST = range(500, 507)
"""Which calls of a client that loses records are acknowledged and never sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The counts of one run."""

    metrics: Mapping[str, float]
    """Those of `COUNTS` that were measured."""
    problems: Sequence[str]
    acknowledged: int
    received: int
    """By its consumers, including the warm-up."""
    growth: int
    """Records of all runs that the log gained meanwhile."""


def run_at_once(cluster: Cluster, fields: Sequence[Mapping[str, Any]], *, lossy: int | None = None) -> list[Counts]:
    """Run a round of each scenario at the same time; number `lossy` acknowledges `LOST` without sending them."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(len(fields), mp_context=context) as pool:
        futures = [
            pool.submit(_counts, cluster.bootstrap_servers, one, loses=number == lossy)
            for number, one in enumerate(fields)
        ]
        return [future.result(PATIENCE_S) for future in futures]


def work_lossily(assignment: Assignment) -> WorkerReport:
    """Take part in a round with a client that loses records, in a worker process."""
    send, calls = aiokafka.AIOKafkaProducer.send, itertools.count()

    async def send_most(self: aiokafka.AIOKafkaProducer, topic: str, *given: Any, **more: Any) -> Any:
        if next(calls) not in LOST:
            return await send(self, topic, *given, **more)
        future = asyncio.get_running_loop().create_future()
        future.set_result(RecordMetadata(topic, 0, TopicPartition(topic, 0), 0, 0, 0, 0))
        return future

    aiokafka.AIOKafkaProducer.send = send_most
    return work(assignment)


def _counts(servers: str, fields: Mapping[str, Any], *, loses: bool) -> Counts:
    folded: list[Observations] = []

    def keep(seen: Observations, scenario: Scenario) -> Round:
        folded.append(seen)
        return fold(seen, scenario)

    side_rounds.fold = keep  # type: ignore[attr-defined]
    if loses:
        engine = types.SimpleNamespace(work=work_lossily, audit=engine_of("record").audit)
        processes.engine_of = lambda _: engine  # type: ignore[attr-defined, assignment]
    (one,) = run_scenario(Scenario.of({"rounds": 1, **fields}), Cluster(bootstrap_servers=servers))
    (seen,) = folded
    return Counts(
        metrics={name: one.metrics[name] for name in COUNTS if name in one.metrics},
        problems=[problem.text for problem in one.problems],
        acknowledged=sum(seen.load.acknowledged().values()),
        received=sum(part.total for part in seen.load.consumed),
        growth=sum((seen.log.growth or {}).values()),
    )
