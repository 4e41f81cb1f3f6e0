"""A round and its log: what is compared, and when the log is looked into."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from pytest_kafkaperf.clusters.admin.admin import TopicGoneError
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.load import clock
from pytest_kafkaperf.load.identity import RecordSet
from pytest_kafkaperf.load.messages import Audit, Consumed, LoadReport, Produced, Unaudited, WorkerReport
from pytest_kafkaperf.runner.rounds import log_comparison
from pytest_kafkaperf.runner.rounds.load_run import LoadRun
from pytest_kafkaperf.runner.rounds.observations import LogComparison, Observations
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.problems import problem_told

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.admin.admin import Admin
    from pytest_kafkaperf.load.audit import AuditTask
    from pytest_kafkaperf.load.controller import WorkerPool

TOPICS = ("run-1", "shared")
"""A load's own topic, and one that others write to."""
UNREAD = problem_told(ProblemKind.RECORDS_UNREAD, "records were not read")
FOUND = Audit(lost=1, duplicated=2, reordered=3)
CLUSTER = Cluster(
    bootstrap_servers="broker:9092",
    client_config={
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "secret",
    },
    brokers=1,
    provider="external",
    version="4.3",
)


@dataclass(slots=True)
class Log:
    """End offsets of a topic of two partitions, one pair a question; the last one stays. An error is raised."""

    ends: list[tuple[int, int] | ClusterError]
    gone: bool = False
    asked: int = 0

    def is_gone(self, topic: str) -> bool:
        assert topic in TOPICS
        return self.gone

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        assert topic in TOPICS
        assert partitions == 2
        answer = self.ends[min(self.asked, len(self.ends) - 1)]
        self.asked += 1
        if isinstance(answer, ClusterError):
            raise answer
        return dict(enumerate(answer))


@dataclass(slots=True)
class Auditor:
    """Notes what it is asked for."""

    asked: list[dict[int, tuple[int, int]]] = field(default_factory=list)

    def audit(self, task: AuditTask) -> Audit | Unaudited:
        self.asked.append(dict(task.offsets))
        return FOUND


def report(**changes: Any) -> LoadReport:
    """30 records acknowledged in each of two partitions."""
    part = Produced(**{"acknowledged_by_partition": {0: 30, 1: 30}} | changes)
    return LoadReport(workers=[WorkerReport(produced=[part])], start_ns=1)


def checked(log: Log, auditor: Auditor, load: LoadReport, **fields: Any) -> LogComparison:
    return compared(log, auditor, load, Scenario.of({"partitions": 2} | fields))


def compared(log: Log, pool: Auditor | Audits | Pool, load: LoadReport, scenario: Scenario) -> LogComparison:
    """Compare the log before a load and after it."""
    context = LoadRun(
        cluster=CLUSTER, admin=cast("Admin", log), scenario=scenario, run="run", number=1, seed=1, read_partitions=2
    )
    before = log.end_offsets(context.topic, 2)
    return log_comparison.compared_log(load, load.problems, context, cast("WorkerPool", pool), before)


def test_the_log_grows_by_what_was_acknowledged_and_nobody_looks_into_it() -> None:
    """Two questions are enough, whatever was in the topic before."""
    log, auditor = Log([(100, 7), (130, 37)]), Auditor()
    done = checked(log, auditor, report())

    assert done.growth == {0: 30, 1: 30}
    assert (done.audit, auditor.asked, log.asked) == (None, [], 2)


def test_followers_are_given_time_to_have_the_last_records() -> None:
    """With acks=1 the leader acknowledges before them, and end offsets tell what they have."""
    log, auditor = Log([(0, 0), (20, 30), (29, 30), (30, 30)]), Auditor()
    done = checked(log, auditor, report(), acks=1)

    assert (done.growth, done.audit, log.asked) == ({0: 30, 1: 30}, None, 4)


def test_followers_that_get_closer_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be 13 s behind a closed loop; what they do not have yet is not lost."""
    seconds = itertools.count(0, 9)
    monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    monkeypatch.setattr(log_comparison, "time", SimpleNamespace(sleep=lambda _: None))
    log, auditor = Log([(0, 0), (10, 30), (20, 30), (30, 30)]), Auditor()
    assert (checked(log, auditor, report(), acks=1).audit, log.asked) == (None, 4)

    stuck = Log([(0, 0), (10, 30), (20, 30), (20, 30), (20, 30), (30, 30)])
    assert (checked(stuck, auditor, report(), acks=1).audit, stuck.asked) == (FOUND, 5)


def test_a_gap_that_does_not_close_is_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the round stands in the log is told: from its first offset to its last."""
    monkeypatch.setattr(log_comparison, "REPLICATION_TIMEOUT_S", 0)
    log, auditor = Log([(100, 7), (129, 37)]), Auditor()
    done = checked(log, auditor, report())

    assert (done.growth, done.audit) == ({0: 29, 1: 30}, FOUND)
    assert auditor.asked == [{0: (100, 129), 1: (7, 37)}]


def test_a_backlog_that_is_not_all_in_the_log_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Acknowledged records are lost, and consumers would catch up with fewer than the test declares."""
    monkeypatch.setattr(log_comparison, "REPLICATION_TIMEOUT_S", 0)

    def ends(*of_partition: int) -> dict[int, int]:
        log = cast("Admin", Log([(of_partition[0], of_partition[1])]))
        return log_comparison.backlog_ends(log, "shared", {0: 100, 1: 7}, {0: 30, 1: 30})

    assert ends(130, 37) == {0: 130, 1: 37}
    assert ends(135, 37) == {0: 135, 1: 37}  # others write to it as well
    with pytest.raises(ClusterError, match=r"^2 records of the backlog were acknowledged but are not in the log"):
        ends(140, 35)


@pytest.mark.parametrize(
    ("change", "ends"), [({"unknown": 1}, (30, 30)), ({"disordered": 1}, (30, 30)), ({}, (31, 30))]
)
def test_any_doubt_is_looked_into(change: dict[str, Any], ends: tuple[int, int]) -> None:
    """Counts that agree may hide a record that is lost and another that is there twice."""
    auditor = Auditor()

    assert checked(Log([(0, 0), ends]), auditor, report(**change)).audit == FOUND
    assert auditor.asked == [{0: (0, ends[0]), 1: (0, ends[1])}]


def test_the_ends_of_transactions_are_waited_for_and_are_no_doubt() -> None:
    """They come after the records, and take offsets."""
    log, auditor = Log([(0, 0), (30, 30), (32, 30)]), Auditor()
    done = checked(log, auditor, report(markers_by_partition={0: 2}))

    assert (done.growth, done.audit, log.asked) == ({0: 32, 1: 30}, None, 3)


def test_nothing_is_compared_with_acks_0() -> None:
    """Nobody said that a record is in the log, or when it will be."""
    log = Log([(0, 0)])

    assert checked(log, Auditor(), report(), acks=0).growth is None
    assert log.asked == 1


def test_a_cluster_that_is_lost_after_a_load_leaves_its_values() -> None:
    """The report keeps what was measured, and says that losses are unknown."""
    lost = ClusterError("could not read the end offsets")
    after = checked(Log([(0, 0), lost]), Auditor(), report())

    assert after == LogComparison(audit=Unaudited("could not read the end offsets"))
    seen = Observations(load=report(), log=after)
    assert (seen.broken, seen.problems, seen.load.acknowledged()) == (False, (), {0: 30, 1: 30})


def test_a_topic_that_somebody_deletes_ends_the_run_and_is_named() -> None:
    """Nobody would find it in what clients say of it; its records are nowhere to be compared with."""
    log = checked(Log([(0, 0), TopicGoneError("no such topic")]), Auditor(), report())
    told = Observations(load=report(), log=log)
    unread = dataclasses.replace(report(), problems=(UNREAD,))
    told_first = Observations(load=unread, log=checked(Log([(0, 0)], gone=True), Auditor(), unread))

    assert told.broken
    deleted = "topic 'run-1' was deleted while the load ran; exclude it from jobs that delete topics"
    assert told.problems == (problem_told(ProblemKind.CLUSTER_ERROR, deleted),)
    assert told_first.broken
    assert told_first.problems == (*told.problems, UNREAD)


@dataclass(slots=True)
class Audits:
    """Gives one finding after the other."""

    findings: list[Audit | Unaudited]
    asked: list[dict[int, tuple[int, int]]] = field(default_factory=list)

    def audit(self, task: AuditTask) -> Audit | Unaudited:
        self.asked.append(dict(task.offsets))
        return self.findings[min(len(self.asked), len(self.findings)) - 1]


def shared(log: Log, audits: Audits, load: LoadReport, **fields: Any) -> LogComparison:
    """On a topic that others write to."""
    return compared(log, audits, load, Scenario.of({"topic": "shared"} | fields).model_copy(update={"partitions": 2}))


CLEAN = Audit(lost=0, duplicated=0, reordered=0)


def test_a_log_that_others_write_to_is_always_looked_into() -> None:
    """Its growth says nothing, not even where it agrees."""
    audits = Audits([CLEAN])
    done = shared(Log([(100, 7), (130, 37)]), audits, report())

    assert (done.audit, done.growth) == (CLEAN, {0: 30, 1: 30})
    assert audits.asked == [{0: (100, 130), 1: (7, 37)}]


def test_a_record_that_is_missing_there_is_given_time_to_be_replicated() -> None:
    """With acks=1 an end offset may be that of others' records, before ours are on the followers."""
    audits = Audits([Audit(lost=9, duplicated=0, reordered=0), CLEAN])
    done = shared(Log([(0, 0), (30, 21), (30, 30)]), audits, report(), acks=1)

    assert done.audit == CLEAN
    assert audits.asked == [{0: (0, 30), 1: (0, 21)}, {0: (0, 30), 1: (0, 30)}]


def test_a_record_that_stays_missing_there_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait has a bound."""
    monkeypatch.setattr(log_comparison, "REPLICATION_TIMEOUT_S", 0)
    lost = Audit(lost=9, duplicated=0, reordered=0)

    assert shared(Log([(0, 0), (999, 999)]), Audits([lost]), report()).audit == lost


def test_nothing_is_known_of_a_log_that_others_write_to_and_nobody_can_look_into() -> None:
    """No counts stand in for the audit there."""
    unread = shared(Log([(0, 0), (30, 30)]), Audits([Unaudited("too many")]), report())
    silent = shared(Log([(0, 0), ClusterError("silent")]), Audits([CLEAN]), report())
    never_began = shared(Log([(0, 0)]), Audits([CLEAN]), LoadReport(workers=(), start_ns=None))

    assert (unread.audit, unread.growth) == (Unaudited("too many"), None)
    assert (silent.audit, silent.growth) == (Unaudited("silent"), None)
    assert (never_began.audit, never_began.growth) == (None, None)


@dataclass(slots=True)
class Pool:
    """Notes what it is asked to audit."""

    task: AuditTask | None = None

    def audit(self, task: AuditTask) -> Audit | Unaudited:
        self.task = task
        return FOUND


def audited(pool: Pool, load: LoadReport, ends: tuple[int, int]) -> Audit | Unaudited | None:
    """Audit a log that ends there, and that began at 100 and 7."""
    return compared(Log([(100, 7), ends]), pool, load, Scenario.of({"partitions": 2})).audit


def test_an_audit_knows_what_was_acknowledged_and_what_failed() -> None:
    """By name, where the fate is unknown; the password it connects with is in no text of it."""
    pool = Pool()
    load = report(producer=3, unknown=3, unknown_indexes=[np.array([4, 5]), np.array([9])])

    assert audited(pool, load, (131, 38)) == FOUND
    assert pool.task is not None
    assert [(producer, indexes.tolist()) for producer, indexes in pool.task.failed] == [(3, [4, 5]), (3, [9])]
    assert (pool.task.acknowledged, pool.task.offsets) == (60, {0: (100, 131), 1: (7, 38)})
    assert (pool.task.bootstrap_servers, pool.task.access) == ("broker:9092", CLUSTER.access)
    assert "secret" not in repr(pool.task)


@pytest.mark.parametrize(
    ("unknown", "end", "reason"),
    [
        (0, 20_000_100, "20000001 records are too many for an audit"),
        (1 << 21, 130, "2097152 records without an acknowledgement or an error are too many for an audit"),
    ],
)
def test_too_many_records_are_not_looked_at(
    monkeypatch: pytest.MonkeyPatch, unknown: int, end: int, reason: str
) -> None:
    """They would fill the memory of the worker: the reason goes into the report."""
    monkeypatch.setattr(log_comparison, "REPLICATION_TIMEOUT_S", 0)
    pool = Pool()

    assert audited(pool, report(unknown=unknown), (end, 8)) == Unaudited(reason)
    assert pool.task is None


def test_records_in_partitions_that_were_added_during_the_load_are_not_lost() -> None:
    """Their end offsets before the load are unknown, so nobody knows what is in them."""
    audits = Audits([Audit(lost=5, duplicated=0, reordered=0)])
    load = report(acknowledged_by_partition={0: 30, 1: 30, 2: 5})
    assert shared(Log([(0, 0), (30, 30)]), audits, load).audit == Unaudited("the topic has gained partitions")


@pytest.mark.parametrize(("came_out", "lost"), [(60, 0), (70, 0), (65, 5)])
def test_records_of_aborted_transactions_do_not_make_up_for_lost_ones(came_out: int, lost: int) -> None:
    """An application that reads uncommitted records also processes those, which were never acknowledged."""
    load = report(acknowledged=60, discarded=10, discarded_indexes=[np.arange(60, 70)])
    received = RecordSet()
    for name in range(70 - came_out if lost else 0, 70 if lost else came_out):
        received.add(name, measured=True)
    load.workers[0].consumed.append(Consumed(received=came_out, came_out=received))
    fields = {"topic": "shared", "output_topic": "out", "consumers": 1, "transaction_size": 100, "acks": "all"}
    scenario = Scenario.of(fields).model_copy(update={"partitions": 2})
    audit = compared(Log([(0, 0), (30, 30)]), Auditor(), load, scenario).audit
    assert audit == Audit(lost=lost, duplicated=0, reordered=0)


@pytest.mark.parametrize(
    ("received", "unmatched", "audit"),
    [
        (0, 1500, None),  # they came out without their tag: nobody knows which
        (0, 0, Audit(lost=60, duplicated=0, reordered=0)),  # nothing came out
        (1, 1500, Audit(lost=60, duplicated=0, reordered=0)),  # the others may be of another program
    ],
)
def test_where_no_record_carries_the_tag_nobody_knows_what_was_lost(
    received: int, unmatched: int, audit: Audit | None
) -> None:
    """1500 records were reported as lost that were all in the output: a service had dropped their headers."""
    load = report(acknowledged=60)
    load.workers[0].consumed.append(Consumed(received=received, unmatched=unmatched))
    scenario = Scenario.of({"topic": "shared", "output_topic": "out", "consumers": 1})
    scenario = scenario.model_copy(update={"partitions": 2})
    assert compared(Log([(0, 0), (30, 30)]), Auditor(), load, scenario).audit == audit
