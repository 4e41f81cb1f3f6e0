"""One side of a test: the cluster, the brokers and applications that a run restarts, and what a test does to them.

Whatever differs between two sides, such as a version, a property or a revision of the code, is in this one value.
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
    """Brokers that a run restarts: a `Fleet`, or those of the pytest of another revision."""

    events: list[Event]
    """Actions on them, such as a stop."""
    warm_for: set[str]
    """Workloads for which these processes are warmed up."""

    def probes(self) -> Mapping[Key, Sequence[Probe]]:
        """Return the probes of the brokers that run now."""

    def check(self) -> None:
        """Raise `ClusterLostError` with the reason if a broker has ended; cheap."""

    def renew(self) -> None:
        """Restart all of them; raises `ClusterError`."""


class App(Protocol):
    """An application that a run restarts: an `Application`, or one of the pytest of another revision."""

    events: list[Event]
    """Stops and starts by the test."""

    def probes(self) -> Sequence[Probe]:
        """Return the probes of its process; empty while it is stopped."""

    def check(self) -> None:
        """Raise `ApplicationError` if it has ended by itself; cheap."""

    def end(self) -> None:
        """End its process."""

    def launch(self) -> None:
        """Start its process, and wait until it is ready; raises `ClusterError`."""

    def start(self) -> None:
        """Do the same as an action of the test, with an event."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Side:
    """All that a test runs on, on one of its sides."""

    cluster: Cluster
    brokers: Brokers | None
    """None if others run them, so that a fresh trial restarts nothing."""
    apps: tuple[App, ...] = ()
    actions: tuple[Action, ...] = ()
    """Done to this side in every round."""
    permission: Permission

    @classmethod
    def of(cls, cluster: Cluster, *, apps: Sequence[App] = (), actions: Sequence[Action] = ()) -> Side:
        """Return the side of a cluster, with the permission of one for which no setting allows more."""
        return cls(
            cluster=cluster,
            brokers=cluster.fleet,
            apps=tuple(apps),
            actions=tuple(actions),
            permission=permission_on(cluster),
        )

    def without_apps(self) -> Side:
        """Return the cluster and its brokers alone."""
        return dataclasses.replace(self, apps=(), actions=())

    def without_actions(self) -> Side:
        """Return the same side, to which nothing is done."""
        return dataclasses.replace(self, actions=())

    @property
    def events(self) -> Sequence[Event]:
        """Actions on the brokers."""
        return () if self.brokers is None else tuple(self.brokers.events)

    def probes(self) -> Mapping[Key, Sequence[Probe]]:
        """Return the probes of all brokers and applications that run now."""
        found = dict((self.cluster if self.brokers is None else self.brokers).probes())
        for app in self.apps:
            found[ApplicationKey(str(app))] = app.probes()
        return found

    def check_brokers(self) -> None:
        """Raise `ClusterLostError` with the reason if a broker has ended; cheap."""
        if self.brokers is not None:
            self.brokers.check()

    def check_apps(self) -> None:
        """Raise `ApplicationError` if an application has ended by itself; cheap."""
        for app in self.apps:
            app.check()

    def restart(self) -> None:
        """Restart the brokers and the applications; topics and clients are new in each trial anyway.

        What the test or its fixtures set up on the cluster stays, for example a quota. A new process differs from the
        previous one in speed: restarting includes this noise in the measurements.

        Raises:
            ClusterError: brokers or applications did not come up again.

        """
        for app in self.apps:
            app.end()  # one that has lost its brokers would fill its output with that
        if self.brokers is not None:
            self.brokers.renew()
        for app in self.apps:
            app.launch()
