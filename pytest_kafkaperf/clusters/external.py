"""External clusters, which are run by others. The plugin connects to them but neither starts nor changes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType

from pytest_kafkaperf.clusters.access.access import HOSTNAME, Access
from pytest_kafkaperf.clusters.access.client_properties import read_client_properties
from pytest_kafkaperf.clusters.admin.admin import LOOK_TIMEOUT_S, TIMEOUT_S
from pytest_kafkaperf.clusters.admin.connection import NotReadyError, wait_reachable
from pytest_kafkaperf.clusters.admin.wire import read_identity
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.spec import ClusterSpec, not_applied
from pytest_kafkaperf.clusters.target import is_loopback
from pytest_kafkaperf.core.environment import CLUSTER_ID
from pytest_kafkaperf.core.errors import ClusterError


def reach(
    spec: ClusterSpec,
    servers: Sequence[str],
    client_properties: Path | None,
    metrics_urls: tuple[str, ...],
    timeout_s: float,
) -> Cluster:
    """Wait up to `timeout_s` until the cluster at these servers is ready, and return it.

    Raises:
        UsageError: the client properties are invalid.
        ClusterError: the cluster is unreachable or has fewer brokers than the spec requests.

    """
    bootstrap_servers = ",".join(servers)
    access = (
        Access() if client_properties is None else read_client_properties(client_properties, servers=bootstrap_servers)
    )
    access.log_in()
    try:
        brokers = wait_reachable(bootstrap_servers, access, brokers=spec.brokers, timeout_s=timeout_s)
    except NotReadyError as error:
        raise ClusterError(f"{error}. {_advice(error, access, client_properties)}") from None
    cluster_id, _ = read_identity(bootstrap_servers, access, timeout_s=timeout_s)
    identity = {} if cluster_id is None else {CLUSTER_ID: cluster_id}
    # These fields describe brokers to start. They are ignored here so that the same test file runs on any cluster.
    ignored = not_applied(
        spec, "version", "image", "config", "security", "jmx", "heap", "log_dirs", "quick_compiler", "logs_in_memory"
    )
    return Cluster(
        bootstrap_servers=bootstrap_servers,
        brokers=brokers,
        provider="external",
        access=access,
        metrics_urls=metrics_urls,
        facts=MappingProxyType({**identity, **ignored}),
    )


def identified(cluster: Cluster) -> Cluster:
    """Return the cluster of a user's fixture with its id and its number of brokers, so that it has its own baselines.

    Sends one metadata request, unless the plugin or testcontainers started the brokers, or the id is already known. On
    this machine, a fixture may start a new cluster for each test, so the id is left out. If there is no answer, the
    cluster is returned unchanged, because the load that follows reports the reason.
    """
    if cluster.fleet is not None or cluster.containers or not cluster.facts.keys().isdisjoint((CLUSTER_ID, "image")):
        return cluster
    servers = cluster.bootstrap_servers
    is_here = all(map(is_loopback, servers.split(",")))
    try:
        if is_here or servers not in _identities:
            cluster.access.log_in()  # can take longer than the request
            timeout_s = 2 * LOOK_TIMEOUT_S if is_here else TIMEOUT_S
            _identities[servers] = read_identity(servers, cluster.access, timeout_s=timeout_s)
    except ClusterError:
        return cluster
    cluster_id, brokers = _identities[servers]
    identity = {} if is_here or cluster_id is None else {CLUSTER_ID: cluster_id}
    facts = MappingProxyType({**cluster.facts, **identity})
    return dataclasses.replace(cluster, brokers=max(cluster.brokers, brokers), facts=facts)


_identities: dict[str, tuple[str | None, int]] = {}
"""Each cluster's id and number of brokers, by its servers. A broker that restarts later is still one of them."""


def _advice(error: NotReadyError, access: Access, client_properties: Path | None) -> str:
    check = "Check the address and the port in --kafka-cluster, that the brokers are up, and that their listener is"
    if client_properties is None:
        option = "--kafka-client-config=FILE, or for --kafka-compare kafka_compare_client_config in the ini file"
        return f"{check} a PLAINTEXT one; for TLS or a login, use {option}"
    if error.login_refused and access.login is not None:
        return f"Check {access.login.to_check} in {client_properties}"
    if error.certificate is not None:
        return (
            f"The brokers' certificate is rejected ({error.certificate.verify_message}): it must be valid today, "
            f"contain the servers of --kafka-cluster and advertised.listeners (unless {HOSTNAME}= is empty), and be "
            f"issued by an authority in 'ssl.truststore.location' of {client_properties}"
        )
    return f"{check} {'an' if access.protocol == 'SSL' else 'a'} {access.protocol} one as in {client_properties}"
