"""The start of the brokers of a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from pytest_kafkaperf.clusters.brokers.config import USER, Security
from pytest_kafkaperf.clusters.brokers.fleet import Fleet
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
def launched(make: Callable[[], Fleet], *, what: str, security: Security) -> Iterator[Cluster]:
    """Provide a cluster of started, ready brokers, and remove them afterwards.

    Args:
        make: configures the brokers; called for each attempt.
        what: the name of the software, for error texts.
        security: the protection of the listener for clients.

    Raises:
        ClusterError: the brokers did not start; has the reason and the end of their logs.

    """
    for attempt in range(1, _ATTEMPTS + 1):
        with ExitStack() as stack:
            fleet = make()
            try:
                for server in fleet.servers.values():
                    stack.callback(server.remove)  # before the start, so that a failed start is cleaned up too
                    server.start()
                if security.scram:
                    fleet.await_ready(security.admin)
                    _create_user(fleet, security)
                fleet.await_ready()
            except ClusterError as error:
                if attempt < _ATTEMPTS and any(sign in str(error) for sign in _PORT_TAKEN):
                    continue
                raise ClusterError(f"{what} did not start: {_with_logs(error, fleet)}") from None
            yield Cluster(
                bootstrap_servers=fleet.bootstrap_servers,
                brokers=len(fleet.servers),
                access=security.access,
                fleet=fleet,
            )
            return


def _create_user(fleet: Fleet, security: Security) -> None:
    from pytest_kafkaperf.clusters.client.credentials import create_scram_user  # noqa: PLC0415 - only for SCRAM

    create_scram_user(fleet.bootstrap_servers, security.admin, name=USER, password=security.password.get_secret_value())


def _with_logs(error: ClusterError, fleet: Fleet) -> str:
    """Return the error's text with the ends of the brokers' logs, unless it has one already."""
    if isinstance(error, ClusterLostError):
        return str(error)
    tails = {broker: server.log_tail() for broker, server in fleet.servers.items()}
    logs = "".join(f"\nthe end of the log of broker {broker}:\n{tail}" for broker, tail in tails.items() if tail)
    return f"{error}{logs}"
