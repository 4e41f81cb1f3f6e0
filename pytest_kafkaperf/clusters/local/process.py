"""One broker process: start, pause, end, and how it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_kafkaperf.clusters.brokers.fleet import STOP_TIMEOUT_S, TAIL_LINES, last_words
from pytest_kafkaperf.clusters.monitoring.probes import ExporterProbe, Probe, ProcessProbe
from pytest_kafkaperf.core.errors import ClusterError, ClusterLostError
from pytest_kafkaperf.core.signals import without_interrupt

_KILL_TIMEOUT_S = 10
_TAIL_BYTES = 16 * 1024
"""Of the log, that its last lines are looked for in."""


class Process:
    """A broker as a child process, in a process group of its own.

    Of its own, so that Ctrl-C in the terminal reaches pytest alone, which then ends the broker in order.
    """

    def __init__(
        self,
        broker: int,
        command: Sequence[str | Path],
        *,
        folder: Path,
        exporter_url: str | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._name = f"broker {broker}"
        self._command = command
        self._folder = folder
        self._exporter = None if exporter_url is None else ExporterProbe(exporter_url)
        self._redact = redact
        self._log = folder / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._removed = False
        self._starting = threading.Lock()

    @property
    def pid(self) -> int | None:
        """Of the process that runs, or ran last; None before the first start."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start it; the log of an earlier start is kept.

        Raises:
            ClusterError: it was removed, while a test was about to start it in another thread.

        """
        with without_interrupt(), self._starting, self._log.open("ab") as output:
            if self._removed:
                raise ClusterError(f"{self._name} cannot be started: its cluster is removed")
            self._process = subprocess.Popen(  # noqa: S603 - Kafka, on the Java that was found
                self._command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def stop(self, *, kill: bool) -> None:
        """End its group; nothing happens where it has ended.

        Raises:
            ClusterError: it did not end, even killed.

        """
        process = self._process
        if process is None or process.poll() is not None:
            return
        try:
            if not kill:
                os.killpg(process.pid, signal.SIGTERM)
                os.killpg(process.pid, signal.SIGCONT)  # a stopped process takes SIGTERM only once it goes on
                process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            pass
        finally:  # after Ctrl-C in the wait, too
            if process.poll() is None:
                self._kill(process)

    def pause(self) -> None:
        """Stop it by SIGSTOP."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on by SIGCONT."""
        self._signal(signal.SIGCONT)

    def remove(self) -> None:
        """Kill it: its data goes with its folder, so there is nothing to end in order."""
        with without_interrupt():
            with self._starting:
                self._removed = True
            self.stop(kill=True)

    def check(self) -> None:
        """One look at the process.

        Raises:
            ClusterLostError: the process has ended; names how, and the last lines of its log.

        """
        status = None if self._process is None else self._process.poll()
        if status is not None:
            words = last_words(self.log_tail())
            raise ClusterLostError(f"{self._name} (pid {self.pid}) {_how_it_ended(status)}; {words}")

    def probes(self) -> Sequence[Probe]:
        """Its process, and its exporter where it has one."""
        own: list[Probe] = [] if self.pid is None else [ProcessProbe(self.pid)]
        return own if self._exporter is None else [*own, self._exporter]

    def log_tail(self) -> str:
        """The end of the broker's log; empty where it has not written any."""
        try:
            with self._log.open("rb") as file:
                file.seek(max(0, self._log.stat().st_size - _TAIL_BYTES))
                text = file.read().decode("utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        return self._redact("\n".join(text.splitlines()[-TAIL_LINES:]))

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        os.killpg(process.pid, signal.SIGKILL)
        try:
            process.wait(_KILL_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise ClusterError(
                f"{self._name} (pid {process.pid}) did not end within {_KILL_TIMEOUT_S} s after SIGKILL: the system "
                "holds it, as it does where a disk does not answer"
            ) from None

    def _signal(self, number: signal.Signals) -> None:
        self.check()
        if self._process is not None:
            os.killpg(self._process.pid, number)


def _how_it_ended(status: int) -> str:
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"
