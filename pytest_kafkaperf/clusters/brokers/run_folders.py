"""Run folders: the files of one cluster of a session, removed with it or by the next session.

A session holds a file lock next to its folder while it lives; the kernel releases the lock however the session ends.
So a free lock means that the session has ended. Process ids are less reliable: they are reused, the clock of their
start times can be changed, and a container that shares the cache has its own.

After an exception or Ctrl-C nothing is left, however often Ctrl-C is pressed. SIGTERM and SIGKILL end pytest
immediately: the next session removes what they leave.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.signals import without_interrupt

PREFIX = "kafkaperf-"
"""Prefix of the names of run folders."""

PROPERTIES = "server.properties"
"""A broker's configuration file. Its path, on a command line, shows to which run folder a broker process belongs."""

_SWEEP_TIMEOUT_S = 60
"""Time to wait for another session that is removing leftovers."""

_KILL_TIMEOUT_S = 10

_PAUSE_S = 0.02


@contextmanager
def run_folder(runs: Path, *, guard: Path | None = None) -> Iterator[Path]:
    """Provide a new run folder in `runs` and remove it afterwards.

    Before that, remove the folders and end the brokers that sessions left behind when they were killed.

    Args:
        runs: the folder for the run folders of all sessions.
        guard: the lock file under which sessions claim and sweep folders, if it must not be in `runs`: it stays, and in
            a folder of several users would keep out the others.

    Raises:
        ClusterError: the folder cannot be created.

    """
    folder = runs / f"{PREFIX}{secrets.token_hex(8)}"
    lock = _owner_lock(folder)
    try:
        try:
            _claim(folder, lock, guard or runs / ".lock")
        except OSError as error:
            raise ClusterError(f"cannot create a folder for the brokers' data in {runs}: {error}") from error
        yield folder
    finally:
        with without_interrupt():
            _end_brokers(folder)  # also a broker whose start Ctrl-C interrupted
            _remove(folder, lock)


def is_alive(folder: Path) -> bool:
    """Return True if the session of this run folder is alive."""
    lock = _owner_lock(folder)
    if not Path(lock.lock_file).exists():
        return False
    try:
        lock.acquire()
    except Timeout:
        return True
    lock.release()
    return False


def _claim(folder: Path, lock: FileLock, guard: Path) -> None:
    """Create and lock the folder, one session at a time, so that others never see its lock file unlocked."""
    runs = folder.parent
    runs.mkdir(parents=True, exist_ok=True)
    guard.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(guard, timeout=_SWEEP_TIMEOUT_S):
            _sweep(runs)
            lock.acquire()
            folder.mkdir()
    except Timeout:
        raise ClusterError(
            f"another session has been cleaning up {runs} for {_SWEEP_TIMEOUT_S} s; end it and try again"
        ) from None


def _owner_lock(folder: Path) -> FileLock:
    return FileLock(folder.with_name(f"{folder.name}.lock"), timeout=0, thread_local=False)


def _sweep(runs: Path) -> None:
    """Remove the folders and end the brokers of ended sessions."""
    for path in sorted(runs.glob(f"{PREFIX}*.lock")):
        folder = path.with_suffix("")
        lock = _owner_lock(folder)
        try:
            lock.acquire()
        except (Timeout, PermissionError):
            continue  # its session is alive, or another user's
        _end_brokers(folder)
        _remove(folder, lock)


def _end_brokers(folder: Path) -> None:
    brokers = [process for process in psutil.process_iter(["cmdline"]) if _runs_from(folder, process.info["cmdline"])]
    for broker in brokers:
        with contextlib.suppress(psutil.Error):
            broker.kill()  # psutil compares the creation time, so that a reused process id is never killed
    deadline = time.monotonic() + _KILL_TIMEOUT_S
    while not all(map(_has_ended, brokers)) and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)


def _runs_from(folder: Path, command_line: list[str] | None) -> bool:
    last = (command_line or [""])[-1]
    return last.startswith(f"{folder}{os.sep}") and last.endswith(PROPERTIES)


def _has_ended(process: psutil.Process) -> bool:
    """Return True if the process is gone, or a zombie because the container's init does not collect it."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _remove(folder: Path, lock: FileLock) -> None:
    """Remove the folder, then its lock file; if the folder cannot be removed, the next session tries again."""
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()
