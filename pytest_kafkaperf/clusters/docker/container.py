"""One broker in a container: start, pause, end, and how it ended."""

from __future__ import annotations

import contextlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from docker.errors import NotFound

from pytest_kafkaperf.clusters.docker.connection import FAILURES, told
from pytest_kafkaperf.clusters.fleet import STOP_TIMEOUT_S, TAIL_LINES, last_words
from pytest_kafkaperf.clusters.probes import ContainerProbe, ExporterProbe, Probe
from pytest_kafkaperf.clusters.runs import without_interrupt
from pytest_kafkaperf.errors import ClusterError, ClusterLostError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from testcontainers.core.container import DockerContainer


class Container:
    """A broker in a container, which can be stopped and started again on the same data."""

    def __init__(
        self,
        broker: int,
        container: DockerContainer,
        *,
        exporter_url: str | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._broker = broker
        self._made = container
        self._exporter = None if exporter_url is None else ExporterProbe(exporter_url)
        self._redact = redact
        self._started = False

    @property
    def pid(self) -> None:
        """A container's processes are its own."""
        return

    def start(self) -> None:
        """Start it, by its own ports on loopback."""
        with self._telling("started"):
            if self._started:
                self._container.start()
            else:
                self._started = True
                with without_interrupt():  # the daemon would go on, and make a container that nobody knows
                    self._made.start()

    def stop(self, *, kill: bool) -> None:
        """End it, in order or at once."""
        with self._telling("stopped"):
            if self._status() == "paused":
                self._container.unpause()
            if kill:
                self._container.kill()
            else:
                self._container.stop(timeout=STOP_TIMEOUT_S)

    def pause(self) -> None:
        """Freeze its processes."""
        with self._telling("paused"):
            self._container.pause()

    def resume(self) -> None:
        """Let them go on."""
        with self._telling("resumed"):
            self._container.unpause()

    def remove(self) -> None:
        """End it at once and remove it with its data."""
        if self._started:
            with without_interrupt(), contextlib.suppress(NotFound):
                self._made.stop()

    def check(self) -> None:
        """One request to the daemon.

        Raises:
            ClusterLostError: the container has ended or is gone; names how, and the last lines of its log.

        """
        try:
            self._container.reload()
        except NotFound:
            raise ClusterLostError(f"broker {self._broker}: its container is gone: somebody removed it") from None
        except FAILURES as error:
            raise ClusterLostError(f"broker {self._broker}: the Docker daemon failed: {told(error)}") from None
        if self._container.status not in ("exited", "dead"):
            return
        state = self._container.attrs["State"]
        how = "was ended for want of memory" if state["OOMKilled"] else f"exited with status {state['ExitCode']}"
        words = last_words(self.log_tail())
        raise ClusterLostError(f"broker {self._broker} (container {self._container.short_id}) {how}; {words}")

    def probes(self) -> Sequence[Probe]:
        """Its container, and its exporter where it has one."""
        own = ContainerProbe(self._container)
        return [own] if self._exporter is None else [own, self._exporter]

    def log_tail(self) -> str:
        """The last lines of its log; empty where there are none."""
        try:
            log = self._container.logs(tail=TAIL_LINES)
        except (ClusterError, *FAILURES):
            return ""
        return self._redact(log.decode("utf-8", errors="replace").strip())

    @property
    def _container(self) -> Any:
        if not self._started:
            raise ClusterError(f"broker {self._broker} was never started")
        return self._made.get_wrapped_container()

    def _status(self) -> str:
        self._container.reload()
        return str(self._container.status)

    @contextmanager
    def _telling(self, what: str) -> Iterator[None]:
        try:
            yield
        except FAILURES as error:
            raise ClusterError(f"broker {self._broker} could not be {what}: {told(error)}") from None
