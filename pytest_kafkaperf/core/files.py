"""Atomic file writes and folder locks, for baselines and reports."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

from pytest_kafkaperf.core.errors import BaselineError, UsageError

_LOCK_TIMEOUT_S = 30
"""Maximum time to wait for a folder lock. Each writer holds the lock only while it writes one file."""
_ABANDONED_S = 3600
"""Age at which a temporary file is considered stale. A younger file may belong to a writer on another machine that
shares the folder."""
_PREFIX, _SUFFIX = ".kafkaperf-", ".tmp"


def replace_file(path: Path, content: bytes) -> None:
    """Write a file atomically, creating its folder if necessary.

    An existing file keeps its mode. If a writer is killed, its supervisor deletes the temporary file. If the supervisor
    is killed as well, a later call deletes the file once it is stale.

    Raises:
        OSError: the file cannot be written; an existing file remains unchanged.

    """
    from pytest_kafkaperf.core import supervisor  # noqa: PLC0415 - imports psutil

    path.parent.mkdir(parents=True, exist_ok=True)
    for stale in path.parent.glob(f"{_PREFIX}*{_SUFFIX}"):
        with contextlib.suppress(OSError):
            if time.time() - stale.stat().st_mtime > _ABANDONED_S:
                stale.unlink()
    temporary = path.parent / f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"  # short, even if the file's name is long
    supervisor.remove_later(temporary)
    try:
        with temporary.open("xb") as file:
            with contextlib.suppress(FileNotFoundError):
                temporary.chmod(stat.S_IMODE(path.stat().st_mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_report(path: Path, text: str, *, kind: str) -> None:
    """Write a report to the path in `--kafka-report=KIND:PATH`, or to the link target if the path is a symbolic link.

    Raises:
        UsageError: the file cannot be written; the message contains the option, the file and the reason.

    """
    option = f"--kafka-report={kind}:{path}"
    try:
        _check_report(path, option)
        content = text.encode("utf-8", "backslashreplace")  # a nodeid may contain a lone surrogate
        replace_file(Path(os.path.realpath(path)), content)
    except OSError as error:
        raise UsageError(f"{option}: cannot write the report: {error.strerror or error}") from None


def remove_report(path: Path, *, kind: str) -> None:
    """Remove an earlier run's report, if any, at the path in `--kafka-report=KIND:PATH`.

    Raises:
        UsageError: the file cannot be removed, or no report can be written there; the message contains the option, the
            file and the reason.

    """
    option = f"--kafka-report={kind}:{path}"
    try:
        _check_report(path, option)
        if path.is_file():
            Path(os.path.realpath(path)).unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"{option}: cannot remove the report of the previous run: {reason}") from None


def _check_report(path: Path, option: str) -> None:
    """Raise UsageError if there cannot be a report at this path."""
    if path.is_relative_to("/dev") or (path.exists() and not path.is_file()):
        raise UsageError(f"{option}: this is not a regular file; give the path of a file")
    folder = next(each for each in Path(os.path.realpath(path)).parents if each.exists())
    if not folder.is_dir():
        raise UsageError(f"{option}: {folder} is not a folder; give the path of a file in a folder")


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder against the user's other runs on this machine. The folder does not have to exist yet.

    The lock file is in the user's cache folder. If that folder is not writable or does not support locks, the block
    runs without a lock.

    Raises:
        BaselineError: another run has held the lock for too long.

    """
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()
    path = platformdirs.user_cache_path("pytest-kafkaperf") / "locks" / f"{name}.lock"
    lock = FileLock(path, timeout=_LOCK_TIMEOUT_S)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise BaselineError(
            f"cannot write a baseline: another run has been writing to {folder} for {_LOCK_TIMEOUT_S} s; wait for it "
            "and try again"
        ) from None
    except (OSError, NotImplementedError):
        pass  # writing a baseline without a lock is better than not writing it at all
    try:
        yield
    finally:
        lock.release()
