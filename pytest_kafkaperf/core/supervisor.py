"""Supervisor: a small process that stops workers and brokers and removes files after this process has exited.

The supervisor reads from a pipe whose other end is held only by this process. The kernel closes that end when this
process exits for any reason, including SIGKILL. The supervisor has its own session and blocks SIGINT, SIGTERM and
SIGHUP, so neither Ctrl-C in a terminal nor `pkill -f pytest` stops it before it has finished.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO

import psutil

from pytest_kafkaperf.core.signals import interrupt_blocked

_START = "import sys; sys.path += sys.argv[1:]; from pytest_kafkaperf.core.supervisor import main; main()"

_SERVER = "kafka.Kafka"
"""Main class on a broker's command line."""

_KILL_TIMEOUT_S = 10

_END_TIMEOUT_S = 5
"""Maximum time to wait for the supervisor when this process exits normally."""

_PAUSE_S = 0.02


def kill_later(pid: int) -> None:
    """Register a child process, along with the process group that it leads, for killing after this process exits."""
    _tell(pid)


def forget(pid: int) -> None:
    """Unregister a child process once it and its group have exited, because its id may be reused."""
    _tell([pid])


def remove_later(path: str | Path) -> None:
    """Register a folder or file for removal after this process exits. The path may not exist yet."""
    _tell(str(Path(path).absolute()))


def clear(*folders: Path) -> None:
    """Stop the brokers that run from the folders, then remove the folders and the lock files next to them.

    The paths may also be files. If a folder cannot be removed, its lock file is kept so that the next run tries again.
    """
    kill([process for process in all_processes("exe", "cmdline", "cwd") if _runs_from(folders, **process.info)])
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            folder.unlink(missing_ok=True)
            folder.with_name(f"{folder.name}.lock").unlink(missing_ok=True)


def all_processes(*facts: str) -> Iterator[psutil.Process]:
    """Return the machine's processes, bypassing psutil's cache because process ids are reused."""
    psutil.process_iter.cache_clear()
    return psutil.process_iter(facts or None)  # an empty sequence would read all attributes, which is slow


def family(pid: int) -> list[psutil.Process]:
    """Return all descendants of a process, even those in other process groups; empty if it has exited."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).children(recursive=True)
    return []


def main() -> None:
    """Collect processes and paths until the pipe closes, then kill or remove those that are left."""
    noted: dict[int, psutil.Process] = {}
    folders: set[Path] = set()
    for line in sys.stdin:
        match json.loads(line):
            case str(path):
                folders.add(Path(path))
            case int(pid):
                with contextlib.suppress(psutil.Error):
                    noted[pid] = psutil.Process(pid)
            case [int(pid)]:
                noted.pop(pid, None)
    processes = noted.values()
    descendants = [each for one in processes for each in (family(one.pid) if one.is_running() else [])]
    for one in processes:  # if the id now belongs to another process, the group is not ours
        if one.is_running() or not psutil.pid_exists(one.pid):
            with contextlib.suppress(OSError):  # the process did not lead a group
                os.killpg(one.pid, signal.SIGKILL)
    kill([*processes, *descendants])
    clear(*folders)


def _tell(target: int | str | list[int]) -> None:
    """Send a process id to kill, a path to remove, or a process id to forget (in a list)."""
    with contextlib.suppress(OSError):  # the supervisor was killed, so the next run cleans up
        _pipe(os.getpid()).write(json.dumps(target).encode() + b"\n")


@functools.cache
def _pipe(_pid: int) -> IO[bytes]:
    """Start this process's supervisor once. A forked process starts another supervisor."""
    # The supervisor starts three times as fast without site-packages. It needs only this package and psutil.
    homes = [str(Path(__file__).parents[2]), str(Path(psutil.__file__).parents[1])]
    command = [sys.executable, "-I", "-S", "-c", _START, *homes]
    with interrupt_blocked(and_endings=True):  # the supervisor inherits the mask
        process = subprocess.Popen(  # noqa: S603 - this Python with fixed arguments
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    assert process.stdin is not None  # noqa: S101 - for the type checker
    os.register_at_fork(after_in_child=process.stdin.close)  # a forked process may outlive this one
    atexit.register(_end, process, process.stdin)
    return process.stdin


def _end(process: subprocess.Popen[bytes], pipe: IO[bytes]) -> None:
    """Close the pipe and wait for the supervisor, so that no process is left after pytest exits normally."""
    pipe.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_TIMEOUT_S)


def _runs_from(folders: Collection[Path], exe: str | None, cmdline: list[str] | None, cwd: str | None) -> bool:
    """Return True for a broker: a Java process that runs Kafka's server with a properties file in one of the folders.

    Other programs may read that file or pass it to another Kafka tool. Right after a process starts, its command line
    is still empty, so the working directory is checked instead.
    """
    if Path(exe or "").name != "java":
        return False
    *_, program, place = ["", "", *(cmdline or [])]
    if not any(cmdline or []):
        program = _SERVER
        place = f"{cwd}{os.sep}.properties"
    is_inside = any(place.startswith(f"{folder}{os.sep}") for folder in folders)
    return program == _SERVER and place.endswith(".properties") and is_inside


def kill(processes: Collection[psutil.Process]) -> None:
    """Kill processes and wait until they have exited."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()  # psutil compares creation times, so it never kills a reused process id
    deadline = time.monotonic() + _KILL_TIMEOUT_S
    while not all(map(has_ended, processes)) and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)


def has_ended(process: psutil.Process) -> bool:
    """Return True if the process has exited, or is a zombie that the container's init process does not reap."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
