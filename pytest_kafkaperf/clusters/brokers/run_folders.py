"""Run folders: what one cluster of a session has on disk, gone with it, or swept up by the next session.

A session holds a file lock beside its folder for as long as it lives; the kernel lets go of it however the
session ends. So a lock that is free is a session that is gone. Process ids would say less: they come again,
the clocks that their times are read from can be set, and a container that shares the cache has its own.

An exception and Ctrl-C leave nothing, however often it is pressed. SIGTERM ends pytest without another word, as SIGKILL
does: what they leave is there until the next sweep.
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
"""What the names of run folders begin with."""

PROPERTIES = "server.properties"
"""A broker's configuration; its path, below a run folder, on a command line tells whose broker a process is."""

_SWEEP_TIMEOUT_S = 60
"""How long to wait for another session that is sweeping."""

_KILL_TIMEOUT_S = 10

_PAUSE_S = 0.02


@contextmanager
def run_folder(runs: Path) -> Iterator[Path]:
    """Sweep what ended sessions left, then give a new folder, and remove it in the end.

    Raises:
        ClusterError: the folder cannot be made.

    """
    folder = runs / f"{PREFIX}{secrets.token_hex(8)}"
    lock = _owner_lock(folder)
    try:
        try:
            _claim(folder, lock)
        except OSError as error:
            raise ClusterError(f"a folder for the broker's data cannot be made in {runs}: {error}") from error
        yield folder
    finally:
        with without_interrupt():
            _end_brokers(folder)  # one that Ctrl-C came between, too
            _remove(folder, lock)


def is_alive(folder: Path) -> bool:
    """Whether the session that has this run folder lives."""
    lock = _owner_lock(folder)
    if not Path(lock.lock_file).exists():
        return False
    try:
        lock.acquire()
    except Timeout:
        return True
    lock.release()
    return False


def _claim(folder: Path, lock: FileLock) -> None:
    """One session at a time: no sweep sees a lock file that its owner has not locked yet."""
    runs = folder.parent
    runs.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(runs / ".lock", timeout=_SWEEP_TIMEOUT_S):
            _sweep(runs)
            lock.acquire()
            folder.mkdir()
    except Timeout:
        raise ClusterError(
            f"another session has been clearing {runs} for {_SWEEP_TIMEOUT_S} s; end it and try again"
        ) from None


def _owner_lock(folder: Path) -> FileLock:
    return FileLock(folder.with_name(f"{folder.name}.lock"), timeout=0, thread_local=False)


def _sweep(runs: Path) -> None:
    """Remove the folders, and end the brokers, of sessions that are gone."""
    for path in sorted(runs.glob(f"{PREFIX}*.lock")):
        folder = path.with_suffix("")
        lock = _owner_lock(folder)
        try:
            lock.acquire()
        except Timeout:
            continue  # its session lives
        _end_brokers(folder)
        _remove(folder, lock)


def _end_brokers(folder: Path) -> None:
    brokers = [process for process in psutil.process_iter(["cmdline"]) if _runs_from(folder, process.info["cmdline"])]
    for broker in brokers:
        with contextlib.suppress(psutil.Error):
            broker.kill()  # compares the time of creation, so that it never hits a process that came later
    deadline = time.monotonic() + _KILL_TIMEOUT_S
    while not all(map(_has_ended, brokers)) and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)


def _runs_from(folder: Path, command_line: list[str] | None) -> bool:
    last = (command_line or [""])[-1]
    return last.startswith(f"{folder}{os.sep}") and last.endswith(PROPERTIES)


def _has_ended(process: psutil.Process) -> bool:
    """Gone, or left as a zombie by an init that does not collect them, as in many a container."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _remove(folder: Path, lock: FileLock) -> None:
    """The lock file goes last: what could not be removed is left to the next sweep."""
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()
