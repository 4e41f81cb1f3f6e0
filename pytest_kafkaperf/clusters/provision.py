"""Provides a test's cluster, by starting it or connecting to it.

    with provision(ClusterSpec(), target="local") as cluster:
        ...  # cluster.bootstrap_servers

Importing this module does not import any provider; jgo, docker, aiokafka and psutil are imported only when a cluster
starts.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, assert_never

from pytest_kafkaperf.clusters.auto import resolve
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.spec import COMPILER, CONFIG, OWN_PROPERTIES, ClusterSpec, facts_of
from pytest_kafkaperf.clusters.target import (
    CONNECT_WAIT_S,
    DEFAULT_VERSION,
    Auto,
    Docker,
    External,
    Local,
    Provider,
    Target,
    decides_version,
    parse_target,
)
from pytest_kafkaperf.core.environment import SETTINGS
from pytest_kafkaperf.core.errors import ClusterError, UsageError
from pytest_kafkaperf.core.spans import Stopwatch
from pytest_kafkaperf.core.text import is_secret

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.admin.admin import Property


@contextmanager
def provision(
    spec: ClusterSpec,
    *,
    target: Target | str = "auto",
    client_properties: Path | None = None,
    metrics_urls: tuple[str, ...] = (),
    connect_timeout_s: float = CONNECT_WAIT_S,
    stopwatch: Stopwatch | None = None,
) -> Iterator[Cluster]:
    """Provide a ready cluster; afterwards, remove everything that was started for it.

    Args:
        spec: the requested cluster.
        target: the value of `--kafka-cluster`.
        client_properties: the file of `--kafka-client-config`, for an external cluster.
        metrics_urls: the URLs of `kafka_metrics_url`, for an external cluster.
        connect_timeout_s: maximum wait until an external cluster is ready.
        stopwatch: records download times as `Span.FETCH`; None to not record them.

    Raises:
        UsageError: the request is invalid, and nothing was started.
        ClusterError: the cluster did not start or is unreachable.

    """
    check(target, client_properties, metrics_urls)
    stopwatch = stopwatch or Stopwatch()
    with ExitStack() as stack:
        match provider_of(spec, target):
            case Local():
                from pytest_kafkaperf.clusters.brokers import local_brokers  # noqa: PLC0415 - imports psutil and filelock

                cluster = stack.enter_context(local_brokers.start(spec, stopwatch))
            case Docker():
                from pytest_kafkaperf.clusters.docker import docker_brokers  # noqa: PLC0415 - the same

                cluster = stack.enter_context(docker_brokers.start(spec, stopwatch))
            case External(servers):
                from pytest_kafkaperf.clusters.external import reach  # noqa: PLC0415 - the same

                cluster = reach(spec, servers, client_properties, metrics_urls, connect_timeout_s)
            case unknown:
                assert_never(unknown)
        yield with_config(cluster)


def provider_of(spec: ClusterSpec, target: Target | str) -> Provider:
    """Return the provider for this cluster; `auto` means `docker` if the spec has an image.

    Raises:
        UsageError: the target is invalid, or cannot run the spec's image or version.

    """
    provider = _chosen(spec, target)
    image, version = spec.image, spec.version
    if isinstance(provider, Local) and image is not None:
        raise UsageError(
            f"kafka_cluster(image={image!r}): this run uses local brokers, which do not use images; use "
            "--kafka-cluster=docker, or choose a version instead, for example --kafka-cluster=local:4.1.0"
        )
    if isinstance(provider, Docker) and image is not None and version is not None and decides_version(image):
        from pytest_kafkaperf.clusters.docker.daemon import version_of  # noqa: PLC0415 - imports docker

        if version_of(image) != version:
            raise UsageError(
                f"kafka_cluster(version={version!r}) has no effect, because the tag of image {image!r} decides which "
                "Kafka runs; remove the version, or the tag"
            )
    return provider


def _chosen(spec: ClusterSpec, target: Target | str) -> Provider:
    parsed = parse_target(target) if isinstance(target, str) else target
    return Docker() if isinstance(parsed, Auto) and spec.image is not None else resolve(parsed)


def not_started(spec: ClusterSpec, target: Target) -> Cluster:
    """Return a cluster that has not started, with only the fields known in advance, so without servers and facts."""
    return Cluster(
        bootstrap_servers="",
        brokers=spec.brokers,
        provider=_chosen(spec, target).name,
        version=spec.version or "unknown",
    )


def with_config(cluster: Cluster) -> Cluster:
    """Return the cluster with its brokers' current properties as facts, instead of the spec's properties.

    Sends one request to each broker. If a broker refuses or does not answer in time, a fact shows that. If a user's
    fixture returned the cluster, its id and number of brokers are read as well (see `external.identified`).
    """
    from pytest_kafkaperf.clusters.admin.admin import Admin  # noqa: PLC0415 - imports aiokafka
    from pytest_kafkaperf.clusters.external import identified  # noqa: PLC0415 - the same

    cluster = identified(cluster)
    brokers: Mapping[int, Mapping[str, Property]] = {}
    with contextlib.suppress(ClusterError):  # measurements do not depend on these facts
        brokers = Admin(cluster.bootstrap_servers, cluster.access).broker_properties()
    return dataclasses.replace(cluster, facts=facts(cluster, brokers))


def with_compiler(cluster: Cluster, *, quick: bool) -> Cluster:
    """Return the cluster with facts that show which compilers its brokers use."""
    kept = {name: text for name, text in cluster.facts.items() if name != COMPILER}
    described = facts_of(ClusterSpec(quick_compiler=True))[COMPILER]
    return dataclasses.replace(cluster, facts=MappingProxyType(kept | ({COMPILER: described} if quick else {})))


def check(
    target: Target | str,
    client_properties: Path | None = None,
    metrics_urls: tuple[str, ...] = (),
    log_dirs: tuple[Path, ...] = (),
) -> None:
    """Check that the options apply to the target, before anything starts.

    Raises:
        UsageError: an option does not apply; the message contains the option and the fix.

    """
    found = resolve(target)
    local_brokers = isinstance(found, Local)
    external = isinstance(found, External)
    for option, given, fits, needed in (
        ("kafka_log_dirs", log_dirs, local_brokers, "--kafka-cluster=local"),
        ("--kafka-client-config", client_properties, external, "--kafka-cluster=HOST:PORT"),
        ("kafka_metrics_url", metrics_urls, external, "--kafka-cluster=HOST:PORT"),
    ):
        if given and not fits:
            raise UsageError(
                f"{option} applies only to {needed}, but this run uses {found.name} brokers; use {needed}, or omit "
                f"{option}"
            )


def first_fetch(spec: ClusterSpec, *, target: Target | str = "auto") -> str | None:
    """Describe the downloads that this cluster requires before it can start, for the user; None if there are none."""
    try:
        provider = _chosen(spec, target)
    except UsageError:  # there is nothing to start; the test will report this
        return None
    match provider:
        case Local():
            from pytest_kafkaperf.clusters.brokers.distribution import is_installed  # noqa: PLC0415 - the same

            version = spec.version or DEFAULT_VERSION
            return None if is_installed(version) else f"downloading Kafka {version} for the first time, about 50 MB"
        case Docker():
            from pytest_kafkaperf.clusters.docker.daemon import image_of, is_pulled  # noqa: PLC0415 - the same

            image = image_of(spec)
            return None if is_pulled(image) else f"pulling {image} for the first time"
        case External():
            return None


_LOCATION_PROPERTIES = (
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
"""Properties with a broker's id, address or path; they differ between brokers and starts but do not affect results."""


def facts(cluster: Cluster, brokers: Mapping[int, Mapping[str, Property]]) -> Mapping[str, str]:
    """Return a cluster's facts, updated with the properties that its brokers report.

    A property that the brokers do not report keeps its value from the spec; Kafka treats broker plugins' properties as
    secret. Values that a provider sets for every cluster are left out, because they change only with this plugin's
    version. Values that may be secret are also left out, because not every broker plugin declares its passwords.

    `brokers` are all brokers' properties, which are empty for a broker that did not report them; if there is such a
    broker, or none at all, the fact `SETTINGS` is added.
    """
    from pytest_kafkaperf.clusters.brokers.config import default_properties  # noqa: PLC0415 - imports cryptography

    reported = {SETTINGS} | {f"{CONFIG}{name}" for properties in brokers.values() for name in properties}
    kept = {name: text for name, text in cluster.facts.items() if name not in reported}
    defaults = {} if cluster.fleet is None else default_properties(cluster.brokers)
    hidden = _LOCATION_PROPERTIES if cluster.fleet is None else (*_LOCATION_PROPERTIES, *OWN_PROPERTIES)
    config = {}
    for name, text in _changed(brokers, defaults).items():
        is_hidden = any(fnmatchcase(name, pattern) for pattern in hidden)
        if text != defaults.get(name) and not is_hidden and not is_secret(name, text):
            config[f"{CONFIG}{name}"] = text
    unread = {} if brokers and all(brokers.values()) else {SETTINGS: "unknown"}
    return MappingProxyType({**kept, **dict(sorted(config.items())), **unread})


def _changed(brokers: Mapping[int, Mapping[str, Property]], defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that were changed on at least one broker, as text by name.

    The provider's `defaults` are included even if they have Kafka's own default, which then overrides the provider's.
    """
    names: set[str] = set()
    for properties in brokers.values():
        names |= {name for name, each in properties.items() if each.changed or name in defaults}
    return {
        name: _by_broker({broker: found[name].value for broker, found in brokers.items() if name in found})
        for name in names
    }


def _by_broker(values: Mapping[int, str]) -> str:
    """Return the value; if brokers differ, return each value with its brokers: `8 (brokers 1, 2), 4 (broker 3)`."""
    by_value: dict[str, list[int]] = {}
    for broker, value in sorted(values.items()):
        by_value.setdefault(value, []).append(broker)
    if len(by_value) == 1:
        return next(iter(by_value))
    return ", ".join(
        f"{value} (broker{'s' if len(those) > 1 else ''} {', '.join(map(str, those))})"
        for value, those in by_value.items()
    )
