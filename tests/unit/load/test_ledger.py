"""What became of batches, as counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load import ledger as module
from pytest_kafkaperf.load.ledger import LATE_NS, Batch, Ledger
from pytest_kafkaperf.load.messages import Produced
from pytest_kafkaperf.load.recorder import Series
from pytest_kafkaperf.load.schedule import Schedule
from pytest_kafkaperf.runner.rounds.recovery import recovery_of
from pytest_kafkaperf.scenarios.scenario import Scenario

MS = 1_000_000
RECORD_BYTES = 100


def paced(*dues_ns: int, sent_ns: int, measured: int | None = None, first: int = 0) -> Batch:
    measured = len(dues_ns) if measured is None else measured
    return Batch(
        partition=0,
        indexes=np.arange(first, first + len(dues_ns)),
        measured=measured,
        measured_bytes=RECORD_BYTES * measured,
        dues_ns=np.array(dues_ns, dtype=np.int64),
        closing_ns=dues_ns[-1],
        sent_ns=sent_ns,
    )


def unpaced(
    count: int, *, sent_ns: int = 0, measured: int | None = None, partition: int | None = 0, first: int = 0
) -> Batch:
    measured = count if measured is None else measured
    return Batch(
        partition=partition,
        indexes=np.arange(first, first + count),
        measured=measured,
        measured_bytes=RECORD_BYTES * measured,
        dues_ns=None,
        closing_ns=None,
        sent_ns=sent_ns,
    )


@dataclass(slots=True)
class Kept:
    """A ledger, what it told consumers to expect, and offsets in the order of acknowledgements."""

    fields: dict[str, Any] = field(default_factory=dict)
    visible: int = 0
    offsets: dict[int, int] = field(default_factory=dict)
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = Ledger(Scenario.of(self.fields), on_visible=self._see)

    def acknowledge(self, batch: Batch, ack_ns: int = 0, *, partition: int = 0, offset: int | None = None) -> None:
        """Sent, and acknowledged with the next offset of a partition or another one."""
        self.ledger.enter(batch)
        following = self.offsets.get(partition, 0)
        self.offsets[partition] = following + batch.records
        self.ledger.acknowledge(batch, ack_ns, (partition, following if offset is None else offset))

    def fail(self, batch: Batch, failed_ns: int = 20 * MS, *, refused: bool = False) -> None:
        self.ledger.enter(batch)
        self.ledger.fail(batch, "RequestTimedOutError", failed_ns, refused=refused)

    def closed(self, now_ns: int = NS_PER_S) -> Produced:
        self.ledger.close(now_ns)
        return self.ledger.report

    def _see(self, count: int) -> None:
        self.visible += count


def test_latency_of_a_paced_batch_runs_from_each_due_time() -> None:
    """The wait in the batch and in the queue is the record's, too."""
    kept = Kept()
    kept.acknowledge(paced(100 * MS, 110 * MS, 120 * MS, sent_ns=125 * MS), 140 * MS)
    report = kept.closed()

    assert (report.latency.sum_ns, report.latency.max_ns, report.latency.total) == ((40 + 30 + 20) * MS, 40 * MS, 3)
    assert (report.delay.max_ns, report.delay.total) == (5 * MS, 3)
    assert (report.first_due_ns, report.last_ack_ns) == (100 * MS, 140 * MS)
    assert (report.sent, report.acknowledged, report.bytes) == (3, 3, 300)
    assert kept.visible == 3


def test_latency_of_an_unpaced_batch_runs_from_its_making() -> None:
    """In closed loop a record is due when it is sent."""
    kept = Kept()
    kept.acknowledge(unpaced(4, sent_ns=10 * MS), 13 * MS)
    report = kept.closed()

    assert (report.latency.sum_ns, report.latency.total) == (12 * MS, 4)
    assert report.delay.total == 0


def test_warm_up_records_count_for_the_log_and_for_consumers_only() -> None:
    """A batch may hold the last records of the warm-up and the first of the window."""
    kept = Kept()
    kept.acknowledge(paced(1 * MS, 2 * MS, sent_ns=2 * MS, measured=0), 10 * MS)
    kept.acknowledge(paced(3 * MS, 4 * MS, sent_ns=4 * MS, measured=1), 10 * MS)
    report = kept.closed()

    assert report.acknowledged_by_partition == {0: 4}
    assert (report.sent, report.acknowledged, report.first_due_ns, report.bytes) == (1, 1, 4 * MS, 100)
    assert report.latency.sum_ns == 6 * MS
    assert (kept.visible, kept.ledger.sent, kept.ledger.settled) == (4, 4, 4)


@pytest.mark.parametrize("loop", ["open", "closed"])
def test_the_series_has_the_warm_up_too(loop: str) -> None:
    """A plot shows how a round came to its pace; latencies stand where records were due, counts where they came."""
    kept = Kept()
    kept.ledger.series = Series(2 * NS_PER_S)
    for second, measured in ((1, 0), (2, 1)):
        sent_ns = second * NS_PER_S
        batch = unpaced(2, sent_ns=sent_ns, measured=measured)
        if loop == "open":
            batch = paced(sent_ns, sent_ns, sent_ns=sent_ns, measured=measured)
        kept.acknowledge(batch, sent_ns + NS_PER_S)
    kept.closed()

    curves = kept.ledger.series.curves()
    assert (curves["first_s"], curves["count"], curves["max"]) == (-1, [0, 2, 2], [1, 1, None])


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 50), st.integers(0, 5)), min_size=1, max_size=300),
    st.booleans(),
)
def test_folding_now_and_then_loses_nothing(batches: list[tuple[int, int, int]], open_loop: bool) -> None:  # noqa: FBT001
    """Latencies are recorded many batches at a time."""
    kept = Kept()
    latencies_ms = []
    for number, (count, latency_ms, unmeasured) in enumerate(batches):
        measured = max(0, count - unmeasured)
        if open_loop:
            dues_ns = [(number - count + 1 + place) * MS for place in range(count)]
            batch = paced(*dues_ns, sent_ns=number * MS, measured=measured)
            latencies_ms += [latency_ms + count - 1 - place for place in range(count - measured, count)]
        else:
            batch = unpaced(count, sent_ns=number * MS, measured=measured)
            latencies_ms += [latency_ms] * measured
        kept.acknowledge(batch, (number + latency_ms) * MS, partition=number % 3)
    report = kept.closed()

    records = sum(count for count, _, _ in batches)
    assert (report.acknowledged, report.latency.total, report.bytes) == (
        len(latencies_ms),
        len(latencies_ms),
        100 * len(latencies_ms),
    )
    assert (sum(report.acknowledged_by_partition.values()), kept.visible) == (records, records)
    assert report.latency.sum_ns == sum(latencies_ms) * MS
    assert report.latency.max_ns == max(latencies_ms, default=0) * MS
    assert kept.ledger.outstanding == 0


def test_the_window_s_places_in_the_log_are_kept_for_watched_groups() -> None:
    """A batch may begin with records of the warm-up; one that the broker knew already has no offset."""
    kept = Kept(WATCHED)
    kept.acknowledge(paced(1 * MS, 2 * MS, sent_ns=2 * MS, measured=0), 9 * MS)
    kept.acknowledge(paced(3 * MS, 4 * MS, 6 * MS, sent_ns=6 * MS, measured=2), 9 * MS)
    kept.acknowledge(paced(7 * MS, 8 * MS, sent_ns=8 * MS), 9 * MS, partition=1, offset=40)
    kept.acknowledge(paced(9 * MS, sent_ns=9 * MS), 9 * MS, partition=1, offset=-1)
    assert kept.closed().places.tolist() == [0, 3, 2, 4 * MS, 6 * MS, 1, 40, 2, 7 * MS, 8 * MS]


def test_only_committed_records_have_a_place_in_the_log() -> None:
    """Applications may read aborted ones, or not."""
    kept = Kept(WATCHED | TRANSACTIONAL)
    for committed in (False, True):
        kept.acknowledge(unpaced(2, sent_ns=MS))
        kept.ledger.end_transaction(9 * MS, committed=committed)
    assert kept.closed().places.tolist() == [0, 2, 2, MS, MS]


def test_offsets_that_do_not_ascend_are_a_reason_to_look_at_the_log() -> None:
    """A batch that was sent again may stand behind later ones, or its first attempt before them."""
    kept = Kept()
    for offset in (0, 2, 1, 3):
        kept.acknowledge(unpaced(1), offset=offset)
    for offset in (7, 8):
        kept.acknowledge(unpaced(5), partition=1, offset=offset)
    assert kept.ledger.report.disordered == 1
    kept.acknowledge(unpaced(5), partition=1, offset=8)
    kept.acknowledge(unpaced(2), partition=2, offset=-1)  # the broker knew its sequence, and no offset any more

    assert kept.closed().disordered == 1 + 5 + 2


def test_a_batch_that_was_sent_again_and_came_after_its_follower_is_a_reason_to_look_at_the_log() -> None:
    """Offsets ascend in the order of acknowledgements, but the records do not."""
    kept = Kept()
    early, late = unpaced(10), unpaced(10, first=10)
    for batch in (early, late):
        kept.ledger.enter(batch)
    kept.ledger.acknowledge(late, MS, (0, 0))
    kept.ledger.acknowledge(early, 2 * MS, (0, 10))

    assert kept.closed().disordered == 10


def test_failures_of_the_window_are_told_from_those_of_the_warm_up() -> None:
    """`errors` counts both, and `error_ratio` is of the window."""
    kept = Kept()
    kept.fail(unpaced(300, measured=0))
    kept.fail(unpaced(200, measured=150))
    report = kept.closed()

    assert (report.failed, report.failed_in_window, report.sent) == (500, 150, 150)


def test_acknowledgements_without_an_offset_say_nothing_of_the_log() -> None:
    """With acks=0 there are none."""
    kept = Kept()
    batch = unpaced(3)
    kept.ledger.enter(batch)
    kept.ledger.acknowledge(batch, 5, None)
    report = kept.closed()

    assert (report.acknowledged, report.acknowledged_by_partition, report.disordered) == (3, {}, 0)


@pytest.mark.parametrize(
    ("refused", "unknown"),
    [(True, 0), (False, 3)],
)
def test_failed_records_are_counted_by_their_error(*, refused: bool, unknown: int) -> None:
    """What the broker has not refused may be in the log all the same: an audit has to know its name."""
    kept = Kept()
    kept.fail(paced(1, 2, 3, sent_ns=5, first=7), refused=refused)
    report = kept.closed()

    assert (report.failed, report.unknown, report.failures) == (3, unknown, {"RequestTimedOutError": 3})
    assert [indexes.tolist() for indexes in report.unknown_indexes] == ([[7, 8, 9]] if unknown else [])
    assert (report.acknowledged, report.latency.total, kept.visible) == (0, 3, 0)


def test_the_names_that_are_kept_for_an_audit_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that is gone would fill the worker's memory; the count goes on, and tells that some are missing."""
    monkeypatch.setattr(module, "MAX_NAMED", 5)
    kept = Kept()
    for first in range(0, 12, 3):
        kept.fail(unpaced(3, first=first))
    report = kept.closed()

    assert (report.unknown, [indexes.tolist() for indexes in report.unknown_indexes]) == (12, [[0, 1, 2]])


@pytest.mark.parametrize(
    ("end_ns", "failed_ns", "waited_ns"),
    [
        (100 * MS, 11 * MS, 90 * MS),  # refused at once
        (100 * MS, 150 * MS, 140 * MS),  # it failed after the window
        (None, 11 * MS, 290 * MS),  # a number of records ends the window
    ],
)
@pytest.mark.parametrize("is_paced", [True, False])
def test_a_failed_record_waits_until_the_end_of_the_window(
    end_ns: int | None, failed_ns: int, waited_ns: int, *, is_paced: bool
) -> None:
    """Left out, or with the time until its refusal, half of a load that fails would improve the quantiles."""
    kept = Kept()
    kept.ledger.end_ns = end_ns
    kept.acknowledge(paced(10 * MS, sent_ns=10 * MS) if is_paced else unpaced(1, sent_ns=10 * MS), 12 * MS)
    warm_up = paced(1 * MS, sent_ns=1 * MS, measured=0) if is_paced else unpaced(1, sent_ns=1 * MS, measured=0)
    kept.fail(warm_up, 2 * MS, refused=True)
    for _ in range(100):  # more than are recorded together
        batch = paced(10 * MS, 10 * MS, sent_ns=10 * MS) if is_paced else unpaced(2, sent_ns=10 * MS)
        kept.fail(batch, failed_ns, refused=True)
    latency = kept.closed(300 * MS).latency

    assert (latency.total, latency.max_ns, latency.sum_ns) == (201, waited_ns, 2 * MS + 200 * waited_ns)
    assert latency.quantile_s(0.5) == pytest.approx(waited_ns / NS_PER_S, rel=1e-3)


@pytest.mark.parametrize("is_paced", [False, True], ids=["closed", "open"])
def test_failed_records_are_in_the_latency_over_time(*, is_paced: bool) -> None:
    """An outage in which every second record fails would otherwise look calm, and its recovery short."""
    kept = Kept()
    kept.ledger.end_ns = 5 * NS_PER_S
    for second in range(4):
        due_ns = second * NS_PER_S
        ok, failing = (paced(due_ns, sent_ns=due_ns) if is_paced else unpaced(1, sent_ns=due_ns) for _ in range(2))
        kept.acknowledge(ok, due_ns + MS)
        if second in {1, 2}:
            kept.fail(failing, due_ns + MS, refused=True)
    kept.closed(5 * NS_PER_S)
    curves = kept.ledger.series.curves()

    assert curves["p99"] == pytest.approx([0.001, 4, 3, 0.001], rel=0.01)
    assert curves["count"] == [1, 1, 1, 1]  # acknowledgements
    assert recovery_of([1], curves, 4).metrics == {"recovery": 2}


def test_records_that_were_never_sent_are_in_the_latency_over_time() -> None:
    """They wait, as failed ones do."""
    ledger, slow = Kept().ledger, Schedule(start_ns=0, rate=Fraction(1))
    ledger.count_missing(slow, 1, 3, 9 * NS_PER_S)
    ledger.count_unsent(slow.due_between(3, 2), 9 * NS_PER_S)

    assert ledger.series.curves()["max"] == pytest.approx([8, 7, 6, 5], rel=0.01)


def test_records_of_a_transaction_in_which_another_one_failed_wait_in_vain_too() -> None:
    """They were acknowledged and never committed."""
    kept = Kept({"transaction_size": 100})
    kept.ledger.end_ns = 100 * MS
    kept.acknowledge(paced(10 * MS, sent_ns=10 * MS), 12 * MS)
    kept.fail(paced(20 * MS, sent_ns=20 * MS, first=1), 30 * MS)
    kept.ledger.end_transaction(40 * MS, committed=False)
    latency = kept.closed().latency

    assert (latency.total, latency.sum_ns) == (2, 90 * MS + 80 * MS)


def test_what_is_on_its_way_at_the_end_has_no_answer_and_later_ones_change_nothing() -> None:
    """A report is complete when it is given; clients are still closing then."""
    kept = Kept()
    kept.acknowledge(paced(1, sent_ns=2), 9)
    on_its_way = paced(3, 4, sent_ns=5, first=1)
    kept.ledger.enter(on_its_way)
    report = kept.closed()
    kept.ledger.acknowledge(on_its_way, 10, (0, 1))
    kept.ledger.fail(on_its_way, "RequestTimedOutError", 10, refused=False)

    assert (report.failed, report.unknown, report.failures) == (2, 2, {"no answer": 2})
    assert [indexes.tolist() for indexes in report.unknown_indexes] == [[1, 2]]
    assert (report.acknowledged, report.acknowledged_by_partition) == (1, {0: 1})
    assert (kept.ledger.settled, kept.ledger.outstanding, kept.visible) == (3, 0, 1)


TRANSACTIONAL: dict[str, Any] = {"transaction_size": 100, "consumers": 1}
WATCHED: dict[str, Any] = {"topic": "orders", "watch_group": "billing"}


def test_records_of_a_transaction_are_held_until_its_commit() -> None:
    """Until then nobody may count on them: the commit is part of their latency."""
    kept = Kept(TRANSACTIONAL)
    kept.acknowledge(unpaced(2, sent_ns=0), 5 * MS)
    kept.ledger.fold()
    assert (kept.ledger.report.acknowledged, kept.ledger.outstanding) == (0, 0)
    kept.ledger.end_transaction(30 * MS, committed=True)
    report = kept.closed()

    assert (report.acknowledged, report.latency.sum_ns, report.last_ack_ns) == (2, 60 * MS, 30 * MS)
    assert (report.aborted, report.failed) == (0, 0)


def test_records_of_an_aborted_transaction_are_neither_acknowledged_nor_failed() -> None:
    """They stand in the log, and were never meant to count; those of the warm-up are not counted at all."""
    kept = Kept(TRANSACTIONAL)
    kept.acknowledge(unpaced(5, measured=3))
    kept.ledger.end_transaction(1, committed=False)
    kept.acknowledge(unpaced(2))
    kept.ledger.end_transaction(2, committed=True)
    report = kept.closed()

    assert (report.sent, report.aborted, report.acknowledged, report.failed) == (5, 3, 2, 0)
    assert (report.acknowledged_by_partition, report.latency.total) == ({0: 7}, 2)


@pytest.mark.parametrize("partition", [0, None])
def test_each_end_of_a_transaction_takes_an_offset_in_each_of_its_partitions(partition: int | None) -> None:
    """They would be taken for duplicates; a client that chooses the partition tells it when it has sent."""
    kept = Kept(TRANSACTIONAL)
    for there in ([0, 0, 2], [2], []):
        for number in there:
            kept.acknowledge(unpaced(1, partition=None if partition is None else number), partition=number)
        kept.ledger.end_transaction(1, committed=number == 0)

    assert kept.closed().markers_by_partition == {0: 1, 2: 2}


@pytest.mark.parametrize(("committed_only", "seen"), [(False, [2, 2, 5]), (True, [0, 2, 2])])
def test_consumers_get_what_their_isolation_level_lets_through(*, committed_only: bool, seen: list[int]) -> None:
    """Whoever waits for them must know how many come, and when they can."""
    kept = Kept(TRANSACTIONAL | {"isolation_level": "read_committed" if committed_only else "read_uncommitted"})
    visible = []
    kept.acknowledge(unpaced(2))
    visible.append(kept.visible)
    kept.ledger.end_transaction(1, committed=True)
    visible.append(kept.visible)
    kept.acknowledge(unpaced(3))
    kept.ledger.end_transaction(1, committed=False)
    visible.append(kept.visible)

    assert visible == seen


def test_records_whose_transaction_is_being_ended_still_wait_for_an_answer() -> None:
    """A coordinator that does not answer is a cluster that is lost; a transaction that is being filled waits for us."""
    ledger = Kept(TRANSACTIONAL).ledger
    batch = unpaced(3)
    ledger.enter(batch)
    answered = [ledger.answered]
    ledger.acknowledge(batch, 1, (0, 0))
    answered.append(ledger.answered)
    ledger.ending = True
    answered.append(ledger.answered)
    ledger.end_transaction(2, committed=True)
    answered.append(ledger.answered)

    assert answered == [0, 3, 0, 3]


def test_a_failure_is_the_open_transactions_only() -> None:
    """It must be aborted; the next one need not."""
    kept = Kept(TRANSACTIONAL)
    assert not kept.ledger.must_abort
    kept.fail(unpaced(1))
    assert kept.ledger.must_abort
    kept.ledger.end_transaction(1, committed=False)
    assert not kept.ledger.must_abort

    without = Kept()
    without.fail(unpaced(1))
    assert not without.ledger.must_abort


def test_a_transaction_that_was_not_ended_has_failed_and_a_later_end_changes_nothing() -> None:
    """Its records are in the log, so no audit need ask for them; a report is complete when it is given."""
    kept = Kept(TRANSACTIONAL | {"isolation_level": "read_committed"})
    kept.acknowledge(unpaced(3))
    report = kept.closed()
    kept.ledger.end_transaction(9, committed=True)
    kept.ledger.fold()

    assert (report.failed, report.unknown, report.failures) == (3, 0, {"transaction neither committed nor aborted": 3})
    assert (report.acknowledged, report.markers_by_partition, kept.visible) == (0, {}, 0)
    assert report.acknowledged_by_partition == {0: 3}


SECOND = Schedule(start_ns=0, rate=Fraction(10))


def test_records_never_sent_have_waited_until_now() -> None:
    """Leaving them out would make a cluster that takes nothing look fast."""
    ledger = Kept().ledger
    ledger.count_missing(SECOND, 5, 10, 2 * NS_PER_S)

    assert ledger.report.missing == 5
    assert ledger.report.latency.sum_ns == sum(2 * NS_PER_S - SECOND.due_ns(index) for index in range(5, 10))
    assert ledger.report.delay.sum_ns == ledger.report.latency.sum_ns


def test_records_that_are_not_due_yet_have_not_waited() -> None:
    """A round that is given up early must not count zeros."""
    ledger = Kept().ledger
    ledger.count_missing(SECOND, 5, 10, SECOND.due_ns(7))

    assert (ledger.report.missing, ledger.report.latency.total) == (5, 3)
    ledger.count_missing(SECOND, 10, 20, SECOND.due_ns(7))
    assert (ledger.report.missing, ledger.report.latency.total) == (15, 3)


def test_records_that_were_taken_and_never_sent_count_like_those_that_were_not_taken() -> None:
    """They waited for their partition; those that are not due yet did not wait."""
    unsent, missing = Kept().ledger, Kept().ledger
    now_ns = SECOND.due_ns(7)
    unsent.count_unsent(SECOND.due_between(5, 5), now_ns)
    missing.count_missing(SECOND, 5, 10, now_ns)

    assert unsent.report.missing == missing.report.missing == 5
    for name in ("latency", "delay"):
        ours, theirs = getattr(unsent.report, name), getattr(missing.report, name)
        assert (ours.total, ours.sum_ns, ours.max_ns) == (theirs.total, theirs.sum_ns, theirs.max_ns)
    unsent.count_unsent(np.array([], dtype=np.int64), now_ns)
    assert (unsent.report.missing, unsent.report.latency.total) == (5, 3)


def test_of_very_many_records_never_sent_some_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rate of a billion records a second must not keep a worker busy for minutes at the end."""
    monkeypatch.setattr(module, "_MISSING_SAMPLES", 100)
    schedule = Schedule(start_ns=0, rate=Fraction(1000))
    ledger = Kept().ledger
    ledger.count_missing(schedule, 0, 9_999, 20 * NS_PER_S)

    assert ledger.report.missing == ledger.report.latency.total == 9_999
    assert ledger.report.latency.mean_s == pytest.approx(15, rel=0.01)
    assert ledger.report.latency.max_s == 20


def test_records_that_came_due_while_the_generator_was_held_up_are_not_late() -> None:
    """A pause of 150 ms makes those of 50 ms late, not all that go with them."""
    ledger = Kept().ledger
    dues_ns = [k * MS for k in range(150)]
    held_up = paced(*dues_ns, sent_ns=150 * MS, measured=120)._replace(closing_ns=5 * MS)
    ledger.count_delayed(held_up, 0, NS_PER_S)

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
        (1005 * MS, 999 * MS, 0, 0, 2),  # the timer at the window's end was a little late
        (1011 * MS, 999 * MS, 0, 2, 2),  # this is no timer's delay
    ],
)
def test_a_late_batch_is_the_generators_fault_only_if_there_was_room(
    sent_ns: int, room_ns: int, late: int, behind: int, sent_late: int
) -> None:
    """Else a slow cluster would be called a slow generator, or the other way round."""
    ledger = Kept().ledger
    ledger.count_delayed(paced(90 * MS, 100 * MS, sent_ns=sent_ns), room_ns, NS_PER_S)

    report = ledger.report
    assert (report.late, report.behind, report.sent_late) == (late, behind, sent_late)
    assert report.latest_ns == sent_ns - max(100 * MS, room_ns)


@pytest.mark.parametrize(
    ("room_ns", "overdue"),
    [
        (999 * MS, 0),  # the generator's doing
        (1999 * MS, 0),  # a pause at the end of the window
        (2000 * MS + 1, 2),
    ],
)
def test_a_batch_is_overdue_if_there_was_no_room_for_it_until_a_second_after_the_window(
    room_ns: int, overdue: int
) -> None:
    """A cluster that takes a fifth of the rate takes the records of a short window in the end."""
    ledger = Kept().ledger
    ledger.count_delayed(paced(90 * MS, 100 * MS, sent_ns=2500 * MS), room_ns, NS_PER_S)

    assert ledger.report.overdue == overdue
