"""The start of the brokers of a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from pytest_kafkaperf.clusters.brokers.config import USER, Security
from pytest_kafkaperf.clusters.brokers.fleet import BrokerPlan, Fleet
from pytest_kafkaperf.clusters.spec import Cluster
from pytest_kafkaperf.core.errors import ClusterError, ClusterLostError

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
def launched(make: Callable[[], BrokerPlan], *, what: str, security: Security) -> Iterator[Cluster]:
    """Provide a cluster of started, ready brokers, and remove them afterwards.

    Args:
        make: plans the brokers; called for each attempt.
        what: the name of the software, for error texts.
        security: the protection of the listener for clients.

    Raises:
        ClusterError: the brokers did not start; has the reason and the end of their logs.

    """
    for attempt in range(1, _ATTEMPTS + 1):
        with ExitStack() as stack:
            plan = make()
            fleet = Fleet(plan, security.access)
            try:
                for server in plan.servers.values():
                    stack.callback(server.remove)  # before the start, so that a failed start is cleaned up too
                    server.start()
                if security.scram:
                    fleet.await_ready(security.admin)
                    _create_user(plan, security)
                fleet.await_ready()
            except ClusterError as error:
                if attempt < _ATTEMPTS and any(sign in str(error) for sign in _PORT_TAKEN):
                    continue
                raise ClusterError(f"{what} did not start: {_with_logs(error, plan)}") from None
            yield Cluster(
                bootstrap_servers=plan.bootstrap_servers,
                brokers=len(plan.servers),
                access=security.access,
                fleet=fleet,
            )
            return


def _create_user(plan: BrokerPlan, security: Security) -> None:
    from pytest_kafkaperf.clusters.client.credentials import create_scram_user  # noqa: PLC0415 - only for SCRAM

    create_scram_user(plan.bootstrap_servers, security.admin, name=USER, password=security.password.get_secret_value())


def _with_logs(error: ClusterError, plan: BrokerPlan) -> str:
    """Return the error's text with the ends of the brokers' logs, unless it has one already."""
    if isinstance(error, ClusterLostError):
        return str(error)
    tails = {broker: server.log_tail() for broker, server in plan.servers.items()}
    logs = "".join(f"\nthe end of the log of broker {broker}:\n{tail}" for broker, tail in tails.items() if tail)
    return f"{error}{logs}"
