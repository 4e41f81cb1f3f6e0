"""A load's observers, which cover the topic, brokers, applications, consumer groups and the test's actions."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Self

from pytest_kafkaperf.clusters.monitoring.compiler import CompilerWatcher
from pytest_kafkaperf.clusters.monitoring.watchers import BrokerWatcher, GroupWatcher, TopicWatcher
from pytest_kafkaperf.core.problems import Problem
from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.controller import Progress
from pytest_kafkaperf.load.messages import LoadReport
from pytest_kafkaperf.load.schedule import group_drain_s
from pytest_kafkaperf.runner.rounds.actions import Action, ActionTimer
from pytest_kafkaperf.runner.rounds.observations import LogComparison, Observations
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.scenarios.scenario import Scenario


class Observers:
    """All observers of one load, active from before its first record until after its last one."""

    def __init__(
        self,
        side: Side,
        topic: str,
        scenario: Scenario,
        *,
        actions: Sequence[Action],
        on_progress: Callable[[Progress], None],
    ) -> None:
        """Observe a load on `topic`; `actions` run during the load, and `on_progress` receives its progress."""
        self._side = side
        self._on_progress = on_progress
        self._topic = TopicWatcher(side.cluster.bootstrap_servers, side.cluster.access, topic)
        self._brokers = BrokerWatcher(side.probes)
        self._compilers = CompilerWatcher(side.probes)
        groups = scenario.watch_group
        self._groups = GroupWatcher(side.cluster, topic, scenario.partitions, groups) if groups else None
        self._partitions = scenario.partitions
        self._timer = ActionTimer(actions)
        self._end_ns: int | None = None
        """End of the window; None until it is known."""
        self._running = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Start all observers before the load."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._topic)
            stack.enter_context(self._brokers)
            stack.enter_context(self._compilers)
            if self._groups is not None:
                stack.enter_context(self._groups)
            stack.enter_context(self._timer)
            self._running = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all observers after the load."""
        self._running.close()

    def follow(self, progress: Progress) -> None:
        """Handle the load's progress; called several times per second.

        Raises:
            ClusterLostError: the load cannot continue because the topic is gone or an application has exited.

        """
        self._topic.check()
        self._side.check_apps()
        self._read_at_edges(progress)
        self._on_progress(progress)
        self._timer.follow(progress)

    def settle(self, load: LoadReport) -> None:
        """Wait until watched groups have committed the window's last record, then measure the custom metrics.

        Raises:
            ApplicationError: an application has exited on its own.

        """
        if self._groups is not None and not load.problems and load.start_ns is not None and load.drain_ns is not None:
            timeout_s = group_drain_s((load.drain_ns - load.start_ns) / NS_PER_S)
            for _ in self._groups.waiting_for(self._last_offsets(load), timeout_s=timeout_s):
                self._side.check_apps()
        self._timer.settle(load)

    def observations(self, load: LoadReport, log: LogComparison) -> Observations:
        """Return everything that is known about the load; call it after the observers have stopped."""
        actions = self._side.events
        events = [event for app in self._side.apps for event in app.events]
        gaps = not actions and not events  # gaps are expected when the test stops a broker
        return Observations(
            load=load,
            log=log,
            action_problems=tuple(self._timer.problems),
            samples=self._brokers.samples(),
            compilers=self._compilers.usage(),
            unread=(*self._topic.unread(), *self._brokers.unread(gaps=gaps)),
            states=self._topic.states,
            groups={} if self._groups is None else self._groups.offsets(),
            actions=actions,
            acted_ns=self._timer.acted_ns,
            application_events=events,
            recorded=self._timer.recorded,
        )

    def _last_offsets(self, load: LoadReport) -> dict[int, int]:
        """Return the offset after the window's last record, by partition; partitions added meanwhile are left out."""
        last: dict[int, int] = {}
        for partition, first, count, *_ in load.places.tolist():
            if partition < self._partitions:
                last[partition] = max(last.get(partition, 0), first + count)
        return last

    @property
    def action_problems(self) -> Sequence[Problem]:
        """Actions that failed or did not run."""
        return self._timer.problems

    def _read_at_edges(self, progress: Progress) -> None:
        """Read the CPU time at the start and end of the window."""
        if progress.window_ns is None:
            return
        begin_ns, end_ns = progress.window_ns
        if end_ns is None and progress.phase == "draining":
            end_ns = self._end_ns or time.monotonic_ns()  # the window ended with its last record
        self._end_ns = end_ns
        self._brokers.read_at(begin_ns)
        if end_ns is not None:
            self._brokers.read_at(end_ns)
