"""One instance of an application under test: a process or container with its environment and its output."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.clusters.child_process import ChildProcess, path_from
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.monitoring.probes import Probe
from pytest_kafkaperf.clusters.recipe import Recipe
from pytest_kafkaperf.core.errors import ApplicationError, UsageError

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.docker.container import ContainerProcess

STOP_TIMEOUT_S = 10
"""Maximum time to exit after SIGTERM before the process group is killed."""
_NOT_ON_PATH = (
    "the command {command!r} was not found on the PATH; install it in this environment, or give the path of its file"
)


class Instance:
    """One of the processes or containers that run an application; created stopped."""

    def __init__(self, recipe: Recipe, cluster: Cluster, side: str, *, number: int, folder: Path) -> None:
        """Prepare an instance; `folder` holds its log, and its certificates if there are any."""
        self.number = number
        """Number, starting at 0."""
        self.name = recipe.name_of(number)
        """Name in reports, such as `shop-1`, or `shop` for an application with one instance."""
        self._recipe = recipe
        self._cluster = cluster
        self._side = side
        self._folder = folder
        self._log = folder / f"output-{number}.log"
        self._options: Any = {"stop_timeout_s": STOP_TIMEOUT_S, "redact": cluster.access.redact}
        self._process: ChildProcess | ContainerProcess = ChildProcess(self.program, self._log, **self._options)
        self._sign = recipe.sign_of(number)

    @property
    def program(self) -> str:
        """The name in messages, such as `application shop-1`."""
        return f"application {self.name}"

    @property
    def pid(self) -> int | None:
        """Process id; None while the instance is stopped."""
        return self._process.pid

    @property
    def output(self) -> str:
        """Last lines of standard output and standard error since the last start, without secrets."""
        return self._process.log_tail()

    @property
    def ending(self) -> str:
        """Cause of the exit, such as `exited with status 1`, after a stop."""
        return str(self._process.ending)

    @property
    def section(self) -> tuple[str, str] | None:
        """Title and last lines of output for pytest's report; None if it is running and has not written anything."""
        self._process.failure()  # determines how the process ended
        ending, output = self._process.ending, self.output
        return (f"{self.name} ({ending or 'running'})", output or "no output") if ending or output else None

    def probes(self) -> Sequence[Probe]:
        """Return the probe of the process and its children, or of the container; empty while it is stopped."""
        return [] if self.pid is None else self._process.probes()

    @contextlib.contextmanager
    def prepared(self) -> Iterator[None]:
        """Make the instance ready to be started; remove its container afterwards, if it has one.

        Raises:
            ClusterError: there is no Docker daemon or no image.

        """
        if self._recipe.image is None:
            yield
            return
        from pytest_kafkaperf.clusters.docker.container import container_process  # noqa: PLC0415 - takes 0.3 s

        with container_process(self.program, self._recipe.image, self._folder, **self._options) as self._process:
            yield

    def launch(self) -> None:
        """Start the process or container.

        Raises:
            ApplicationError: another program listens on its port.
            ClusterError: the application was closed.
            UsageError: the command cannot be run.

        """
        if self._recipe.kind == "port" and _accepts(self._sign):
            raise ApplicationError(f"{self.program} cannot be started: {self._taken_port()}", program=self.program)
        self._log.unlink(missing_ok=True)
        command = [*map(self._filled, self._recipe.command)]
        given = self._recipe.env if self._side == "test" else {**self._recipe.env, **self._recipe.baseline_env}
        own = {name: self._filled(text) for name, text in given.items()}
        inherited: Mapping[str, str] = {}
        if self._recipe.image is None:
            inherited = {**os.environ, "PATH": path_from(sys.executable)}
            command[0] = sys.executable if command[0] == "python" else command[0]
        try:
            environment = {**self._environment(inherited), **own}
            self._process.launch(command, folder=self._recipe.cwd, env=environment)
        except OSError as error:
            is_unknown = isinstance(error, FileNotFoundError) and error.filename == command[0] == Path(command[0]).name
            reason = _NOT_ON_PATH.format(command=command[0]) if is_unknown else error
            raise UsageError(f"{self.program} cannot be started: {reason}") from None

    def stop(self, *, kill: bool = False) -> None:
        """Stop it gracefully or, after 10 s or with `kill`, by force; do nothing if it is not running."""
        self._process.stop(kill=kill)

    def retire(self) -> None:
        """Refuse all further starts."""
        self._process.retire()

    def check(self) -> None:
        """Raise `ApplicationError` with the exit status and the last output lines after an unexpected exit; cheap."""
        if (failure := self._process.failure()) is not None:
            is_port = self._recipe.kind == "port"
            is_taken = "ddress already in use" in failure.log or (is_port and _accepts(self._sign))
            reason = f"{self._taken_port()}: {failure.reason}" if is_taken else failure.reason
            raise ApplicationError(reason, log=failure.log, program=self.program)

    def missing(self) -> str | None:
        """Return the reason why an instance that signals readiness with a line or a port is not ready."""
        whose = "" if self.name == self._recipe.title else f"{self.name}: "
        if self._recipe.kind == "line":
            found = self._sign in self._process.log()
            return None if found else f"{whose}no line of its output contains {self._sign!r}"
        return None if _accepts(self._sign) else f"{whose}port {self._sign} does not accept connections"

    def _filled(self, text: str) -> str:
        text = text.replace("{bootstrap_servers}", self._cluster.bootstrap_servers).replace("{side}", self._side)
        return text.replace("{instance}", str(self.number))

    def _environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Write certificates and access tokens to files in a private folder, and return the environment variables."""
        access = self._cluster.access
        own = {
            "KAFKA_BOOTSTRAP_SERVERS": self._cluster.bootstrap_servers,
            **access.variables(),
            **access.write_files(self._folder),
            "KAFKAPERF_SIDE": self._side,
            "KAFKAPERF_INSTANCE": str(self.number),
            "PYTHONUNBUFFERED": "1",  # a killed process's buffered output would be lost
        }
        # The user's variables may be for another cluster.
        given = {name: text for name, text in inherited.items() if name not in own}
        return given | {name: text for name, text in own.items() if text is not None}

    def _taken_port(self) -> str:
        port = f"port {self._sign}" if self._recipe.kind == "port" else "port"
        if self._recipe.instances == 1:
            whose, variables = "it may be the other side", "KAFKAPERF_SIDE"
        else:
            whose = "it may be an instance of the other side"
            variables = "KAFKAPERF_INSTANCE and KAFKAPERF_SIDE"
        return (
            f"another program listens on its {port}; in a side-by-side comparison, {whose}, so choose the port "
            f"depending on {variables}"
        )


def _accepts(port: str) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(port)), timeout=1):
        return True
    return False
