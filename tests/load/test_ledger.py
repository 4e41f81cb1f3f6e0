"""What became of batches, as counts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from aiokafka import errors as kafka_errors
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.load import ledger as module
from pytest_kafkaperf.load.ledger import LATE_NS, Batch, Ledger
from pytest_kafkaperf.schedule import NS_PER_S, Schedule

MS = 1_000_000


def paced(*dues_ns: int, sent_ns: int, measured: int | None = None, partition: int = 0) -> Batch:
    return Batch(
        partition=partition,
        count=len(dues_ns),
        measured=len(dues_ns) if measured is None else measured,
        dues_ns=np.array(dues_ns, dtype=np.int64),
        closing_ns=dues_ns[-1],
        sent_ns=sent_ns,
    )


def unpaced(count: int, *, sent_ns: int, measured: int, partition: int = 0) -> Batch:
    return Batch(partition=partition, count=count, measured=measured, dues_ns=None, closing_ns=sent_ns, sent_ns=sent_ns)


def test_latency_of_a_paced_batch_runs_from_each_due_time() -> None:
    """The wait in the batch and in the queue is the record's, too."""
    ledger = Ledger()
    batch = paced(100 * MS, 110 * MS, 120 * MS, sent_ns=125 * MS)
    ledger.enter(batch)
    ledger.acknowledge(batch, 140 * MS)
    ledger.close()

    report = ledger.report
    assert (report.latency.sum_ns, report.latency.max_ns, report.latency.total) == ((40 + 30 + 20) * MS, 40 * MS, 3)
    assert (report.delay.max_ns, report.delay.total) == (5 * MS, 3)
    assert (report.first_due_ns, report.last_ack_ns) == (100 * MS, 140 * MS)
    assert (report.sent, report.acknowledged) == (3, 3)


def test_latency_of_an_unpaced_batch_runs_from_its_making() -> None:
    """In closed loop a record is due when it is sent."""
    ledger = Ledger()
    batch = unpaced(4, sent_ns=10 * MS, measured=4)
    ledger.enter(batch)
    ledger.acknowledge(batch, 13 * MS)
    ledger.close()

    assert (ledger.report.latency.sum_ns, ledger.report.latency.total) == (12 * MS, 4)
    assert ledger.report.delay.total == 0


def test_warm_up_records_count_for_the_log_only() -> None:
    """A batch may hold the last records of the warm-up and the first of the window."""
    ledger = Ledger()
    for batch in (paced(1 * MS, 2 * MS, sent_ns=2 * MS, measured=0), paced(3 * MS, 4 * MS, sent_ns=4 * MS, measured=1)):
        ledger.enter(batch)
        ledger.acknowledge(batch, 10 * MS)
    ledger.close()

    report = ledger.report
    assert report.acknowledged_by_partition == {0: 4}
    assert (report.sent, report.acknowledged, report.first_due_ns) == (1, 1, 4 * MS)
    assert report.latency.sum_ns == 6 * MS


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 50)), min_size=1, max_size=300))
def test_folding_now_and_then_loses_nothing(batches: list[tuple[int, int]]) -> None:
    """Latencies are recorded many batches at a time."""
    ledger = Ledger()
    for number, (count, latency_ms) in enumerate(batches):
        batch = unpaced(count, sent_ns=number * MS, measured=count, partition=number % 3)
        ledger.enter(batch)
        ledger.acknowledge(batch, (number + latency_ms) * MS)
    ledger.close()

    records = sum(count for count, _ in batches)
    assert (ledger.report.acknowledged, ledger.report.latency.total) == (records, records)
    assert sum(ledger.report.acknowledged_by_partition.values()) == records
    assert ledger.report.latency.sum_ns == sum(count * latency_ms * MS for count, latency_ms in batches)
    assert ledger.outstanding == 0


@pytest.mark.parametrize(
    ("error", "unknown"),
    [
        (kafka_errors.MessageSizeTooLargeError(), 0),
        (kafka_errors.RequestTimedOutError(), 3),
        (kafka_errors.KafkaConnectionError(), 3),
        (kafka_errors.NotEnoughReplicasError(), 3),  # the last of several attempts: an earlier one may be in the log
    ],
)
def test_failed_records_are_counted_by_their_error(error: Exception, unknown: int) -> None:
    """What the broker has not refused may be in the log all the same."""
    ledger = Ledger()
    batch = paced(1, 2, 3, sent_ns=5)
    ledger.enter(batch)
    ledger.fail(batch, error)
    ledger.close()

    report = ledger.report
    assert (report.failed, report.unknown, report.failures) == (3, unknown, {type(error).__name__: 3})
    assert (report.acknowledged, report.latency.total) == (0, 0)


def test_what_is_on_its_way_at_the_end_has_no_answer_and_later_ones_change_nothing() -> None:
    """A report is complete when it is given; clients are still closing then."""
    ledger = Ledger()
    done, on_its_way = paced(1, sent_ns=2), paced(3, 4, sent_ns=5)
    for batch in (done, on_its_way):
        ledger.enter(batch)
    ledger.acknowledge(done, 9)
    ledger.close()
    ledger.acknowledge(on_its_way, 10)
    ledger.fail(on_its_way, kafka_errors.RequestTimedOutError())

    report = ledger.report
    assert (report.failed, report.unknown, report.failures) == (2, 2, {"no answer": 2})
    assert (report.acknowledged, report.acknowledged_by_partition) == (1, {0: 1})
    assert (ledger.settled, ledger.acknowledged, ledger.outstanding) == (3, 1, 0)


SECOND = Schedule(start_ns=0, rate=Fraction(10))


def test_records_never_sent_have_waited_until_now() -> None:
    """Leaving them out would make a cluster that takes nothing look fast."""
    ledger = Ledger()
    ledger.give_up(SECOND, 5, 10, 2 * NS_PER_S)

    assert ledger.report.missing == 5
    assert ledger.report.latency.sum_ns == sum(2 * NS_PER_S - SECOND.due_ns(index) for index in range(5, 10))
    assert ledger.report.delay.sum_ns == ledger.report.latency.sum_ns


def test_records_that_are_not_due_yet_have_not_waited() -> None:
    """A round that is given up early must not count zeros."""
    ledger = Ledger()
    ledger.give_up(SECOND, 5, 10, SECOND.due_ns(7))

    assert (ledger.report.missing, ledger.report.latency.total) == (5, 3)
    ledger.give_up(SECOND, 10, 20, SECOND.due_ns(7))
    assert (ledger.report.missing, ledger.report.latency.total) == (15, 3)


def test_of_very_many_records_never_sent_some_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rate of a billion records a second must not keep a worker busy for minutes at the end."""
    monkeypatch.setattr(module, "_MISSING_SAMPLES", 100)
    schedule = Schedule(start_ns=0, rate=Fraction(1000))
    ledger = Ledger()
    ledger.give_up(schedule, 0, 9_999, 20 * NS_PER_S)

    assert ledger.report.missing == ledger.report.latency.total == 9_999
    assert ledger.report.latency.mean_s == pytest.approx(15, rel=0.01)
    assert ledger.report.latency.max_s == 20


def test_records_that_came_due_while_the_generator_was_held_up_are_not_late() -> None:
    """A pause of 150 ms makes those of 50 ms late, not all that go with them."""
    ledger = Ledger()
    dues_ns = [k * MS for k in range(150)]
    ledger.judge_generator(
        Batch(
            partition=0,
            count=150,
            measured=120,
            dues_ns=np.array(dues_ns, dtype=np.int64),
            closing_ns=5 * MS,
            sent_ns=150 * MS,
        ),
        0,
        NS_PER_S,
    )

    assert ledger.report.late == 20  # of 50, the first 30 belong to the warm-up


@pytest.mark.parametrize(
    ("sent_ns", "room_ns", "late", "behind", "sent_late"),
    [
        (100 * MS, 0, 0, 0, 0),  # on time
        (100 * MS + LATE_NS, 0, 0, 0, 0),  # as late as a busy machine may be
        (101 * MS + LATE_NS, 0, 2, 0, 0),  # the generator's doing
        (101 * MS + LATE_NS, 90 * MS + LATE_NS, 0, 0, 0),  # the cluster's: there was no room before
        (1500 * MS, 0, 2, 2, 2),  # after the window, with room all along
        (1500 * MS, 1499 * MS, 0, 0, 2),  # after the window, for want of room
    ],
)
def test_a_late_batch_is_the_generators_fault_only_if_there_was_room(
    sent_ns: int, room_ns: int, late: int, behind: int, sent_late: int
) -> None:
    """Else a slow cluster would be called a slow generator, or the other way round."""
    ledger = Ledger()
    ledger.judge_generator(paced(90 * MS, 100 * MS, sent_ns=sent_ns), room_ns, NS_PER_S)

    report = ledger.report
    assert (report.late, report.behind, report.sent_late) == (late, behind, sent_late)
