"""Child processes of one measured run: started together, with a timeout, with timed output and counted CPU."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

_KILL_TIMEOUT_S = 10
_ORPHAN_TIMEOUT_S = 2
_ORPHAN_PAUSE_S = 0.05
_TAIL_LINES = 12
"""The lines of a failed child's error output that are shown."""


class ChildError(Exception):
    """A failed child, or one that did not end in time; the text names it and quotes its last output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line that a child printed."""

    text: str
    at_s: float
    """The instant of its arrival, by `time.monotonic`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The output and the CPU of children."""

    outputs: tuple[tuple[Line, ...], ...]
    """The lines of standard output, one tuple for each child, in the order of the commands."""
    cpu_s: float
    """User and system seconds of all children from their start, with those of their own children that they waited for.
    It includes the start of a JVM or of an interpreter."""


def run_together(commands: Sequence[Sequence[str]], *, timeout_s: float) -> Ended:
    """Start the commands at once and wait for all of them; end those that still run, whatever happens.

    CPU is the increase of `getrusage(RUSAGE_CHILDREN)`, so no other child of this process may end in the meantime.

    Raises:
        ChildError: one failed, or did not end within `timeout_s`.

    """
    deadline = time.monotonic() + timeout_s
    cpu_before_s = _children_cpu_s()
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(_Child(command)) for command in commands]
        outputs = tuple(child.await_end(deadline, timeout_s) for child in children)
    return Ended(outputs=outputs, cpu_s=_children_cpu_s() - cpu_before_s)


@dataclass(slots=True)
class _Child:
    """A child in a process group of its own, so that its descendants can be ended with it."""

    command: Sequence[str]
    _lines: list[Line] = field(default_factory=list)
    _process: subprocess.Popen[str] = field(init=False)
    _errors: IO[str] = field(init=False)
    _reader: threading.Thread = field(init=False)

    def __enter__(self) -> Self:
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        self._process = subprocess.Popen(  # noqa: S603 - the benchmark's own commands
            self.command, stdout=subprocess.PIPE, stderr=self._errors, text=True, start_new_session=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(_KILL_TIMEOUT_S)
            self._end_orphans()
        self._reader.join(_KILL_TIMEOUT_S)
        self._errors.close()

    def await_end(self, deadline: float, timeout_s: float) -> tuple[Line, ...]:
        """Wait for the child to end without an error, and return its output."""
        try:
            code = self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise ChildError(f"not at its end within {timeout_s:.0f} s{self._said()}") from None
        self._reader.join(_KILL_TIMEOUT_S)
        if code != 0:
            raise ChildError(f"ended with status {code}{self._said()}")
        return tuple(self._lines)

    def _read(self) -> None:
        stdout = self._process.stdout
        if stdout is None:  # pragma: no cover - it is a pipe
            return
        with stdout:
            for text in stdout:
                self._lines.append(Line(text=text.rstrip("\n"), at_s=time.monotonic()))

    def _end_orphans(self) -> None:
        """End the process group: workers clean up and exit when their parent is gone; kill those that do not."""
        deadline = time.monotonic() + _ORPHAN_TIMEOUT_S
        with contextlib.suppress(ProcessLookupError):  # the group is empty
            while time.monotonic() < deadline:
                os.killpg(self._process.pid, 0)
                time.sleep(_ORPHAN_PAUSE_S)
            os.killpg(self._process.pid, signal.SIGKILL)

    def _said(self) -> str:
        self._errors.seek(0)
        said = [*(line.text for line in self._lines), *self._errors.read().splitlines()][-_TAIL_LINES:]
        return "".join(f"\n    {line}" for line in said)


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
