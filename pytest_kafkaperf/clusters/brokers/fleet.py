"""Starting and supervising the plugin's brokers, and running a test's actions on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.admin.connection import wait_ready
from pytest_kafkaperf.clusters.admin.wire import create_scram_user
from pytest_kafkaperf.clusters.brokers.config import USER, Security
from pytest_kafkaperf.clusters.monitoring.probes import Probe
from pytest_kafkaperf.clusters.monitoring.readings import Key
from pytest_kafkaperf.core.errors import ClusterError, UsageError, warn
from pytest_kafkaperf.core.notices import Event, EventKind

STOP_TIMEOUT_S = 30
"""Maximum time for a broker to shut down gracefully and hand over its partitions before it is killed."""


@dataclass(frozen=True, slots=True)
class Exit:
    """Exit of a program that nothing stopped."""

    reason: str
    """The program and the cause, such as `broker 1 (pid 7) exited with status 1`."""
    log: str
    """The last lines of its log."""


class Server(Protocol):
    """A broker, as a process or a container. Its log files survive a stop."""

    @property
    def pid(self) -> int | None:
        """Process id on this machine; None for a container."""

    def use_compiler(self, *, quick: bool) -> None:
        """Use only the JVM's quick compiler, or all its compilers, from the next start on."""

    def start(self) -> None:
        """Start the broker; it is not ready immediately."""

    def stop(self, *, kill: bool) -> None:
        """Stop or kill the broker, and return when it has exited."""

    def pause(self) -> None:
        """Suspend the broker: its connections stay open, but it does not respond."""

    def resume(self) -> None:
        """Resume the broker."""

    def check(self) -> None:
        """Raise `ClusterLostError` with the reason if the broker has exited. The check is cheap."""

    def remove(self) -> None:
        """Kill the broker and remove its resources; do nothing when called again."""

    def log_tail(self) -> str:
        """Return the last lines of the broker's log, without secrets."""

    def probes(self) -> Sequence[Probe]:
        """Return the probes of the running broker."""


@dataclass(eq=False, kw_only=True)
class Fleet:
    """One cluster's brokers, initially configured but not started.

    The methods may be called from any thread; calls for the same broker must not overlap.
    """

    servers: Mapping[int, Server]
    """Brokers by id."""
    bootstrap_servers: str
    cluster_id: str
    """New cluster id. It ensures that another run's broker that took a port first is not mistaken for one of these."""
    security: Security
    """Protection for the client listener."""
    shared_probes: Mapping[str, Sequence[Probe]]
    """Probes that do not belong to one broker, by name."""
    quick: bool | None = None
    """True if the brokers use only the JVM's quick compiler; None if they use all compilers and cannot change that."""
    warm_for: set[str] = field(default_factory=set)
    """Workloads for which these processes are warmed up."""
    disturbed: bool = False
    """True after an action on a broker, in which case the next test gets a new cluster."""
    taken: bool = False
    """True after a test, a fixture or an application got access; it may have changed what no fact shows, such as
    quotas."""
    events: list[Event] = field(default_factory=list)
    """Actions on brokers."""
    _down: set[int] = field(default_factory=set)
    _kept_down: frozenset[int] = frozenset()
    """Stopped brokers that restarts leave stopped."""
    _paused: set[int] = field(default_factory=set)

    def probes(self) -> dict[Key, Sequence[Probe]]:
        """Return the probes of the brokers that should be running, by id, and the shared probes, by name."""
        probes: dict[Key, Sequence[Probe]] = dict(self.shared_probes.items())
        return probes | {broker: server.probes() for broker, server in self.servers.items() if broker not in self._down}

    def check(self) -> None:
        """Raise `ClusterLostError` if a broker that should be running has exited."""
        for broker, server in self.servers.items():
            if broker not in self._down:
                server.check()

    def stop(self, broker: int, *, kill: bool) -> None:
        """Stop or kill a running broker."""
        server = self._running(broker)
        self._down.add(broker)
        self._paused.discard(broker)
        self._record(broker, EventKind.KILLED if kill else EventKind.STOPPED)
        server.stop(kill=kill)

    def start(self, broker: int) -> None:
        """Start a stopped broker and wait until it is ready."""
        server = self._server(broker)
        if broker not in self._down:
            raise UsageError(f"broker {broker} is already running; stop it first: stop_broker({broker})")
        self._record(broker, EventKind.STARTED)
        server.start()
        self._down.discard(broker)
        self.await_ready()
        self._record(broker, EventKind.READY_AGAIN)

    def keep_stopped(self) -> None:
        """Keep the brokers stopped that are stopped now, which the test has done before its load."""
        self._kept_down = frozenset(self._down)

    def renew(self, *, quick: bool | None = None) -> None:
        """Restart the brokers and wait until they are ready, including those that actions in rounds have stopped.

        `quick` chooses the compilers; None to keep them.

        The shutdown is graceful, because the cluster would otherwise treat a broker as alive until
        `broker.session.timeout.ms` has passed. All brokers stop at the same time: they are also controllers, so if they
        stopped one by one, the last broker would wait for a quorum.
        """
        back = [server for broker, server in self.servers.items() if broker not in self._kept_down]
        disturbed, self.disturbed = self.disturbed, True  # stays True if a step fails
        self.warm_for.clear()
        self._down.update(self.servers)
        with ThreadPoolExecutor(len(self.servers)) as threads:
            list(threads.map(lambda server: server.stop(kill=False), self.servers.values()))
            if self.quick is not None:
                chosen = self.quick if quick is None else quick
                for server in self.servers.values():  # all of them each time, because an earlier change may have failed
                    server.use_compiler(quick=chosen)
                self.quick = chosen
            list(threads.map(lambda server: server.start(), back))
        self._down = {*self._kept_down}
        self._paused.clear()
        self.await_ready()
        self.disturbed = disturbed

    def restore(self) -> None:
        """Restart all brokers, including stopped or lost ones; they keep their addresses."""
        self._kept_down = frozenset()
        self.renew()
        self.disturbed = False

    def pause(self, broker: int) -> None:
        """Suspend a broker."""
        server = self._running(broker)
        if broker in self._paused:
            raise UsageError(f"broker {broker} is already paused; resume it first: resume_broker({broker})")
        self._paused.add(broker)
        self._record(broker, EventKind.PAUSED)
        server.pause()

    def resume(self, broker: int) -> None:
        """Resume a paused broker."""
        self._running(broker).resume()
        self._paused.discard(broker)
        self._record(broker, EventKind.RESUMED)

    def await_ready(self) -> None:
        """Wait until all brokers that should be running are ready; recreate their user, which in-memory logs lose.

        Raises:
            ClusterError: a broker has exited, or the brokers are not ready in time.

        """
        if self.security.scram:
            self._await_ready(self.security.admin)
            password = self.security.password.get_secret_value()
            create_scram_user(self.bootstrap_servers, self.security.admin, name=USER, password=password)
        self._await_ready(self.security.access)

    def _await_ready(self, access: Access) -> None:
        wait_ready(
            self.bootstrap_servers,
            brokers=len(self.servers) - len(self._down | self._paused),
            timeout_s=_READY_TIMEOUT_S,
            check=self.check,
            cluster_id=self.cluster_id,
            access=access,
        )

    def _running(self, broker: int) -> Server:
        server = self._server(broker)
        if broker in self._down:
            raise UsageError(f"broker {broker} is stopped; start it first: start_broker({broker})")
        return server

    def _server(self, broker: int) -> Server:
        server = self.servers.get(broker)
        if server is None:
            raise UsageError(f"no broker {broker!r} in this cluster; its brokers are {sorted(self.servers)}")
        return server

    def _record(self, broker: int, kind: EventKind) -> None:
        self.disturbed = True
        self.events.append(Event(time.monotonic_ns(), kind, f"broker {broker}"))


_READY_TIMEOUT_S = 90
"""Maximum time for the brokers to become ready; three brokers on two busy cores take 20 s."""


_ATTEMPTS = 3
"""Maximum number of attempts with different ports. Another program can take a free port before a broker binds it."""

_PORT_TAKEN = (
    "java.net.BindException",
    "Address already in use",
    "address already in use",
    "failed to bind",
    "port is already allocated",
)


@contextmanager
def launched(make: Callable[[], Fleet], *, what: str) -> Iterator[Fleet]:
    """Start brokers, provide them when they are ready, and remove them afterwards.

    Args:
        make: configures the brokers; called for each attempt.
        what: the name of the software, for error messages.

    Raises:
        ClusterError: the brokers did not start; the message contains the reason and the end of their logs.

    """
    for attempt in range(1, _ATTEMPTS + 1):
        with ExitStack() as stack:
            fleet = make()
            try:
                for server in fleet.servers.values():
                    stack.callback(_remove, server)  # before the start, so that a failed start is also cleaned up
                    server.start()
                fleet.await_ready()
            except ClusterError as error:
                if attempt < _ATTEMPTS and any(sign in str(error) for sign in _PORT_TAKEN):
                    continue
                raise ClusterError(f"{what} did not start: {error.reason}", log=_log_of(error, fleet)) from None
            yield fleet
            return


def _remove(server: Server) -> None:
    """Remove a broker; a failure causes only a warning, because an error would hide an earlier one."""
    try:
        server.remove()
    except ClusterError as error:
        warn(str(error))


def _log_of(error: ClusterError, fleet: Fleet) -> str | None:
    """Return the end of the log of the broker that failed or, if that is unknown, of all brokers' logs."""
    if error.log is not None:
        return error.log
    tails = {broker: server.log_tail() for broker, server in fleet.servers.items()}
    if len(tails) == 1:
        return next(iter(tails.values()))
    return "\n".join(f"broker {broker}:\n{tail}" for broker, tail in tails.items() if tail)
