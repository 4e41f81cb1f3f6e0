"""One broker in a container: start, pause, end, and how it ended."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docker.errors import APIError, NotFound

from pytest_kafkaperf.clusters.brokers.fleet import STOP_TIMEOUT_S, TAIL_LINES, last_words
from pytest_kafkaperf.clusters.brokers.run_folders import is_alive
from pytest_kafkaperf.clusters.docker.client import told
from pytest_kafkaperf.clusters.docker.daemon import FAILURES
from pytest_kafkaperf.clusters.monitoring.probes import ContainerProbe, ExporterProbe, Probe
from pytest_kafkaperf.core.errors import ClusterError, ClusterLostError
from pytest_kafkaperf.core.signals import without_interrupt

if TYPE_CHECKING:
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


LABEL = "pytest-kafkaperf.run"
"""Whose a container or a network is: host and run folder of its session."""


def label_of(folder: Path) -> str:
    """The label of a session with this run folder."""
    return f"{socket.gethostname()}:{folder}"


def sweep(client: Any, runs: Path) -> None:
    """Remove the containers and networks of sessions that are gone; those of other hosts and caches are left alone."""
    for left in labelled(client, LABEL):
        label = (left.labels if hasattr(left, "labels") else left.attrs.get("Labels") or {}).get(LABEL, "")
        name = label.rpartition("/")[2]
        if label != label_of(runs / name) or is_alive(runs / name):
            continue
        with contextlib.suppress(APIError):  # another session sweeps, too
            discard(left)


def labelled(client: Any, label: str) -> list[Any]:
    """Containers first: a network that is in use stays."""
    filters = {"label": label}
    containers = client.containers.list(all=True, filters=filters, ignore_removed=True)
    return [*containers, *client.networks.list(filters=filters)]


def discard(left: Any) -> None:
    """Remove a container with its data, running or not, or a network; one that is gone is no failure."""
    with contextlib.suppress(NotFound):
        left.remove(force=True, v=True) if hasattr(left, "kill") else left.remove()
