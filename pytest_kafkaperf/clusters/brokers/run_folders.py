"""Run folders: the files of a run's cluster or application, removed by the same run or the next one.

A run holds a file lock next to its folder as long as it is alive. The kernel releases the lock however the run ends, so
a free lock means that the run has ended. Process ids are less reliable: they are reused, their start times depend on a
clock that can be changed, and a container that shares the cache has different ones.

After an exception or Ctrl-C, nothing is left behind, however often Ctrl-C is pressed. If a signal kills pytest, its
supervisor removes the files; if the supervisor was killed as well, the next run does.

The parent folder may be shared, such as `/tmp`. A lock file that is not a regular file owned by this user is ignored,
together with the run folder next to it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_kafkaperf.core import supervisor
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.signals import without_interrupt

PREFIX = "kafkaperf-"
"""Prefix of run folder names."""

_LOCK_NAME = re.compile(rf"{PREFIX}(?:app-)?[0-9a-f]{{16}}\.lock")
"""Pattern of lock file names for brokers' and applications' run folders; other files may have the same prefix."""

PROPERTIES = "server.properties"
"""A broker's configuration file. Its path on the command line shows which run folder a broker process belongs to."""


@contextmanager
def run_folder(runs: Path) -> Iterator[Path]:
    """Provide a new run folder in `runs` and remove it afterwards; raises the same errors as `held`."""
    folder = runs / f"{PREFIX}{secrets.token_hex(8)}"
    with held(folder):
        yield folder


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Create a run folder, which only this user can read, and remove it afterwards.

    Before creating it, remove the folders that killed runs left behind next to it, and stop their brokers.

    Args:
        folder: the folder, whose name consists of `PREFIX`, `app-` for an application, and 16 hexadecimal digits.

    Raises:
        ClusterError: the folder cannot be created.

    """
    supervisor.remove_later(folder)
    lock = None
    try:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            _sweep(folder.parent)
            with without_interrupt():
                lock = _claim(folder)
        except OSError as error:
            raise ClusterError(f"cannot create a data folder in {folder.parent}: {error}") from error
        yield
    finally:
        with without_interrupt():
            supervisor.clear(folder)  # also stops a broker whose start was interrupted by Ctrl-C
            if lock is not None:
                os.close(lock)


def is_alive(folder: Path) -> bool:
    """Return True if the run that owns this folder is alive, or if its lock file is not this user's."""
    try:
        # Without O_NONBLOCK, opening a pipe of that name would block until another process opens it.
        lock = os.open(_lock_file(folder), os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        status = os.fstat(lock)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            return True
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def _claim(folder: Path) -> int:
    """Create the folder and its lock file; return the file, open and locked.

    The lock file gets its final name only once it is locked, so that other runs never see it unlocked.
    """
    folder.mkdir(mode=0o700)
    path = _lock_file(folder)
    unnamed = path.with_name(f".{path.name}")
    lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with contextlib.suppress(OSError):  # without file system locks, nobody can lock the file, and it is never swept
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unnamed.rename(path)
    except BaseException:
        os.close(lock)
        unnamed.unlink(missing_ok=True)
        raise
    return lock


def _lock_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


def _sweep(runs: Path) -> None:
    """Remove the folders of ended runs, and stop their brokers."""
    for path in sorted(runs.glob(f"{PREFIX}*.lock")):
        folder = path.with_suffix("")
        if _LOCK_NAME.fullmatch(path.name) and not is_alive(folder):
            supervisor.clear(folder)
