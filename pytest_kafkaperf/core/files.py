"""Files that are written whole or not at all: baselines and reports."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

from pytest_kafkaperf.core.errors import UsageError

_LOCK_TIMEOUT_S = 30
"""Bound of waiting for others that write: each holds a folder for one file."""
_ABANDONED_S = 3600
"""Age of a temporary file whose writer is gone: a machine that shares the folder may be writing a younger one."""
_PREFIX, _SUFFIX = ".kafkaperf-", ".tmp"


def replace_file(path: Path, content: bytes) -> None:
    """Put a whole file in the place of another, or leave that as it is; makes the folder where it is missing.

    What writers that were killed an hour ago or earlier have left in the folder goes, too.

    Raises:
        OSError: it cannot be written; nothing of it is left.

    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f"{_PREFIX}*{_SUFFIX}"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED_S:
                left.unlink()
    temporary = path.parent / f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"  # short, whatever the file's name is
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_report(path: Path, content: bytes, *, option: str, what: str) -> None:
    """Put a report where an option says.

    Raises:
        UsageError: it cannot be written; names the option, the file and the reason.

    """
    try:
        replace_file(path, content)
    except OSError as error:
        raise UsageError(f"--kafka-{option}={path}: cannot write the {what}: {error.strerror or error}") from None


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Lock the folder, which is made where it is missing, against other sessions of this user on this machine.

    The lock is a file in the user's cache folder. Where that cannot be written, or knows no locks, there is none.

    Raises:
        OSError: the folder cannot be made.
        TimeoutError: another holds it for too long.

    """
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()
    path = platformdirs.user_cache_path("pytest-kafkaperf") / "locks" / f"{name}.lock"
    lock = FileLock(path, timeout=_LOCK_TIMEOUT_S)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise TimeoutError(f"another run has been writing in {folder} for {_LOCK_TIMEOUT_S} s") from None
    except (OSError, NotImplementedError):
        pass  # no lock
    try:
        yield
    finally:
        lock.release()
