"""Input and output of an application, joined by the identities of their records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.problems import Cause, Problem
from pytest_kafkaperf.load import join as module
from pytest_kafkaperf.load.identity import Int64s
from pytest_kafkaperf.load.join import join, outputs_of
from pytest_kafkaperf.load.messages import Audit, Consumed, Joined, LoadReport, Produced, WorkerReport
from pytest_kafkaperf.scenarios.identify import Expected, parse_expect
from pytest_kafkaperf.scenarios.scenario import Scenario

START_NS = 1_000_000_000
MS = 1_000_000
WARM_NS = START_NS - 5 * MS
THROUGH: dict[str, Any] = {
    "topic": "orders",
    "output_topic": "bills",
    "consumers": 1,
    "key": "sequential",
    "identify": "key",
}
Pair = tuple[int, int]


def rows(*pairs: Pair) -> Int64s:
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def due(*hashes: int, after_ms: int = 0) -> Int64s:
    """Input records that are due after the window has opened."""
    return rows(*((one, START_NS + after_ms * MS) for one in hashes))


def after(*pairs: Pair) -> Int64s:
    """Output records, each with its hash and the time in ms after the window has opened."""
    return rows(*((one, START_NS + at_ms * MS) for one, at_ms in pairs))


def slow_outputs(inputs: list[int], arrivals: list[Pair], expected: Expected) -> tuple[list[int], list[int], int]:
    """The slow, obvious version."""
    came: dict[int, list[int]] = {one: [] for one in inputs}
    unmatched = 0
    for one, at_ns in sorted(arrivals, key=lambda pair: pair[1]):
        if one in came:
            came[one].append(at_ns)
        else:
            unmatched += 1
    most = max(1, expected.most)
    lasts = [times[:most][-1] for times in came.values() if times]
    return [len(times) for times in came.values()], lasts, unmatched


few = st.integers(-4, 4) | st.sampled_from([-(2**63), 2**63 - 1])


@given(
    inputs=st.lists(few, unique=True, max_size=8),
    arrivals=st.lists(st.tuples(few, st.integers(0, 50)), max_size=40),
    expected=st.sampled_from(["0", "1", "2", "0..3"]),
)
def test_outputs_are_those_of_a_dict(inputs: list[int], arrivals: list[Pair], expected: str) -> None:
    """In any order, with any number of outputs, and with records from other programs."""
    found = outputs_of(np.array(inputs, dtype=np.int64), rows(*arrivals), parse_expect(expected))
    lasts = found.last_ns[found.counts > 0].tolist()
    assert found.last_ns.shape == (len(inputs),)
    assert (found.counts.tolist(), lasts, found.unmatched) == slow_outputs(inputs, arrivals, parse_expect(expected))


def report(produced: Produced, *consumed: Consumed, start_ns: int | None = START_NS) -> LoadReport:
    """One worker for the producer, and one for each consumer."""
    workers = [WorkerReport(produced=[produced]), *(WorkerReport(consumed=[part]) for part in consumed)]
    return LoadReport(workers=workers, start_ns=start_ns)


def consumed(*pairs: Pair, group: int = 0, unmatched: int = 0) -> Consumed:
    """A consumer that has received records of 100 B each."""
    total = len(pairs) + unmatched
    return Consumed(group=group, arrivals=[after(*pairs)], total=total, bytes=100 * total, unmatched=unmatched)


def joined(load: LoadReport, **fields: Any) -> LoadReport:
    return join(load, Scenario.of(THROUGH | fields))


ODD = [(1, 1), (2, 2), (2, 3), (2, 4), (3, 5), (3, 6)]
"""Outputs of four inputs: one, three, two and none."""


@pytest.mark.parametrize(
    ("expect", "lost", "duplicated", "ratio"),
    [
        (1, 1, 3, 3 / 4),
        (2, 3, 1, 5 / 8),
        (3, 6, 0, 6 / 12),
        (0, 0, 6, None),
        ("0..1", 0, 3, 3 / 4),
        ("0..2", 0, 1, 3 / 4),
        ("0..3", 0, 0, 3 / 4),
    ],
)
def test_missing_and_surplus_outputs_are_counted(expect: Any, lost: int, duplicated: int, ratio: float | None) -> None:
    """A surplus output of one record does not make up for a missing one of another; in a range, none is missing."""
    done = joined(report(Produced(identities=[due(1, 2, 3, 4)]), consumed(*ODD)), expect=expect)
    audit = Audit(lost=lost, duplicated=duplicated, reordered=0)
    assert done.joined == Joined(audit=audit, output_ratio=ratio)
    assert done.problems == ()


def test_a_latency_ends_with_the_last_expected_output() -> None:
    """A repeated output comes later, and is not the one for which a user waits."""
    produced = Produced(identities=[due(1, 2), due(3, after_ms=5)])
    done = joined(report(produced, consumed((1, 2), (1, 4), (1, 90), (2, 3), (3, 11), (3, 9))), expect=2)
    (result,) = done.consumed
    assert (result.received, result.last_ns) == (3, START_NS + 11 * MS)
    assert (result.latency.total, result.latency.sum_ns, result.latency.max_ns) == (2, (4 + 6) * MS, 6 * MS)


@pytest.mark.parametrize(("expect", "timed"), [(2, 1), (0, 0), ("0..2", 2)])
def test_only_complete_output_has_a_latency(expect: Any, timed: int) -> None:
    """A record whose second output is missing is lost, and its first output would make it look fast."""
    load = report(Produced(identities=[due(1), due(2)]), consumed((1, 5), (1, 6), (2, 5)))
    (result,) = joined(load, expect=expect).consumed
    assert (result.latency.total, result.received) == (timed, 2)


def test_an_output_before_its_due_time_is_that_of_an_earlier_load() -> None:
    """A record with the same identity may still have been on its way."""
    found = joined(report(Produced(identities=[due(1, after_ms=2)]), consumed((1, 1))))
    (result,) = found.consumed
    assert (result.latency.total, result.unmatched) == (0, 1)
    assert found.joined is not None
    assert found.joined.audit.lost == 1


def test_the_warm_ups_records_are_matched_but_not_counted() -> None:
    """They are the load's, so their output does not come from another program."""
    produced = Produced(identities=[rows((1, WARM_NS), (2, WARM_NS)), due(3)])
    done = joined(report(produced, consumed((1, 1), (3, 2))))
    assert done.joined == Joined(audit=Audit(lost=0, duplicated=0, reordered=0), output_ratio=1.0)
    (result,) = done.consumed
    assert (result.received, result.bytes, result.unmatched, result.total) == (1, 100, 0, 2)


def test_unacknowledged_records_are_neither_lost_nor_unmatched() -> None:
    """Whether they are in the log is unknown, so both outcomes are right."""
    produced = Produced(identities=[due(1)], unknown_identities=[np.array([2, 3])])
    done = joined(report(produced, consumed((1, 1), (2, 2), (2, 3))))
    assert done.joined == Joined(audit=Audit(lost=0, duplicated=0, reordered=0), output_ratio=1.0)
    (result,) = done.consumed
    assert (result.received, result.latency.total, result.unmatched) == (1, 1, 0)


def test_other_programs_records_are_unmatched() -> None:
    """Those with an unknown identity, and those without any."""
    (result,) = joined(report(Produced(identities=[due(1)]), consumed((1, 1), (8, 2), (8, 3), unmatched=4))).consumed
    assert (result.received, result.unmatched, result.total) == (1, 6, 7)


def test_the_members_of_a_group_are_joined_together() -> None:
    """The outputs of one record may be in different partitions; the result is in the first member's worker."""
    produced = Produced(identities=[due(1, 2)])
    done = joined(report(produced, consumed((1, 5), (2, 1)), consumed((1, 3), (2, 4))), expect=2)
    assert done.joined == Joined(audit=Audit(lost=0, duplicated=0, reordered=0), output_ratio=1.0)
    assert [len(worker.consumed) for worker in done.workers] == [0, 1, 0]
    (result,) = done.consumed
    assert (result.received, result.latency.sum_ns, result.total) == (2, 9 * MS, 4)


def test_of_several_groups_the_one_with_the_most_losses_counts() -> None:
    """Each has latencies of its own."""
    produced = Produced(identities=[due(1, 2)])
    done = joined(
        report(produced, consumed((1, 1), (2, 1)), consumed((2, 7), group=1), consumed(group=1)), consumer_groups=2
    )
    assert done.joined == Joined(audit=Audit(lost=1, duplicated=0, reordered=0), output_ratio=0.5)
    found = [(part.group, part.received, part.latency.max_ns // MS) for part in done.consumed]
    assert found == [(0, 2, 1), (1, 1, 7)]


@pytest.mark.parametrize(
    ("identities", "unknown", "repeats"),
    [
        ([due(1, 2, 1, 1)], [], 2),
        ([due(1), due(1)], [], 1),
        ([rows((1, WARM_NS)), due(1)], [], 1),
        ([due(1)], [np.array([1])], 1),
    ],
    ids=["batch", "batches", "warm-up", "unknown"],
)
def test_repeated_identities_are_a_problem(identities: list[Int64s], unknown: list[Int64s], repeats: int) -> None:
    """Two records with the same identity cannot be told apart in the output, so no result would be right."""
    load = report(Produced(identities=identities, unknown_identities=unknown), consumed((1, 1)))
    records = sum(map(len, identities + unknown))
    values = {"repeats": repeats, "records": records, "identify": "key"}
    done = joined(load)
    assert (done.problems, done.joined) == ((Problem(Cause.IDENTITIES_REPEATED, values),), None)
    assert done.workers == load.workers


def test_more_records_than_fit_in_memory_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller would otherwise be killed."""
    monkeypatch.setattr(module, "MAX_RECORDS", 2)
    done = joined(report(Produced(identities=[due(1, 2, 3)]), consumed()))
    assert done.problems == (Problem(Cause.TOO_MANY_IDENTITIES, {"records": 3, "most": 2}),)


@pytest.mark.parametrize(("start_ns", "identify"), [(None, "key"), (START_NS, "header")])
def test_a_load_without_identities_stays_as_it_is(start_ns: int | None, identify: str) -> None:
    """Its window never opened, or its records have tags."""
    load = report(Produced(identities=[due(1)]), consumed((1, 1)), start_ns=start_ns)
    assert joined(load, identify=identify) is load


def test_a_load_without_records_loses_nothing() -> None:
    """The brokers may have refused all of them, which other problems show."""
    done = joined(report(Produced(), consumed()))
    assert done.joined == Joined(audit=Audit(lost=0, duplicated=0, reordered=0), output_ratio=None)
