"""A worker process that another program starts: what it gives back, and how it ends."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

import psutil
import pytest

from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.load.clock import monotonic_ns, now_ns
from pytest_kafkaperf.load.dask.hosted import Task, TaskOutcome, last_words, read_outcome, start

AHEAD_NS = 10**15


def told(offset: int) -> tuple[int, int, str]:
    """The clock of the process, and its Python."""
    print("said")  # noqa: T201 - a stray print must not spoil what is handed back
    return now_ns() - offset, monotonic_ns(offset), sys.executable


def refuse(text: str) -> NoReturn:
    raise LoadError(text)


def fail(text: str) -> NoReturn:
    raise ValueError(text)


def die(_: str) -> None:
    os.write(2, b"first\nout of luck\n")
    os.kill(os.getpid(), signal.SIGKILL)


def last(sign: str) -> None:
    Path(sign).touch()
    time.sleep(60)


def outcome(task: Task, folder: Path) -> TaskOutcome | None:
    with start(task, folder) as process:
        process.wait(30)
    return read_outcome(folder)


def test_a_value_comes_back_and_its_instants_are_the_controllers(tmp_path: Path) -> None:
    """Whatever the function prints."""
    before_ns = time.monotonic_ns()
    done = outcome(Task(function=told, argument=AHEAD_NS, offset_ns=AHEAD_NS), tmp_path)

    assert done is not None
    at_ns, own_ns, python = done.value
    assert before_ns < at_ns < time.monotonic_ns()
    assert (own_ns, python, done.problem) == (0, sys.executable, None)


def test_a_reason_comes_back_in_its_own_words(tmp_path: Path) -> None:
    """They are for the user."""
    assert outcome(Task(function=refuse, argument="no broker"), tmp_path) == TaskOutcome(problem="no broker")


def test_a_mistake_comes_back_with_its_traceback(tmp_path: Path) -> None:
    """It is ours, and happened on another machine."""
    done = outcome(Task(function=fail, argument="sorry"), tmp_path)
    assert done is not None
    assert done.problem is not None
    assert done.problem.startswith("failed: ValueError: sorry\nTraceback (most recent call last):\n")


def test_a_process_that_dies_leaves_its_last_words(tmp_path: Path) -> None:
    """All that is known of a crash."""
    assert outcome(Task(function=die, argument=""), tmp_path) is None
    assert last_words(tmp_path) == "out of luck"


def test_it_ends_when_who_started_it_is_gone(tmp_path: Path) -> None:
    """Neither load nor files are left on machines that nobody looks at."""
    folder, sign = tmp_path / "task", tmp_path / "sign"
    folder.mkdir()
    with start(Task(function=last, argument=str(sign)), folder) as process:
        deadline_s = time.monotonic() + 30
        while not sign.exists() and time.monotonic() < deadline_s:
            time.sleep(0.01)
        assert sign.exists()
        with pytest.raises(psutil.TimeoutExpired):
            psutil.Process(process.pid).wait(0.3)
        assert process.stdin is not None
        process.stdin.close()  # as the end of this process would
        assert process.wait(30) == 1
    assert not folder.exists()
