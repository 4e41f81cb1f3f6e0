"""How brokers are brought up, whatever they run in: all at once, on other ports again, ready when clients say so."""

from __future__ import annotations

import functools
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kafkaperf.access import Access
from pytest_kafkaperf.clusters.fleet import Fleet
from pytest_kafkaperf.clusters.security import USER
from pytest_kafkaperf.errors import ClusterError, ClusterLostError
from pytest_kafkaperf.load.readiness import Sight, wait_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pytest_kafkaperf.clusters.fleet import Server
    from pytest_kafkaperf.clusters.probes import Probe
    from pytest_kafkaperf.clusters.security import Security

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
class Plan:
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
    sight: Sight
    """What the cluster tells about itself."""


@contextmanager
def launched(make: Callable[[], Plan], *, what: str, security: Security | None) -> Iterator[Launched]:
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
                sight = _wait(plan, access, len(plan.servers))
            except ClusterError as error:
                if attempt < _ATTEMPTS and any(sign in str(error) for sign in _PORT_TAKEN):
                    continue
                raise ClusterError(f"{what} did not start: {_told(error, plan)}") from None
            yield Launched(fleet=fleet, bootstrap_servers=plan.bootstrap_servers, access=access, sight=sight)
            return


def _start(plan: Plan, stack: ExitStack) -> None:
    for server in plan.servers.values():
        stack.callback(server.remove)  # before: what a failed start leaves goes, too
        server.start()


def _wait(plan: Plan, access: Access, brokers: int) -> Sight:
    def still_possible() -> None:
        if brokers == len(plan.servers):  # otherwise some are stopped on purpose
            for server in plan.servers.values():
                server.check()

    return wait_ready(
        plan.bootstrap_servers,
        brokers=brokers,
        timeout_s=_READY_TIMEOUT_S,
        pause_s=_READY_PAUSE_S,
        still_possible=still_possible,
        cluster_id=plan.cluster_id,
        access=access,
    )


def _create_user(plan: Plan, security: Security) -> None:
    from pytest_kafkaperf.load.credentials import create_scram_user  # noqa: PLC0415 - only where there is SCRAM

    create_scram_user(plan.bootstrap_servers, security.admin, name=USER, password=security.password.get_secret_value())


def _told(error: ClusterError, plan: Plan) -> str:
    """The reason, with the logs where it does not tell one already."""
    if isinstance(error, ClusterLostError):
        return str(error)
    tails = {broker: server.log_tail() for broker, server in plan.servers.items()}
    logs = "".join(f"\nthe end of the log of broker {broker}:\n{tail}" for broker, tail in tails.items() if tail)
    return f"{error}{logs}"
