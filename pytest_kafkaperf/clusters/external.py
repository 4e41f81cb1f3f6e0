"""Servers that somebody else runs: reached, never changed."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from pytest_kafkaperf.clusters.spec import Cluster, ClusterSpec
from pytest_kafkaperf.errors import ClusterError
from pytest_kafkaperf.load.readiness import wait_ready

if TYPE_CHECKING:
    from collections.abc import Sequence

_TIMEOUT_S = 15
_PAUSE_S = 0.5

_NOT_APPLIED = ("version", "config", "heap")
"""What a spec says about a broker to start; the same test file runs on both kinds of cluster."""


def reach(spec: ClusterSpec, servers: Sequence[str]) -> Cluster:
    """Give the cluster at these servers once it is ready.

    Raises:
        ClusterError: it cannot be reached, or has fewer brokers than the spec asks for.

    """
    from pytest_kafkaperf.load.features import version_of  # noqa: PLC0415 - brings in aiokafka

    named = ",".join(servers)
    try:
        sight = wait_ready(named, brokers=spec.brokers, timeout_s=_TIMEOUT_S, pause_s=_PAUSE_S)
    except ClusterError as error:
        raise ClusterError(
            f"{error}. Check the address and the port in --kafka-cluster, that the brokers are up, "
            "and that their listener is a PLAINTEXT one: TLS and SASL come in a later version"
        ) from None
    return Cluster(
        bootstrap_servers=named,
        brokers=sight.brokers,
        provider="external",
        version=version_of(sight.features),
        facts=MappingProxyType(_facts(spec, sight.features.get("metadata.version"))),
    )


def _facts(spec: ClusterSpec, metadata_version: int | None) -> dict[str, str]:
    facts = {}
    if metadata_version is not None:
        facts["metadata.version"] = str(metadata_version)
    not_applied = [name for name in _NOT_APPLIED if getattr(spec, name) != _DEFAULT[name]]
    if not_applied:
        facts["not applied"] = ", ".join(not_applied)
    return facts


_DEFAULT = ClusterSpec().model_dump()
