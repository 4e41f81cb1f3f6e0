"""A run's clusters for tests, live baselines and re-tests, and the applications on those clusters."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from pytest_kafkaperf.clusters import provision
from pytest_kafkaperf.clusters.admin.admin import LOOK_TIMEOUT_S, Admin, TopicExistsError, TopicRefusedError
from pytest_kafkaperf.clusters.application import Application
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.clusters.target import External, Target
from pytest_kafkaperf.core.errors import ClusterError, ClusterLostError, UsageError, warn
from pytest_kafkaperf.core.signals import without_interrupt
from pytest_kafkaperf.core.spans import Span, Stopwatch
from pytest_kafkaperf.runner.perftest import PerfTest
from pytest_kafkaperf.runner.rounds.permission import Permission, permission_on
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.settings import Revision, Settings
from pytest_kafkaperf.scenarios.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """A request for a cluster; equal requests share a cluster."""

    spec: ClusterSpec
    target: Target
    client_properties: Path | None = None
    metrics_urls: tuple[str, ...] = ()
    role: str = ""
    """Description of a separate cluster that runs next to the test's own; empty for the test's own cluster."""
    for_retest: bool = False
    """True for brokers that only serve the re-test of one suspected regression."""


class SharedClusters:
    """Provides the clusters that the settings request, and owns the clusters that it starts."""

    def __init__(self, settings: Settings, stopwatch: Stopwatch, *, quick: bool = False) -> None:
        """Start tests' own brokers with only the quick compiler if `quick`, unless a test declares the compiler."""
        self._settings = settings
        self._quick = quick
        self._stopwatch = stopwatch
        self._running: dict[_Wanted, tuple[Cluster, contextlib.ExitStack]] = {}
        self._lasting: set[_Wanted] = set()
        """Clusters to restore rather than replace because session-scoped fixtures use their addresses."""
        self._applications: list[Application] = []
        """The running applications, on all clusters."""
        self._provided: dict[tuple[str, str], Admin] = {}
        """Topics that were created for the current test, by servers and name."""
        self._swept: set[str] = set()
        """Servers of external clusters from which crashed runs' leftovers have already been removed."""

    def close(self) -> None:
        """Stop all clusters that the plugin started."""
        running = self._running
        self._running = {}
        with contextlib.ExitStack() as all_clusters:  # stops every cluster even if stopping one of them fails
            for _, stack in running.values():
                all_clusters.callback(stack.close)

    def restore(self) -> None:
        """Restart the brokers of lasting clusters that were changed or lost, and applications that a test changed.

        Raises:
            ClusterError: a broker or an application did not start.

        """
        for wanted, (cluster, _) in self._running.items():
            if wanted in self._lasting and cluster.fleet is not None and not _is_reusable(cluster):
                with self._stopwatch.measure(Span.START):
                    cluster.fleet.restore()
        for application in self._applications:  # before a test's own fixtures run, all applications have a wider scope
            if not application.is_whole and _is_reusable(application.cluster):  # otherwise, it will be replaced
                with self._stopwatch.measure(Span.SETUP):
                    application.end()
                    application.launch()

    def own(self, spec: ClusterSpec, *, lasting: bool = False) -> Cluster:
        """Return the cluster for a spec; start it on first use, and replace it if it was lost or changed.

        A `lasting` cluster keeps its addresses because `restore` restarts its brokers instead of replacing the cluster.

        Raises:
            ClusterError: the cluster did not start.
            UsageError: the target cannot provide such a cluster.

        """
        properties = self._settings.client_config
        urls = self._settings.metrics_urls
        if self._quick and spec.quick_compiler is None and not spec.logs_in_memory:  # a restart may lose these logs
            spec = spec.model_copy(update={"quick_compiler": True})
        wanted = _Wanted(spec=spec, target=self._settings.cluster, client_properties=properties, metrics_urls=urls)
        return self._get(wanted, lasting=lasting)

    def live_baseline(self, test: PerfTest) -> Cluster | None:
        """Return the cluster to compare a test with, or None if there is none; raises the same errors as `own`."""
        target = self._settings.compare
        settings = self._settings
        if target is None or test.live_baseline is None or isinstance(target, Revision):
            return None
        properties = settings.compare_client_config or settings.client_config
        wanted = _Wanted(
            spec=test.live_baseline,
            target=target,
            client_properties=properties if isinstance(target, External) else None,
            role=f"the baseline, --kafka-compare={target}",
        )
        return self._get(wanted)

    def rebuilt(self, spec: ClusterSpec) -> Cluster:
        """Return brokers for a re-test that run a stored baseline's software; raises the same errors as `own`."""
        return self._get(
            _Wanted(spec=spec, target=self._settings.cluster, role="the baseline's brokers", for_retest=True)
        )

    def stop_rebuilt(self) -> None:
        """Stop the brokers used for re-tests, which would otherwise take cores and memory from the next test."""
        for wanted in [each for each in self._running if each.for_retest]:
            self._running.pop(wanted)[1].close()

    def permission(self, test: PerfTest, cluster: Cluster, live_baseline: Cluster | None = None) -> Permission:
        """Return the permissions for a test's loads on its own cluster, or on the live baseline if one is given.

        Both sides have the same limits, and loads on each side may write to topics created there for applications.
        """
        settings = self._settings
        created = [topic for each in self.applications_on(live_baseline or cluster) for topic in each.created]
        targets = (settings.cluster, settings.compare if test.live_baseline else None)
        return permission_on(
            cluster,
            named=[each for each in targets if isinstance(each, External)],
            unlimited=settings.allow_unlimited,
            max_rate=settings.max_rate,
            topics=(*settings.writable_topics, *created),
        )

    def provide_topic(self, scenario: Scenario, cluster: Cluster) -> bool:
        """Create the topic that a test writes to, if the plugin started the brokers and the topic does not exist.

        Returns:
            True if it was created for this test, now or earlier.

        Raises:
            ClusterError: the brokers rejected the topic.

        """
        topic, servers = scenario.topic, cluster.bootstrap_servers
        if topic is None or cluster.fleet is None or not scenario.producers:
            return False
        if (servers, topic) in self._provided:
            return True
        admin = Admin(servers, cluster.access)
        # Delay Ctrl-C, because a topic is deleted afterwards only if its creation was recorded.
        with contextlib.suppress(TopicExistsError, TopicRefusedError), without_interrupt():
            with self._stopwatch.measure(Span.TOPIC):
                admin.create_topic(topic, scenario)
            self._provided[servers, topic] = admin
            return True
        return False

    def delete_topics(self) -> None:
        """Delete the topics that were created for the last test, on clusters that are still running."""
        running = {cluster.bootstrap_servers for cluster, _ in self._running.values()}
        provided, self._provided = self._provided, {}
        for (servers, topic), admin in provided.items():
            if servers not in running:
                continue
            try:
                admin.delete_topic(topic, timeout_s=LOOK_TIMEOUT_S)
            except ClusterError as error:
                warn(f"could not delete topic {topic}: {error}")

    def sweep(self, side: Side) -> None:
        """Remove crashed runs' leftovers from an external cluster, once per run, before the first load."""
        cluster = side.cluster
        if side.brokers is not None or cluster.bootstrap_servers in self._swept:
            return
        self._swept.add(cluster.bootstrap_servers)
        with contextlib.suppress(ClusterError):  # not essential; the next run tries again
            Admin(cluster.bootstrap_servers, cluster.access).sweep(self._settings.topic_prefix)

    def opened(self, application: Application) -> Application:
        """Start an application that is part of all tests on this cluster until the caller closes it.

        Raises:
            ClusterError: a topic could not be created, or the application exited or was not ready in time.
            UsageError: the application cannot be started.

        """
        for other in self.applications_on(application.cluster):
            if taken := application.names & other.names:
                raise UsageError(
                    f"kafka_app: {min(taken)} is already running; give this application another name with name='NAME'"
                )
        application.side_by_side = self._applications
        if application.cluster.fleet is not None:
            application.cluster.fleet.taken = True
        with self._stopwatch.measure(Span.SETUP):
            self._applications.append(application.open())
        application.closing.callback(self._applications.remove, application)
        return application

    def twin(self, application: Application, live_baseline: Cluster) -> Application:
        """Return a copy of an application on the live baseline; it runs for as long as the original."""
        running = [each for each in self.applications_on(live_baseline) if str(each) == str(application)]
        if not running:
            running = [self.opened(application.on(live_baseline))]
            application.closing.callback(running[0].close)
        return running[0]

    def applications_on(self, cluster: Cluster) -> list[Application]:
        """Return the applications running on a cluster."""
        return [each for each in self._applications if each.cluster.bootstrap_servers == cluster.bootstrap_servers]

    def _get(self, wanted: _Wanted, *, lasting: bool = False) -> Cluster:
        """Return the requested cluster; start it on first use, and replace it if a broker was lost or disrupted."""
        stays = wanted in self._lasting
        if lasting:
            self._lasting.add(wanted)
        if wanted in self._running:
            cluster, stack = self._running[wanted]
            if stays or _is_reusable(cluster):
                return cluster
            del self._running[wanted]
            for application in self.applications_on(cluster):
                application.close()
            stack.close()
        starting = provision.provision(
            wanted.spec,
            target=wanted.target,
            client_properties=wanted.client_properties,
            metrics_urls=wanted.metrics_urls,
            connect_timeout_s=self._settings.connect_timeout_s,
            stopwatch=self._stopwatch,
        )
        with self._stopwatch.measure(Span.START), contextlib.ExitStack() as stack:
            try:
                cluster = stack.enter_context(starting)
            except (ClusterError, UsageError) as error:
                if not wanted.role:
                    raise
                raise type(error)(f"{wanted.role}: {error.reason}", **error.facts) from None
            self._running[wanted] = cluster, stack.pop_all()
        return cluster


def _is_reusable(cluster: Cluster) -> bool:
    """Return True if the next test can use the cluster; a restarted broker is cold and leads only a few partitions."""
    try:
        cluster.check()
    except ClusterLostError:
        return False
    return cluster.fleet is None or not cluster.fleet.disturbed
