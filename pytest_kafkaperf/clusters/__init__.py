"""Clusters to run load on: what a test asks for, and the providers that bring it up.

    with provision(ClusterSpec(), target="local") as cluster:
        ...  # cluster.bootstrap_servers

Importing this package loads no provider: jgo, aiokafka and psutil come in when a cluster starts.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pytest_kafkaperf.clusters.spec import Cluster, ClusterSpec
from pytest_kafkaperf.clusters.target import External, Local, parse_target, read_target
from pytest_kafkaperf.errors import UsageError
from pytest_kafkaperf.settings import DEFAULT_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Cluster", "ClusterSpec", "check", "first_fetch", "parse_target", "provision"]


@contextmanager
def provision(spec: ClusterSpec, *, target: str = "auto") -> Iterator[Cluster]:
    """Give a cluster that is ready, and leave nothing of it behind.

    `target` is the text of `--kafka-cluster`. Call it where no event loop runs.

    Raises:
        UsageError: what is asked for cannot be; nothing was started.
        ClusterError: the cluster did not start, or cannot be reached.

    """
    check(spec, target=target)
    match read_target(target):
        case Local():
            from pytest_kafkaperf.clusters.local import start  # noqa: PLC0415 - psutil, filelock: not on import

            with start(spec) as cluster:
                yield cluster
        case External(servers):
            from pytest_kafkaperf.clusters.external import reach  # noqa: PLC0415 - as above

            yield reach(spec, servers)


def check(spec: ClusterSpec, *, target: str = "auto") -> None:
    """Refuse what `provision` cannot give on this target, before anything starts.

    Raises:
        UsageError: names what was asked for and what to do.

    """
    if isinstance(read_target(target), Local) and spec.brokers > 1:
        raise UsageError(
            f"brokers={spec.brokers}: 'local' starts one broker in this version; use brokers=1, "
            f"or name a running cluster of {spec.brokers} brokers by --kafka-cluster=HOST:PORT"
        )


def first_fetch(spec: ClusterSpec, *, target: str = "auto") -> str | None:
    """What a session will fetch before this cluster can start, for people; None when all is there."""
    if not isinstance(read_target(target), Local):
        return None
    from pytest_kafkaperf.clusters.distribution import is_installed  # noqa: PLC0415 - as above

    version = spec.version or DEFAULT_VERSION
    return None if is_installed(version) else f"fetching Kafka {version} on its first use, about 50 MB"
