"""Applications under test in containers, on the network of their host: they reach every cluster that the host reaches.

What a killed run leaves is removed like the brokers' containers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testcontainers.core.transferable import build_transfer_tar

from pytest_kafkaperf.clusters.brokers.run_folders import run_folder
from pytest_kafkaperf.clusters.docker.client import connection, get_image
from pytest_kafkaperf.clusters.docker.container import Container, labels_of, removing, start_reaper, sweep
from pytest_kafkaperf.clusters.local.distribution import cache_folder
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.signals import without_interrupt


@contextmanager
def container_process(name: str, image: str, files: Path, **options: Any) -> Iterator[ContainerProcess]:
    """Provide a container of an image, with the certificates in the folder `files`; remove it afterwards.

    `options` are those of a `Container`.

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
            for file in files.glob("*.pem"):
                container.put_archive("/", build_transfer_tar(file, str(file)))
            return container

        with removing(docker.client, labels):
            yield ContainerProcess(name, create, **options)


class ContainerProcess(Container):
    """An application in a container, with the methods of a `ChildProcess`; each start is that of a new container."""

    def __init__(self, name: str, create: Callable[..., Any], **options: Any) -> None:
        super().__init__(name, create, **options)
        self._retired = False
        self._starting = threading.Lock()

    def launch(self, command: Sequence[str], *, env: Mapping[str, str], **_: object) -> None:
        """Start a new container; raises ClusterError if it cannot be started, or was retired."""
        with self._starting, self._reporting("started"):
            if self._retired:
                raise ClusterError(f"{self._name} cannot be started: it was removed")
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
        """Stop or kill the container; does nothing while it is stopped."""
        if self.pid is not None:
            self.pid = None
            super().stop(kill=kill)

    def failure(self) -> str | None:
        """Return how the container ended by itself, and its last lines; None if it runs or was stopped."""
        return None if self.pid is None else super().failure()

    def log(self) -> str:
        """Return all output since the last start."""
        return str(self._container.logs(), "utf-8", errors="replace")
