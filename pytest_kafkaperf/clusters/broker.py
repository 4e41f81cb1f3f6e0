"""One broker process: start, liveness, log, end."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kafkaperf.errors import ClusterLostError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_STOP_TIMEOUT_S = 10
"""For an orderly end; the data is thrown away, so there is nothing to wait longer for."""
_KILL_TIMEOUT_S = 10
_TAIL_BYTES = 16 * 1024
_TAIL_LINES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A broker that was started; whether it still runs, `check` tells."""

    process: subprocess.Popen[bytes]
    log: Path

    def check(self) -> None:
        """Cheap: one look at the process.

        Raises:
            ClusterLostError: the process has ended; names how, and the last lines of its log.

        """
        status = self.process.poll()
        if status is not None:
            raise ClusterLostError(f"broker (pid {self.process.pid}) {_how_it_ended(status)}; {self._last_words()}")

    def log_tail(self) -> str:
        """The end of the broker's log; empty where it has not written any."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
                text = file.read().decode("utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-_TAIL_LINES:])

    def _last_words(self) -> str:
        tail = self.log_tail()
        return f"the end of its log:\n{tail}" if tail else "its log is empty"


@contextmanager
def running(command: Sequence[str | Path], *, folder: Path) -> Iterator[Broker]:
    """Start a broker in a process group of its own, and end that group.

    Of its own, so that Ctrl-C in the terminal reaches pytest alone, which then ends the broker in order.
    """
    log = folder / "broker.log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - Kafka, on the Java that was found
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Broker(process=process, log=log)
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    try:
        os.killpg(process.pid, signal.SIGTERM)
        os.killpg(process.pid, signal.SIGCONT)  # a stopped process takes SIGTERM only once it goes on
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        pass
    finally:  # after Ctrl-C in the wait, too
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(_KILL_TIMEOUT_S)


def _how_it_ended(status: int) -> str:
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"
