"""One side of a test: the cluster, the brokers and applications that a run restarts, and the actions on them.

Every difference between two sides, such as a version, a property or a code revision, is in this one value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.monitoring.probes import Probe
from pytest_kafkaperf.clusters.monitoring.readings import ApplicationKey, Key
from pytest_kafkaperf.core.notices import Event
from pytest_kafkaperf.runner.rounds.actions import Action
from pytest_kafkaperf.runner.rounds.permission import Permission, permission_on


class Brokers(Protocol):
    """Brokers that a run restarts: a `Fleet`, or brokers that belong to the other revision's pytest process."""

    events: list[Event]
    """Actions on the brokers, such as a stop."""
    warm_for: set[str]
    """Workloads for which the running processes are warm."""
    quick: bool | None
    """True if the brokers use only the JVM's quick compiler; None if they use all compilers and cannot change that."""

    def probes(self) -> Mapping[Key, Sequence[Probe]]:
        """Return the probes of the running brokers."""

    def check(self) -> None:
        """Raise `ClusterLostError` with the reason if a broker has exited; cheap."""

    def renew(self, *, quick: bool | None = None) -> None:
        """Restart the brokers, with these compilers unless None; raises `ClusterError`."""


class App(Protocol):
    """An application that a run restarts: an `Application`, or one that the other revision's pytest process runs."""

    events: list[Event]
    """Application starts and stops that the test performed."""

    def probes(self) -> Mapping[str, Sequence[Probe]]:
        """Return the probes of each instance's process, by its name; empty while it is stopped."""

    def check(self) -> None:
        """Raise `ApplicationError` if one of its processes has exited on its own; cheap."""

    def end(self) -> None:
        """Stop its processes."""

    def launch(self) -> None:
        """Start its processes and wait until they are ready; raises `ClusterError`."""

    def start(self) -> None:
        """Do the same as a test action, which adds an event."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Side:
    """One side of a test, with everything that it runs on."""

    cluster: Cluster
    brokers: Brokers | None
    """The brokers to restart; None for an external cluster, which new trials do not restart."""
    apps: tuple[App, ...] = ()
    actions: tuple[Action, ...] = ()
    """Actions on this side in every round."""
    permission: Permission

    @classmethod
    def of(cls, cluster: Cluster, *, apps: Sequence[App] = (), actions: Sequence[Action] = ()) -> Side:
        """Return a side with the default permission."""
        return cls(
            cluster=cluster,
            brokers=cluster.fleet,
            apps=tuple(apps),
            actions=tuple(actions),
            permission=permission_on(cluster),
        )

    def without_apps(self) -> Side:
        """Return the side with only the cluster and its brokers."""
        return dataclasses.replace(self, apps=(), actions=())

    def without_actions(self) -> Side:
        """Return the side without actions."""
        return dataclasses.replace(self, actions=())

    @property
    def events(self) -> Sequence[Event]:
        """Actions on this side's brokers."""
        return () if self.brokers is None else tuple(self.brokers.events)

    @property
    def quick(self) -> bool | None:
        """True if the brokers use only the JVM's quick compiler; None if that is unknown or cannot change."""
        return None if self.brokers is None else self.brokers.quick

    def probes(self) -> Mapping[Key, Sequence[Probe]]:
        """Return the probes of all running brokers and applications."""
        found = dict((self.cluster if self.brokers is None else self.brokers).probes())
        for app in self.apps:
            found |= {ApplicationKey(instance): probes for instance, probes in app.probes().items()}
        return found

    def check_brokers(self) -> None:
        """Raise `ClusterLostError` with the reason if a broker has exited; cheap."""
        if self.brokers is not None:
            self.brokers.check()

    def check_apps(self) -> None:
        """Raise `ApplicationError` if an application has exited on its own; cheap."""
        for app in self.apps:
            app.check()

    @property
    def has_actions(self) -> bool:
        """True if actions may leave brokers or applications in a different state after each round."""
        return any(action.metric is None for action in self.actions)

    def keep_stopped(self) -> None:
        """Keep the brokers stopped that are stopped now; restarts bring back those that actions stop later."""
        if self.cluster.fleet is not None:
            self.cluster.fleet.keep_stopped()

    def restart(self, *, quick: bool | None = None) -> None:
        """Restart the brokers and applications; topics and clients are new in each trial anyway.

        `quick` chooses the brokers' compilers; None to keep them.

        Anything that the test or its fixtures configured on the cluster, such as a quota, remains in effect. Each new
        process is slightly faster or slower than the previous one; because of the restarts, the measurements include
        this noise.

        Raises:
            ClusterError: brokers or applications did not restart.

        """
        for app in self.apps:
            app.end()  # without brokers, the application would flood its output with errors
        if self.brokers is not None:
            self.brokers.renew(quick=quick)
        for app in self.apps:
            app.launch()
