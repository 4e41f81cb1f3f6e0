"""Processes that may outlive their run, and a bounded wait for their end."""

from __future__ import annotations

import contextlib
import shutil
import time
from typing import TYPE_CHECKING

import psutil

from tests.support.patience import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def becomes(condition: Callable[[], bool], *, timeout_s: float = PATIENCE_S) -> bool:
    """Wait until a condition holds; return False if it does not within the timeout."""
    deadline = time.monotonic() + timeout_s
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return met


def as_broker(properties: Path, *, program: str = "kafka.Kafka") -> list[str]:
    """Return the command of a process that waits, and that looks like one of Kafka's programs in Java."""
    java = properties.with_name("java")
    shutil.copy(shutil.which("tail") or "tail", java)
    return [str(java), "-q", "-f", "/dev/null", program, str(properties)]


def ended(pid: int) -> bool:
    """Return True if the process is gone, or a zombie that nobody collects."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def with_word(processes: list[psutil.Process], word: str) -> list[psutil.Process]:
    """Return those of the processes whose command line has this word; one that has just ended has none."""
    found = []
    for one in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [one] if word in " ".join(one.cmdline()) else []
    return found
