"""Files that are written whole or not at all: baselines and reports."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kafkaperf.errors import UsageError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCK_TIMEOUT_S = 30
"""Bound of waiting for others that write: each holds a folder for one file."""
_LOCK_PAUSE_S = 0.02
_PREFIX, _SUFFIX = ".kafkaperf-", ".tmp"


def replace_file(path: Path, content: bytes) -> None:
    """Put a whole file in the place of another, or leave that as it is; makes the folder where it is missing.

    What writers that were killed have left in the folder goes, too.

    Raises:
        OSError: it cannot be written; nothing of it is left.

    """
    with alone_in(path.parent) as is_alone:
        if is_alone:  # then whoever has begun these is gone
            for left in path.parent.glob(f"{_PREFIX}*{_SUFFIX}"):
                with contextlib.suppress(OSError):
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
def alone_in(folder: Path) -> Iterator[bool]:
    """Keep out all others that want to be alone in the folder, which is made where it is missing.

    Whether that could be: Windows and some network file systems know no lock on a folder, which leaves no file behind.

    Raises:
        OSError: the folder cannot be made.
        TimeoutError: another holds it for too long.

    """
    folder.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield False
        return
    try:
        held = os.open(folder, os.O_RDONLY)
    except PermissionError:  # one that can be written to and not be read
        yield False
        return
    try:
        yield _is_locked(held, folder)
    finally:
        os.close(held)


def _is_locked(held: int, folder: Path) -> bool:
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while True:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError(f"another run has been writing in {folder} for {_LOCK_TIMEOUT_S} s") from None
            time.sleep(_LOCK_PAUSE_S)
        except OSError:
            return False
        else:
            return True
