"""Reports of workers become one round: figures, reasons not to trust it, warnings."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from pytest_kafkaperf.histogram import Histogram
from pytest_kafkaperf.measurement import Consumed, Produced, RoundReport, WorkerReport, fold
from pytest_kafkaperf.scenario import Scenario
from pytest_kafkaperf.schedule import NS_PER_S

START_NS = 50 * NS_PER_S
MS = 1_000_000

PACED = Scenario.of({"rate": 100, "duration": 10})
UNPACED = Scenario.of({"records": 1000})
READ = Scenario.of({"rate": 100, "duration": 10, "consumers": 2})


def latencies(*values_ms: int) -> Histogram:
    histogram = Histogram()
    histogram.record(np.array(values_ms, dtype=np.int64) * MS)
    return histogram


def produced(**changes: Any) -> Produced:
    """1000 records in 10 s, all well."""
    fields: dict[str, Any] = {
        "sent": 1000,
        "acknowledged": 1000,
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


def report(*parts: Produced | Consumed, cpu_s: float = 0.5, busy_ratio: float = 0.2, **fields: Any) -> RoundReport:
    """One worker a part."""
    workers = [
        WorkerReport(
            worker=number,
            produced=[part] if isinstance(part, Produced) else [],
            consumed=[part] if isinstance(part, Consumed) else [],
            cpu_s=cpu_s,
            busy_ratio=busy_ratio,
        )
        for number, part in enumerate(parts)
    ]
    healthy: dict[str, Any] = {"workers": workers, "start_ns": START_NS, "log_growth": {0: 500, 1: 500}}
    return RoundReport(**healthy | fields)


def test_one_producer_gives_exact_figures() -> None:
    """Every figure by hand, in base units."""
    done = fold(report(produced()), PACED)

    assert done.problems == done.warnings == ()
    assert list(done.metrics) == list(PACED.metrics())
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
            "lost": 0.0,
            "duplicated": 0.0,
            "client.cpu": 500.0,
        },
        rel=1e-3,
    )


def test_producers_and_consumers_of_several_workers_add_up() -> None:
    """The window runs from the first due record to the last acknowledgement of any producer."""
    half: dict[str, Any] = {"sent": 500, "acknowledged": 500, "acknowledged_by_partition": {0: 250, 1: 250}}
    early = produced(**half, last_ack_ns=START_NS + 8 * NS_PER_S)
    late = produced(**half, first_due_ns=START_NS + MS)
    done = fold(
        report(early, late, consumed(), consumed(last_ns=START_NS + 20 * NS_PER_S), lag_max=30, lag_end=2), READ
    )

    assert done.problems == ()
    assert done.metrics["produce.throughput"] == 100
    assert done.metrics["consume.throughput"] == 50
    assert done.metrics["consume.bandwidth"] == 5000
    assert done.metrics["e2e.latency.p50"] == pytest.approx(4e-3, rel=1e-3)
    assert (done.metrics["lag.max"], done.metrics["lag.end"]) == (30, 2)
    assert done.metrics["client.cpu"] == 2000


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
    done = fold(report(produced(unknown=unknown), log_growth=growth), PACED)

    assert (done.metrics["lost"], done.metrics["duplicated"]) == (lost, duplicated)
    text = f"records lost: {lost} records were acknowledged and are not in the log"
    assert done.problems == ((text,) if lost else ())


def test_without_offsets_nothing_is_said_of_losses() -> None:
    """Could not compare is not zero."""
    assert {"lost", "duplicated"}.isdisjoint(fold(report(produced(), log_growth=None), PACED).metrics)


def test_a_generator_that_held_records_back_makes_the_round_invalid() -> None:
    """Its lateness is not Kafka's."""
    advice = "; use more producers, larger records or a lower rate, or give the machine more cores"
    held = "11 of 1000 records were sent late although the cluster had room for them"

    assert fold(report(produced(late=10)), PACED).problems == ()  # 1 % is tolerated
    assert fold(report(produced(late=11)), PACED).problems == (f"generator too slow: {held}{advice}",)
    assert fold(report(produced(behind=11)), PACED).problems == (f"generator too slow: {held}{advice}",)


def test_a_generator_without_the_cores_for_the_rate_makes_the_round_invalid() -> None:
    """It acknowledges late what it sends late: only its CPU tells."""
    overdue = produced(sent=500, acknowledged=500, missing=500, sent_late=100)
    done = fold(report(overdue, cpu_s=10.0, busy_ratio=1.0, log_growth=None), PACED)

    (problem,) = done.problems
    assert problem == (
        "generator too slow: 600 of 1000 records were not sent in the window, and a worker would need 200% of a core "
        "to send them in time; use more producers, larger records or a lower rate, or give the machine more cores"
    )


def test_a_cluster_without_room_for_the_rate_is_a_valid_round() -> None:
    """That is what is measured: low throughput, high latency."""
    overdue = produced(sent=500, acknowledged=500, missing=500, sent_late=100)
    done = fold(report(overdue, cpu_s=0.1, log_growth=None), PACED)

    assert done.problems == ()
    assert done.metrics["produce.throughput"] == 50
    (warning,) = done.warnings
    assert warning == (
        "500 records due in the window were never sent: the cluster took the load too slowly; they count in the "
        "latency with the time that they waited"
    )


def test_a_window_without_any_acknowledgement_is_invalid_and_says_why() -> None:
    """There is nothing to compare."""
    refused = produced(acknowledged=0, failed=7, failures={"MessageSizeTooLargeError": 5, "no answer": 2})
    refused = dataclasses.replace(
        refused, latency=Histogram(), delay=Histogram(), last_ack_ns=None, acknowledged_by_partition={}
    )
    done = fold(report(refused, log_growth={0: 0, 1: 0}), PACED)

    reasons = "MessageSizeTooLargeError (5 records), no answer (2 records)"
    assert done.problems == (f"no record of the window was acknowledged: {reasons}",)
    assert done.warnings == (f"7 records failed: {reasons}",)
    assert done.metrics == {"errors": 7, "lost": 0, "duplicated": 0}


def test_a_closed_loop_that_ran_out_of_time_is_invalid() -> None:
    """Fewer records than asked for are another load."""
    done = fold(report(produced(sent=600, acknowledged=600, missing=400), log_growth=None), UNPACED)

    assert done.problems == (
        "load not reached: 400 of 1000 records were not sent within 3600 s; use fewer records, or a duration",
    )


def test_a_generator_at_its_limit_is_a_warning_in_closed_loop() -> None:
    """The figure is a lower bound of what the cluster can take."""
    done = fold(report(produced(), busy_ratio=0.99), UNPACED)

    assert done.problems == ()
    assert done.warnings == ("a worker had no idle moment (99% busy): the generator may be the limit, not the cluster",)


@pytest.mark.parametrize(
    "parts",
    [
        (consumed(), consumed(unread=3)),  # in the log, beyond a consumer's position
        (consumed(), consumed(received=497)),  # passed over when the group gave partitions out anew
    ],
)
def test_records_that_no_consumer_got_make_the_round_invalid(parts: tuple[Consumed, ...]) -> None:
    """End-to-end figures drop nothing, least of all the slowest."""
    done = fold(report(produced(), *parts), READ)

    (problem,) = done.problems
    assert problem == (
        "records unread: 3 records in the log were not received by the consumers in time; end-to-end figures would "
        "leave out the slowest"
    )


def test_a_round_that_broke_tells_why_and_nothing_that_follows_from_it() -> None:
    """One reason, not all its consequences."""
    unfinished = produced(sent=300, acknowledged=200, missing=700, failed=100, unknown=100, failures={"no answer": 100})
    broken = report(unfinished, consumed(received=3, unread=9), problems=["the broker ended"], log_growth=None)

    done = fold(broken, READ)
    assert done.problems == ("the broker ended",)
    assert done.metrics["errors"] == 100


def test_a_round_that_never_began_has_its_reason_and_no_errors_of_records() -> None:
    """Nothing was sent."""
    done = fold(RoundReport(workers=(), start_ns=None, problems=["no connection"], broken=True), PACED)

    assert (dict(done.metrics), done.problems, done.warnings) == ({"errors": 0.0}, ("no connection",), ())


def test_what_the_client_library_said_is_told_once() -> None:
    """Each worker says the same."""
    workers = [WorkerReport(worker=number, produced=[produced()], notes=["a", "b"]) for number in range(2)]
    done = fold(RoundReport(workers=workers, start_ns=START_NS), PACED)

    assert done.warnings == ("aiokafka: a", "aiokafka: b")


def test_with_acks_0_nothing_is_said_of_losses() -> None:
    """Nobody promised that they are in the log."""
    scenario = Scenario.of({"rate": 100, "duration": 10, "acks": 0})

    assert {"lost", "duplicated"}.isdisjoint(fold(report(produced(), log_growth=None), scenario).metrics)
