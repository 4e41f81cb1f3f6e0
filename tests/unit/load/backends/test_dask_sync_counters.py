"""Rows of other machines: counts as of one instant, whenever they came."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.load.backends.dask_sync import AlignedCounters
from pytest_kafkaperf.load.shared_counters import Counter, WorkerState


def row(state: WorkerState = WorkerState.READY, *, visible: int = 0, received: int = 0, sent: int = 0) -> list[int]:
    cells = [0] * 8
    cells[Counter.STATE], cells[Counter.VISIBLE], cells[Counter.RECEIVED], cells[Counter.SENT] = (
        state,
        visible,
        received,
        sent,
    )
    return cells


def test_counts_of_two_machines_are_compared_at_one_instant() -> None:
    """What one acknowledged by now and the other received a tenth of a second ago is no lag."""
    rows = AlignedCounters()
    for at_ns in (0, 100, 200, 300):
        rows.add(0, at_ns, row(visible=10 * at_ns, sent=10 * at_ns))
    for at_ns in (0, 90, 180):
        rows.add(1, at_ns, row(received=10 * at_ns))

    assert rows.together() == {
        0: row(visible=1800, sent=3000),
        1: row(received=1800),
    }


def test_a_worker_that_is_done_is_as_it_is() -> None:
    """The others are not held up by one that tells nothing more."""
    rows = AlignedCounters()
    rows.add(0, 50, row(WorkerState.DONE, visible=70))
    rows.add(1, 100, row(received=30))
    rows.add(1, 200, row(received=70))

    assert rows.together() == {0: row(WorkerState.DONE, visible=70), 1: row(received=70)}


def test_all_that_was_told_is_there_in_the_end() -> None:
    """Nothing stays behind when everyone is done."""
    rows = AlignedCounters()
    for worker in range(3):
        rows.add(worker, 10 * worker, row())
        rows.add(worker, 1000 + worker, row(WorkerState.DONE, visible=5, received=6))
    assert rows.together() == dict.fromkeys(range(3), row(WorkerState.DONE, visible=5, received=6))


def test_an_old_row_changes_nothing() -> None:
    """The same row is told again and again."""
    rows = AlignedCounters()
    rows.add(0, 10, row(visible=5))
    rows.add(0, 10, row(visible=5))
    rows.add(0, 9, row(visible=4))
    assert rows.together() == {0: row(visible=5)}


@given(
    told=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 10**6), st.integers(0, 10**9)), min_size=1, max_size=40)
)
def test_counts_stay_between_what_was_told(told: list[tuple[int, int, int]]) -> None:
    """None is made up, and none goes back."""
    rows, seen = AlignedCounters(), dict.fromkeys(range(3), 0)
    counts: dict[int, list[int]] = {}
    for at_ns, (worker, more, gap_ns) in enumerate(told):
        known = counts.setdefault(worker, [0])
        known.append(known[-1] + more)
        rows.add(worker, at_ns * 10**9 + gap_ns, row(visible=known[-1]))
        for other, cells in rows.together().items():
            assert seen[other] <= cells[Counter.VISIBLE] <= counts[other][-1]
            seen[other] = cells[Counter.VISIBLE]
