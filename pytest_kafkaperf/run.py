"""The story of one test: topic, workers, rounds, measurements."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_kafkaperf.errors import ClusterError
from pytest_kafkaperf.load.admin import TIMEOUT_S, Admin
from pytest_kafkaperf.load.assignment import Assignment
from pytest_kafkaperf.load.audit import MAX_RECORDS, AuditTask
from pytest_kafkaperf.load.ledger import MAX_NAMED
from pytest_kafkaperf.load.pool import WorkerPool
from pytest_kafkaperf.measurement import Audit, Round, RoundReport, fold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kafkaperf.clusters import Cluster
    from pytest_kafkaperf.load.board import Board
    from pytest_kafkaperf.load.pool import Progress
    from pytest_kafkaperf.scenario import Scenario

Offsets = Mapping[int, tuple[int, int]]
"""First and last (exclusive) offset, by partition."""

TOPIC_PREFIX = "kafkaperf-"
"""Of every topic and group that a run creates; only those are ever removed."""

_HASTY_TIMEOUT_S = 5
"""Bound of removing the topic after a run that ended early: the cluster may be gone, or a user waits."""
_REPLICATION_TIMEOUT_S = 10
"""Bound of waiting for followers to have what the leader has acknowledged."""
_REPLICATION_TICK_S = 0.1


def run_scenario(
    scenario: Scenario, cluster: Cluster, *, on_progress: Callable[[int, Progress], None] = lambda *_: None
) -> list[Round]:
    """Run all rounds of a scenario on a topic of its own.

    The list is shorter than `scenario.rounds` when a round left nothing to run the others on.

    Raises:
        ClusterError: the topic could not be created.

    """
    admin = Admin(cluster.bootstrap_servers, cluster.access)
    shares = _shares(scenario)
    rounds: list[Round] = []
    with _topic(admin, scenario, rounds) as topic, WorkerPool(len(shares)) as pool:
        for number in range(1, scenario.rounds + 1):
            board = pool.board(groups=scenario.consumer_groups)
            assignments = _assign(shares, scenario, cluster, topic, board, seed=number)
            watch = functools.partial(on_progress, number)
            load = functools.partial(pool.run, assignments, board, check=cluster.check, progress=watch)
            audit = functools.partial(_audit, pool=pool, cluster=cluster, topic=topic, scenario=scenario)
            report = _checked(admin, topic, scenario, load, audit)
            rounds.append(fold(report, scenario))
            if report.broken:
                break
    return rounds


@contextlib.contextmanager
def _topic(admin: Admin, scenario: Scenario, rounds: list[Round]) -> Iterator[str]:
    name = f"{TOPIC_PREFIX}{secrets.token_hex(6)}"
    try:
        admin.create_topic(name, scenario)
        yield name
    finally:
        ended_early = len(rounds) < scenario.rounds
        try:
            admin.delete_topic(name, timeout_s=_HASTY_TIMEOUT_S if ended_early else TIMEOUT_S)
        except ClusterError as error:
            if rounds and not rounds[-1].problems:
                warnings = (*rounds[-1].warnings, f"topic {name} was left behind: {error}")
                rounds[-1] = dataclasses.replace(rounds[-1], warnings=warnings)


def _checked(
    admin: Admin,
    topic: str,
    scenario: Scenario,
    load: Callable[[], RoundReport],
    audit: Callable[[RoundReport, Offsets], Audit | str],
) -> RoundReport:
    """Run a round, and compare the log before and after it; look into the log where that leaves a doubt."""
    try:
        before = admin.end_offsets(topic, scenario.partitions)
    except ClusterError as error:
        return RoundReport(workers=(), start_ns=None, problems=(str(error),), broken=True)
    report = load()
    if report.broken or scenario.acks == 0:  # nobody said that a record sent with acks=0 is in the log, or when
        return report
    try:
        after = _settled_ends(admin, topic, before, report.expected_growth())
    except ClusterError:
        return report
    growth = {partition: end - before[partition] for partition, end in after.items()}
    report = dataclasses.replace(report, log_growth=growth)
    if report.in_doubt:
        offsets = {partition: (before[partition], end) for partition, end in after.items()}
        report = dataclasses.replace(report, audit=audit(report, offsets))
    return report


def _settled_ends(admin: Admin, topic: str, before: Mapping[int, int], expected: Mapping[int, int]) -> dict[int, int]:
    """The end offsets of a topic, by partition.

    With acks=1 the leader acknowledges before its followers have a record, and end offsets tell what they have too:
    a gap is given time to close.
    """
    deadline = time.monotonic() + _REPLICATION_TIMEOUT_S
    while True:
        after = admin.end_offsets(topic, len(before))
        complete = all(after[partition] - before[partition] >= count for partition, count in expected.items())
        if complete or time.monotonic() > deadline:
            return after
        time.sleep(_REPLICATION_TICK_S)


def _audit(
    report: RoundReport, offsets: Offsets, *, pool: WorkerPool, cluster: Cluster, topic: str, scenario: Scenario
) -> Audit | str:
    """Have the pool look into the log; the reason, where that cannot be."""
    growth = sum(end - begin for begin, end in offsets.values())
    if growth > MAX_RECORDS:
        return f"{growth} records are too many to be looked at one by one"
    if report.unknown() > MAX_NAMED:
        return f"{report.unknown()} records of unknown fate are too many to be looked for one by one"
    return pool.audit(
        AuditTask(
            bootstrap_servers=cluster.bootstrap_servers,
            access=cluster.access,
            topic=topic,
            scenario=scenario,
            offsets=offsets,
            failed=[(part.producer, indexes) for part in report.produced for indexes in part.unknown_indexes],
            acknowledged=sum(report.acknowledged().values()),
        )
    )


def _shares(scenario: Scenario) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Which producers each worker runs, and of which groups its consumers are.

    Producers and consumers are in different processes, so that reading does not delay sending; there are no more
    processes of a kind than cores.
    """
    cores = os.cpu_count() or 1
    groups = [group for group in range(scenario.consumer_groups) for _ in range(scenario.consumers)]
    producing, consuming = min(scenario.producers, cores), min(len(groups), cores)
    shares = [(tuple(range(worker, scenario.producers, producing)), ()) for worker in range(producing)]
    return shares + [((), tuple(groups[worker::consuming])) for worker in range(consuming)]


def _assign(
    shares: list[tuple[tuple[int, ...], tuple[int, ...]]],
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
            access=cluster.access,
            topic=topic,
            group=group,
            scenario=scenario,
            producers=producers,
            consumers=consumers,
            seed=seed,
        )
        for worker, (producers, consumers) in zip(itertools.count(), shares)
    ]
