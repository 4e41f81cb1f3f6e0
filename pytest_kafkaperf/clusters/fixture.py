"""What a `kafka_cluster` fixture of the application gives."""

from __future__ import annotations

from pytest_kafkaperf.clusters.spec import Cluster
from pytest_kafkaperf.errors import UsageError
from pytest_kafkaperf.target import parse_target

_TAKEN = ("client_config", "brokers", "version")


def as_cluster(given: object) -> Cluster:
    """The cluster that it names.

    It may give a `Cluster`, the text `HOST:PORT`, or any object with `bootstrap_servers` and perhaps
    `client_config`, `brokers` and `version`.

    Raises:
        UsageError: none of these.

    """
    if isinstance(given, Cluster):
        return given
    servers = given if isinstance(given, str) else getattr(given, "bootstrap_servers", None)
    if isinstance(servers, list | tuple):
        servers = ",".join(map(str, servers))
    if not isinstance(servers, str):
        raise UsageError(
            f"the kafka_cluster fixture gave {type(given).__name__}; give a pytest_kafkaperf.Cluster, the text "
            "'HOST:PORT', or an object with 'bootstrap_servers'"
        )
    parse_target(servers)
    extra = {name: getattr(given, name) for name in _TAKEN if hasattr(given, name)}
    return Cluster(bootstrap_servers=servers, **extra)
