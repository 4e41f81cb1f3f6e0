"""Compares a round's acknowledged records with the growth of the log, and audits the log if the counts disagree."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_kafkaperf.clusters.admin.admin import Admin, TopicGoneError
from pytest_kafkaperf.clusters.admin.preflight import gone
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.problems import Cause, Problem
from pytest_kafkaperf.load.audit import MAX_RECORDS, AuditTask, outcome
from pytest_kafkaperf.load.clock import Stall, now_ns
from pytest_kafkaperf.load.controller import WorkerPool
from pytest_kafkaperf.load.ledger import MAX_NAMED
from pytest_kafkaperf.load.messages import Audit, LoadReport, Unaudited
from pytest_kafkaperf.runner.rounds.load_run import LoadRun
from pytest_kafkaperf.runner.rounds.observations import LogComparison
from pytest_kafkaperf.runner.rounds.validity import REASSIGNED
from pytest_kafkaperf.scenarios.scenario import Scenario

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


REPLICATION_TIMEOUT_S = 10
"""Maximum wait while followers copy none of the records that the leader acknowledged."""
_MOST_REPLICATION_S = 600
"""Maximum wait while followers make progress."""
_REPLICATION_TICK_S = 0.1


def compared_log(
    load: LoadReport, problems: Sequence[Problem], run: LoadRun, pool: WorkerPool, before: Mapping[int, int]
) -> LogComparison:
    """Compare the logs of the load's topics before and after it.

    The growth of the topic since `before`, its end offsets by partition, must match the acknowledged records. If the
    counts disagree, the pool's workers read the log back, record by record. `problems` are problems with the load and
    with actions during it.
    """
    return dataclasses.replace(_compared_topic(load, problems, run, pool, before), dead_letters=run.new_dead_letters())


def _compared_topic(
    load: LoadReport, problems: Sequence[Problem], run: LoadRun, pool: WorkerPool, before: Mapping[int, int]
) -> LogComparison:
    scenario = run.scenario
    if problems and not load.broken and run.admin.is_gone(run.topic):
        return _without_topic(run.topic)
    # With acks=0, brokers do not report whether a record is in the log.
    if load.broken or scenario.acks == 0 or not scenario.producers:
        return LogComparison()
    if scenario.output_topic is not None:
        return LogComparison(audit=None if problems else _audit_of_output(load, scenario))
    if scenario.topic is not None:
        return _audited_shared_topic(load, run, pool, before)
    return _compared_own_topic(load, run, pool, before)


def _compared_own_topic(load: LoadReport, run: LoadRun, pool: WorkerPool, before: Mapping[int, int]) -> LogComparison:
    try:
        after = settled_ends(run.admin, run.topic, before, load.expected_growth())
    except TopicGoneError:
        return _without_topic(run.topic)
    except ClusterError as error:
        return LogComparison(audit=Unaudited(error.reason))
    growth = _growth(before, after)
    audit = _audit(load, run, pool, before, after) if load.is_in_doubt(growth) else None
    return LogComparison(growth=growth, audit=audit)


def _growth(before: Mapping[int, int], after: Mapping[int, int]) -> dict[int, int]:
    return {partition: end - before[partition] for partition, end in after.items()}


def _without_topic(topic: str) -> LogComparison:
    """Return a comparison that reports the deleted topic as the cause of the load's problems."""
    return LogComparison(gone=Problem(Cause.CLUSTER_ERROR, {"reason": gone(topic)}))


def _audit(
    load: LoadReport, run: LoadRun, pool: WorkerPool, before: Mapping[int, int], after: Mapping[int, int]
) -> Audit | Unaudited:
    """Make the pool read the log back; if that is impossible, return the reason."""
    if load.acknowledged().keys() - before.keys():
        return Unaudited("the topic has gained partitions")
    growth = sum(_growth(before, after).values())
    if growth > MAX_RECORDS:
        return Unaudited(f"{growth} records are too many for an audit")
    if load.unknown() > MAX_NAMED:
        return _too_many_unknown(load)
    span_ns = (load.start_ns, now_ns()) if run.scenario.topic and load.start_ns is not None else None
    return pool.audit(
        AuditTask(
            bootstrap_servers=run.cluster.bootstrap_servers,
            access=run.cluster.access,
            topic=run.topic,
            scenario=run.scenario,
            offsets={partition: (before[partition], end) for partition, end in after.items()},
            failed=_unknown(load),
            acknowledged=sum(load.acknowledged().values()),
            span_ns=span_ns,
            nonce=run.nonce,
        )
    )


def _audit_of_output(load: LoadReport, scenario: Scenario) -> Audit | Unaudited | None:
    """Compare the application's output with the acknowledged records; records missing from the output are lost."""
    received, unmatched = (sum(getattr(part, name) for part in load.consumed) for name in ("received", "unmatched"))
    is_unmatched = unmatched and not received and scenario.expect.most > 0
    # A failed consumer does not report what it received.
    if load.start_ns is None or not load.consumed or is_unmatched:
        return None
    if load.unknown() > MAX_NAMED:
        return _too_many_unknown(load)
    if any(part.discarded > MAX_NAMED for part in load.produced):
        return Unaudited("the records of aborted transactions are too many for an audit")
    if load.joined is not None:
        found = load.joined.audit
    else:
        # Applications may read records of aborted transactions, which must not make up for records that they lose.
        discarded = [(part.producer, indexes) for part in load.produced for indexes in part.discarded_indexes]
        failed = [*_unknown(load), *discarded]
        found = outcome(load.consumed, failed, sum(part.acknowledged for part in load.produced))
    if (found.lost or found.duplicated) and any(part.reassigned for part in load.consumed):
        return Unaudited(REASSIGNED)
    return found


def _too_many_unknown(load: LoadReport) -> Unaudited:
    count = load.unknown()
    return Unaudited(f"{count} records without an acknowledgement or an error are too many for an audit")


def _unknown(load: LoadReport) -> list[tuple[int, npt.NDArray[np.int64]]]:
    """Return, for each producer, the indexes of records that may or may not be in the log."""
    return [(part.producer, indexes) for part in load.produced for indexes in part.unknown_indexes]


def _audited_shared_topic(load: LoadReport, run: LoadRun, pool: WorkerPool, before: Mapping[int, int]) -> LogComparison:
    """Audit a log whose growth proves nothing about a round's records because other clients may be writing to it.

    As in `settled_ends`, the audit is repeated until followers have had time to copy missing records.
    """
    if load.start_ns is None:
        return LogComparison()
    wait = Stall(REPLICATION_TIMEOUT_S, most_s=_MOST_REPLICATION_S)
    while True:
        try:
            after = run.admin.end_offsets(run.topic, len(before))
        except ClusterError as error:
            return LogComparison(audit=Unaudited(error.reason))
        found = _audit(load, run, pool, before, after)
        if isinstance(found, Unaudited):
            return LogComparison(audit=found)
        if not found.lost or wait.is_over(found.lost):
            return LogComparison(growth=_growth(before, after), audit=found)
        time.sleep(_REPLICATION_TICK_S)


def settled_ends(admin: Admin, topic: str, before: Mapping[int, int], expected: Mapping[int, int]) -> dict[int, int]:
    """Return a topic's end offsets by partition, after waiting for followers to copy the expected records.

    With acks=1, the leader acknowledges a record before its followers have copied it, but the end offset includes only
    records that they have copied.
    """
    wait = Stall(REPLICATION_TIMEOUT_S, most_s=_MOST_REPLICATION_S)
    while True:
        after = admin.end_offsets(topic, len(before))
        missing = _missing(before, after, expected)
        if not missing or wait.is_over(missing):
            return after
        time.sleep(_REPLICATION_TICK_S)


def backlog_ends(admin: Admin, topic: str, before: Mapping[int, int], expected: Mapping[int, int]) -> dict[int, int]:
    """Return a topic's end offsets by partition, after a backlog was written to it.

    `before` are the end offsets before the backlog; `expected` is the required growth.

    Raises:
        ClusterError: records are missing.

    """
    after = settled_ends(admin, topic, before, expected)
    if missing := _missing(before, after, expected):
        raise ClusterError(
            f"{missing} records of the backlog were acknowledged but are not in the log of topic {topic!r}; check the "
            "brokers, or use acks='all' with replicas"
        )
    return after


def _missing(before: Mapping[int, int], after: Mapping[int, int], expected: Mapping[int, int]) -> int:
    return sum(max(0, count - (after[each] - before[each])) for each, count in expected.items())
