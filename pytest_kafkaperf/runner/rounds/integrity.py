"""The comparison of a round's acknowledged records with the log: by its growth, and by an audit if counts disagree."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_kafkaperf.clusters.admin.admin import Admin, TopicGoneError
from pytest_kafkaperf.clusters.admin.preflight import gone
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.notices import Problem, ProblemKind
from pytest_kafkaperf.load.audit import MAX_RECORDS, AuditTask, outcome
from pytest_kafkaperf.load.clock import Stall, now_ns
from pytest_kafkaperf.load.controller import WorkerPool
from pytest_kafkaperf.load.ledger import MAX_NAMED
from pytest_kafkaperf.load.messages import Audit, LoadReport
from pytest_kafkaperf.runner.rounds.load_run import RoundContext
from pytest_kafkaperf.runner.rounds.validity import REASSIGNED

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


REPLICATION_TIMEOUT_S = 10
"""Maximum wait for followers that copy none of the records that the leader acknowledged."""
_MOST_REPLICATION_S = 600
"""The same for followers that make progress."""
_REPLICATION_TICK_S = 0.1


def verified(report: LoadReport, context: RoundContext, pool: WorkerPool, before: Mapping[int, int]) -> LoadReport:
    """Return the report with what the log gained since `before`, its end offsets by partition.

    If the counts disagree with the acknowledgements, workers of the pool read the log back record by record.
    """
    admin, topic, scenario = context.admin, context.topic, context.scenario
    if report.problems and not report.broken and admin.is_gone(topic):
        report = _without_topic(topic, report)
    # With acks=0 no broker says that a record is in the log, or when.
    if report.broken or scenario.acks == 0 or not scenario.producers:
        return report
    if scenario.output_topic is not None:
        return _compare_output(report)
    if scenario.topic is not None:
        return _audit_shared_topic(report, context, pool, before)
    try:
        after = settled_ends(admin, topic, before, report.expected_growth())
    except ClusterError as error:
        if isinstance(error, TopicGoneError):
            return _without_topic(topic, report)
        return dataclasses.replace(report, audit=str(error))
    report = dataclasses.replace(report, log_growth=_growth(before, after))
    if report.in_doubt:
        report = dataclasses.replace(report, audit=_audit(report, context, pool, before, after))
    return report


def _growth(before: Mapping[int, int], after: Mapping[int, int]) -> dict[int, int]:
    return {partition: end - before[partition] for partition, end in after.items()}


def _without_topic(topic: str, report: LoadReport) -> LoadReport:
    """Return the report with the cause of its problems: the topic is gone."""
    problem = Problem(ProblemKind.CLUSTER_ERROR, gone(topic))
    return dataclasses.replace(report, problems=(problem, *report.problems), broken=True)


def _audit(
    report: LoadReport, context: RoundContext, pool: WorkerPool, before: Mapping[int, int], after: Mapping[int, int]
) -> Audit | str:
    """Let the pool read the log back; return the reason if that is not possible."""
    growth = sum(_growth(before, after).values())
    if growth > MAX_RECORDS:
        return f"{growth} records are too many for an audit"
    if report.unknown() > MAX_NAMED:
        return _too_many_unknown(report)
    span_ns = (report.start_ns, now_ns()) if context.scenario.topic and report.start_ns is not None else None
    return pool.audit(
        AuditTask(
            bootstrap_servers=context.cluster.bootstrap_servers,
            access=context.cluster.access,
            topic=context.topic,
            scenario=context.scenario,
            offsets={partition: (before[partition], end) for partition, end in after.items()},
            failed=_unknown(report),
            acknowledged=sum(report.acknowledged().values()),
            span_ns=span_ns,
            nonce=context.nonce,
        )
    )


def _compare_output(report: LoadReport) -> LoadReport:
    """Compare the output of the application with the acknowledged records: those that do not come out are lost."""
    if report.problems or report.start_ns is None or not report.consumed:
        return report  # a consumer that failed does not report what it received
    if report.unknown() > MAX_NAMED:
        return dataclasses.replace(report, audit=_too_many_unknown(report))
    received, unmatched = (sum(getattr(part, name) for part in report.consumed) for name in ("received", "unmatched"))
    if unmatched and not received:
        return report  # records came out, but without their tag, so that nobody knows which
    found = outcome(report.consumed, _unknown(report), sum(part.acknowledged for part in report.produced))
    if (found.lost or found.duplicated) and any(part.reassigned for part in report.consumed):
        return dataclasses.replace(report, audit=REASSIGNED)
    return dataclasses.replace(report, audit=found)


def _too_many_unknown(report: LoadReport) -> str:
    return f"{report.unknown()} records without an acknowledgement or an error are too many for an audit"


def _unknown(report: LoadReport) -> list[tuple[int, npt.NDArray[np.int64]]]:
    """Return producers with the indexes of their records that may or may not be in the log."""
    return [(part.producer, indexes) for part in report.produced for indexes in part.unknown_indexes]


def _audit_shared_topic(
    report: LoadReport, context: RoundContext, pool: WorkerPool, before: Mapping[int, int]
) -> LoadReport:
    """Audit a log that other clients may write to, so that its growth says nothing about a round's records.

    The audit is repeated until followers had time to copy missing records, as in `settled_ends`.
    """
    if report.start_ns is None:
        return report
    wait = Stall(REPLICATION_TIMEOUT_S, most_s=_MOST_REPLICATION_S)
    while True:
        try:
            after = context.admin.end_offsets(context.topic, len(before))
        except ClusterError as error:
            return dataclasses.replace(report, audit=str(error))
        found = _audit(report, context, pool, before, after)
        if isinstance(found, str):
            return dataclasses.replace(report, audit=found)
        if not found.lost or wait.is_over(found.lost):
            return dataclasses.replace(report, log_growth=_growth(before, after), audit=found)
        time.sleep(_REPLICATION_TICK_S)


def settled_ends(admin: Admin, topic: str, before: Mapping[int, int], expected: Mapping[int, int]) -> dict[int, int]:
    """Return the end offsets of a topic by partition, after waiting for followers to have the expected records.

    With acks=1 the leader acknowledges a record before its followers have it, and an end offset counts only records
    that followers have, too.
    """
    wait = Stall(REPLICATION_TIMEOUT_S, most_s=_MOST_REPLICATION_S)
    while True:
        after = admin.end_offsets(topic, len(before))
        missing = _missing(before, after, expected)
        if not missing or wait.is_over(missing):
            return after
        time.sleep(_REPLICATION_TICK_S)


def backlog_ends(admin: Admin, topic: str, before: Mapping[int, int], expected: Mapping[int, int]) -> dict[int, int]:
    """Return the end offsets of a topic after a backlog was written to it, by partition.

    `before` are those before it, `expected` the offsets that it must have added.

    Raises:
        ClusterError: records are missing.

    """
    after = settled_ends(admin, topic, before, expected)
    if missing := _missing(before, after, expected):
        raise ClusterError(
            f"{missing} records of the backlog were acknowledged and are not in the log of topic {topic!r}; check the "
            "brokers, or use acks='all' with replicas"
        )
    return after


def _missing(before: Mapping[int, int], after: Mapping[int, int], expected: Mapping[int, int]) -> int:
    return sum(max(0, count - (after[each] - before[each])) for each, count in expected.items())
