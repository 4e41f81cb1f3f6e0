"""Clusters to run load on: what a test asks for, and the providers that bring it up.

    with provision(ClusterSpec(), target="local") as cluster:
        ...  # cluster.bootstrap_servers

Importing this package loads no provider: jgo, docker, aiokafka and psutil come in when a cluster starts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pytest_kafkaperf.clusters.spec import CONFIG, OWN_PROPERTIES, Cluster, ClusterSpec
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION, Docker, External, Local, Target, resolve
from pytest_kafkaperf.core.errors import ClusterError, UsageError

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.client.admin import Property


@contextmanager
def provision(
    spec: ClusterSpec,
    *,
    target: Target | str = "auto",
    client_properties: Path | None = None,
    metrics_urls: tuple[str, ...] = (),
) -> Iterator[Cluster]:
    """Give a cluster that is ready, and leave nothing of it behind. Call it where no event loop runs.

    Args:
        spec: what is asked for.
        target: the text of `--kafka-cluster`.
        client_properties: the file of `--kafka-client-config`, for named servers.
        metrics_urls: the addresses of `--kafka-metrics-url`, for named servers.

    Raises:
        UsageError: what is asked for cannot be; nothing was started.
        ClusterError: the cluster did not start, or cannot be reached.

    """
    check(target, client_properties, metrics_urls)
    with ExitStack() as stack:
        match resolve(target):
            case Local():
                from pytest_kafkaperf.clusters import local  # noqa: PLC0415 - psutil, filelock: not on import

                cluster = stack.enter_context(local.start(spec))
            case Docker():
                from pytest_kafkaperf.clusters import docker  # noqa: PLC0415 - as above

                cluster = stack.enter_context(docker.start(spec))
            case External(servers):
                from pytest_kafkaperf.clusters.external import reach  # noqa: PLC0415 - as above

                cluster = reach(spec, servers, client_properties, metrics_urls)
        yield with_config(cluster)


def not_started(spec: ClusterSpec, target: Target) -> Cluster:
    """What is known of a cluster that is not started: no servers, no facts."""
    return Cluster(
        bootstrap_servers="",
        brokers=spec.brokers,
        provider=resolve(target).name,
        version=spec.version or "unknown",
    )


def with_config(cluster: Cluster) -> Cluster:
    """The cluster with facts of its brokers' properties as they are now, in the place of what it said of them before.

    One request to each broker. Where they do not answer in time, or refuse, it is the same cluster.
    """
    from pytest_kafkaperf.clusters.client.admin import Admin  # noqa: PLC0415 - brings in aiokafka

    try:
        brokers = Admin(cluster.bootstrap_servers, cluster.access).broker_properties()
    except ClusterError:  # figures are as good without
        return cluster
    return dataclasses.replace(cluster, facts=facts(cluster, brokers))


def check(
    target: Target | str,
    client_properties: Path | None = None,
    metrics_urls: tuple[str, ...] = (),
    log_dirs: tuple[Path, ...] = (),
) -> None:
    """Refuse options that do not go together, before anything starts.

    Raises:
        UsageError: names what was asked for and what to do.

    """
    found = resolve(target)
    if log_dirs and not isinstance(found, Local):
        raise UsageError(
            f"--kafka-log-dirs with brokers of {found.name}: it is for those that run on this machine without a "
            "container; use --kafka-cluster=local, or leave it out"
        )
    if client_properties is not None and not isinstance(found, External):
        raise UsageError(
            f"--kafka-client-config={client_properties} with brokers that the session starts ({found.name}): it is "
            "for a running cluster; name one by --kafka-cluster=HOST:PORT, or leave it out"
        )
    if metrics_urls and not isinstance(found, External):
        raise UsageError(
            f"--kafka-metrics-url with brokers that the session starts ({found.name}): it is for a running cluster; "
            "use --kafka-jmx, or name a cluster by --kafka-cluster=HOST:PORT"
        )


def first_fetch(spec: ClusterSpec, *, target: Target | str = "auto") -> str | None:
    """What a session will fetch before this cluster can start, for people; None when all is there."""
    match resolve(target):
        case Local():
            from pytest_kafkaperf.clusters.local.distribution import is_installed  # noqa: PLC0415 - as above

            version = spec.version or DEFAULT_VERSION
            return None if is_installed(version) else f"fetching Kafka {version} on its first use, about 50 MB"
        case Docker():
            from pytest_kafkaperf.clusters.docker.client import image_of, is_pulled  # noqa: PLC0415 - as above

            image = image_of(spec)
            return None if is_pulled(image) else f"pulling {image} on its first use"
        case External():
            return None


_PLACES = (
    "advertised.*",
    "broker.id",
    "broker.rack",
    "controller.quorum.*",
    "host.name",
    "listeners",
    "node.id",
    "port",
    "super.users",
    "zookeeper.connect",
    "*.bootstrap.servers",
    "*.dir",
    "*.dirs",
    "*.location",
    "*.path",
)
"""Properties that say where a broker lives, or who it is: they make no figure another one, and differ by broker and by
start."""


def facts(cluster: Cluster, brokers: Mapping[int, Mapping[str, Property]]) -> Mapping[str, str]:
    """The facts of a cluster, with those of its properties as its brokers tell them.

    A property that they do not tell, as that of a plug-in, which Kafka takes for a secret, stays as the spec says.
    What a provider gives to all brokers that it starts is left out: it differs between two sessions only with the
    plugin's version, and beside a regression nobody should have to read it.
    """
    from pytest_kafkaperf.clusters.brokers.config import standing  # noqa: PLC0415 - brings in cryptography

    told = {f"{CONFIG}{name}" for properties in brokers.values() for name in properties}
    kept = {name: text for name, text in cluster.facts.items() if name not in told}
    ours = {} if cluster.fleet is None else standing(cluster.brokers)
    hidden = _PLACES if cluster.fleet is None else (*_PLACES, *OWN_PROPERTIES)
    changed = {
        name: text
        for name, text in _changed(brokers).items()
        if text != ours.get(name) and not any(fnmatchcase(name, pattern) for pattern in hidden)
    }
    config = {f"{CONFIG}{name}": text for name, text in changed.items()}
    return MappingProxyType({**kept, **dict(sorted(config.items()))})


def _changed(brokers: Mapping[int, Mapping[str, Property]]) -> dict[str, str]:
    """What a broker at least was told, by name."""
    names = {name for properties in brokers.values() for name, told in properties.items() if told.changed}
    return {
        name: _shown({broker: told[name].value for broker, told in brokers.items() if name in told}) for name in names
    }


def _shown(values: Mapping[int, str]) -> str:
    """The value, or where brokers differ each one with its brokers: `8 (brokers 1, 2), 4 (broker 3)`."""
    by_value: dict[str, list[int]] = {}
    for broker, value in sorted(values.items()):
        by_value.setdefault(value, []).append(broker)
    if len(by_value) == 1:
        return next(iter(by_value))
    return ", ".join(f"{value} ({_listed(those)})" for value, those in by_value.items())


def _listed(brokers: Iterable[int]) -> str:
    numbers = [str(broker) for broker in brokers]
    return f"broker{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"
