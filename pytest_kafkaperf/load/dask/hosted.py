"""A worker process that another program started: on a machine of a Dask cluster, beside the Dask worker.

The load does not run in a thread of the Dask worker: that has an event loop, a garbage collector and other work of its
own, and as a daemonic process it may not use `multiprocessing`. The task comes by stdin, which stays open: when that
closes, who started this process is gone. The outcome goes into a file. This module imports little: it starts often.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import struct
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

_LENGTH = struct.Struct(">Q")

_OUTCOME = "outcome"

_WORDS = "words"

_START = "import sys; from pytest_kafkaperf.load.dask.hosted import main; main(sys.argv[1])"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What to do, and by which clock."""

    function: Callable[[Any], Any]
    argument: Any
    offset_ns: int = 0
    uncertainty_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """What came of it: a value, or why there is none."""

    value: Any = None
    problem: str | None = None


def start(task: Task, folder: str | Path) -> subprocess.Popen[bytes]:
    """Start a process that does the task; it finds the modules that this one does."""
    with (Path(folder) / _WORDS).open("wb") as words:
        process = subprocess.Popen(  # noqa: S603 - this Python, and our own words
            [sys.executable, "-P", "-c", _START, str(folder)],
            stdin=subprocess.PIPE,
            stdout=words,
            stderr=words,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            # A terminal's Ctrl-C is for who started it. Not a session of its own: Linux would give it a share of the
            # machine of its own, too (sched(7), autogroup), and on a busy one the load would be faster than it is.
            process_group=0 if os.name == "posix" else None,
        )
    content = pickle.dumps(task)
    assert process.stdin is not None  # noqa: S101 - for the type checker
    try:
        process.stdin.write(_LENGTH.pack(len(content)) + content)
        process.stdin.flush()
    except BrokenPipeError:
        pass  # it died at once, which `last_words` are of
    return process


def last_words(folder: str | Path) -> str:
    """The last line that a process wrote, and where it wrote none, nothing."""
    lines = (Path(folder) / _WORDS).read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def read_outcome(folder: str | Path) -> TaskOutcome | None:
    """What came of the task; None of a process that died before."""
    try:
        content = (Path(folder) / _OUTCOME).read_bytes()
    except FileNotFoundError:
        return None
    outcome: TaskOutcome = pickle.loads(content)  # noqa: S301 - our own process wrote it, into a folder of this user's alone
    return outcome


def main(folder: str) -> None:
    """Do what stdin says, and write the outcome whole or not at all."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the controller decides what becomes of it
    stdin = sys.stdin.buffer
    (length,) = _LENGTH.unpack(stdin.read(_LENGTH.size))
    content = stdin.read(length)
    threading.Thread(target=_follow, args=(stdin, folder), daemon=True).start()
    path = Path(folder) / _OUTCOME
    unfinished = path.with_suffix(".new")
    unfinished.write_bytes(pickle.dumps(_done(content)))
    unfinished.replace(path)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # the thread reads until the pipe closes, and would hold up an ordinary end


def _done(content: bytes) -> TaskOutcome:
    try:
        task: Task = pickle.loads(content)  # noqa: S301 - from who started this process
        set_clock(offset_ns=task.offset_ns, uncertainty_ns=task.uncertainty_ns)
        return TaskOutcome(value=task.function(task.argument))
    except LoadError as error:
        return TaskOutcome(problem=str(error))
    except Exception as error:  # noqa: BLE001 - whatever ended a worker must stand in the report
        return TaskOutcome(problem=f"failed: {type(error).__name__}: {error}\n{traceback.format_exc().strip()}")


def _follow(stdin: IO[bytes], folder: str) -> None:
    """End with who started this: no load goes on that nobody waits for."""
    stdin.read()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)
