"""Atomic file writes and folder locks, for baselines and reports."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from io import RawIOBase
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

from pytest_kafkaperf.core.errors import BaselineError, UsageError

_LOCK_TIMEOUT_S = 30
"""Maximum time to wait for a folder lock, in seconds; each writer holds it only while it writes one file."""
_READER_TIMEOUT_S = 30
"""Maximum time to write a report to a pipe, in seconds."""
_PAUSE_S = 0.01
"""Time between two attempts to write to a full pipe, in seconds."""
_ABANDONED_S = 3600
"""Age from which a temporary file is stale, in seconds. A younger one may belong to a writer on another machine that
shares the folder."""
_PREFIX, _SUFFIX = ".kafkaperf-", ".tmp"


def replace_file(path: Path, content: bytes) -> None:
    """Write a file atomically and create its folder if needed.

    An existing file keeps its mode. The supervisor deletes the temporary file of a writer that is killed. Stale ones,
    of writers whose supervisor was killed, too, are deleted here.

    Raises:
        OSError: the file cannot be written; an existing file stays unchanged.

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
    """Write a report to the path that `--kafka-report=KIND:PATH` gives.

    The target of a symbolic link, a pipe, a device and the standard output are written, and not replaced.

    Raises:
        UsageError: the file cannot be written; the message names the option, the file and the reason.

    """
    content = text.encode("utf-8", "backslashreplace")  # a nodeid may contain a lone surrogate
    try:
        stream = _standard_stream(path)
        if stream is None and (path.is_file() or not path.exists()):
            replace_file(Path(os.path.realpath(path)), content)
        else:
            target = os.open(path, os.O_WRONLY | os.O_NONBLOCK) if stream is None else os.dup(stream)
            with os.fdopen(target, "wb", buffering=0) as file:
                write_whole(file, content)
    except OSError as error:
        reason = "no process reads from this pipe" if error.errno == errno.ENXIO else error.strerror or error
        raise UsageError(f"--kafka-report={kind}:{path}: cannot write the report: {reason}") from None


def write_whole(file: RawIOBase, content: bytes) -> None:
    """Write all of the content: one call may write only a part of it, or nothing to a full pipe.

    Raises:
        TimeoutError: the reader of a pipe did not read all of it in time; Ctrl-C is delayed meanwhile.

    """
    rest, deadline = memoryview(content), time.monotonic() + _READER_TIMEOUT_S
    while rest:
        written = file.write(rest)
        if written is not None:
            rest = rest[written:]
        elif time.monotonic() < deadline:
            time.sleep(_PAUSE_S)  # the pipe is full
        else:
            raise TimeoutError(f"the process that reads from this pipe did not read all of it in {_READER_TIMEOUT_S} s")


def _standard_stream(path: Path) -> int | None:
    """Return the descriptor of the standard output or error if the path leads to it, such as `/dev/stdout`.

    The path is not opened again: if the stream is a file, later output would overwrite the report.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # no such path, or a stream that is closed or not a file
            if os.path.samestat(path.stat(), os.fstat(stream.fileno())):
                stream.flush()  # the report follows what is printed already
                return stream.fileno()
    return None


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock the folder exclusively among this user's sessions on this machine; it need not exist.

    The lock file is in the user's cache folder. If the cache folder is not writable or does not support locks, the
    block runs without a lock.

    Raises:
        BaselineError: another session holds the lock for too long.

    """
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()
    path = platformdirs.user_cache_path("pytest-kafkaperf") / "locks" / f"{name}.lock"
    lock = FileLock(path, timeout=_LOCK_TIMEOUT_S)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise BaselineError(
            f"cannot write a baseline: another run has been writing in {folder} for {_LOCK_TIMEOUT_S} s; run it again"
        ) from None
    except (OSError, NotImplementedError):
        pass  # no lock is better than no baseline
    try:
        yield
    finally:
        lock.release()
