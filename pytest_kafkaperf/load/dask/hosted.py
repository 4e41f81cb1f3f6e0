"""A worker process started by another program: on a machine of a Dask cluster, by the Dask worker.

The load does not run in a thread of the Dask worker, because that has an event loop, a garbage collector and other
tasks, and as a daemonic process it cannot use `multiprocessing`. The process reads its task from stdin, which stays
open: when it closes, the parent has ended. The process writes the outcome to a file. This module has few imports,
because it starts often.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.load.clock import set_clock

_OUTCOME = "outcome"

_OUTPUT = "output"

_START = "import sys; from pytest_kafkaperf.load.dask.hosted import main; main(sys.argv[1])"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A function to call, its argument, and the clock to use."""

    function: Callable[[Any], Any]
    argument: Any
    offset_ns: int = 0
    uncertainty_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """The result of a task: a value, or the reason why there is none."""

    value: Any = None
    problem: str | None = None


def start(task: Task, folder: str | Path) -> subprocess.Popen[bytes]:
    """Start a process for the task; it finds the same modules as this process."""
    with (Path(folder) / _OUTPUT).open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - this Python with fixed arguments
            [sys.executable, "-P", "-c", _START, str(folder)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            # Ctrl-C in a terminal is for the parent. A new session would do, too, but Linux would give it a CPU share
            # of its own (sched(7), autogroup), and the load would be faster than usual on a busy machine.
            process_group=0,
        )
    assert process.stdin is not None  # noqa: S101 - for the type checker
    try:
        pickle.dump(task, process.stdin)
        process.stdin.flush()
    except BrokenPipeError:
        pass  # the process died at once; `last_words` returns its reason
    return process


def last_words(folder: str | Path) -> str:
    """Return the last line that a process has written, or an empty string."""
    lines = (Path(folder) / _OUTPUT).read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def read_outcome(folder: str | Path) -> TaskOutcome | None:
    """Return the outcome of the task; None if the process died before."""
    try:
        content = (Path(folder) / _OUTCOME).read_bytes()
    except FileNotFoundError:
        return None
    outcome: TaskOutcome = pickle.loads(content)  # noqa: S301 - written by our own process, into a private folder
    return outcome


def main(folder: str) -> None:
    """Run the task from stdin, and write its outcome atomically."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the controller ends this process
    path = Path(folder) / _OUTCOME
    unfinished = path.with_suffix(".new")
    unfinished.write_bytes(pickle.dumps(_done(sys.stdin.buffer, folder)))
    unfinished.replace(path)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # the thread reads until the pipe closes, which would delay a normal exit


def _done(stdin: IO[bytes], folder: str) -> TaskOutcome:
    try:
        task: Task = pickle.load(stdin)  # noqa: S301 - written by the parent process
        threading.Thread(target=_follow, args=(stdin, folder), daemon=True).start()
        set_clock(offset_ns=task.offset_ns, uncertainty_ns=task.uncertainty_ns)
        return TaskOutcome(value=task.function(task.argument))
    except LoadError as error:
        return TaskOutcome(problem=str(error))
    except Exception as error:  # noqa: BLE001 - the report must name any cause
        return TaskOutcome(problem=f"failed: {type(error).__name__}: {error}\n{traceback.format_exc().strip()}")


def _follow(stdin: IO[bytes], folder: str) -> None:
    """End this process when its parent ends, so that no load continues unattended."""
    stdin.read()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)
