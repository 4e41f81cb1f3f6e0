"""Runs brokers and applications in containers, and removes containers that earlier runs left behind.

Applications use the host's network, so they can reach every cluster that the host can reach.
"""

from __future__ import annotations

import contextlib
import datetime
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from docker.errors import APIError, NotFound
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import Reaper
from testcontainers.core.transferable import build_transfer_tar

from pytest_kafkaperf.clusters.access.access import TOKEN_SUFFIX
from pytest_kafkaperf.clusters.brokers.distribution import CACHE_VARIABLE, cache_folder, fetching
from pytest_kafkaperf.clusters.brokers.fleet import STOP_TIMEOUT_S, Exit
from pytest_kafkaperf.clusters.brokers.run_folders import is_alive, run_folder
from pytest_kafkaperf.clusters.docker.daemon import FAILURES, connection, get_image, reason_of
from pytest_kafkaperf.clusters.monitoring.probes import ContainerProbe, ExporterProbe, Probe
from pytest_kafkaperf.core.errors import ClusterError, ClusterLostError, warn
from pytest_kafkaperf.core.signals import without_interrupt
from pytest_kafkaperf.core.text import last_lines

_SEARCHED_LINES = 200
"""Number of lines to search for the last ones that an error message shows. Most others are stack frames."""


class Container:
    """A broker or application in a container, which keeps its data while stopped."""

    def __init__(
        self,
        name: str,
        create: Callable[..., Any],
        *,
        stop_timeout_s: float = STOP_TIMEOUT_S,
        exporter_url: str | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._name = name
        self._stop_timeout_s = stop_timeout_s
        self._create = create
        """Creates the container as a docker-py object; an application's container uses its command and environment."""
        self._created: Any = None
        self.pid: int | None = None
        """Process id on the daemon's machine; None for a broker, for which it is not needed."""
        self._exporter = None if exporter_url is None else ExporterProbe(exporter_url)
        self._redact = redact

    def start(self) -> None:
        """Start the container."""
        with self._reporting("started"):
            if self._created is None:
                with without_interrupt():  # an interrupted request would leave an unknown container behind
                    self._created = self._create()
            self._container.start()

    def stop(self, *, kill: bool) -> None:
        """Stop or kill the container."""
        with self._reporting("stopped"):
            self._container.reload()
            if self._container.status == "paused":
                self._container.unpause()
            if kill:
                self._container.kill()
            else:
                self._container.stop(timeout=self._stop_timeout_s)

    def pause(self) -> None:
        """Freeze the container's processes."""
        with self._reporting("paused"):
            self._container.pause()

    def resume(self) -> None:
        """Resume the container's processes."""
        with self._reporting("resumed"):
            self._container.unpause()

    def remove(self) -> None:
        """Kill and remove the container, including its data."""
        if self._created is not None:
            with self._reporting("removed"), without_interrupt():
                remove(self._created)

    def check(self) -> None:
        """Raise ClusterLostError, with the cause and the last log lines, if the container has exited or was removed."""
        if (failure := self.failure()) is not None:
            raise ClusterLostError(failure.reason, log=failure.log)

    def failure(self) -> Exit | None:
        """Return how the container exited, with its last log lines; None if it is running."""
        ending = self.ending
        container = f"{self._name} (container {self._container.short_id})"
        return None if ending is None else Exit(f"{container} {ending}", self.log_tail())

    @property
    def ending(self) -> str | None:
        """Cause of the exit, such as `exited with status 1`, from one request to the daemon; None if running."""
        try:
            self._container.reload()
        except NotFound:
            return "ended: its container was removed"
        except FAILURES as error:
            return f"is lost: the Docker daemon failed: {reason_of(error)}"
        if self._container.status not in ("exited", "dead"):
            return None
        state = self._container.attrs["State"]
        return "ran out of memory" if state["OOMKilled"] else f"exited with status {state['ExitCode']}"

    def probes(self) -> Sequence[Probe]:
        """Return the container's probe and, if there is a JMX exporter, the exporter's probe."""
        own = ContainerProbe(self._container)
        return [own] if self._exporter is None else [own, self._exporter]

    def log_tail(self) -> str:
        """Return the last lines of the container's log; empty if there are none."""
        try:
            log = self._container.logs(tail=_SEARCHED_LINES)
        except (ClusterError, *FAILURES):
            return ""
        return self._redact(last_lines(log.decode("utf-8", errors="replace").strip()))

    @property
    def _container(self) -> Any:
        if self._created is None:
            raise ClusterError(f"{self._name} was never started")
        return self._created

    @contextmanager
    def _reporting(self, action: str) -> Iterator[None]:
        try:
            yield
        except FAILURES as error:
            raise ClusterError(f"{self._name} could not be {action}: {reason_of(error)}") from None


LABEL = "pytest-kafkaperf.run"
"""Label on containers and networks that contains the owner and folder of their run."""

END_LABEL = "pytest-kafkaperf.end"
"""Label on containers and networks with their run's latest end; before that time, only the owner removes them."""

_LONGEST = datetime.timedelta(days=1)
"""Time after which other owners assume that a run has ended."""

_OWNER_TIMEOUT_S = 10
"""Maximum time to wait for another run that is writing the cache folder's id."""


def labels_of(folder: Path) -> dict[str, str]:
    """Return the labels for the run with this folder."""
    return {LABEL: f"{_owner(folder.parent.parent)}:{folder}", END_LABEL: _now(_LONGEST)}


def sweep(client: Any, runs: Path) -> None:
    """Remove ended runs' containers and networks; those of other owners remain until their run's latest end."""
    own = _owner(runs.parent)
    now = _now()
    for resource in labelled(client, LABEL):
        labels = resource.labels if hasattr(resource, "labels") else resource.attrs.get("Labels") or {}
        owner, _, folder = labels[LABEL].partition(":")
        stays = is_alive(runs / Path(folder).name) if owner == own else labels.get(END_LABEL, now) >= now
        if not stays:
            with contextlib.suppress(APIError):  # another run may be removing it at the same time
                remove(resource)


def _owner(cache: Path) -> str:
    """Return a cache folder's random id.

    A copy of the folder, which CI may restore in several jobs, counts as a different owner, because its file has a
    different change time.
    """
    path = cache / "owner"
    try:
        if not _has_content(path):
            with fetching(path, "the folder's id", cache=cache, timeout_s=_OWNER_TIMEOUT_S):
                if not _has_content(path):  # another run may have written it in the meantime
                    path.write_text(secrets.token_hex(8), encoding="ascii")
        return f"{path.read_text(encoding='ascii')}-{path.stat().st_ctime_ns}"
    except OSError as error:
        raise ClusterError(
            f"cannot read {path}: {error.strerror}; delete it, or set the environment variable {CACHE_VARIABLE} to "
            "another folder"
        ) from None


def _has_content(path: Path) -> bool:
    """Return True if the file exists and is not empty, as it is if the run that created it was killed."""
    return path.exists() and path.stat().st_size > 0


def _now(later: datetime.timedelta = datetime.timedelta()) -> str:
    return (datetime.datetime.now(datetime.UTC) + later).isoformat(timespec="seconds")


@contextmanager
def removing(client: Any, labels: Mapping[str, str]) -> Iterator[None]:
    """Remove all of this run's resources afterwards, even if their start was interrupted.

    A failure causes only a warning, because an error would hide an earlier one, and other resources would remain.
    """
    try:
        yield
    finally:
        with without_interrupt():
            found: list[Any] = []
            with _warning("look for containers and networks to remove"):
                found = labelled(client, f"{LABEL}={labels[LABEL]}")
            for resource in found:
                with _warning(f"remove {resource.name}"):
                    remove(resource)


@contextmanager
def _warning(action: str) -> Iterator[None]:
    """Show a warning instead of an error from the daemon."""
    try:
        yield
    except FAILURES as error:
        warn(f"could not {action}: {reason_of(error)}; the next run with Docker will try again")


def start_reaper(client: Any) -> None:
    """Start testcontainers' reaper Ryuk, which cleans up after killed runs, unless it is disabled or missing.

    The settings are not changed, because they also apply to the user's own containers.
    """
    if not testcontainers_config.ryuk_disabled:
        with contextlib.suppress(Exception):  # the next run also cleans up
            client.images.get(testcontainers_config.ryuk_image)
            Reaper.get_instance()


def labelled(client: Any, label: str) -> list[Any]:
    """Return the resources with this label, containers first, because a network in use cannot be removed."""
    filters = {"label": label}
    containers = client.containers.list(all=True, filters=filters, ignore_removed=True)
    return [*containers, *client.networks.list(filters=filters)]


def remove(resource: Any) -> None:
    """Remove a network, or a container (running or not) with its data; do nothing if it no longer exists."""
    with contextlib.suppress(NotFound):
        resource.remove(force=True, v=True) if hasattr(resource, "kill") else resource.remove()


@contextmanager
def container_process(name: str, image: str, files: Path, **options: Any) -> Iterator[ContainerProcess]:
    """Provide a container for an image, with the certificates and token from the folder `files`; remove it afterwards.

    `options` are passed to the `Container`.

    Raises:
        ClusterError: there is no daemon or no image.

    """
    runs = cache_folder() / "runs"
    with connection() as docker, run_folder(runs) as folder:
        labels = labels_of(folder)
        sweep(docker.client, runs)
        get_image(docker.client, image)
        start_reaper(docker.client)

        def create(command: Sequence[str], env: Mapping[str, str]) -> Any:
            container = docker.create(image, [*command] or None, {**env}, labels={**labels}, network="host")
            for file in (*files.glob("*.pem"), *files.glob(f"*{TOKEN_SUFFIX}")):
                container.put_archive("/", build_transfer_tar(file, str(file)))
            return container

        with removing(docker.client, labels):
            yield ContainerProcess(name, create, **options)


class ContainerProcess(Container):
    """An application in a container, with the methods of `ChildProcess`; each start creates a new container."""

    def __init__(self, name: str, create: Callable[..., Any], **options: Any) -> None:
        super().__init__(name, create, **options)
        self._retired = False
        self._starting = threading.Lock()

    def launch(self, command: Sequence[str], *, env: Mapping[str, str], **_: object) -> None:
        """Start a new container; raises ClusterError if it cannot be started or was retired."""
        with self._starting, self._reporting("started"):
            if self._retired:
                raise ClusterError(f"cannot start {self._name}: it was removed")
            self.remove()
            with without_interrupt():
                self._created = self._create(command, env)
            self.start()
            self.pid = self._container.client.api.inspect_container(self._container.id)["State"]["Pid"]

    def retire(self) -> None:
        """Refuse all further starts."""
        with self._starting:
            self._retired = True

    def stop(self, *, kill: bool = False) -> None:
        """Stop or kill the container; do nothing if it is stopped."""
        if self.pid is not None:
            self.pid = None
            super().stop(kill=kill)

    def failure(self) -> Exit | None:
        """Return how the container exited on its own, with its last log lines; None if it is running or was stopped."""
        return None if self.pid is None else super().failure()

    def log(self) -> str:
        """Return all output since the last start."""
        return str(self._container.logs(), "utf-8", errors="replace")
