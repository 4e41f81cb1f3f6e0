"""Applications under test: processes that use a test's cluster, and that the session starts, watches and ends."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Annotated, Any, Literal, Self

import psutil
from pydantic import BeforeValidator, Field

from pytest_kafkaperf.clusters.client.admin import LOOK_TIMEOUT_S, Admin
from pytest_kafkaperf.clusters.client.group_members import group_members
from pytest_kafkaperf.clusters.local.process import cause
from pytest_kafkaperf.clusters.monitoring.probes import Probe, ProcessProbe
from pytest_kafkaperf.clusters.spec import Cluster
from pytest_kafkaperf.core import supervisor
from pytest_kafkaperf.core.errors import ApplicationError, ClusterError, UsageError, warn
from pytest_kafkaperf.core.signals import without_interrupt
from pytest_kafkaperf.core.units import Unit, format_quantity
from pytest_kafkaperf.scenarios.fields import Config, Count, MarkerFields, Seconds, Topic
from pytest_kafkaperf.scenarios.scenario import Scenario

STOP_TIMEOUT_S = 10
"""Time for an orderly end after SIGTERM; after that the process group is killed."""
_KILL_TIMEOUT_S = 10
_OUTPUT_TIMEOUT_S = 1
"""Time for reading the last lines of a process that has ended."""
_POLL_S = 0.05
_TAIL_LINES = 30
_LINE_BYTES = 1000
"""Longer lines of output are kept as several ones."""
_LOGIN = ("KAFKA_SASL_MECHANISM", "KAFKA_SASL_USERNAME", "KAFKA_SASL_PASSWORD")
_FILES = ("KAFKA_SSL_CA_FILE", "KAFKA_SSL_CERTIFICATE_FILE", "KAFKA_SSL_KEY_FILE")


def _words(command: Any) -> tuple[str, ...]:
    if not isinstance(command, list | tuple) or not command:
        raise ValueError("must be a list of words, for example ['python', '-m', 'orders']")
    return tuple(map(str, command))


def _ready(ready: Any) -> Any:
    if not callable(ready) and not re.fullmatch(r"(group|line):.+|port:\d+", str(ready)):
        raise ValueError("must be 'group:NAME', 'line:TEXT', 'port:NUMBER', or a function that takes the application")
    return ready


def _topics(topics: Any) -> Any:
    if isinstance(topics, str):
        raise ValueError("must be a list of names, or the numbers of partitions by name")  # noqa: TRY004 - pydantic's
    return dict.fromkeys(topics, Scenario().partitions) if isinstance(topics, list | tuple) else topics


class Recipe(MarkerFields):
    """The arguments of `kafka_app`."""

    command: Annotated[tuple[str, ...], BeforeValidator(_words)]
    """The words of the command line; `python` is this interpreter, and `{bootstrap_servers}` is replaced."""
    ready: Annotated[Any, BeforeValidator(_ready)]
    """Sign that it is ready: `group:NAME`, `line:TEXT`, `port:NUMBER`, or a function that takes the application."""
    topics: Annotated[Mapping[Topic, Annotated[Count, Field(ge=1)]], BeforeValidator(_topics)] = Field(
        default_factory=dict
    )
    """Topics to create if they do not exist, and to delete afterwards; a list of names gives each 6 partitions."""
    env: Config = Field(default_factory=dict)
    """Further environment variables."""
    cwd: Path = Path()
    """Working folder, relative to pytest's root folder."""
    timeout: Seconds = 30.0
    """Maximum wait until it is ready."""
    name: str | None = None
    """Name in reports; None: that of its program."""


class Application:
    """A process under test, as the fixture `kafka_app` makes it."""

    def __init__(self, recipe: Recipe, cluster: Cluster, side: Literal["test", "reference"] = "test") -> None:
        self.cluster = cluster
        self.side = side
        self.events: list[tuple[int, str]] = []
        """Stops and starts by the test, each with its time on the monotonic clock, in ns."""
        self.closing = contextlib.ExitStack()
        """Closed with the application."""
        self._recipe = recipe
        self._kind, _, self._sign = recipe.ready.partition(":") if isinstance(recipe.ready, str) else ("call", "", "")
        self._environment: Mapping[str, str] = {}
        self._process: psutil.Popen | None = None
        self._output: deque[str] = deque(maxlen=_TAIL_LINES)
        self._reader = threading.Thread()
        self._said = threading.Event()
        """Set by the line of output that makes it ready."""
        self._others: Mapping[str, bool] = {}
        """Ids of members that its consumer group had before its start."""
        self._members: set[str] = set()
        """Its own ids in the group."""
        self._ending = threading.Lock()
        self._closed = False

    def __str__(self) -> str:
        """Return the name."""
        return self._recipe.name or _name_of(self._recipe.command)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """Process id; None if the application is stopped."""
        return None if self._process is None else self._process.pid

    @property
    def output(self) -> str:
        """The last lines of the standard output and error since the last start, without secrets."""
        return "\n".join(self._output)

    def probes(self) -> Sequence[Probe]:
        """Return the probe of the process and its children; empty while the application is stopped."""
        return [] if self.pid is None else [ProcessProbe(self.pid, with_children=True)]

    def on(self, reference: Cluster) -> Application:
        """Return the same application on another cluster, not opened yet."""
        return Application(self._recipe, reference, "reference")

    def open(self) -> Self:
        """Create the topics and start the application; after a failure, nothing is left.

        Raises:
            ClusterError: a topic could not be created, or the application ended or was not ready in time.
            UsageError: it cannot be started.

        """
        if os.name != "posix":
            raise UsageError("kafka_app needs process groups, which this system lacks; use Linux or macOS")
        admin = Admin(self.cluster.bootstrap_servers, self.cluster.access)
        with contextlib.ExitStack() as stack:
            for topic, partitions in self._recipe.topics.items():
                if admin.is_gone(topic):
                    stack.callback(_delete, admin, topic)
                    admin.create_topic(topic, Scenario(partitions=partitions))
            self._environment = {**stack.enter_context(_environment(self.cluster, self.side)), **self._recipe.env}
            stack.callback(self.end)
            self.launch()
            self.closing = stack.pop_all()
        return self

    def close(self) -> None:
        """End the application for good, and delete the topics that were created for it."""
        with self._ending:
            self._closed = True  # an action of the test may be about to start it in another thread
        self.closing.close()

    def start(self) -> None:
        """Start the process and wait until it is ready; raises as `launch` does."""
        if self._process is not None:
            raise UsageError(f"application {self} is already running; stop it first: stop()")
        self._record("started")
        self.launch()
        self._record("ready")

    def stop(self) -> None:
        """End the process and its children, in order if they end within 10 s; does nothing if it is stopped."""
        if self._process is not None:
            self._record("stopped")
            self._stop()

    def restart(self) -> None:
        """Stop and start; raises as `launch` does."""
        self.stop()
        self.start()

    def check(self) -> None:
        """Raise `ApplicationError` with its exit status and last lines if it has ended by itself; cheap."""
        process = self._process
        if process is not None and (process.returncode is not None or supervisor.has_ended(process)):
            self._end(process, patience_s=0)
            raise self._failure(f"(pid {process.pid}) {cause(process.returncode)}")

    def launch(self) -> None:
        """Start the process and wait until it is ready, without an event on the time line.

        Raises:
            ApplicationError: it ended, or was not ready in time.
            ClusterError: its consumer group could not be read.
            UsageError: it cannot be started.

        """
        self._output.clear()
        self._said.clear()
        if self._kind == "group":
            _, self._others = group_members(self.cluster, self._sign)
        elif self._kind == "port" and _accepts(self._sign):
            raise self._failure(f"cannot be started: another program listens on its port {self._sign}")
        servers = self.cluster.bootstrap_servers
        program, *words = [word.replace("{bootstrap_servers}", servers) for word in self._recipe.command]
        with without_interrupt(), self._ending:
            if self._closed:
                raise UsageError(f"application {self} cannot be started: it was closed")
            try:
                self._process = process = psutil.Popen(
                    [sys.executable if program == "python" else program, *words],
                    cwd=self._recipe.cwd,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise UsageError(f"application {self} cannot be started: {error}") from None
            supervisor.kill_later(process.pid)
            self._reader = threading.Thread(target=self._read, args=[process.stdout], daemon=True)
            self._reader.start()
        try:
            self._await_ready()
        except BaseException:
            self._stop()
            raise

    def end(self) -> None:
        """End the process, and remove it from its consumer group if it did not leave, which would wait for it."""
        self._stop()
        if self._members:
            with contextlib.suppress(ClusterError):  # Kafka removes them later
                group_members(self.cluster, self._sign, without=self._members)

    def _record(self, text: str) -> None:
        self.events.append((time.monotonic_ns(), f"{self} {text}"))

    def _failure(self, what: str) -> ApplicationError:
        output = f"the end of its output:\n{self.output}" if self._output else "it wrote no output"
        return ApplicationError(f"application {self} {what}; {output}")

    def _read(self, stream: IO[bytes]) -> None:
        """Keep the last lines until the output ends."""
        with stream:
            while line := stream.readline(_LINE_BYTES):
                text = self.cluster.access.redact(line.decode("utf-8", errors="replace").rstrip())
                self._output.append(text)
                if self._kind == "line" and self._sign in text:
                    self._said.set()

    def _await_ready(self) -> None:
        deadline = time.monotonic() + self._recipe.timeout
        while True:
            try:
                missing = self._missing()
            except (OSError, ClusterError) as error:  # such as a connection that is refused
                missing = str(error) or type(error).__name__
            self.check()
            if missing is None:
                return
            if time.monotonic() > deadline:
                within = format_quantity(self._recipe.timeout, Unit.SECONDS)
                raise self._failure(f"was not ready within {within}: {missing}")
            time.sleep(_POLL_S)

    def _missing(self) -> str | None:
        """Return the reason why the application is not ready; None if it is."""
        match self._kind:
            case "line":
                return None if self._said.is_set() else f"no line of its output contains {self._sign!r}"
            case "port":
                return None if _accepts(self._sign) else f"port {self._sign} accepts no connection"
            case "call":
                return None if self._recipe.ready(self) else "its function `ready` returned nothing true"
        state, members = group_members(self.cluster, self._sign)
        # Other members may be of a process that has ended, which Kafka has not noticed yet.
        self._members = {one for one, has_partitions in members.items() if has_partitions} - self._others.keys()
        if state == "Stable" and self._members:
            return None
        return f"its consumer group {self._sign!r} is {state}, and has no new member with partitions"

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            self._end(process, patience_s=STOP_TIMEOUT_S)

    def _end(self, process: psutil.Popen, *, patience_s: float) -> None:
        """End the process group, whose id stays reserved until its leader is collected at the end."""
        with self._ending:
            if process.returncode is not None:
                return
            try:
                deadline = time.monotonic() + patience_s
                if patience_s:
                    _signal(process.pid, signal.SIGTERM)
                    _signal(process.pid, signal.SIGCONT)  # a paused process handles SIGTERM only after it continues
                while supervisor.group_members([process.pid]) and time.monotonic() < deadline:
                    time.sleep(_POLL_S)
            finally:  # also after Ctrl-C during the wait
                _signal(process.pid, signal.SIGKILL)
                process.wait(_KILL_TIMEOUT_S)
            self._reader.join(_OUTPUT_TIMEOUT_S)


@contextlib.contextmanager
def _environment(cluster: Cluster, side: str) -> Iterator[dict[str, str]]:
    """Give the process's environment; certificates are in files that only the user can read, for the block."""
    access, properties = cluster.access, cluster.access.arguments()
    own = {
        "KAFKA_BOOTSTRAP_SERVERS": cluster.bootstrap_servers,
        "KAFKA_SECURITY_PROTOCOL": access.protocol,
        "KAFKAPERF_SIDE": side,
        "PYTHONUNBUFFERED": "1",  # the output of a process that is killed would be lost
    }
    if "sasl_mechanism" in properties:
        login = (properties[name] or "" for name in ("sasl_mechanism", "sasl_plain_username", "sasl_plain_password"))
        own |= zip(_LOGIN, login, strict=True)
    with contextlib.ExitStack() as stack:
        if "ssl_context" in properties:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafkaperf-app-")))
            supervisor.remove_later(folder)
            key = None if access.key is None else access.key.get_secret_value()
            for name, text in zip(_FILES, (access.trusted, access.certificate, key), strict=True):
                if text is not None:
                    own[name] = str(folder / f"{name.lower()}.pem")
                    Path(own[name]).write_text(text, encoding="ascii")
        # The user's variables may be of another cluster.
        yield {name: text for name, text in os.environ.items() if name not in (*_LOGIN, *_FILES)} | own


def _delete(admin: Admin, topic: str) -> None:
    try:
        admin.delete_topic(topic, timeout_s=LOOK_TIMEOUT_S)
    except ClusterError as error:
        warn(f"topic {topic} of an application was left behind: {error}")


def _name_of(command: Sequence[str]) -> str:
    program, *others = [word for word in command if not word.startswith("-")]
    return Path(others[0] if others and Path(program).name.startswith("python") else program).stem


def _accepts(port: str) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(port)), timeout=1):
        return True
    return False


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # all have ended; macOS refuses zombies
        os.killpg(group, number)
