"""A worker process that a Dask worker starts: what it gives back, and how it ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.load.backends.dask_task import result_of, started
from pytest_kafkaperf.load.controller import DIED
from tests.support.orphans import becomes, ended

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def told(text: str, number: int) -> tuple[str, int, str]:
    """The arguments, and the Python of the process."""
    print("said")  # noqa: T201 - a stray print must not corrupt what is handed back
    return text, number, sys.executable


def refuse(text: str) -> NoReturn:
    raise LoadError(text)


def fail(text: str) -> NoReturn:
    raise ValueError(text)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def outcome(folder: Path, function: Callable[..., Any], *arguments: object) -> Any:
    with started(str(folder), function, *arguments) as results:
        assert results.poll(30)
        return result_of(results)


def test_a_value_comes_back(tmp_path: Path) -> None:
    """Whatever the function prints."""
    assert outcome(tmp_path, told, "x", 5) == ("x", 5, sys.executable)


def test_a_reason_comes_back_in_its_own_words(tmp_path: Path) -> None:
    """They are for the user."""
    with pytest.raises(LoadError, match=r"^no broker$"):
        outcome(tmp_path, refuse, "no broker")


def test_a_mistake_comes_back_with_its_traceback(tmp_path: Path) -> None:
    """It is ours, and happened on another machine."""
    with pytest.raises(LoadError, match=r"^failed: ValueError: sorry\nTraceback \(most recent call last\):\n"):
        outcome(tmp_path, fail, "sorry")


def test_a_process_that_dies_is_named_as_such(tmp_path: Path) -> None:
    """It cannot tell a reason."""
    with pytest.raises(LoadError) as raised:
        outcome(tmp_path, die)
    assert str(raised.value) == DIED


def test_it_ends_with_the_block(tmp_path: Path) -> None:
    """A round that is over has no load."""
    with started(str(tmp_path), time.sleep, 3600):
        (process,) = multiprocessing.active_children()
        assert process.pid is not None
        assert not ended(process.pid)
    assert ended(process.pid)


_DAEMONIC = """
import multiprocessing, sys, time
from pathlib import Path
from pytest_kafkaperf.load.backends.dask_task import started

multiprocessing.current_process().daemon = True  # as Dask's workers are
with started(sys.argv[1], time.sleep, 3600):
    (process,) = multiprocessing.active_children()
    print(process.pid, flush=True)
    process.join(3600)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX")
def test_it_ends_when_who_started_it_is_gone(tmp_path: Path) -> None:
    """Neither load nor files are left on machines that nobody looks at."""
    folder = tmp_path / "task"
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _DAEMONIC, str(folder)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        process = int(parent.stdout.readline())
        assert folder.exists()
        assert not ended(process)
        parent.kill()
    assert becomes(lambda: ended(process) and not folder.exists())
