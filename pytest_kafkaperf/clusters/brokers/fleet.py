"""Brokers that the plugin starts: their start, supervision, and a test's actions on them."""

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
from pytest_kafkaperf.core.errors import ClusterError, ClusterLostError, UsageError
from pytest_kafkaperf.core.notices import Event, EventKind

STOP_TIMEOUT_S = 30
"""Maximum time for a graceful shutdown, in which a broker hands over its partitions, before it is killed."""

TAIL_LINES = 20
"""Lines of a broker's log in an error text."""


def log_excerpt(tail: str) -> str:
    """Describe the last lines of a log for an error text."""
    return f"the end of its log:\n{tail}" if tail else "its log is empty"


class Server(Protocol):
    """Broker, as a process or a container. Its log files survive a stop."""

    @property
    def pid(self) -> int | None:
        """Process id on this machine; None for a container."""

    def start(self) -> None:
        """Start the broker; it is not ready immediately."""

    def stop(self, *, kill: bool) -> None:
        """Stop or kill the broker, and return when it has ended."""

    def pause(self) -> None:
        """Suspend the broker: its connections stay open, and it does not respond."""

    def resume(self) -> None:
        """Resume the broker."""

    def check(self) -> None:
        """Raise `ClusterLostError` with the reason if the broker has ended; cheap."""

    def remove(self) -> None:
        """Kill the broker and remove its resources; does nothing the second time."""

    def log_tail(self) -> str:
        """Return the last lines of the broker's log, without secrets."""

    def probes(self) -> Sequence[Probe]:
        """Return the probes of the running broker."""


@dataclass(eq=False, kw_only=True)
class Fleet:
    """Brokers of one cluster, initially configured but not started.

    Its methods may be called from any thread; calls for the same broker must not overlap.
    """

    servers: Mapping[int, Server]
    """By broker id."""
    bootstrap_servers: str
    cluster_id: str
    """New id, so that another run's broker that took the port first is not mistaken for this one."""
    security: Security
    """The protection of the listener for clients."""
    shared_probes: Mapping[str, Sequence[Probe]]
    """Probes that do not belong to one broker, by name."""
    warm_for: set[str] = field(default_factory=set)
    """Workloads for which these processes are warmed up."""
    disturbed: bool = False
    """True after an action on a broker, so that the next test gets a new cluster."""
    events: list[Event] = field(default_factory=list)
    """Actions on brokers."""
    _down: set[int] = field(default_factory=set)

    def probes(self) -> dict[Key, Sequence[Probe]]:
        """Return the probes of the brokers that should run, by id, and the shared ones, by name."""
        probes: dict[Key, Sequence[Probe]] = dict(self.shared_probes.items())
        return probes | {broker: server.probes() for broker, server in self.servers.items() if broker not in self._down}

    def check(self) -> None:
        """Raise `ClusterLostError` if a broker that should run has ended."""
        for broker, server in self.servers.items():
            if broker not in self._down:
                server.check()

    def stop(self, broker: int, *, kill: bool) -> None:
        """Stop or kill a running broker."""
        server = self._running(broker)
        self._down.add(broker)
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

    def renew(self) -> None:
        """Restart the running brokers and wait until they are ready; those that the test has stopped stay stopped.

        The shutdown is graceful: the cluster would otherwise treat a broker as alive until `broker.session.timeout.ms`
        has passed. All brokers stop at the same time: they are also controllers, and one by one the last would wait for
        a quorum.
        """
        up = {broker: server for broker, server in self.servers.items() if broker not in self._down}
        disturbed, self.disturbed = self.disturbed, True  # stays True if a step fails
        self.warm_for.clear()
        self._down.update(up)
        with ThreadPoolExecutor(max(1, len(up))) as threads:
            list(threads.map(lambda server: server.stop(kill=False), up.values()))
            list(threads.map(lambda server: server.start(), up.values()))
        self._down.difference_update(up)
        self.await_ready()
        self.disturbed = disturbed

    def restore(self) -> None:
        """Restart all brokers, including stopped or lost ones; they keep their addresses."""
        self._down.clear()
        self.renew()
        self.disturbed = False

    def pause(self, broker: int) -> None:
        """Suspend a broker."""
        server = self._running(broker)
        self._record(broker, EventKind.PAUSED)
        server.pause()

    def resume(self, broker: int) -> None:
        """Resume a paused broker."""
        self._running(broker).resume()
        self._record(broker, EventKind.RESUMED)

    def await_ready(self) -> None:
        """Wait until all brokers that should run are ready, and recreate their user, which in-memory logs lose.

        Raises:
            ClusterError: a broker has ended, or they are not ready in time.

        """
        if self.security.scram:
            self._await_ready(self.security.admin)
            password = self.security.password.get_secret_value()
            create_scram_user(self.bootstrap_servers, self.security.admin, name=USER, password=password)
        self._await_ready(self.security.access)

    def _await_ready(self, access: Access) -> None:
        wait_ready(
            self.bootstrap_servers,
            brokers=len(self.servers) - len(self._down),
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
"""Time for the brokers to get ready; three brokers on two busy cores take 20 s."""


_ATTEMPTS = 3
"""Another program can take a free port before a broker binds it; the next attempt uses other ports."""

_PORT_TAKEN = (
    "java.net.BindException",
    "Address already in use",
    "address already in use",
    "failed to bind",
    "port is already allocated",
)


@contextmanager
def launched(make: Callable[[], Fleet], *, what: str) -> Iterator[Fleet]:
    """Provide started, ready brokers, and remove them afterwards.

    Args:
        make: configures the brokers; called for each attempt.
        what: the name of the software, for error texts.

    Raises:
        ClusterError: the brokers did not start; the message contains the reason and the end of their logs.

    """
    for attempt in range(1, _ATTEMPTS + 1):
        with ExitStack() as stack:
            fleet = make()
            try:
                for server in fleet.servers.values():
                    stack.callback(server.remove)  # before the start, so that a failed start is cleaned up too
                    server.start()
                fleet.await_ready()
            except ClusterError as error:
                if attempt < _ATTEMPTS and any(sign in str(error) for sign in _PORT_TAKEN):
                    continue
                raise ClusterError(f"{what} did not start: {_with_logs(error, fleet)}") from None
            yield fleet
            return


def _with_logs(error: ClusterError, fleet: Fleet) -> str:
    """Return the error's text with the ends of the brokers' logs, unless it has one already."""
    if isinstance(error, ClusterLostError):
        return str(error)
    tails = {broker: server.log_tail() for broker, server in fleet.servers.items()}
    logs = "".join(f"\nthe end of the log of broker {broker}:\n{tail}" for broker, tail in tails.items() if tail)
    return f"{error}{logs}"
