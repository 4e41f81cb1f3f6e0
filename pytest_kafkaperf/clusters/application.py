"""Applications under test: processes that use a test's cluster and that the plugin starts, watches and stops."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import secrets
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo

from pytest_kafkaperf.clusters.admin.admin import (
    LOOK_TIMEOUT_S,
    Admin,
    TopicExistsError,
    TopicRefusedError,
    groups_with_members,
)
from pytest_kafkaperf.clusters.admin.groups import Group, Member, read_group, unsupported_protocols
from pytest_kafkaperf.clusters.admin.preflight import Preflight
from pytest_kafkaperf.clusters.brokers.run_folders import PREFIX, held
from pytest_kafkaperf.clusters.child_process import ChildProcess, path_from
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.monitoring.probes import Probe
from pytest_kafkaperf.clusters.target import MAX_PORT
from pytest_kafkaperf.core.errors import ApplicationError, ClusterError, UsageError, warn
from pytest_kafkaperf.core.notices import Event, EventKind
from pytest_kafkaperf.core.signals import without_interrupt
from pytest_kafkaperf.core.text import listed
from pytest_kafkaperf.core.units import Unit, format_quantity
from pytest_kafkaperf.scenarios.fields import Config, Count, MarkerFields, Seconds, Topic
from pytest_kafkaperf.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.docker.container import ContainerProcess

STOP_TIMEOUT_S = 10
"""Maximum time to exit after SIGTERM before the process group is killed."""
_NOT_ON_PATH = (
    "the command {command!r} was not found on the PATH; install it in this environment, or give the path of its file"
)
_POLL_S = 0.05
_SESSION_TIMEOUT_S = 60
"""Maximum time for Kafka to remove a member that did not leave its group; `session.timeout.ms` is 45 s by default."""
_MEMBER_POLL_S = 0.5
_MOST_GROUPS = 10
"""Maximum number of consumer groups that an error message lists."""
_LEAST_ANSWER_S = 1.0
"""Minimum time limit for a call to the user's `ready` function, so the last call can still return the reason."""


def _words(command: Any, info: ValidationInfo) -> tuple[str, ...]:
    if not isinstance(command, list | tuple) or not (command or info.data.get("image")):
        raise ValueError("must be a list of words, for example ['python', '-m', 'orders'], unless image is set")
    return tuple(map(str, command))


def _ready(ready: Any) -> Any:
    found = re.fullmatch(r"(?:group|line):.+|port:(\d+)", str(ready))
    is_sign = found is not None and (found[1] is None or 1 <= int(found[1]) <= MAX_PORT)
    if not callable(ready) and not is_sign:
        raise ValueError("must be 'group:NAME', 'line:TEXT', 'port:NUMBER', or a function that takes the application")
    return ready


def _topics(topics: Any) -> Any:
    if isinstance(topics, str):
        raise ValueError("must be a list of names, or a mapping of names to numbers of partitions")  # noqa: TRY004 - pydantic's
    return dict.fromkeys(topics, Scenario().partitions) if isinstance(topics, list | tuple) else topics


class Recipe(MarkerFields):
    """Arguments of `kafka_app`."""

    image: str | None = None
    """Image for a container on the host's network, such as `registry/orders:1.2`; None to run a child process."""
    command: Annotated[tuple[str, ...], BeforeValidator(_words), Field(validate_default=True)] = ()
    """Words of the command line, or arguments to the image; `python` is pytest's interpreter. `{bootstrap_servers}` and
    `{side}` are replaced."""
    ready: Annotated[Any, BeforeValidator(_ready)]
    """Signal that the application is ready: `group:NAME`, `line:TEXT`, `port:NUMBER`, or a function that takes the
    application and runs in a thread."""
    topics: Annotated[Mapping[Topic, Annotated[Count, Field(ge=1)]], BeforeValidator(_topics)] = Field(
        default_factory=dict
    )
    """Topics to create if they do not exist and to delete afterwards; in a list of names, each topic gets 6 partitions.
    On brokers that the plugin starts, you can omit the scenario's `topic`."""
    env: Config = Field(default_factory=dict)
    """Additional environment variables; `{bootstrap_servers}` and `{side}` are replaced."""
    baseline_env: Config = Field(default_factory=dict)
    """Environment variables for the live baseline's instance only; these override `env`."""
    cwd: Path = Path()
    """Working folder for a process, relative to pytest's root folder."""
    timeout: Seconds = 30.0
    """Maximum time until the application is ready."""
    name: str | None = None
    """Name to show in reports; None for the name of the program or image."""


class Application(contextlib.AbstractContextManager["Application"]):
    """A process or container under test, as created by the `kafka_app` fixture."""

    def __init__(self, recipe: Recipe, cluster: Cluster, side: Literal["test", "baseline"] = "test") -> None:
        self.cluster = cluster
        self.side = side
        self.events: list[Event] = []
        """Stops and starts triggered by the test."""
        self.created: list[str] = []
        """Topics created for the application, while it is open."""
        self.closing = contextlib.ExitStack()
        """Resources that are closed with the application."""
        self._recipe = recipe
        self._folder = Path(tempfile.gettempdir(), f"{PREFIX}app-{secrets.token_hex(8)}")
        """Folder for the application's log and certificates, while it is open."""
        self._log = self._folder / "output.log"
        self._options: Any = {"stop_timeout_s": STOP_TIMEOUT_S, "redact": cluster.access.redact}
        self._process: ChildProcess | ContainerProcess = ChildProcess(self.program, self._log, **self._options)
        self._kind, _, self._sign = recipe.ready.partition(":") if isinstance(recipe.ready, str) else ("call", "", "")
        self._changing = threading.Lock()
        """Lock held while a process starts or stops (up to 10 s), which prevents a second instance."""
        self.side_by_side: Sequence[Application] = ()
        """Applications that run at the same time. Those with the same group share its partitions."""
        self._others: set[str] = set()
        """Ids of the members that the consumer group had before the application started."""
        self._members: set[str] = set()
        """Ids of the application's own members in the group."""

    def __str__(self) -> str:
        """Return the name."""
        return self._recipe.name or _name_of(self._recipe.image, self._recipe.command)

    @property
    def program(self) -> str:
        """The name in messages, such as `application shop`."""
        return f"application {self}"

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """Process id; None if the application is stopped."""
        return self._process.pid

    @property
    def output(self) -> str:
        """Last lines of standard output and standard error since the last start, without secrets."""
        return self._process.log_tail()

    @property
    def section(self) -> tuple[str, str] | None:
        """Title and last lines of output for pytest's report; None if it is running and has not written anything."""
        self._process.failure()  # determines how the process ended
        ending, output = self._process.ending, self.output
        return (f"{self} ({ending or 'running'})", output or "no output") if ending or output else None

    def probes(self) -> Sequence[Probe]:
        """Return the probe of the process and its children, or of the container; empty while it is stopped."""
        return [] if self.pid is None else self._process.probes()

    def on(self, live_baseline: Cluster) -> Application:
        """Return the same application for another cluster, without opening it."""
        return Application(self._recipe, live_baseline, "baseline")

    def open(self) -> Self:
        """Create the topics and start the application; a failure does not leave anything behind.

        Raises:
            ClusterError: a topic could not be created, or the application exited or was not ready in time.
            UsageError: the application cannot be started.

        """
        admin = Admin(self.cluster.bootstrap_servers, self.cluster.access)
        with contextlib.ExitStack() as stack:
            stack.callback(self._delete_topics, admin)
            for topic, partitions in self._recipe.topics.items():
                try:
                    # Ctrl-C waits, because only topics that were certainly created are deleted afterwards.
                    with contextlib.suppress(TopicExistsError), without_interrupt():
                        admin.create_topic(topic, Scenario(partitions=partitions))
                        self.created.append(topic)
                except TopicRefusedError:
                    if admin.is_gone(topic):
                        raise
                    Preflight(self.cluster.bootstrap_servers, self.cluster.access).resolve(Scenario(topic=topic))
            stack.enter_context(held(self._folder))
            if self._recipe.image is not None:
                from pytest_kafkaperf.clusters.docker.container import container_process  # noqa: PLC0415 - takes 0.3 s

                contained = container_process(self.program, self._recipe.image, self._folder, **self._options)
                self._process = stack.enter_context(contained)
            stack.callback(self.end)
            self.launch()
            self.closing = stack.pop_all()
        return self

    def close(self) -> None:
        """Stop the application permanently, and delete the topics that were created for it."""
        self._process.retire()  # a test's action may be about to start the application in another thread
        self.closing.close()

    def start(self) -> None:
        """Start the process and wait until it is ready; raises the same errors as `launch`."""
        with self._changing:
            begun_ns = time.monotonic_ns()
            pid = self._spawn()
            self._record(EventKind.STARTED, begun_ns)
        self._await_ready(pid)
        self._record(EventKind.READY, time.monotonic_ns())

    def stop(self, *, kill: bool = False) -> None:
        """Stop the process and its children: gracefully or, after 10 s, by force; do nothing if it is not running."""
        with self._changing:
            if self.pid is not None:
                begun_ns = time.monotonic_ns()
                self._process.stop(kill=kill)
                kind = EventKind.KILLED if kill else EventKind.STOPPED
                self._record(kind, begun_ns, str(self._process.ending))

    def restart(self) -> None:
        """Stop and start the process; raises the same errors as `launch`."""
        self.stop()
        self.start()

    def check(self) -> None:
        """Raise `ApplicationError` with the exit status and the last output lines after an unexpected exit; cheap."""
        if (failure := self._process.failure()) is not None:
            is_taken = "ddress already in use" in failure.log or (self._kind == "port" and _accepts(self._sign))
            reason = f"{self._taken_port()}: {failure.reason}" if is_taken else failure.reason
            raise ApplicationError(reason, log=failure.log, program=self.program)

    def launch(self) -> None:
        """Start the process and wait until it is ready, without recording an event.

        Raises:
            ApplicationError: the application exited, or was not ready in time.
            ClusterError: its consumer group could not be read, or the application was closed.
            UsageError: the application cannot be started, or is already running.

        """
        with self._changing:
            pid = self._spawn()
        self._await_ready(pid)

    def end(self) -> None:
        """Stop the process; return when the consumer group no longer waits for the process's members."""
        self._process.stop()
        members, self._members = self._members, set()
        if members:
            with contextlib.suppress(ClusterError):  # Kafka removes them later
                self._forget(members)

    def _forget(self, members: set[str]) -> None:
        """Remove members that have not left the group, or wait until Kafka has removed them.

        Another application may have joined the group while this one was starting. Because that application's member
        looks like one of ours, members are removed only on the plugin's own brokers.
        """
        if self.cluster.fleet is not None:
            self._group(without=members)
            return
        deadline = time.monotonic() + _SESSION_TIMEOUT_S
        while members & self._group().members.keys() and time.monotonic() < deadline:
            time.sleep(_MEMBER_POLL_S)

    def _group(self, *, without: Collection[str] = ()) -> Group:
        """Return the application's group after removing some members; see `read_group`."""
        return read_group(self.cluster.bootstrap_servers, self.cluster.access, self._sign, without=without)

    def _delete_topics(self, admin: Admin) -> None:
        while self.created:
            topic = self.created.pop()
            try:
                admin.delete_topic(topic, timeout_s=LOOK_TIMEOUT_S)
            except ClusterError as error:
                warn(f"could not delete topic {topic} of an application: {error}")

    def _spawn(self) -> int | None:
        """Start the process and return its id; raises the same errors as `launch`."""
        if self.pid is not None:
            raise UsageError(f"{self.program} is already running; stop it first: stop()")
        if self._kind == "group":
            self._others = {*self._group().members}
        elif self._kind == "port" and _accepts(self._sign):
            raise ApplicationError(f"{self.program} cannot be started: {self._taken_port()}", program=self.program)
        self._log.unlink(missing_ok=True)
        command = [*map(self._filled, self._recipe.command)]
        given = self._recipe.env if self.side == "test" else {**self._recipe.env, **self._recipe.baseline_env}
        own = {name: self._filled(text) for name, text in given.items()}
        inherited: Mapping[str, str] = {}
        if self._recipe.image is None:
            inherited = {**os.environ, "PATH": path_from(sys.executable)}
            command[0] = sys.executable if command[0] == "python" else command[0]
        try:
            environment = {**_environment(self.cluster, self.side, self._folder, inherited), **own}
            self._process.launch(command, folder=self._recipe.cwd, env=environment)
        except OSError as error:
            is_unknown = isinstance(error, FileNotFoundError) and error.filename == command[0] == Path(command[0]).name
            reason = _NOT_ON_PATH.format(command=command[0]) if is_unknown else error
            raise UsageError(f"{self.program} cannot be started: {reason}") from None
        return self.pid

    def _filled(self, text: str) -> str:
        return text.replace("{bootstrap_servers}", self.cluster.bootstrap_servers).replace("{side}", self.side)

    def _taken_port(self) -> str:
        port = f"port {self._sign}" if self._kind == "port" else "port"
        return (
            f"another program listens on its {port}; in a side-by-side comparison, it may be the other side, so choose "
            "the port depending on KAFKAPERF_SIDE"
        )

    def _record(self, kind: EventKind, at_ns: int, detail: str = "") -> None:
        self.events.append(Event(at_ns, kind, str(self), detail))

    def _await_ready(self, pid: int | None) -> None:
        """Wait until the process with this id is ready; stop it if it does not become ready in time."""
        try:
            self._poll_ready(pid)
        except BaseException:
            with self._changing:
                if self.pid == pid:  # otherwise, another action stopped it and may have started the next one
                    self._process.stop()
            raise

    def _poll_ready(self, pid: int | None) -> None:
        deadline = time.monotonic() + self._recipe.timeout
        while (missing := self._missing(deadline)) is not None:
            self.check()
            if self.pid != pid:
                raise ClusterError(f"{self.program} was stopped before it was ready")
            if time.monotonic() > deadline:
                within = format_quantity(self._recipe.timeout, Unit.SECONDS)
                reasons = "; ".join(filter(None, (missing, self._other_groups())))
                reason = f"{self.program} was not ready within {within}: {reasons}"
                raise ApplicationError(reason, log=self.output, program=self.program)
            time.sleep(_POLL_S)

    def _missing(self, deadline: float) -> str | None:
        """Return the reason why the application is not ready; None if it is ready."""
        try:
            if self._kind == "call":
                return self._asked(deadline - time.monotonic())
            if self._kind != "group":
                return self._missing_sign()
            group = self._group()
        except (OSError, ClusterError) as error:  # for example, a refused connection
            return str(error) or type(error).__name__
        # Other members may belong to a process whose exit Kafka has not detected yet.
        self._members = {name for name, member in group.members.items() if member.partitions} - self._others
        if group.state == "Stable" and self._members:
            self._require_whole_group(group.members)
            return None
        what = "does not exist" if group.state == "Dead" else f"is {group.state} and has no new member with partitions"
        return "; ".join(filter(None, (f"its consumer group {self._sign!r} {what}", unsupported_protocols(group))))

    def _other_groups(self) -> str:
        """Return text that lists any other groups with members, one of which may be the application's."""
        if self._kind != "group":
            return ""
        found: list[str] = []
        with contextlib.suppress(OSError, ClusterError):
            found = groups_with_members(self.cluster.bootstrap_servers, self.cluster.access)
        others = [group for group in found if group != self._sign]
        return f"groups with members: {listed(others, _MOST_GROUPS)}; check ready=" if others else ""

    def _missing_sign(self) -> str | None:
        """Return the reason why an application that signals readiness with a line or a port is not ready."""
        if self._kind == "line":
            return None if self._sign in self._process.log() else f"no line of its output contains {self._sign!r}"
        return None if _accepts(self._sign) else f"port {self._sign} does not accept connections"

    def _require_whole_group(self, members: Mapping[str, Member]) -> None:
        """Raise `ApplicationError` if a foreign member has partitions, because the test would also measure it."""
        if any(self._shares_group(other) for other in self.side_by_side if other is not self):
            return
        foreign = [member for name, member in members.items() if name in self._others and member.partitions]
        if foreign:
            partitions = sum(member.partitions for member in members.values())
            taken = sum(member.partitions for member in foreign)
            whose = ", ".join(sorted({f"{member.client_id} at {member.host}" for member in foreign}))
            raise ApplicationError(
                f"{self.program} shares consumer group {self._sign!r} with an instance that the plugin did not "
                f"start, which processes {taken} of {partitions} partitions ({whose}), so the test would also measure "
                "that instance; stop it, use another group for the test, or, if it belongs to the test, start it with "
                f"kafka_app(ready={self._recipe.ready!r}) as well",
                program=self.program,
            )

    def _shares_group(self, other: Application) -> bool:
        same_cluster = other.cluster.bootstrap_servers == self.cluster.bootstrap_servers
        return same_cluster and other._recipe.ready == self._recipe.ready

    def _asked(self, timeout_s: float) -> str | None:
        """Call the user's function in a thread to limit its time; return the reason as `_missing` does."""
        answer: Future[Any] = Future()

        def ask() -> None:
            try:
                answer.set_result(self._recipe.ready(self))
            except BaseException as error:  # noqa: BLE001 - such as pytest.fail's exception
                answer.set_exception(error)

        threading.Thread(target=ask, name="kafkaperf-ready", daemon=True).start()
        if not wait([answer], max(_LEAST_ANSWER_S, timeout_s)).done:
            return "its function `ready` has not returned"
        return None if answer.result() else "its function `ready` returned no true value"


def _environment(cluster: Cluster, side: str, folder: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """Write certificates to files in a private folder, and return the environment variables."""
    access = cluster.access
    own = {
        "KAFKA_BOOTSTRAP_SERVERS": cluster.bootstrap_servers,
        **access.variables(),
        "KAFKAPERF_SIDE": side,
        "PYTHONUNBUFFERED": "1",  # a killed process's buffered output would be lost
    }
    key = None if access.key is None else access.key.get_secret_value()
    for name, text in (("CA", access.trusted), ("CERTIFICATE", access.certificate), ("KEY", key)):
        path = own[f"KAFKA_SSL_{name}_FILE"] = None if text is None else str(folder / f"{name.lower()}.pem")
        if path is not None and text is not None:
            Path(path).write_text(text, encoding="ascii")
    # The user's variables may be for another cluster.
    given = {name: text for name, text in inherited.items() if name not in own}
    return given | {name: text for name, text in own.items() if text is not None}


def _name_of(image: str | None, command: Sequence[str]) -> str:
    if image is not None:
        return image.rpartition("/")[2].partition("@")[0].partition(":")[0]
    words = [*itertools.takewhile(lambda word: word != "-c", command)]
    program, *others = [word for word in words if not word.startswith("-")] or command
    return Path(others[0] if others and Path(program).name.startswith("python") else program).stem


def _accepts(port: str) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(port)), timeout=1):
        return True
    return False
