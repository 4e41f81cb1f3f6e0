"""Shared counters: two processes see the same cells."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_kafkaperf.load.clock import now_ns
from pytest_kafkaperf.load.shared_counters import CONTROLLER, Counter, SharedCounters, WorkerState
from tests.support.patience import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

_WORKER = """
import sys
from pytest_kafkaperf.load.clock import now_ns
from pytest_kafkaperf.load.shared_counters import Counter, SharedCounters, WorkerState
with SharedCounters(sys.argv[1], groups=9) as counters:
    counters.write(1, Counter.SENT, 7)
    counters.write(1, Counter.RECEIVED + 8, 5)
    counters.write(1, Counter.STATE, WorkerState.READY)
    print(counters.start_ns, counters.stopped, counters.drain_ns, flush=True)
    sys.stdin.readline()
    print(counters.start_ns, counters.stopped, counters.drain_ns, now_ns())
"""


def test_a_worker_and_the_controller_meet_on_it(tmp_path: Path) -> None:
    """Start, drain and stop reach a worker, and its counts the controller, without a message."""
    with (
        SharedCounters.create(tmp_path / "counters", 2, groups=9) as counters,
        subprocess.Popen(
            [sys.executable, "-c", _WORKER, counters.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as worker,
    ):
        assert worker.stdin is not None
        assert worker.stdout is not None
        assert worker.stdout.readline() == "None False None\n"
        assert (counters.read_row(1)[Counter.SENT], counters.read_row(0)[Counter.SENT]) == (7, 0)
        assert counters.received() == [0] * 8 + [5]
        assert not counters.all_reached(WorkerState.READY)
        counters.write(0, Counter.STATE, WorkerState.READY)
        assert counters.all_reached(WorkerState.READY)
        assert not counters.all_reached(WorkerState.PRODUCED)

        before_ns = now_ns()
        counters.start_at(123)
        counters.all_produced(456)
        counters.stop()
        read, _ = worker.communicate("go\n", timeout=PATIENCE_S)
        start_ns, stopped, drain_ns, seen_ns = read.split()

    assert (start_ns, stopped, drain_ns) == ("123", "True", "456")
    assert before_ns <= int(seen_ns) <= now_ns()  # one clock for all processes


def test_new_counters_are_zero(tmp_path: Path) -> None:
    """A worker that waits for the start, or a consumer for the drain, must not see an old one."""
    with SharedCounters.create(tmp_path / "counters", 3) as counters:
        assert (counters.start_ns, counters.stopped, counters.drain_ns) == (None, False, None)
        assert [counters.total(cell) for cell in Counter] == [0] * len(Counter)
        assert (counters.received(), counters.all_reached(WorkerState.STARTING)) == ([0], True)


@pytest.mark.parametrize("groups", [1, 2, 3, 4, 11, 1000])
def test_totals_are_over_the_workers(tmp_path: Path, groups: int) -> None:
    """Cells of one row do not leak into another, however many groups there are."""
    cells = [*Counter, *range(Counter.RECEIVED + 1, Counter.RECEIVED + groups)]
    with SharedCounters.create(tmp_path / "counters", 3, groups=groups) as counters:
        for worker in range(3):
            for cell in cells:
                counters.write(worker, cell, 10_000 * worker + cell)
        assert [counters.total(cell) for cell in cells] == [30_000 + 3 * cell for cell in cells]
        assert counters.received() == [30_000 + 3 * (Counter.RECEIVED + group) for group in range(groups)]
        assert (counters.start_ns, counters.stopped, counters.drain_ns) == (None, False, None)


def test_the_slowest_worker_is_what_is_seen(tmp_path: Path) -> None:
    """A latency over all workers would need their histograms; the largest needs one cell each."""
    with SharedCounters.create(tmp_path / "counters", 3) as counters:
        for worker, latency_ns in enumerate((5, 9, 7)):
            counters.write(worker, Counter.P99_NS, latency_ns)
        assert counters.most(Counter.P99_NS) == 9


def test_workers_are_as_far_as_the_last_of_them(tmp_path: Path) -> None:
    """The window opens, and the drain begins, when all are there."""
    with SharedCounters.create(tmp_path / "counters", 3) as counters:
        for worker, state in enumerate((WorkerState.DONE, WorkerState.PRODUCED, WorkerState.READY)):
            counters.write(worker, Counter.STATE, state)
        assert [state for state in WorkerState if counters.all_reached(state)] == [
            WorkerState.STARTING,
            WorkerState.READY,
        ]


def test_closed_counters_cannot_be_written(tmp_path: Path) -> None:
    """A late callback gets an error, never another process's memory."""
    counters = SharedCounters.create(tmp_path / "counters", 1)
    with counters:
        pass
    with pytest.raises(ValueError, match="released memoryview"):
        counters.write(0, Counter.SENT, 1)


def test_counters_can_be_kept_like_others(tmp_path: Path) -> None:
    """Row by row, as on machines that share no memory."""
    with (
        SharedCounters.create(tmp_path / "one", 2, groups=9) as one,
        SharedCounters.create(tmp_path / "other", 2, groups=9) as other,
    ):
        one.start_at(123)
        for worker in range(2):
            one.write(worker, Counter.STATE, WorkerState.PRODUCED)
            one.write(worker, Counter.RECEIVED + 8, 5 + worker)
        for worker in (CONTROLLER, 0, 1):
            other.write_row(worker, one.read_row(worker))
        assert (other.start_ns, other.stopped, other.all_reached(WorkerState.PRODUCED)) == (123, False, True)
        assert other.received() == [0] * 8 + [11]
        assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
