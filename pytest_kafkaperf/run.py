"""The story of one test: topic, workers, rounds, measurements."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
import secrets
from typing import TYPE_CHECKING

from pytest_kafkaperf.errors import ClusterError
from pytest_kafkaperf.load.admin import Admin
from pytest_kafkaperf.load.assignment import Assignment
from pytest_kafkaperf.load.pool import WorkerPool
from pytest_kafkaperf.measurement import Round, fold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kafkaperf.clusters import Cluster
    from pytest_kafkaperf.load.board import Board
    from pytest_kafkaperf.load.pool import Progress
    from pytest_kafkaperf.scenario import Scenario

TOPIC_PREFIX = "kafkaperf-"
"""Of every topic and group that a run creates; only those are ever removed."""


def run_scenario(
    scenario: Scenario, cluster: Cluster, *, on_progress: Callable[[int, Progress], None] = lambda *_: None
) -> list[Round]:
    """Run all rounds of a scenario on a topic of its own.

    The list is shorter than `scenario.rounds` when a round left nothing to run the others on.

    Raises:
        ClusterError: the topic could not be created.

    """
    admin = Admin(cluster.bootstrap_servers, cluster.client_config)
    shares = _shares(scenario)
    rounds: list[Round] = []
    with _topic(admin, scenario, rounds) as topic, WorkerPool(len(shares)) as pool:
        for number in range(1, scenario.rounds + 1):
            board = pool.board()
            assignments = _assign(shares, scenario, cluster, topic, board, seed=number)
            before = admin.end_offsets(topic, scenario.partitions)
            watch = functools.partial(on_progress, number)
            report = pool.run(assignments, board, check=cluster.check, progress=watch)
            if not report.broken:
                with contextlib.suppress(ClusterError):
                    after = admin.end_offsets(topic, scenario.partitions)
                    growth = {partition: end - before[partition] for partition, end in after.items()}
                    report = dataclasses.replace(report, log_growth=growth)
            rounds.append(fold(report, scenario))
            if report.broken:
                break
    return rounds


@contextlib.contextmanager
def _topic(admin: Admin, scenario: Scenario, rounds: list[Round]) -> Iterator[str]:
    name = f"{TOPIC_PREFIX}{secrets.token_hex(6)}"
    admin.create_topic(name, scenario)
    try:
        yield name
    finally:
        try:
            admin.delete_topic(name)
        except ClusterError as error:
            if rounds and not rounds[-1].problems:
                warnings = (*rounds[-1].warnings, f"topic {name} was left behind: {error}")
                rounds[-1] = dataclasses.replace(rounds[-1], warnings=warnings)


def _shares(scenario: Scenario) -> list[tuple[tuple[int, ...], int]]:
    """Which producers and how many consumers each worker runs.

    Producers and consumers are in different processes, so that reading does not delay sending; there are no more
    processes of a kind than cores.
    """
    cores = os.cpu_count() or 1
    producing = min(scenario.producers, cores)
    consuming = min(scenario.consumers, cores)
    shares = [(tuple(range(worker, scenario.producers, producing)), 0) for worker in range(producing)]
    shares += [((), len(range(worker, scenario.consumers, consuming))) for worker in range(consuming)]
    return shares


def _assign(
    shares: list[tuple[tuple[int, ...], int]],
    scenario: Scenario,
    cluster: Cluster,
    topic: str,
    board: Board,
    *,
    seed: int,
) -> list[Assignment]:
    group = f"{topic}-{seed}"
    return [
        Assignment(
            worker=worker,
            board=board.path,
            bootstrap_servers=cluster.bootstrap_servers,
            client_config=dict(cluster.client_config),
            topic=topic,
            group=group,
            scenario=scenario,
            producers=producers,
            consumers=consumers,
            seed=seed,
        )
        for worker, (producers, consumers) in zip(itertools.count(), shares)
    ]
