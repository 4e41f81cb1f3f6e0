"""One broker as a child process."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_kafkaperf.clusters.brokers.fleet import STOP_TIMEOUT_S, TAIL_LINES, log_excerpt
from pytest_kafkaperf.clusters.monitoring.probes import ExporterProbe, Probe, ProcessProbe
from pytest_kafkaperf.core.errors import ClusterError, ClusterLostError
from pytest_kafkaperf.core.signals import without_interrupt

_KILL_TIMEOUT_S = 10
_TAIL_BYTES = 16 * 1024
"""Size of the part at the end of the log from which its last lines are read."""


class Process:
    """A broker as a child process in its own process group.

    Ctrl-C in the terminal therefore reaches only pytest, which then stops the broker in order.
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
        """Process id of the current or last process; None before the first start."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process and append to the log of earlier starts.

        Raises:
            ClusterError: the broker was removed while a test started it in another thread.

        """
        with without_interrupt(), self._starting, self._log.open("ab") as output:
            if self._removed:
                raise ClusterError(f"{self._name} cannot be started: its cluster was removed")
            self._process = subprocess.Popen(  # noqa: S603 - Kafka on the user's own Java
                self._command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def stop(self, *, kill: bool) -> None:
        """Stop or kill the process group; does nothing if the process has ended.

        Raises:
            ClusterError: the process did not end, even after SIGKILL.

        """
        process = self._process
        if process is None or process.poll() is not None:
            return
        try:
            if not kill:
                os.killpg(process.pid, signal.SIGTERM)
                os.killpg(process.pid, signal.SIGCONT)  # a paused process handles SIGTERM only after it continues
                process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            pass
        finally:  # also after Ctrl-C during the wait
            if process.poll() is None:
                self._kill(process)

    def pause(self) -> None:
        """Suspend the process by SIGSTOP."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the process by SIGCONT."""
        self._signal(signal.SIGCONT)

    def remove(self) -> None:
        """Kill the process; its data is removed with its folder, so an orderly shutdown is unnecessary."""
        with without_interrupt():
            with self._starting:
                self._removed = True
            self.stop(kill=True)

    def check(self) -> None:
        """Look at the state of the process.

        Raises:
            ClusterLostError: the process has ended; has the cause and the last lines of its log.

        """
        status = None if self._process is None else self._process.poll()
        if status is not None:
            log = log_excerpt(self.log_tail())
            raise ClusterLostError(f"{self._name} (pid {self.pid}) {cause(status)}; {log}")

    def probes(self) -> Sequence[Probe]:
        """Return the probe of the process, and that of its JMX exporter if there is one."""
        own: list[Probe] = [] if self.pid is None else [ProcessProbe(self.pid)]
        return own if self._exporter is None else [*own, self._exporter]

    def log_tail(self) -> str:
        """Return the last lines of the broker's log; empty if it has written nothing."""
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
                f"{self._name} (pid {process.pid}) did not end within {_KILL_TIMEOUT_S} s after SIGKILL: the operating "
                "system still holds it, for example because a disk does not respond"
            ) from None

    def _signal(self, number: signal.Signals) -> None:
        self.check()
        if self._process is not None:
            os.killpg(self._process.pid, number)


def cause(status: int) -> str:
    """Describe how a process ended, from its exit status as `subprocess` gives it."""
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"
