"""The `local` provider: brokers as child processes, in KRaft combined mode."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import shutil
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import javaproperties
import psutil

from pytest_kafkaperf.clusters.brokers import distribution, java, jmx_exporter
from pytest_kafkaperf.clusters.brokers.config import (
    CLIENT,
    LISTENERS,
    Files,
    Node,
    Security,
    broker_properties,
    new_uuid,
)
from pytest_kafkaperf.clusters.brokers.distribution import Distribution
from pytest_kafkaperf.clusters.brokers.fleet import STOP_TIMEOUT_S, Fleet, launched
from pytest_kafkaperf.clusters.brokers.java import Java
from pytest_kafkaperf.clusters.brokers.run_folders import PROPERTIES, run_folder
from pytest_kafkaperf.clusters.child_process import ChildProcess
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.monitoring.probes import ExporterProbe, MachineProbe, Probe, ProcessProbe
from pytest_kafkaperf.clusters.spec import QUICK_JVM_OPTIONS, ClusterSpec, facts_of, not_applied
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from pytest_kafkaperf.core.errors import ClusterError, ClusterLostError
from pytest_kafkaperf.core.signals import without_interrupt
from pytest_kafkaperf.core.spans import Span, Stopwatch
from pytest_kafkaperf.core.units import Unit, format_quantity

_HOST = "127.0.0.1"
_KEYSTORE = "keystore.pem"
_KEYS = "token-keys.json"
_AGENT = "jmx-exporter.yml"
_PORTS = range(15_000, 30_000)
"""Ports below the range for outgoing connections, one of which could otherwise take a stopped broker's port."""
_PORT_ATTEMPTS = 100

_MEMORY = Path("/dev/shm")  # noqa: S108 - the folder in it has a random name, and belongs to the user alone
_LEAST_MEMORY = 2 << 30
"""Minimum memory for a broker's logs in bytes, enough for several seconds of full load."""

_JVM_OPTIONS = (
    # From Kafka's bin/kafka-run-class.sh, KAFKA_JVM_PERFORMANCE_OPTS.
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    # A broker that runs out of memory must exit and make the round INVALID instead of continuing slowly.
    "-XX:+ExitOnOutOfMemoryError",
    # The JVM's statistics stay in memory, so that a killed broker leaves no files.
    "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)


@contextmanager
def start(spec: ClusterSpec, stopwatch: Stopwatch) -> Iterator[Cluster]:
    """Start brokers, provide them when they are ready, and remove their processes and files afterwards.

    The stopwatch records download times as `Span.FETCH`.

    Raises:
        ClusterError: Java or Kafka is missing, or a broker did not start; the message contains the fix.

    """
    cache = distribution.cache_folder()
    disks = _disks(spec)
    runtime = java.find()
    with stopwatch.measure(Span.FETCH):
        kafka = distribution.installed(spec.version or DEFAULT_VERSION, java=runtime, cache=cache)
    security = Security.make(spec.security, [_HOST, "localhost"])
    with ExitStack() as stack:
        folder = stack.enter_context(run_folder(cache / "runs"))
        logs = [stack.enter_context(run_folder(disk)) for disk in disks]
        if spec.logs_in_memory:
            _check_memory(spec)  # only now, after leftovers of killed runs have been removed
        with stopwatch.measure(Span.FETCH):
            agent = jmx_exporter.jar(cache) if spec.jmx else None
        layout = Layout(
            spec=spec, runtime=runtime, kafka=kafka, security=security, agent=agent, folder=folder, logs=tuple(logs)
        )
        with launched(layout.plan, what=f"Kafka {kafka.version}") as fleet:
            facts = {
                "java": runtime.description,
                **java.environment_options(),
                **({} if spec.log_dirs is None or spec.logs_in_memory else {"log.dirs": spec.log_dirs}),
                **not_applied(spec, "image", *(["log_dirs"] if spec.logs_in_memory else [])),
                **facts_of(spec),
            }
            yield Cluster.of_fleet(fleet, provider="local", version=kafka.version, facts=facts)


def _disks(spec: ClusterSpec) -> list[Path]:
    """Return the folders that will contain the brokers' logs; empty to keep the logs in the cache folder.

    Raises:
        ClusterError: a folder does not exist or is unsuitable; the message contains the fix.

    """
    if spec.logs_in_memory:
        return [_MEMORY] if _MEMORY.is_mount() else []
    disks = [] if spec.log_dirs is None else [Path(part.strip()).resolve() for part in spec.log_dirs.split(",")]
    for disk in disks:
        if not disk.is_dir():  # do not create it, because a misspelled path could be on a different disk
            raise ClusterError(f"log_dirs: no such folder {disk}; create it on the intended disk")
        if "," in str(disk):  # the target of a link
            raise ClusterError(
                f"log_dirs: the path {disk} contains a comma, which separates the folders of Kafka's log.dirs; give "
                "another folder on that disk"
            )
        if (disk / "meta.properties").exists():
            raise ClusterError(
                f"log_dirs: {disk} contains meta.properties, so it is the log folder of another broker; "
                "give another folder on that disk"
            )
    return disks


def _check_memory(spec: ClusterSpec) -> None:
    """Raise ClusterError if the system has no in-memory folder, or too little memory for a round's logs."""
    free = min(shutil.disk_usage(_MEMORY).free, psutil.virtual_memory().available) if _MEMORY.is_mount() else 0
    needed = spec.brokers * _LEAST_MEMORY
    if free < needed:
        raise ClusterError(
            f"logs_in_memory: {_MEMORY} has {format_quantity(free, Unit.BYTES)} of free memory, but the brokers' logs "
            f"need {format_quantity(needed, Unit.BYTES)}; free some memory, or omit logs_in_memory"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The brokers' configuration: files and command lines."""

    spec: ClusterSpec
    runtime: Java
    kafka: Distribution
    security: Security
    agent: Path | None
    """The JMX exporter's jar; None to run without an exporter."""
    folder: Path
    logs: tuple[Path, ...] = ()
    """Folders on other disks for the brokers' logs; empty to keep the logs in `folder`."""

    def plan(self) -> Fleet:
        """Configure the brokers on ports that are currently free.

        Raises:
            ClusterError: the brokers' files cannot be written.

        """
        nodes = _nodes(self.spec.brokers)
        cluster_id = new_uuid()
        try:
            servers = {node.id: self._server(node, nodes, cluster_id) for node in nodes}
        except OSError as error:
            reason = error.args[0][0][-1] if isinstance(error, shutil.Error) else error  # the first of several files
            raise ClusterError(
                f"cannot write the brokers' files: {reason}; free disk space, or use other folders: log_dirs, or "
                f"{distribution.CACHE_VARIABLE} for all files"
            ) from None
        return Fleet(
            servers=servers,
            bootstrap_servers=",".join(node.advertised[CLIENT] for node in nodes),
            cluster_id=cluster_id,
            security=self.security,
            quick=self.spec.quick_compiler,
            shared_probes={"machine": [MachineProbe()]},
        )

    def _server(self, node: Node, nodes: Sequence[Node], cluster_id: str) -> Process:
        home = self.folder / f"broker-{node.id}"
        shutil.rmtree(home, ignore_errors=True)
        (home / "tmp").mkdir(parents=True)
        folders = [logs / f"broker-{node.id}" for logs in self.logs] or [home / "data"]
        for number, data in enumerate(folders):
            shutil.rmtree(data, ignore_errors=True)
            if number == 0:
                self.kafka.copy_storage(data)  # with the metadata log, which Kafka 4.4 refuses in other folders
            else:
                data.mkdir(parents=True)
            meta = {"version": "1", "cluster.id": cluster_id, "node.id": str(node.id), "directory.id": new_uuid()}
            _write(data / "meta.properties", meta)
        files = Files(keystore=str(home / _KEYSTORE), keys=str(home / _KEYS))
        for path, content in ((home / _KEYSTORE, self.security.keystore), (home / _KEYS, self.security.keys)):
            if content is not None:
                path.touch(mode=0o600)
                path.write_text(content, encoding="ascii")
        log_folder = ",".join(map(str, folders))
        config = self.spec.config
        properties = broker_properties(node, nodes, self.security, log_folder=log_folder, files=files, config=config)
        _write(home / PROPERTIES, properties)
        options, url = ([], None) if self.agent is None else _with_agent(self.agent, home)
        options += self.security.java_options(files)
        return Process(
            node.id,
            functools.partial(self._command, home, options),
            folder=home,
            quick=bool(self.spec.quick_compiler),
            exporter_url=url,
            redact=self.security.redact,
        )

    def _command(self, home: Path, options: Sequence[str], *, quick: bool) -> list[str | Path]:
        return [
            self.runtime.path,
            *options,
            f"-Xms{self.spec.heap}",
            f"-Xmx{self.spec.heap}",
            *_JVM_OPTIONS,
            *(QUICK_JVM_OPTIONS if quick else ()),
            f"-Djava.io.tmpdir={home / 'tmp'}",  # native compression libraries are unpacked here
            "-cp",
            os.pathsep.join(map(str, self.kafka.classpath)),
            "kafka.Kafka",
            home / PROPERTIES,
        ]


class Process(ChildProcess):
    """A broker as a child process."""

    def __init__(
        self,
        broker: int,
        command: Callable[..., Sequence[str | Path]],
        *,
        folder: Path,
        quick: bool,
        exporter_url: str | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        super().__init__(f"broker {broker}", folder / "broker.log", stop_timeout_s=STOP_TIMEOUT_S, redact=redact)
        self._command = command
        """Returns the command line; its argument `quick` chooses the compilers."""
        self._quick = quick
        self._folder = folder
        self._exporter = None if exporter_url is None else ExporterProbe(exporter_url)

    def use_compiler(self, *, quick: bool) -> None:
        """Choose the compilers of the next start."""
        self._quick = quick

    def start(self) -> None:
        """Start the process; raise `ClusterError` if that fails."""
        try:
            self.launch(self._command(quick=self._quick), folder=self._folder)
        except OSError as error:  # for example, because there are too many processes
            raise ClusterError(f"could not start {self._name}: {error}") from None

    def pause(self) -> None:
        """Suspend the process with SIGSTOP."""
        self.check()
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the process with SIGCONT."""
        self.check()
        self.signal(signal.SIGCONT)

    def remove(self) -> None:
        """Kill the process; its data is removed with its folder, so a graceful shutdown is unnecessary."""
        with without_interrupt():
            self.retire()
            self.stop(kill=True)

    def check(self) -> None:
        """Check the state of the process.

        Raises:
            ClusterLostError: the process has exited; the message contains the cause and the last lines of its log.

        """
        if (failure := self.failure()) is not None:
            raise ClusterLostError(failure.reason, log=failure.log)

    def probes(self) -> Sequence[Probe]:
        """Return the process's probe and, if there is a JMX exporter, the exporter's probe."""
        own: list[Probe] = [] if self.pid is None else [ProcessProbe(self.pid)]
        return own if self._exporter is None else [*own, self._exporter]


def _with_agent(jar: Path, home: Path) -> tuple[list[str], str]:
    """Return the Java option that loads the JMX exporter, and the exporter's URL."""
    (port,) = free_ports(1)
    configuration = home / _AGENT
    configuration.write_text(jmx_exporter.configuration(), encoding="ascii")
    return [jmx_exporter.option(jar, configuration, port)], jmx_exporter.url(f"{_HOST}:{port}")


def _nodes(brokers: int) -> list[Node]:
    """Return the given number of brokers on loopback ports that are currently free."""
    ports = iter(free_ports(brokers * len(LISTENERS)))
    addresses = [{listener: f"{_HOST}:{next(ports)}" for listener in LISTENERS} for _ in range(brokers)]
    return [Node(id=number, bound=each, advertised=each) for number, each in enumerate(addresses, 1)]


def free_ports(count: int) -> list[int]:
    """Return currently free loopback ports that no client's connection will use while a broker restarts."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        return [_bind(each) for each in sockets]


def _bind(unbound: socket.socket) -> int:
    for port in random.sample(_PORTS, _PORT_ATTEMPTS):
        with contextlib.suppress(OSError):
            unbound.bind((_HOST, port))
            return port
    raise ClusterError(f"none of {_PORT_ATTEMPTS} random ports from {_PORTS[0]} to {_PORTS[-1]} is free")


def _write(path: Path, properties: Mapping[str, str]) -> None:
    """Write a properties file that only the user can read, because it may contain passwords."""
    path.touch(mode=0o600)
    path.write_text(javaproperties.dumps(properties, timestamp=False), encoding="latin-1")
