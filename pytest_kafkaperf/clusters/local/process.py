"""One broker as a child process."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_kafkaperf.clusters.brokers.fleet import STOP_TIMEOUT_S
from pytest_kafkaperf.clusters.child_process import ChildProcess
from pytest_kafkaperf.clusters.monitoring.probes import ExporterProbe, Probe, ProcessProbe
from pytest_kafkaperf.core.errors import ClusterLostError
from pytest_kafkaperf.core.signals import without_interrupt


class Process(ChildProcess):
    """A broker as a child process."""

    def __init__(
        self,
        broker: int,
        command: Sequence[str | Path],
        *,
        folder: Path,
        exporter_url: str | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        super().__init__(f"broker {broker}", folder / "broker.log", stop_timeout_s=STOP_TIMEOUT_S, redact=redact)
        self._command = command
        self._folder = folder
        self._exporter = None if exporter_url is None else ExporterProbe(exporter_url)

    def start(self) -> None:
        """Start the process; raises as `launch` does."""
        self.launch(self._command, folder=self._folder)

    def pause(self) -> None:
        """Suspend the process by SIGSTOP."""
        self.check()
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the process by SIGCONT."""
        self.check()
        self.signal(signal.SIGCONT)

    def remove(self) -> None:
        """Kill the process; its data is removed with its folder, so an orderly shutdown is unnecessary."""
        with without_interrupt():
            self.retire()
            self.stop(kill=True)

    def check(self) -> None:
        """Look at the state of the process.

        Raises:
            ClusterLostError: the process has ended; has the cause and the last lines of its log.

        """
        if (failure := self.failure()) is not None:
            raise ClusterLostError(failure)

    def probes(self) -> Sequence[Probe]:
        """Return the probe of the process, and that of its JMX exporter if there is one."""
        own: list[Probe] = [] if self.pid is None else [ProcessProbe(self.pid)]
        return own if self._exporter is None else [*own, self._exporter]
