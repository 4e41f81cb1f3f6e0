"""Reports of workers become one round: values, reasons not to trust it, warnings."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import numpy as np
import pytest

from pytest_kafkaperf.clusters.monitoring.readings import ApplicationKey
from pytest_kafkaperf.clusters.monitoring.tracks import Sample
from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.core.metrics import STEADINESS_METRICS
from pytest_kafkaperf.core.notices import Event, EventKind, Notice, NoticeKind, Remark
from pytest_kafkaperf.core.problems import Cause, Problem, ProblemKind
from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.messages import (
    Audit,
    Clock,
    Consumed,
    LoadReport,
    Produced,
    Unaudited,
    WorkerReport,
    WorkerShare,
)
from pytest_kafkaperf.load.recorder import Histogram, Series
from pytest_kafkaperf.runner.rounds.fold import fold
from pytest_kafkaperf.runner.rounds.observations import Observations
from pytest_kafkaperf.runner.rounds.validity import blamed_on
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.observations import observed
from tests.support.problems import BUSY, notice_told, problem_told

START_NS = 50 * NS_PER_S
BROKER_ENDED = problem_told(ProblemKind.CLUSTER_ERROR, "the broker ended")
MS = 1_000_000

PACED = Scenario.of({"rate": 100, "duration": "10 s"})
UNPACED = Scenario.of({"records": 1000})
READ = Scenario.of({"rate": 100, "duration": "10 s", "consumers": 2})
ALONE = Scenario.of({"rate": 100, "duration": "10 s", "consumers": 1})
EXISTING = Scenario.of({"topic": "orders", "producers": 0, "consumers": 2})
BACKLOG = Scenario.of({"rate": 100, "duration": "10 s", "consumers": 2, "consume": "after"})


def latencies(*values_ms: int) -> Histogram:
    histogram = Histogram()
    histogram.record(np.array(values_ms, dtype=np.int64) * MS)
    return histogram


def produced(**changes: Any) -> Produced:
    """1000 records in 10 s, all well."""
    fields: dict[str, Any] = {
        "sent": 1000,
        "acknowledged": 1000,
        "bytes": 100_000,
        "first_due_ns": START_NS,
        "last_ack_ns": START_NS + 10 * NS_PER_S,
        "latency": latencies(*[1] * 500, *[2] * 499, 9),
        "delay": latencies(*[0] * 1000),
        "acknowledged_by_partition": {0: 500, 1: 500},
    }
    return Produced(**fields | changes)


def consumed(**changes: Any) -> Consumed:
    fields: dict[str, Any] = {
        "received": 500,
        "bytes": 50_000,
        "last_ns": START_NS + 10 * NS_PER_S,
        "latency": latencies(*[4] * 500),
        "total": 600,
    }
    return Consumed(**fields | changes)


def report(*parts: Produced | Consumed, cpu_s: float = 0.5, busy_ratio: float = 0.2, **fields: Any) -> Observations:
    """One worker a part."""
    workers = [
        WorkerReport(
            produced=[part] if isinstance(part, Produced) else [],
            consumed=[part] if isinstance(part, Consumed) else [],
            cpu_s=cpu_s,
            busy_ratio=busy_ratio,
        )
        for number, part in enumerate(parts)
    ]
    return observed(**{"workers": workers, "start_ns": START_NS, "growth": {0: 500, 1: 500}} | fields)


def without_a_course(scenario: Scenario) -> list[str]:
    """The metrics of reports that have no series."""
    return [name for name in scenario.metrics() if name not in STEADINESS_METRICS]


@pytest.mark.parametrize(("records", "rate"), [(1, 1.0), (50, 50.0)])
def test_a_rate_counts_from_the_start_of_the_window_to_its_end(records: int, rate: float) -> None:
    """The last of few records is due long before: one record, acknowledged after 4 ms, would be 250 records/s."""
    scenario = Scenario.of({"rate": f"{rate} records/s", "duration": "1 s"})
    first, last = START_NS, START_NS + 4_000_000 + round((records - 1) / rate * 1e9)
    part = produced(acknowledged=records, sent=records, bytes=100 * records, first_due_ns=first, last_ack_ns=last)
    metrics = fold(report(part), scenario).metrics
    assert metrics["produce.throughput"] == pytest.approx(rate, rel=0.005)
    assert metrics["produce.bandwidth"] == pytest.approx(100 * rate, rel=0.005)


def test_one_producer_gives_exact_values() -> None:
    """Every value by hand, in base units."""
    done = fold(report(produced()), PACED)

    assert (done.problems, done.warnings) == ((), ())
    assert list(done.metrics) == without_a_course(PACED)
    assert done.metrics == pytest.approx(
        {
            "produce.throughput": 100.0,
            "produce.bandwidth": 10_000.0,
            "produce.latency.mean": (500 + 998 + 9) / 1000 * 1e-3,
            "produce.latency.p50": 1e-3,
            "produce.latency.p90": 2e-3,
            "produce.latency.p95": 2e-3,
            "produce.latency.p99": 2e-3,
            "produce.latency.p99.9": 2e-3,
            "produce.latency.max": 9e-3,
            **{f"produce.delay.{part}": 0.0 for part in ("mean", "p50", "p90", "p95", "p99", "p99.9", "max")},
            "errors": 0.0,
            "error_ratio": 0.0,
            "unsent": 0.0,
            "lost": 0.0,
            "duplicated": 0.0,
            "reordered": 0.0,
            "client.cpu_per_record": 500.0,
        },
        rel=1e-3,
    )


def test_producers_and_consumers_of_several_workers_add_up() -> None:
    """The window runs from the first due record to the last acknowledgement of any producer."""
    half: dict[str, Any] = {
        "sent": 500,
        "acknowledged": 500,
        "bytes": 50_000,
        "acknowledged_by_partition": {0: 250, 1: 250},
    }
    early = produced(**half, last_ack_ns=START_NS + 8 * NS_PER_S)
    late = produced(**half, first_due_ns=START_NS + MS)
    done = fold(
        report(early, late, consumed(), consumed(last_ns=START_NS + 20 * NS_PER_S), lag_max=30, lag_end=2), READ
    )

    assert done.problems == ()
    assert (done.metrics["produce.throughput"], done.metrics["produce.bandwidth"]) == (100, 10_000)
    assert done.metrics["consume.throughput"] == 50
    assert done.metrics["consume.bandwidth"] == 5000
    assert done.metrics["e2e.latency.p50"] == pytest.approx(4e-3, rel=1e-3)
    assert (done.metrics["lag.max"], done.metrics["lag.end"]) == (30, 2)
    assert done.metrics["client.cpu_per_record"] == 2000


def test_a_lag_that_was_not_sampled_has_no_value() -> None:
    """A lag of 0 would pass each threshold."""
    done = fold(report(produced(), consumed(), consumed()), READ)
    assert [name for name in done.metrics if name.startswith("lag.")] == []


def test_every_group_reads_everything() -> None:
    """Fan-out: throughput and bandwidth are those of all groups together, end-to-end times those of all receptions."""
    scenario = Scenario.of({"rate": 100, "duration": "10 s", "consumers": 2, "consumer_groups": 2})
    fast = [consumed(group=0), consumed(group=0)]
    slow = [consumed(group=1, latency=latencies(*[8] * 500)), consumed(group=1, latency=latencies(*[8] * 500))]
    done = fold(report(produced(), *fast, *slow), scenario)

    assert done.problems == ()
    assert (done.metrics["consume.throughput"], done.metrics["consume.bandwidth"]) == (200, 20_000)
    assert done.metrics["e2e.latency.mean"] == pytest.approx(6e-3, rel=1e-3)


def test_a_backlog_is_timed_from_the_drain() -> None:
    """What waited on purpose has no end-to-end time and no lag: its consumers' rate is what is asked for."""
    drain_ns = START_NS + 60 * NS_PER_S
    parts = [consumed(last_ns=drain_ns + NS_PER_S), consumed(last_ns=drain_ns + 2 * NS_PER_S)]
    done = fold(report(produced(), *parts, drain_ns=drain_ns, lag_max=1000, lag_end=1000), BACKLOG)

    assert done.problems == ()
    assert (done.metrics["consume.throughput"], done.metrics["consume.bandwidth"]) == (500, 50_000)
    assert [name for name in done.metrics if name.startswith(("e2e.", "lag."))] == []
    assert list(done.metrics) == without_a_course(BACKLOG)


def test_a_backlog_that_was_never_drained_has_no_rate() -> None:
    """The round ended before: no value is better than one from another instant."""
    done = fold(report(produced(), consumed(), consumed(), drain_ns=None, problems=[BROKER_ENDED]), BACKLOG)

    assert {"consume.throughput", "consume.bandwidth"}.isdisjoint(done.metrics)


def test_markers_of_transactions_are_no_duplicates() -> None:
    """Each takes an offset in the log."""
    marked = produced(markers_by_partition={0: 3, 1: 2})
    whole = fold(report(marked, growth={0: 503, 1: 502}), PACED).metrics
    gap = fold(report(marked, growth={0: 502, 1: 502}), PACED).metrics

    assert [(metrics["lost"], metrics["duplicated"]) for metrics in (whole, gap)] == [(0, 0), (1, 0)]


def test_what_an_audit_found_counts_more_than_offsets() -> None:
    """A record that is lost and another that is there twice cancel out in counts."""
    found = Audit(lost=2, duplicated=3, reordered=4)
    done = fold(report(produced(unknown=5, disordered=7), audit=found), PACED)

    assert [done.metrics[name] for name in ("lost", "duplicated", "reordered")] == [2, 3, 4]
    assert (done.problems, done.warnings) == ((), ())


@pytest.mark.parametrize(
    ("growth", "unknown", "disordered", "integrity"),
    [
        pytest.param(
            {0: 500, 1: 500}, 500, 0, {}, id="records without an answer may have taken the places of lost ones"
        ),
        pytest.param({0: 500, 1: 503}, 0, 0, {}, id="so may repeated ones"),
        pytest.param({0: 500, 1: 500}, 0, 7, {}, id="records that were sent again may be lost and repeated"),
        pytest.param({0: 490, 1: 500}, 500, 0, {"lost": 10.0}, id="a gap is a loss all the same"),
    ],
)
def test_without_an_audit_counts_that_disagree_show_no_more_than_a_loss(
    growth: dict[int, int], unknown: int, disordered: int, integrity: dict[str, float]
) -> None:
    """Could not look is not all well: 500 lost records and 500 failed ones in their places would be no loss."""
    reason = "25000000 records are too many for an audit"
    done = fold(report(produced(unknown=unknown, disordered=disordered), growth=growth, audit=Unaudited(reason)), PACED)

    assert {
        name: done.metrics[name] for name in ("lost", "duplicated", "reordered") if name in done.metrics
    } == integrity
    assert done.problems == (problem_told(ProblemKind.LOSSES_UNKNOWN, f"losses are unknown: {reason}"),)


def test_a_late_round_whose_losses_are_unknown_is_not_just_late() -> None:
    """It would otherwise be repeated, and nobody would know what Kafka lost."""
    done = fold(report(produced(late=11), audit=Unaudited("no answer")), PACED)
    assert [one.kind for one in done.problems] == [ProblemKind.GENERATOR_TOO_SLOW, ProblemKind.LOSSES_UNKNOWN]


def test_an_audit_is_made_where_a_batch_may_be_in_the_log_twice() -> None:
    """Its copy adds what a lost batch takes away, and the counts agree."""
    workers = [WorkerReport(produced=[produced()], repeated_batches=1)]
    assert report(workers=workers).load.is_in_doubt({0: 500, 1: 500})


@pytest.mark.parametrize(
    ("parts", "growth", "in_doubt"),
    [
        ([produced()], {0: 500, 1: 500}, False),
        ([produced()], {0: 499, 1: 501}, True),
        ([produced()], {0: 500, 1: 501}, True),
        ([produced(unknown=1)], {0: 500, 1: 500}, True),
        ([produced(disordered=1)], {0: 500, 1: 500}, True),
        ([produced(), consumed(disordered=1)], {0: 500, 1: 500}, True),
        ([produced(markers_by_partition={0: 1})], {0: 501, 1: 500}, False),
        ([produced(failed=3)], {0: 500, 1: 500}, False),  # the broker has refused them
    ],
)
def test_an_audit_is_made_where_counts_leave_a_doubt(
    parts: list[Produced | Consumed],
    growth: dict[int, int],
    in_doubt: bool,  # noqa: FBT001
) -> None:
    """It reads the whole log of the round: nobody waits for that without a reason."""
    assert report(*parts).load.is_in_doubt(growth) == in_doubt


@pytest.mark.parametrize(
    ("growth", "unknown", "lost", "duplicated"),
    [
        ({0: 500, 1: 500}, 0, 0, 0),
        ({0: 490, 1: 500}, 0, 10, 0),
        ({0: 510, 1: 500}, 0, 0, 10),
        ({0: 490, 1: 510}, 0, 10, 10),  # a gap and a surplus in two partitions do not cancel out
        ({0: 510, 1: 500}, 4, 0, 6),  # 4 of the surplus may be records whose fate is unknown
        ({0: 510, 1: 500}, 30, 0, 0),
        ({0: 490, 1: 500}, 30, 10, 0),  # an unknown fate excuses no gap
        ({0: 500, 1: 500, 2: 7}, 0, 0, 7),  # a partition that nobody sent to
        ({0: 500}, 0, 500, 0),
    ],
)
def test_lost_and_duplicated_come_from_comparing_offsets(
    growth: dict[int, int], unknown: int, lost: int, duplicated: int
) -> None:
    """Acknowledged and not in the log is lost; in the log more often than acknowledged is duplicated."""
    done = fold(report(produced(unknown=unknown), growth=growth), PACED)

    assert (done.metrics["lost"], done.metrics["duplicated"]) == (lost, duplicated)
    assert done.problems == ()  # Kafka's fault, which a threshold judges


def test_without_offsets_nothing_is_said_of_losses() -> None:
    """Could not compare is not zero."""
    metrics = fold(report(produced(disordered=3), growth=None), PACED).metrics
    assert {"lost", "duplicated", "reordered"}.isdisjoint(metrics)


def test_a_generator_that_held_records_back_makes_the_round_invalid() -> None:
    """Its lateness is not Kafka's."""
    advice = "; use more producers, larger records or a lower rate, or give the machine more cores"
    held = "11 of 1000 records were sent late although the in-flight limit allowed sending them"

    assert fold(report(produced(late=10)), PACED).problems == ()  # 1% is tolerated
    slow = problem_told(ProblemKind.GENERATOR_TOO_SLOW, f"generator too slow: {held}{advice}")
    assert fold(report(produced(late=11)), PACED).problems == (slow,)
    assert fold(report(produced(behind=11)), PACED).problems == (slow,)


@pytest.mark.parametrize(("late", "is_valid"), [(1, True), (2, False)])
def test_one_late_record_of_few_says_nothing_about_the_generator(late: int, *, is_valid: bool) -> None:
    """A single pause of a busy machine would make every round at a low rate invalid."""
    few = produced(sent=30, acknowledged=30, late=late)
    kinds = [problem.kind for problem in fold(report(few, growth={0: 30}), PACED).problems]
    assert kinds == ([] if is_valid else [ProblemKind.GENERATOR_TOO_SLOW])


def test_a_generator_without_the_cores_for_the_rate_makes_the_round_invalid() -> None:
    """It acknowledges late what it sends late: only its CPU tells."""
    overdue = produced(
        sent=500, acknowledged=500, missing=500, sent_late=100, acknowledged_by_partition={0: 250, 1: 250}
    )
    done = fold(report(overdue, cpu_s=10.0, busy_ratio=1.0, growth={0: 250, 1: 250}), PACED)

    (problem,) = done.problems
    assert problem.kind is ProblemKind.GENERATOR_TOO_SLOW
    assert problem.text == (
        "generator too slow: 600 of 1000 records were not sent in the window, and a worker would need 200% of a core "
        "to send them in time; use more producers, larger records or a lower rate, or give the machine more cores"
    )


@pytest.mark.parametrize(
    ("busy_ratio", "is_blamed"),
    [
        pytest.param(0.4, True, id="records cost half of its time, two cores at the rate"),
        pytest.param(0.25, False, id="records cost a fifth of its time, 0.8 cores at the rate"),
        pytest.param(0.19, False, id="waiting explains all of its time"),
    ],
)
def test_a_generator_that_mostly_waited_is_blamed_for_the_cost_of_records(
    busy_ratio: float, *, is_blamed: bool
) -> None:
    """A cluster that is too slow keeps it waiting, which costs CPU time as well."""
    overdue = produced(sent=500, acknowledged=500, missing=500, sent_late=100)
    overdue = dataclasses.replace(overdue, acknowledged_by_partition=collections.Counter({0: 500}))
    done = fold(report(overdue, cpu_s=20.0, busy_ratio=busy_ratio, growth={0: 500}), PACED)

    kinds = [problem.kind for problem in done.problems]
    assert kinds == ([ProblemKind.GENERATOR_TOO_SLOW] if is_blamed else [])


def test_a_cluster_without_room_for_the_rate_is_a_valid_round() -> None:
    """That is what is measured: low throughput, high latency."""
    overdue = produced(sent=500, acknowledged=500, missing=500, sent_late=100)
    overdue = dataclasses.replace(overdue, acknowledged_by_partition=collections.Counter({0: 500}))
    done = fold(report(overdue, cpu_s=0.1, growth={0: 500}), PACED)

    assert done.problems == ()
    assert (done.metrics["produce.throughput"], done.metrics["unsent"]) == (50, 500)
    assert done.warnings == (Notice(Remark.NEVER_SENT, {"missing": 500}),)


def test_records_that_an_aborted_load_did_not_send_say_nothing_about_the_cluster() -> None:
    """An application that crashed would look like a cluster that is too slow."""
    aborted = produced(sent=500, acknowledged=500, missing=500)
    aborted = dataclasses.replace(aborted, acknowledged_by_partition=collections.Counter({0: 500}))
    seen = report(aborted, growth={0: 500})
    done = fold(dataclasses.replace(seen, load=dataclasses.replace(seen.load, broken=True)), PACED)

    assert "unsent" not in done.metrics
    assert done.warnings == ()


MOVED_NS = START_NS + NS_PER_S
MOVED = [(START_NS - 1, {0: (1, (1, 2), (1, 2))}), (MOVED_NS, {0: (2, (2,), (1, 2))})]
"""A partition whose leader changes, and which falls out of sync."""


def stopped_at(at_ns: int, broker: int = 1) -> Event:
    return Event(at_ns, EventKind.STOPPED, f"broker {broker}")


@pytest.mark.parametrize(
    ("seen_by_plugin", "unsent"),
    [
        pytest.param({}, 30, id="no event"),
        pytest.param({"states": MOVED}, 30, id="an event that may be due to the overload"),
        pytest.param({"actions": [stopped_at(MOVED_NS)]}, 10, id="a broker that the test stopped"),
        pytest.param({"actions": [stopped_at(START_NS - 1)]}, 30, id="an action before the window"),
        pytest.param({"states": MOVED, "acted_ns": MOVED_NS - 1}, 10, id="an event after an action of the test"),
        pytest.param({"states": MOVED, "acted_ns": MOVED_NS + 1}, 30, id="an event before it"),
        pytest.param({"acted_ns": MOVED_NS}, 30, id="an action without an effect on brokers"),
    ],
)
def test_records_that_were_taken_long_after_the_window_count_as_unsent(
    seen_by_plugin: dict[str, Any], unsent: int
) -> None:
    """A cluster at a fifth of the rate takes a short window in the end; only a test's own failover excuses that."""
    late = produced(sent=990, missing=10, overdue=20)
    done = fold(report(late, **seen_by_plugin), PACED)

    assert done.problems == ()
    assert done.metrics["unsent"] == unsent


def test_losses_that_could_not_be_counted_make_the_round_invalid() -> None:
    """Could not look is not all well; with acks=0 nobody can look."""
    reason = "the plugin could not read the log of topic 'orders' back within 120 s"
    done = fold(report(produced(), growth=None, audit=Unaudited(reason)), PACED)
    assert done.problems == (problem_told(ProblemKind.LOSSES_UNKNOWN, f"losses are unknown: {reason}"),)
    assert done.warnings == ()
    unacknowledged = Scenario.of({"rate": 100, "duration": "10 s", "acks": 0})
    assert fold(report(produced(), growth=None), unacknowledged).problems == ()


def test_a_window_without_any_acknowledgement_is_invalid_and_says_why() -> None:
    """There is nothing to compare."""
    refused = produced(
        acknowledged=0, failed=7, failed_in_window=7, sent=7, failures={"MessageSizeTooLargeError": 5, "no answer": 2}
    )
    refused = dataclasses.replace(
        refused,
        latency=Histogram(),
        delay=Histogram(),
        last_ack_ns=None,
        acknowledged_by_partition=collections.Counter(),
    )
    done = fold(report(refused, growth={0: 0, 1: 0}), PACED)

    reasons = "MessageSizeTooLargeError (5 records), no answer (2 records)"
    assert done.problems == (
        problem_told(ProblemKind.NOTHING_ACKNOWLEDGED, f"no record in the window was acknowledged: {reasons}"),
    )
    errors = ("MessageSizeTooLargeError", "no answer")
    assert done.warnings == (
        Notice(Remark.RECORDS_FAILED, {"failed": 7, "failures": f": {reasons}", "errors": errors}),
    )
    assert done.metrics == {"errors": 7, "error_ratio": 1, "unsent": 0, "lost": 0, "duplicated": 0, "reordered": 0}


NO_OUTPUT = problem_told(
    ProblemKind.NO_OUTPUT,
    "no record arrived in 'out': start the application before you call kafka_perf(), and check its log; make sure that "
    "it reads 'in', accepts the records of this test (payload=), and writes to 'out'",
)
THROUGH: dict[str, Any] = {"rate": 100, "duration": "10 s", "consumers": 1, "topic": "in", "output_topic": "out"}


@pytest.mark.parametrize(
    ("acknowledged", "received", "problems"),
    [
        (1000, 999, []),
        (1000, 0, [NO_OUTPUT]),
        (0, 0, [problem_told(ProblemKind.NOTHING_ACKNOWLEDGED, "no record in the window was acknowledged")]),
    ],
)
def test_an_application_may_drop_records_but_not_all(acknowledged: int, received: int, problems: list[Problem]) -> None:
    """Where nothing came out nothing was measured; where nothing went in that is why."""
    scenario = Scenario.of(THROUGH)
    found = Audit(lost=acknowledged - received, duplicated=0, reordered=0)
    parts = produced(acknowledged=acknowledged), consumed(received=received)
    done = fold(report(*parts, audit=found, growth=None), scenario)
    assert list(done.problems) == problems
    assert done.metrics["lost"] == acknowledged - received
    assert done.metrics.get("app.output_ratio") == (received / acknowledged if acknowledged else None)
    assert "reordered" not in done.metrics


@pytest.mark.parametrize(
    ("quiet_s", "lost", "bounds"),
    [
        (2, 200, ["mean", "p90", "p95", "p99", "p99.9", "p99.99", "max", "p99.steadiness"]),
        (2, 20, ["mean", "p99", "p99.9", "p99.99", "max", "p99.steadiness"]),
        (0, 200, []),
        (0.1, 20, []),
        (1, 999, []),
        (2, 0, []),
    ],
    ids=["hangs", "hangs and catches up", "drops some", "drops the last ones", "lets few through", "is quick"],
)
def test_latencies_of_an_application_that_stopped_are_lower_bounds(
    quiet_s: float, lost: int, bounds: list[str]
) -> None:
    """The slowest records are those that never came out; one that drops records on purpose goes on to the end."""
    last_ns = START_NS + round((10 - quiet_s) * NS_PER_S)
    found = Audit(lost=lost, duplicated=0, reordered=0)
    parts = produced(), consumed(received=1000 - lost, last_ns=last_ns)
    done = fold(report(*parts, audit=found, growth=None), Scenario.of(THROUGH))
    assert done.problems == ()
    assert done.at_least == tuple(f"e2e.latency.{part}" for part in bounds)
    ended = [notice for notice in done.warnings if notice.remark is Remark.OUTPUT_ENDED]
    assert [str(notice.values["silence"]) for notice in ended] == ["1.9 s"] * bool(bounds)


def _unwrapped(record: Any) -> bytes:
    return bytes(record.key)


@pytest.mark.parametrize(
    ("fields", "unmatched", "text"),
    [
        (
            {},
            1,
            "no record came out with the header 'kafkaperf-tag', but 1 other record arrived in 'out': make the "
            "application copy the headers of its input, or set identify to what it keeps: 'key', 'json:FIELD' or a "
            "function",
        ),
        (
            {"identify": {"input": "value:16", "output": _unwrapped}},
            900,
            "no input record has the same identity (input value:16, output tests.unit.runner.rounds.test_fold."
            "_unwrapped) as what arrived in 'out' (900 records): check that the application keeps the identity, and "
            "that identify specifies where to find it",
        ),
        ({}, 0, NO_OUTPUT.text),
    ],
    ids=["header", "function", "silent"],
)
def test_an_application_without_output_is_told_by_its_cause(fields: dict[str, Any], unmatched: int, text: str) -> None:
    """Each cause has its own cure."""
    parts = produced(), consumed(received=0, unmatched=unmatched)
    done = fold(report(*parts, growth=None), Scenario.of(THROUGH | fields))
    assert done.problems == (problem_told(ProblemKind.NO_OUTPUT, text),)


def test_a_closed_loop_that_ran_out_of_time_is_invalid() -> None:
    """Fewer records than asked for are another load."""
    done = fold(report(produced(sent=600, acknowledged=600, missing=400), growth=None), UNPACED)

    assert done.problems == (
        problem_told(
            ProblemKind.LOAD_NOT_REACHED,
            "load not reached: only 600 of 1000 records were sent within 3600 s; use fewer records, or set a duration "
            "instead",
        ),
    )


@pytest.mark.parametrize(
    ("scenario", "busy_ratio", "limited"), [(UNPACED, 0.99, True), (UNPACED, 0.94, False), (PACED, 0.99, False)]
)
def test_a_closed_loop_without_idle_time_shows_what_the_generator_can_do(
    scenario: Scenario, busy_ratio: float, *, limited: bool
) -> None:
    """The value is a lower bound of what the cluster can take; a paced load leaves the worker idle or is late."""
    done = fold(report(produced(), busy_ratio=busy_ratio), scenario)
    assert (done.problems, done.warnings, done.limited_by_generator) == ((), (), limited)


@pytest.mark.parametrize(
    "parts",
    [
        (consumed(), consumed(unread=3)),  # in the log, beyond a consumer's position
        (consumed(), consumed(received=497)),  # passed over when the group gave partitions out again
        (consumed(), consumed(), consumed(group=1, received=997)),  # what one group has is no help to another
    ],
)
def test_records_that_no_consumer_got_make_the_round_invalid(parts: tuple[Consumed, ...]) -> None:
    """End-to-end values drop nothing, least of all the slowest."""
    done = fold(report(produced(), *parts), READ)

    (problem,) = done.problems
    assert problem.kind is ProblemKind.RECORDS_UNREAD
    assert problem.text == (
        "records unread: the consumers did not receive 3 records from the log in time, so end-to-end values would "
        "leave out the slowest records"
    )


@pytest.mark.parametrize(
    ("scenario", "parts", "is_doubtful"),
    [
        pytest.param(READ, (consumed(reassigned=True), consumed()), True, id="as many were skipped as repeated"),
        pytest.param(READ, (consumed(reassigned=True), consumed(received=600)), True, id="some were repeated"),
        pytest.param(READ, (consumed(received=1000, reassigned=True), consumed(received=0)), True, id="one left early"),
        pytest.param(ALONE, (consumed(received=1000, reassigned=True),), False, id="one consumer went on in order"),
        pytest.param(ALONE, (consumed(received=1000, reassigned=True, disordered=1),), True, id="one went back"),
        pytest.param(ALONE, (consumed(received=1100, reassigned=True),), True, id="one received more than there are"),
        pytest.param(EXISTING, (consumed(reassigned=True),), True, id="nobody knows how many there are"),
        pytest.param(READ, (consumed(), consumed()), False, id="no rebalance"),
    ],
)
def test_a_rebalance_under_load_makes_the_round_invalid_unless_counts_show_that_nothing_happened(
    scenario: Scenario,
    parts: tuple[Consumed, ...],
    is_doubtful: bool,  # noqa: FBT001
) -> None:
    """Repeated records stand in for skipped ones, and the latter may be the slowest."""
    sent = [produced()] if scenario.producers else []
    done = fold(report(*sent, *parts), scenario)
    assert [problem.kind for problem in done.problems] == [ProblemKind.RECORDS_UNREAD] * is_doubtful


@pytest.mark.parametrize(("isolation_level", "unread"), [("read_uncommitted", 200), ("read_committed", 0)])
def test_records_of_aborted_transactions_are_read_by_whoever_reads_all(isolation_level: str, unread: int) -> None:
    """And must not be missed by whoever reads what was committed."""
    fields = {"rate": 100, "duration": "10 s", "consumers": 1, "transaction_size": 10, "abort_ratio": 0.2}
    scenario = Scenario.of(fields | {"isolation_level": isolation_level})
    parts: list[Produced | Consumed] = [produced(acknowledged=800, aborted=200), consumed(received=800)]
    problems = fold(report(*parts), scenario).problems

    assert [problem.text.split(" from ")[0] for problem in problems] == (
        [f"records unread: the consumers did not receive {unread} records"] if unread else []
    )


def test_a_round_that_broke_tells_why_and_nothing_that_follows_from_it() -> None:
    """One reason, not all its consequences."""
    unfinished = produced(sent=300, acknowledged=200, missing=700, failed=100, unknown=100, failures={"no answer": 100})
    broken = report(unfinished, consumed(received=3, unread=9), problems=[BROKER_ENDED], growth=None)

    done = fold(broken, READ)
    assert done.problems == (BROKER_ENDED,)
    assert done.metrics["errors"] == 100


def test_a_round_that_never_began_has_its_reason_and_no_errors_of_records() -> None:
    """Nothing was sent."""
    done = fold(Observations(load=LoadReport.failed(Cause.WORKER_FAILED, LoadError("no connection"))), PACED)

    why = Problem(Cause.WORKER_FAILED, {"reason": "no connection"})
    assert (dict(done.metrics), done.problems, done.warnings) == ({"errors": 0.0}, (why,), ())
    assert done.series == {}


def seen(*second_and_latency_ms: tuple[float, int]) -> Series:
    series = Series(START_NS)
    for second, latency_ms in second_and_latency_ms:
        instant_ns = np.array([START_NS + round(second * NS_PER_S)])
        series.count(instant_ns, np.array([10]))
        series.record(instant_ns, np.array([latency_ms * MS]))
    return series


def test_series_of_all_workers_become_one() -> None:
    """Of producing and, with consumers, of consuming; the warm-up is before the start."""
    workers = [
        WorkerReport(produced=[produced()], produce_series=seen((-0.5, 1), (0.5, 2))),
        WorkerReport(produced=[produced()], produce_series=seen((0.6, 3)), consume_series=seen((1.5, 4))),
    ]
    for worker in workers:
        for name in ("produce_series", "consume_series"):
            if getattr(worker, name).start_ns == 0:
                setattr(worker, name, Series(START_NS))
    round_report = observed(workers=workers, start_ns=START_NS)

    assert list(fold(round_report, PACED).series) == ["produce"]
    series = fold(round_report, READ).series
    assert list(series) == ["produce", "consume"]
    assert (series["produce"]["first_s"], series["produce"]["count"]) == (-1, [10, 20])
    assert series["produce"]["max"] == pytest.approx([1e-3, 3e-3])
    assert (series["consume"]["first_s"], series["consume"]["count"]) == (1, [10])


def test_a_load_whose_end_is_worse_than_the_whole_shows_it() -> None:
    """Both metrics come from the series; without a common clock, there is no latency to compare."""
    course = seen(*((second, 5 if second < 7 else 10) for second in range(10)))
    worker = WorkerReport(produced=[produced()], consumed=[consumed()], produce_series=course, consume_series=course)
    steady = fold(observed(workers=[worker], start_ns=START_NS), READ).metrics
    assert steady["produce.throughput.steadiness"] == 1
    assert steady["e2e.latency.p99.steadiness"] == pytest.approx(2)
    worker.consumed[0].ahead_ns = 5 * MS
    skewed = fold(observed(workers=[worker], start_ns=START_NS), READ).metrics
    assert steady.keys() - skewed.keys() == {name for name in steady if name.startswith("e2e.")}


def test_what_the_client_library_said_is_told_once() -> None:
    """Each worker says the same."""
    told = [notice_told("a"), notice_told("b")]
    workers = [WorkerReport(produced=[produced()], notes=told) for number in range(2)]
    done = fold(observed(workers=workers, start_ns=START_NS), PACED)

    assert done.warnings == (*told,)


def test_what_happened_to_brokers_is_kept_with_its_time() -> None:
    """Plots mark it; the warnings tell it."""
    moved = START_NS + 3 * NS_PER_S
    states = [(START_NS - 1, {0: (1, (1, 2), (1, 2))}), (moved, {0: (2, (1, 2), (1, 2))})]
    actions = [
        Event(START_NS - 5, EventKind.STARTED, "broker 1"),  # too early
        Event(START_NS + NS_PER_S // 2, EventKind.STOPPED, "broker 1"),
    ]
    done = fold(report(produced(), states=states, actions=actions), PACED)
    assert [(event.at_s, str(event.notice), event.action) for event in done.events] == [
        (0.5, "at 0.5 s: broker 1 stopped", actions[1]),
        (3.0, "at 3.0 s: 1 partition (0): leader moved from broker 1 to 2", None),
    ]
    assert [notice for notice in done.warnings if notice.kind is NoticeKind.EVENT] == [
        event.notice for event in done.events
    ]


@pytest.mark.parametrize(("stopped", "value"), [(False, None), (True, 1.0)], ids=["failed", "stopped by the test"])
def test_a_broker_that_was_not_read_leaves_a_metric_of_all_brokers_without_a_value(
    stopped: bool,  # noqa: FBT001 - a parameter
    value: float | None,
) -> None:
    """A threshold on it would pass by the work of the brokers that answered; a broker that the test stops does none."""
    seconds = range(-1, 12)
    read = [Sample(at_ns=START_NS + at * NS_PER_S, kind="Process", readings={"cpu_s": float(at)}) for at in seconds]
    unread = [Sample(at_ns=START_NS, kind="Process", readings={})]
    actions = [stopped_at(START_NS + NS_PER_S, 2)] if stopped else []
    worker = WorkerReport(
        produced=[produced()],
        produce_series=seen(*((second, 5) for second in range(10))),
        consume_series=Series(START_NS),
    )
    done = fold(report(workers=[worker], samples={1: read, 2: unread}, actions=actions), PACED)
    assert done.metrics.get("broker.cpu") == (value if value is None else pytest.approx(value))
    assert ("broker.cpu_per_record" in done.metrics) is stopped
    left_out = [notice.values["parts"] for notice in done.warnings if notice.remark is Remark.METRICS_LEFT_OUT]
    assert left_out == ([] if stopped else ["broker 2 (Process) in 0% of the window"])


def test_what_applications_did_is_on_the_time_line_and_no_event_of_a_broker() -> None:
    """How long the latency of brokers takes to recover from it would be a value without a meaning."""
    edges = [START_NS + second * NS_PER_S for second in range(-1, 12)]
    used = [Sample(at_ns=at, readings={"cpu_s": i / 4, "memory_bytes": 9.0 + i}) for i, at in enumerate(edges)]
    events = [
        Event(START_NS - 5, EventKind.STARTED, "shop"),
        Event(START_NS + 2 * NS_PER_S, EventKind.STOPPED, "shop"),
    ]
    series = seen(*((second, 5) for second in range(10)))
    worker = WorkerReport(produced=[produced()], produce_series=series, consume_series=Series(START_NS))
    done = fold(report(workers=[worker], samples={ApplicationKey("shop"): used}, application_events=events), PACED)
    assert (done.metrics["app.cpu"], done.metrics["app.memory"]) == pytest.approx((0.25, 19.0))
    assert [(event.at_s, str(event.notice), event.action) for event in done.events] == [
        (2.0, "at 2.0 s: shop stopped", events[1])
    ]
    assert "recovery" not in done.metrics
    assert done.brokers is not None
    assert [*done.brokers["brokers"]] == ["application shop"]


def with_outage(*bad_seconds: int, **seen_by_plugin: Any) -> Observations:
    """A round of 10 s, in which the latency is 100 times as high in some seconds."""
    series = seen(*((second, 500 if second in bad_seconds else 5) for second in range(-2, 10)))
    worker = WorkerReport(produced=[produced()], produce_series=series, consume_series=Series(START_NS))
    return report(workers=[worker], **seen_by_plugin)


def test_a_round_that_ends_before_latency_has_recovered_has_a_lower_bound_of_the_recovery() -> None:
    """A limit of 8 s would otherwise hold wherever the window ends 5 s after the stop."""
    stopped = [stopped_at(START_NS + 5 * NS_PER_S)]
    over, never = (fold(with_outage(*bad, actions=stopped), PACED) for bad in ((5, 6), (5, 6, 7, 8, 9)))
    assert (over.metrics["recovery"], over.at_least) == (2, ())
    assert (never.metrics["recovery"], never.at_least) == (5, ("recovery",))


def test_an_outage_after_many_events_is_found() -> None:
    """Texts omit some of many events; the recovery from these counts all the same."""
    at_s = (0.5, 0.6, 0.7, 0.8, 0.9, 5.0, 9.9)
    moves = [(START_NS + round(at * NS_PER_S), {0: (number % 2, (0, 1), (0, 1))}) for number, at in enumerate(at_s)]
    done = fold(with_outage(5, 6, states=[(START_NS - 1, {0: (1, (0, 1), (0, 1))}), *moves]), PACED)
    assert done.metrics["recovery"] == 2


def test_the_recovery_counts_from_the_action_of_the_test_where_brokers_change_later() -> None:
    """A new leader ends an outage that a function of the test has begun; from then on, latency is as usual."""
    moved = START_NS + round(5.9 * NS_PER_S)
    states = [(START_NS - 1, {0: (1, (1, 2), (1, 2))}), (moved, {0: (2, (1, 2), (1, 2))})]
    seen_late, known = (
        fold(with_outage(3, 4, 5, states=states, acted_ns=acted_ns), PACED).metrics["recovery"]
        for acted_ns in (None, START_NS + 3 * NS_PER_S)
    )
    assert [seen_late, known] == pytest.approx([0.1, 3])


def test_the_state_of_all_partitions_at_the_start_is_known() -> None:
    """Each state holds only the partitions that changed."""
    full, thin = (1, (1, 2), (1, 2)), (1, (1,), (1, 2))
    times = (START_NS - 5 * NS_PER_S, START_NS - 2 * NS_PER_S, START_NS + 3 * NS_PER_S)
    changes = ({0: thin, 1: full, 2: full}, {1: thin}, {0: full, 1: full})
    done = fold(report(produced(), states=list(zip(times, changes, strict=True))), PACED)
    assert [(event.at_s, str(event.notice)) for event in done.events] == [
        (0.0, "2 of 3 partitions under-replicated from 0.0 s to 3.0 s")
    ]


def test_with_acks_0_nothing_is_said_of_losses() -> None:
    """Nobody promised that they are in the log."""
    scenario = Scenario.of({"rate": 100, "duration": "10 s", "acks": 0})

    metrics = fold(report(produced(), growth=None), scenario).metrics
    assert {"lost", "duplicated", "reordered"}.isdisjoint(metrics)


def clock(name: str, *, uncertainty_ns: int = 0) -> Clock:
    return Clock(name=name, host=f"host-{name}", offset_ns=7, uncertainty_ns=uncertainty_ns, is_here=False)


@pytest.mark.parametrize(
    ("sending", "receiving", "uncertainty_s"),
    [
        ([None], [None], None),
        ([clock("a", uncertainty_ns=300_000)], [clock("a", uncertainty_ns=300_000)], None),
        ([clock("a", uncertainty_ns=300_000)], [clock("b", uncertainty_ns=100_000)], 0.0004),
        ([clock("a", uncertainty_ns=300_000), clock("b")], [clock("b"), clock("a", uncertainty_ns=300_000)], 0.0003),
        ([None], [clock("b", uncertainty_ns=100_000)], 0.0001),
        ([clock("a")], [], None),
    ],
    ids=str,
)
def test_end_to_end_latency_is_as_exact_as_the_two_clocks(
    sending: list[Clock | None], receiving: list[Clock | None], uncertainty_s: float | None
) -> None:
    """By one clock it is exact, whatever that clock says; between two both count."""
    workers = [WorkerReport(produced=[produced()], clock=one) for one in sending]
    workers += [WorkerReport(consumed=[consumed()], clock=one) for one in receiving]

    assert fold(observed(workers=workers, start_ns=START_NS), READ).e2e_uncertainty_s == uncertainty_s


def test_a_round_tells_what_each_worker_had_of_it() -> None:
    """Who looks for the generator's limit needs to see the busiest one, and where it was."""
    workers = [
        WorkerReport(produced=[produced(), produced()], cpu_s=2.0, busy_ratio=0.3, clock=clock("a")),
        WorkerReport(consumed=[consumed()], cpu_s=1.0, busy_ratio=0.2),
    ]
    assert fold(observed(workers=workers, start_ns=START_NS), READ).shares == (
        WorkerShare(host="host-a", producers=2, consumers=0, cpu_s=2.0, busy_ratio=0.3, sent=2000, received=0),
        WorkerShare(host=None, producers=0, consumers=1, cpu_s=1.0, busy_ratio=0.2, sent=0, received=500),
    )


def test_other_programs_are_named_as_a_possible_reason_of_a_slow_generator() -> None:
    """A hint at more cores helps nobody whose cores are used by another program."""
    slow = Problem(Cause.SENT_LATE, {"late": 5, "due": 9})
    unread = problem_told(ProblemKind.RECORDS_UNREAD, "records unread: 5; use more consumers")
    blamed, other = blamed_on(BUSY, [slow, unread])
    assert "; possibly because other programs used 1.5 of 2 cores; use more producers" in blamed.text
    assert (blamed.kind, other) == (ProblemKind.GENERATOR_TOO_SLOW, unread)
