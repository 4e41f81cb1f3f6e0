"""Servers that somebody else runs: reached, and never changed but for what crashed runs have left there."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType

from pytest_kafkaperf.clusters.access import Access
from pytest_kafkaperf.clusters.access.client_properties import read_client_properties
from pytest_kafkaperf.clusters.client.readiness import NotReadyError, wait_ready
from pytest_kafkaperf.clusters.spec import Cluster, ClusterSpec
from pytest_kafkaperf.core.errors import ClusterError

_TIMEOUT_S = 15
_PAUSE_S = 0.5

_NOT_APPLIED = ("version", "image", "config", "security", "jmx", "heap", "log_dirs")
"""What a spec says about a broker to start; the same test file runs on both kinds of cluster."""


def reach(
    spec: ClusterSpec, servers: Sequence[str], client_properties: Path | None, metrics_urls: tuple[str, ...]
) -> Cluster:
    """Give the cluster at these servers once it is ready, swept of what crashed runs have left there.

    Raises:
        UsageError: the client properties cannot be used.
        ClusterError: it cannot be reached, or has fewer brokers than the spec asks for.

    """
    from pytest_kafkaperf.clusters.client.admin import Admin  # noqa: PLC0415 - brings in aiokafka

    named = ",".join(servers)
    access = Access() if client_properties is None else read_client_properties(client_properties)
    try:
        seen = wait_ready(named, brokers=spec.brokers, timeout_s=_TIMEOUT_S, pause_s=_PAUSE_S, access=access)
    except NotReadyError as error:
        raise ClusterError(f"{error}. {_advice(error, access, client_properties)}") from None
    with contextlib.suppress(ClusterError):  # nothing depends on it, and the next run tries again
        Admin(named, access).sweep()
    return Cluster(
        bootstrap_servers=named,
        brokers=seen,
        provider="external",
        access=access,
        metrics_urls=metrics_urls,
        facts=MappingProxyType(_facts(spec)),
    )


def _advice(error: NotReadyError, access: Access, client_properties: Path | None) -> str:
    what = "Check the address and the port in --kafka-cluster, that the brokers are up, and that their listener is"
    if client_properties is None:
        return f"{what} a PLAINTEXT one; how to log in elsewhere, --kafka-client-config=FILE tells"
    if error.login_refused:
        return f"Check the user name, the password and 'sasl.mechanism' in {client_properties}"
    if error.certificate_refused:
        return (
            f"Check that 'ssl.truststore.location' in {client_properties} has the certificate of the brokers' "
            "authority, and that the brokers' certificates name the addresses in --kafka-cluster"
        )
    return f"{what} {'an' if access.protocol == 'SSL' else 'a'} {access.protocol} one as in {client_properties}"


def _facts(spec: ClusterSpec) -> dict[str, str]:
    not_applied = [name for name in _NOT_APPLIED if getattr(spec, name) != _DEFAULT[name]]
    return {"not applied": ", ".join(not_applied)} if not_applied else {}


_DEFAULT = ClusterSpec().model_dump()
