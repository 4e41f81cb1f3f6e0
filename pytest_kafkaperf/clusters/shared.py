"""The clusters of a session: each started when first asked for, and shared by the tests that want such a one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_kafkaperf.clusters import provision
from pytest_kafkaperf.clusters.spec import Cluster, ClusterSpec
from pytest_kafkaperf.clusters.target import Reference, Target
from pytest_kafkaperf.core.errors import ClusterError, ClusterLostError, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What cluster is asked for; equal ones are shared."""

    spec: ClusterSpec
    target: Target
    """The text of `--kafka-cluster`, or what `--kafka-reference` says in its words."""
    client_properties: Path | None = None
    metrics_urls: tuple[str, ...] = ()
    reference: Reference | None = None
    """The text of `--kafka-reference`, where it is that: it never shares the cluster that it is compared with."""


class SharedClusters:
    """Starts and stops them."""

    def __init__(self) -> None:
        self._running: dict[Wanted, tuple[Cluster, contextlib.ExitStack]] = {}

    def close(self) -> None:
        """Stop every cluster that was started."""
        running, self._running = self._running, {}
        with contextlib.ExitStack() as stack:  # each is stopped even when stopping another fails
            for _, owned in running.values():
                stack.callback(owned.close)

    def get(self, wanted: Wanted) -> Cluster:
        """The cluster that is wanted: started when first asked for, replaced when it was lost or disturbed.

        Raises:
            ClusterError: it did not start.
            UsageError: it cannot be given on this target.

        """
        if wanted in self._running:
            cluster, _ = self._running[wanted]
            if _is_sound(cluster):
                return cluster
            self._stop(wanted)
        with contextlib.ExitStack() as stack:
            with _named(wanted.reference):
                cluster = stack.enter_context(_provision(wanted))
            self._running[wanted] = cluster, stack.pop_all()
        return cluster

    def _stop(self, wanted: Wanted) -> None:
        _, owned = self._running.pop(wanted)
        owned.close()


def _provision(wanted: Wanted) -> contextlib.AbstractContextManager[Cluster]:
    return provision.provision(
        wanted.spec,
        target=wanted.target,
        client_properties=wanted.client_properties,
        metrics_urls=wanted.metrics_urls,
    )


@contextlib.contextmanager
def _named(reference: Reference | None) -> Iterator[None]:
    """Say which of two clusters it is that does not come up."""
    try:
        yield
    except (ClusterError, UsageError) as error:
        if reference is None:
            raise
        raise type(error)(f"the reference, --kafka-reference={reference}: {error}") from None


def _is_sound(cluster: Cluster) -> bool:
    """Whether the next test can have it: brokers that were stopped and started again are cold, and lead little."""
    try:
        cluster.check()
    except ClusterLostError:
        return False
    return cluster.fleet is None or not cluster.fleet.disturbed
