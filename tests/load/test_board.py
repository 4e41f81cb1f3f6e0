"""The board: two processes see the same cells."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_kafkaperf.load.board import CONTROLLER, Board, Cell, State, now_ns

if TYPE_CHECKING:
    from pathlib import Path

_WORKER = """
import sys
from pytest_kafkaperf.load.board import Board, Cell, State, now_ns
with Board(sys.argv[1], groups=9) as board:
    board.tell(1, Cell.SENT, 7)
    board.tell(1, Cell.RECEIVED + 8, 5)
    board.tell(1, Cell.STATE, State.READY)
    print(board.start_ns, board.stopped, board.drain_ns, flush=True)
    sys.stdin.readline()
    print(board.start_ns, board.stopped, board.drain_ns, now_ns())
"""


def test_a_worker_and_the_controller_meet_on_it(tmp_path: Path) -> None:
    """Start, drain and stop reach a worker, and its counts the controller, without a message."""
    with (
        Board.create(tmp_path / "board", 2, groups=9) as board,
        subprocess.Popen(
            [sys.executable, "-c", _WORKER, board.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as worker,
    ):
        assert worker.stdin is not None
        assert worker.stdout is not None
        assert worker.stdout.readline() == "None False None\n"
        assert (board.told(1, Cell.SENT), board.told(0, Cell.SENT)) == (7, 0)
        assert board.received() == [0] * 8 + [5]
        assert not board.all_reached(State.READY)
        board.tell(0, Cell.STATE, State.READY)
        assert board.all_reached(State.READY)
        assert not board.all_reached(State.PRODUCED)

        before_ns = now_ns()
        board.start_at(123)
        board.all_produced(456)
        board.stop()
        told, _ = worker.communicate("go\n", timeout=30)
        start_ns, stopped, drain_ns, seen_ns = told.split()

    assert (start_ns, stopped, drain_ns) == ("123", "True", "456")
    assert before_ns <= int(seen_ns) <= now_ns()  # one clock for all processes


def test_a_new_board_says_nothing(tmp_path: Path) -> None:
    """A worker that waits for the start, or a consumer for the drain, must not see an old one."""
    with Board.create(tmp_path / "board", 3) as board:
        assert (board.start_ns, board.stopped, board.drain_ns) == (None, False, None)
        assert [board.total(cell) for cell in Cell] == [0] * len(Cell)
        assert (board.received(), board.all_reached(State.STARTING)) == ([0], True)


@pytest.mark.parametrize("groups", [1, 2, 3, 4, 11, 1000])
def test_totals_are_over_the_workers(tmp_path: Path, groups: int) -> None:
    """Cells of one row do not leak into another, however many groups there are."""
    cells = [*Cell, *range(Cell.RECEIVED + 1, Cell.RECEIVED + groups)]
    with Board.create(tmp_path / "board", 3, groups=groups) as board:
        for worker in range(3):
            for cell in cells:
                board.tell(worker, cell, 10_000 * worker + cell)
        assert [board.total(cell) for cell in cells] == [30_000 + 3 * cell for cell in cells]
        assert board.received() == [30_000 + 3 * (Cell.RECEIVED + group) for group in range(groups)]
        assert (board.start_ns, board.stopped, board.drain_ns) == (None, False, None)


def test_the_slowest_worker_is_what_is_seen(tmp_path: Path) -> None:
    """A latency over all workers would need their histograms; the largest needs one cell each."""
    with Board.create(tmp_path / "board", 3) as board:
        for worker, latency_ns in enumerate((5, 9, 7)):
            board.tell(worker, Cell.P99_NS, latency_ns)
        assert board.most(Cell.P99_NS) == 9


def test_workers_are_as_far_as_the_last_of_them(tmp_path: Path) -> None:
    """The window opens, and the drain begins, when all are there."""
    with Board.create(tmp_path / "board", 3) as board:
        for worker, state in enumerate((State.DONE, State.PRODUCED, State.READY)):
            board.tell(worker, Cell.STATE, state)
        assert [state for state in State if board.all_reached(state)] == [State.STARTING, State.READY]


def test_a_closed_board_is_not_written(tmp_path: Path) -> None:
    """A late callback gets an error, never another process's memory."""
    board = Board.create(tmp_path / "board", 1)
    with board:
        pass
    with pytest.raises(RuntimeError, match="outside its `with` block"):
        board.tell(0, Cell.SENT, 1)


def test_a_board_can_be_kept_like_another(tmp_path: Path) -> None:
    """Row by row, as on machines that share no memory."""
    with Board.create(tmp_path / "one", 2, groups=9) as one, Board.create(tmp_path / "other", 2, groups=9) as other:
        one.start_at(123)
        for worker in range(2):
            one.tell(worker, Cell.STATE, State.PRODUCED)
            one.tell(worker, Cell.RECEIVED + 8, 5 + worker)
        for worker in (CONTROLLER, 0, 1):
            other.put(worker, one.row(worker))
        assert (other.start_ns, other.stopped, other.all_reached(State.PRODUCED)) == (123, False, True)
        assert other.received() == [0] * 8 + [11]
        assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
