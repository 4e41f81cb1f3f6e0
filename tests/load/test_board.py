"""The board: two processes see the same cells."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_kafkaperf.load.board import Board, Cell, State, now_ns

if TYPE_CHECKING:
    from pathlib import Path

_WORKER = """
import sys
from pytest_kafkaperf.load.board import Board, Cell, State, now_ns
with Board.attach(sys.argv[1]) as board:
    board.tell(1, Cell.SENT, 7)
    board.tell(1, Cell.STATE, State.READY)
    print(board.workers, flush=True)
    sys.stdin.readline()
    print(board.start_ns, board.stopped, board.production_is_over, now_ns())
"""


def test_a_worker_and_the_controller_meet_on_it(tmp_path: Path) -> None:
    """Start and stop reach a worker, and its counts the controller, without a message."""
    with (
        Board.create(tmp_path / "board", 2) as board,
        subprocess.Popen(
            [sys.executable, "-c", _WORKER, board.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as worker,
    ):
        assert worker.stdin is not None
        assert worker.stdout is not None
        assert worker.stdout.readline() == "2\n"
        assert (board.told(1, Cell.SENT), board.told(0, Cell.SENT)) == (7, 0)
        assert not board.all_reached(State.READY)
        board.tell(0, Cell.STATE, State.READY)
        assert board.all_reached(State.READY)
        assert not board.all_reached(State.PRODUCED)

        before_ns = now_ns()
        board.start_at(123)
        board.stop()
        told, _ = worker.communicate("go\n", timeout=30)
        start_ns, stopped, over, seen_ns = told.split()

    assert (start_ns, stopped, over) == ("123", "True", "False")
    assert before_ns <= int(seen_ns) <= now_ns()  # one clock for all processes


def test_a_new_board_says_nothing(tmp_path: Path) -> None:
    """A worker that waits for the start must not see an old one."""
    with Board.create(tmp_path / "board", 3) as board:
        assert (board.start_ns, board.stopped, board.production_is_over) == (None, False, False)
        assert [board.total(cell) for cell in Cell] == [0] * len(Cell)
        board.all_produced()
        assert board.production_is_over


def test_totals_are_over_the_workers(tmp_path: Path) -> None:
    """Cells of one row do not leak into another."""
    with Board.create(tmp_path / "board", 3) as board:
        for worker in range(3):
            for cell in Cell:
                board.tell(worker, cell, 100 * worker + cell)
        assert [board.total(cell) for cell in Cell] == [300 + 3 * cell for cell in Cell]
        assert (board.start_ns, board.stopped) == (None, False)


def test_a_closed_board_is_not_written(tmp_path: Path) -> None:
    """A late callback gets an error, never another process's memory."""
    board = Board.create(tmp_path / "board", 1)
    with board:
        pass
    with pytest.raises(RuntimeError, match="outside its `with` block"):
        board.tell(0, Cell.SENT, 1)
