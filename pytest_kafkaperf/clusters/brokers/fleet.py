"""The brokers that a session owns: which are to run, whether they do, and what a test does to them."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from pytest_kafkaperf.clusters.access import Access
from pytest_kafkaperf.clusters.brokers.config import USER, Security
from pytest_kafkaperf.clusters.client.readiness import wait_ready
from pytest_kafkaperf.clusters.monitoring.probes import Probe
from pytest_kafkaperf.core.errors import ClusterError, ClusterLostError, UsageError

STOP_TIMEOUT_S = 30
"""For an orderly end, in which a broker hands its partitions over; then it is killed."""

TAIL_LINES = 20
"""Of a broker's log, that an error shows."""


def last_words(tail: str) -> str:
    """What an error says of a log, given its end."""
    return f"the end of its log:\n{tail}" if tail else "its log is empty"


class Server(Protocol):
    """One broker, as a process or as a container. Its data outlives a stop."""

    @property
    def pid(self) -> int | None:
        """Its process on this machine, where it is one."""

    def start(self) -> None:
        """Start it; it is not ready at once."""

    def stop(self, *, kill: bool) -> None:
        """End it, in order or at once, and return when it is gone."""

    def pause(self) -> None:
        """Let it stand still: its connections stay open, and nothing is answered."""

    def resume(self) -> None:
        """Let it go on."""

    def check(self) -> None:
        """Raise `ClusterLostError` with the reason when it is gone; cheap."""

    def remove(self) -> None:
        """End it at once, and remove what it leaves; does nothing where that was done."""

    def log_tail(self) -> str:
        """The last lines of its log, without secrets."""

    def probes(self) -> Sequence[Probe]:
        """What can be read of it while it runs."""


class Fleet:
    """All brokers of one cluster, by id. Its methods may be called from any thread, one broker from one at a time.

    `await_ready(n)` waits until `n` brokers are ready, within a bound.
    """

    def __init__(
        self,
        servers: Mapping[int, Server],
        await_ready: Callable[[int], object],
        shared_probes: Mapping[str, Sequence[Probe]],
    ) -> None:
        self.servers = servers
        self._shared_probes = shared_probes
        self._await_ready = await_ready
        self._down: set[int] = set()
        self.preheated: set[str] = set()
        """Loads that these processes have seen since they started, so that they are no news to them."""
        self.disturbed = False
        """Whether anything was done to a broker: the next test deserves another cluster."""
        self.events: list[tuple[int, str]] = []
        """What was done, each with its instant on the monotonic clock, in ns."""

    def probes(self) -> dict[str | int, Sequence[Probe]]:
        """What can be read of the brokers that are to run, by their ids, and of what they share."""
        found: dict[str | int, Sequence[Probe]] = dict(self._shared_probes.items())
        return found | {broker: server.probes() for broker, server in self.servers.items() if broker not in self._down}

    def check(self) -> None:
        """Raise `ClusterLostError` when a broker that is to run is gone."""
        for broker, server in self.servers.items():
            if broker not in self._down:
                server.check()

    def stop(self, broker: int, *, kill: bool) -> None:
        """End a broker that runs."""
        server = self._server(broker)
        if broker in self._down:
            raise UsageError(f"broker {broker} is stopped already; start it first: start_broker({broker})")
        self._down.add(broker)
        self._note(f"broker {broker} {'killed' if kill else 'stopped'}")
        server.stop(kill=kill)

    def start(self, broker: int) -> None:
        """Start a broker that was stopped, and wait until it is ready."""
        server = self._server(broker)
        if broker not in self._down:
            raise UsageError(f"broker {broker} runs already; stop it first: stop_broker({broker})")
        self._note(f"broker {broker} started")
        server.start()
        self._down.discard(broker)
        self._await_ready(len(self.servers) - len(self._down))
        self._note(f"broker {broker} ready again")

    def renew(self) -> None:
        """End the brokers that run and start them anew; returns when they are ready.

        In order, or the cluster would take a broker for alive until its session times out; and all at the same time,
        for they are controllers, too: the last ones of a row would wait for a quorum. What they have been told to keep,
        such as topics, quotas and users, they find again. A broker that the test has stopped stays so.
        """
        up = {broker: server for broker, server in self.servers.items() if broker not in self._down}
        disturbed, self.disturbed = self.disturbed, True  # unless all goes well
        self.preheated.clear()
        self._down.update(up)
        with ThreadPoolExecutor(max(1, len(up))) as threads:
            list(threads.map(lambda server: server.stop(kill=False), up.values()))
            list(threads.map(lambda server: server.start(), up.values()))
        self._down.difference_update(up)
        self._await_ready(len(up))
        self.disturbed = disturbed

    def pause(self, broker: int) -> None:
        """Let a broker stand still."""
        server = self._running(broker)
        self._note(f"broker {broker} paused")
        server.pause()

    def resume(self, broker: int) -> None:
        """Let a broker go on."""
        server = self._running(broker)
        server.resume()
        self._note(f"broker {broker} resumed")

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

    def _note(self, text: str) -> None:
        self.disturbed = True
        self.events.append((time.monotonic_ns(), text))


_READY_TIMEOUT_S = 90
"""Of a cluster whose processes live; three brokers on two busy cores take 20 s."""

_READY_PAUSE_S = 0.05

_ATTEMPTS = 3
"""A free port can be taken by someone else before a broker binds it; then it is tried with others."""

_PORT_TAKEN = (
    "java.net.BindException",
    "Address already in use",
    "address already in use",
    "failed to bind",
    "port is already allocated",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPlan:
    """Brokers that are laid out and not started."""

    servers: Mapping[int, Server]
    """By broker id."""
    bootstrap_servers: str
    shared_probes: Mapping[str, Sequence[Probe]] = field(default_factory=dict)
    """What can be read that is not of one broker."""
    cluster_id: str
    """A new one, so that another session's broker, on a port that it was quicker to take, is not mistaken for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """Brokers that are ready."""

    fleet: Fleet
    bootstrap_servers: str
    access: Access
    """How clients get in."""


@contextmanager
def launched(make: Callable[[], BrokerPlan], *, what: str, security: Security | None) -> Iterator[Launched]:
    """Give brokers that are ready, and remove them in the end.

    Raises:
        ClusterError: it did not start; `what`, the reason, and the end of the brokers' logs.

    """
    access = Access() if security is None else security.access
    for attempt in range(1, _ATTEMPTS + 1):
        with ExitStack() as stack:
            plan = make()
            fleet = Fleet(plan.servers, functools.partial(_wait, plan, access), plan.shared_probes)
            try:
                _start(plan, stack)
                if security is not None and security.scram:
                    _wait(plan, security.admin, len(plan.servers))
                    _create_user(plan, security)
                _wait(plan, access, len(plan.servers))
            except ClusterError as error:
                if attempt < _ATTEMPTS and any(sign in str(error) for sign in _PORT_TAKEN):
                    continue
                raise ClusterError(f"{what} did not start: {_told(error, plan)}") from None
            yield Launched(fleet=fleet, bootstrap_servers=plan.bootstrap_servers, access=access)
            return


def _start(plan: BrokerPlan, stack: ExitStack) -> None:
    for server in plan.servers.values():
        stack.callback(server.remove)  # before: what a failed start leaves goes, too
        server.start()


def _wait(plan: BrokerPlan, access: Access, brokers: int) -> None:
    def still_possible() -> None:
        if brokers == len(plan.servers):  # otherwise some are stopped on purpose
            for server in plan.servers.values():
                server.check()

    wait_ready(
        plan.bootstrap_servers,
        brokers=brokers,
        timeout_s=_READY_TIMEOUT_S,
        pause_s=_READY_PAUSE_S,
        still_possible=still_possible,
        cluster_id=plan.cluster_id,
        access=access,
    )


def _create_user(plan: BrokerPlan, security: Security) -> None:
    from pytest_kafkaperf.clusters.client.credentials import create_scram_user  # noqa: PLC0415 - only where there is SCRAM

    create_scram_user(plan.bootstrap_servers, security.admin, name=USER, password=security.password.get_secret_value())


def _told(error: ClusterError, plan: BrokerPlan) -> str:
    """The reason, with the logs where it does not tell one already."""
    if isinstance(error, ClusterLostError):
        return str(error)
    tails = {broker: server.log_tail() for broker, server in plan.servers.items()}
    logs = "".join(f"\nthe end of the log of broker {broker}:\n{tail}" for broker, tail in tails.items() if tail)
    return f"{error}{logs}"
