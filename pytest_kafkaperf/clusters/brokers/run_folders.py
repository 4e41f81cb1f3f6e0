"""Run folders: the files of one cluster of a session, removed with it or by the next session.

A session holds a file lock next to its folder while it lives; the kernel releases the lock however the session ends.
So a free lock means that the session has ended. Process ids are less reliable: they are reused, the clock of their
start times can be changed, and a container that shares the cache has its own.

After an exception or Ctrl-C nothing is left, however often Ctrl-C is pressed. If a signal ends pytest immediately, its
supervisor removes what is left; if that was killed too, the next session does.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from pytest_kafkaperf.core import supervisor
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.signals import without_interrupt

PREFIX = "kafkaperf-"
"""Prefix of the names of run folders."""

PROPERTIES = "server.properties"
"""A broker's configuration file. Its path, on a command line, shows to which run folder a broker process belongs."""

_SWEEP_TIMEOUT_S = 60
"""Time to wait for another session that is removing leftovers."""


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
    supervisor.remove_later(folder)
    try:
        try:
            _claim(folder, lock, guard or runs / ".lock")
        except OSError as error:
            raise ClusterError(f"cannot create a folder for the brokers' data in {runs}: {error}") from error
        yield folder
    finally:
        with without_interrupt():
            supervisor.clear(folder)  # also ends a broker whose start Ctrl-C interrupted
            lock.release()


def is_alive(folder: Path) -> bool:
    """Return True if the session of this run folder is alive."""
    lock = _owner_lock(folder)
    if not Path(lock.lock_file).exists():
        return False
    try:
        lock.acquire()
    except (Timeout, PermissionError):
        return True  # a PermissionError: it is another user's
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
            folder.mkdir()  # first: where nothing can be made, a lock looks as if others held it
            lock.acquire()
    except Timeout:
        raise ClusterError(
            f"another session has been cleaning up {runs} for {_SWEEP_TIMEOUT_S} s; end it and try again"
        ) from None


def _owner_lock(folder: Path) -> FileLock:
    return FileLock(folder.with_name(f"{folder.name}.lock"), timeout=0, thread_local=False)


def _sweep(runs: Path) -> None:
    """Remove the folders and end the brokers of ended sessions."""
    for path in sorted(runs.glob(f"{PREFIX}*.lock")):
        if not is_alive(folder := path.with_suffix("")):
            supervisor.clear(folder)
