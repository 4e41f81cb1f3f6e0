"""Observers of a load: they follow its progress while it runs, and add what they saw to its report."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Self

from pytest_kafkaperf.clusters.application import Application
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.monitoring.compiler import CompilerWatcher
from pytest_kafkaperf.clusters.monitoring.probes import Probe
from pytest_kafkaperf.clusters.monitoring.readings import ApplicationKey, Key
from pytest_kafkaperf.clusters.monitoring.watchers import BrokerWatcher, GroupWatcher, TopicWatcher
from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.controller import Progress
from pytest_kafkaperf.load.messages import LoadReport
from pytest_kafkaperf.load.schedule import group_drain_s
from pytest_kafkaperf.scenarios.scenario import Scenario


class Observer:
    """Sees one load from before its first record until after its last; does nothing unless a method is overridden."""

    def __enter__(self) -> Self:
        """Begin, before the load starts."""
        return self

    def __exit__(self, *_: object) -> None:
        """End, after the load."""

    def follow(self, progress: Progress) -> None:
        """Take note of the load's progress; called several times a second.

        Raises:
            ClusterLostError: the load cannot go on.

        """

    def settle(self, report: LoadReport) -> None:
        """Wait for what the load has left to do; called after the load, before the observer ends."""

    def add_to(self, report: LoadReport) -> LoadReport:
        """Return the report with what was observed; called after the observer has ended."""
        return report


@contextlib.contextmanager
def observing(observers: Sequence[Observer]) -> Iterator[Callable[[Progress], None]]:
    """Let all observers see a load; give the function that takes its progress."""

    def follow(progress: Progress) -> None:
        for observer in observers:
            observer.follow(progress)

    with contextlib.ExitStack() as stack:
        for observer in observers:
            stack.enter_context(observer)
        yield follow


class ProgressObserver(Observer):
    """Passes the progress on, for the terminal."""

    def __init__(self, on_progress: Callable[[Progress], None], *, step: str) -> None:
        """`step` names the step of a capacity search; it is empty otherwise."""
        self._on_progress = on_progress
        self._step = step

    def follow(self, progress: Progress) -> None:
        """Pass it on, with the step."""
        self._on_progress(dataclasses.replace(progress, step=self._step))


class BrokerObserver(BrokerWatcher, Observer):
    """Samples the CPU, memory, network and JMX metrics of the brokers, and the CPU and memory of applications."""

    def __init__(self, cluster: Cluster, applications: Sequence[Application]) -> None:
        super().__init__(functools.partial(_probes, cluster, applications))
        self._cluster = cluster
        self._applications = applications
        self._end_ns: int | None = None

    def follow(self, progress: Progress) -> None:
        """Have the CPU time read when the window opens, and when it is over; end the load if an application ended."""
        for each in self._applications:
            each.check()
        if progress.window_ns is None:
            return
        begin_ns, end_ns = progress.window_ns
        if end_ns is None and progress.phase == "draining":
            end_ns = self._end_ns or time.monotonic_ns()  # the window ended with its last record
        self._end_ns = end_ns
        self.read_at(begin_ns)
        if end_ns is not None:
            self.read_at(end_ns)

    def add_to(self, report: LoadReport) -> LoadReport:
        """Add the samples, what could not be sampled, and what the test did to brokers and applications."""
        actions = self._cluster.actions
        events = [event for each in self._applications for event in each.events]
        gaps = not actions and not events  # a broker that the test stops leaves gaps
        unread = [*report.unread, *self.unread(gaps=gaps)]
        samples = self.samples()
        return dataclasses.replace(report, samples=samples, unread=unread, actions=actions, application_events=events)


class CompilerObserver(CompilerWatcher, Observer):
    """Samples the CPU time of the compilers of brokers and applications."""

    def __init__(self, cluster: Cluster, applications: Sequence[Application]) -> None:
        super().__init__(functools.partial(_probes, cluster, applications))

    def add_to(self, report: LoadReport) -> LoadReport:
        """Add the samples."""
        return dataclasses.replace(report, compilers=self.usage())


def _probes(cluster: Cluster, applications: Sequence[Application]) -> dict[Key, Sequence[Probe]]:
    probes: dict[Key, Sequence[Probe]] = dict(cluster.probes().items())
    return probes | {ApplicationKey(str(each)): each.probes() for each in applications}


class TopicObserver(TopicWatcher, Observer):
    """Watches the leaders and in-sync replicas of the topic, and ends the load if somebody deletes the topic."""

    def follow(self, progress: Progress) -> None:  # noqa: ARG002 - the topic alone counts
        """Raise ClusterLostError if the topic existed and is gone."""
        self.check()

    def add_to(self, report: LoadReport) -> LoadReport:
        """Add the states of the topic's partitions, or that they are unknown."""
        return dataclasses.replace(report, states=self.states, unread=[*report.unread, *self.unread()])


class GroupObserver(GroupWatcher, Observer):
    """Reads the offsets that the watched consumer groups commit, until they have committed the last record."""

    def __init__(self, cluster: Cluster, topic: str, scenario: Scenario, applications: Sequence[Application]) -> None:
        super().__init__(cluster, topic, scenario.partitions, scenario.watch_group)
        self._applications = applications

    def settle(self, report: LoadReport) -> None:
        """Wait until each group has committed the last record of the window.

        Raises:
            ApplicationError: an application has ended by itself.

        """
        if report.problems or report.start_ns is None or report.drain_ns is None:
            return
        last: dict[int, int] = {}
        for partition, first, count, *_ in report.places.tolist():
            last[partition] = max(last.get(partition, 0), first + count)
        for _ in self.waiting_for(last, timeout_s=group_drain_s((report.drain_ns - report.start_ns) / NS_PER_S)):
            for each in self._applications:
                each.check()

    def add_to(self, report: LoadReport) -> LoadReport:
        """Add the offsets."""
        return dataclasses.replace(report, groups=self.offsets())
