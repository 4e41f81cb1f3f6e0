"""The clusters of a session: each is started at its first use and shared by the tests that request an equal one."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from pytest_kafkaperf.clusters import provision
from pytest_kafkaperf.clusters.spec import Cluster, ClusterSpec
from pytest_kafkaperf.clusters.target import Target
from pytest_kafkaperf.core.errors import ClusterError, ClusterLostError, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A request for a cluster; equal requests share one."""

    spec: ClusterSpec
    target: Target
    client_properties: Path | None = None
    metrics_urls: tuple[str, ...] = ()
    connect_timeout_s: float
    role: str = ""
    """Name of a cluster that runs beside the test's own, and never shares it: `the reference`; empty for the latter."""


class SharedClusters:
    """Starts, shares and stops the clusters."""

    def __init__(self) -> None:
        self._running: dict[Wanted, tuple[Cluster, contextlib.ExitStack]] = {}
        self._lasting: set[Wanted] = set()
        """Clusters that are restored instead of replaced, because fixtures of the whole session use their addresses."""

    def close(self) -> None:
        """Stop every cluster that was started."""
        running, self._running = self._running, {}
        with contextlib.ExitStack() as all_clusters:  # stops each cluster even if stopping another fails
            for _, stack in running.values():
                all_clusters.callback(stack.close)

    def restore(self) -> None:
        """Restart the brokers of each lasting cluster of which one was lost or disturbed.

        Raises:
            ClusterError: a broker did not start.

        """
        for wanted, (cluster, _) in self._running.items():
            if wanted in self._lasting and cluster.fleet is not None and not _is_reusable(cluster):
                cluster.fleet.restore()

    def get(self, wanted: Wanted, *, lasting: bool = False) -> Cluster:
        """Return the requested cluster: started at its first use, replaced if a broker was lost or disturbed.

        A `lasting` cluster is never replaced, so that its addresses stay the same.

        Raises:
            ClusterError: the cluster did not start.
            UsageError: the target cannot provide this cluster.

        """
        stays = wanted in self._lasting
        if lasting:
            self._lasting.add(wanted)
        if wanted in self._running:
            cluster, stack = self._running[wanted]
            if stays or _is_reusable(cluster):
                return cluster
            del self._running[wanted]
            stack.close()
        starting = provision.provision(
            wanted.spec,
            target=wanted.target,
            client_properties=wanted.client_properties,
            metrics_urls=wanted.metrics_urls,
            connect_timeout_s=wanted.connect_timeout_s,
        )
        with contextlib.ExitStack() as stack:
            try:
                cluster = stack.enter_context(starting)
            except (ClusterError, UsageError) as error:
                if not wanted.role:
                    raise
                raise type(error)(f"{wanted.role}: {error}") from None
            self._running[wanted] = cluster, stack.pop_all()
        return cluster


def _is_reusable(cluster: Cluster) -> bool:
    """Return True if the next test can use it: a restarted broker is cold and leads few partitions."""
    try:
        cluster.check()
    except ClusterLostError:
        return False
    return cluster.fleet is None or not cluster.fleet.disturbed
