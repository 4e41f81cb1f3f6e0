"""Resident memory of the descendants of this process, sampled from outside."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

WORKER = "spawn_main"
"""A part of the command line of each worker process, and of no other process."""


@dataclass(slots=True)
class Sampler:
    """Samples of the resident memory of all descendants, taken for the length of a block."""

    command: str
    """A part of the command line of the processes that count."""
    pause_s: float
    samples: dict[int, list[int]] = field(default_factory=dict)
    """Bytes by process id, in the order of time."""
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        counted: dict[int, psutil.Process] = {}
        while not self._over.wait(self.pause_s):
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):  # it may have just ended
                    if process.pid not in counted and self.command in " ".join(process.cmdline()):
                        counted[process.pid] = process
            for pid, process in counted.items():
                with contextlib.suppress(psutil.Error):
                    self.samples.setdefault(pid, []).append(process.memory_info().rss)
