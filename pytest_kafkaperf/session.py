"""One pytest session's perf tests: its clusters, its baselines, its results."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import importlib.metadata
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf import clusters
from pytest_kafkaperf.baseline import BaselineRecord, BaselineStore
from pytest_kafkaperf.environment import default_environment_key, fingerprint
from pytest_kafkaperf.errors import ClusterError, ClusterLostError, UsageError
from pytest_kafkaperf.result import Result
from pytest_kafkaperf.run import resolve_scenario, run_scenario
from pytest_kafkaperf.verdict import Verdict, failure_text, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pytest_kafkaperf.actions import Action
    from pytest_kafkaperf.case import Case
    from pytest_kafkaperf.clusters import Cluster, ClusterSpec
    from pytest_kafkaperf.load.pool import Progress
    from pytest_kafkaperf.measurement import Round
    from pytest_kafkaperf.scenario import Scenario
    from pytest_kafkaperf.settings import Settings


class Session:
    """Runs perf tests one after the other; owns what they share."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.results: list[Result] = []
        self.written: list[Path] = []
        """Baseline files of this session."""
        self.created = _now()
        self._clusters: dict[ClusterSpec, tuple[Cluster, contextlib.ExitStack]] = {}

    def close(self) -> None:
        """Stop every cluster that was started."""
        running, self._clusters = self._clusters, {}
        with contextlib.ExitStack() as stack:  # each is stopped even when stopping another fails
            for _, owned in running.values():
                stack.callback(owned.close)

    def cluster(self, spec: ClusterSpec) -> Cluster:
        """The cluster of that spec: started when first asked for, replaced when it was lost or disturbed.

        Raises:
            ClusterError: it did not start.
            UsageError: it cannot be given on this target.

        """
        if spec in self._clusters:
            cluster, owned = self._clusters[spec]
            if _is_sound(cluster):
                return cluster
            del self._clusters[spec]
            owned.close()
        with contextlib.ExitStack() as stack:
            cluster = stack.enter_context(
                clusters.provision(
                    spec,
                    target=self.settings.cluster,
                    client_properties=self.settings.client_config,
                    metrics_urls=self.settings.metrics_urls,
                )
            )
            self._clusters[spec] = cluster, stack.pop_all()
        return cluster

    def run(
        self, case: Case, cluster: Cluster, on_progress: Callable[[int, Progress], None], actions: Sequence[Action] = ()
    ) -> Result:
        """Measure and judge one test, and keep the result; `actions` are done in every round.

        Raises:
            BaselineError: the baseline file is damaged or newer, or cannot be written.

        """
        store = BaselineStore(self.settings.baselines)
        key = self.environment_key(cluster.provider)
        case, unfit = _resolved(case, cluster)
        # Read before the load: a damaged file is told at once, not after minutes.
        baseline = store.comparable(key, case.nodeid, _described(case.scenario))
        rounds, problems = self._measure(case, cluster, on_progress, actions) if unfit is None else ([], [unfit])
        judgement = judge(
            thresholds=case.thresholds,
            rounds=[one.metrics for one in rounds],
            baseline=baseline,
            problems=problems,
            gate_baseline=self.settings.update is None,
        )
        result = Result(
            nodeid=case.nodeid,
            scenario=case.scenario,
            sources=case.sources,
            cluster=cluster,
            rounds=tuple(rounds),
            verdict=judgement.verdict,
            checks=judgement.checks,
            warnings=tuple(dict.fromkeys(warning for one in rounds for warning in one.warnings)),
            problems=tuple(problems),
        )
        self.results.append(result)
        if self.settings.update and result.verdict not in (Verdict.VIOLATED, Verdict.INVALID):
            self._write(store, key, result)
        return result

    def failure(self, result: Result) -> str | None:
        """Why the test fails, for its user; None when it passes."""
        strict = self.settings.strict and result.verdict is Verdict.INCONCLUSIVE
        if not result.verdict.fails and not strict:
            return None
        return failure_text(result.checks, result.problems, strict=strict)

    def environment_key(self, provider: str) -> str:
        """Which baselines count here."""
        return self.settings.environment or default_environment_key(provider)

    def environment(self) -> dict[str, Any]:
        """What the reports say of where this session ran."""
        providers = {result.cluster.provider for result in self.results} or {"local"}
        provider = min(providers)
        facts = self.results[0].cluster if self.results else None
        return {"key": self.environment_key(provider), **(_fingerprint(facts) if facts else {})}

    def _measure(
        self, case: Case, cluster: Cluster, on_progress: Callable[[int, Progress], None], actions: Sequence[Action]
    ) -> tuple[list[Round], list[str]]:
        try:
            rounds = run_scenario(case.scenario, cluster, actions=actions, on_progress=on_progress)
        except ClusterError as error:
            return [], [str(error)]
        problems = [f"round {number}: {problem}" for number, one in enumerate(rounds, 1) for problem in one.problems]
        return rounds, problems

    def _write(self, store: BaselineStore, key: str, result: Result) -> None:
        record = BaselineRecord.of_session(
            nodeid=result.nodeid,
            environment=key,
            scenario=_described(result.scenario),
            fingerprint=_fingerprint(result.cluster),
            created=self.created,
            rounds=[dict(one.metrics) for one in result.rounds],
        )
        self.written.append(store.save(record))


def plugin_version() -> str:
    """The installed version of this plugin."""
    return importlib.metadata.version("pytest-kafkaperf")


def as_cluster(given: object) -> Cluster:
    """What a `kafka_cluster` fixture of the application gives, as a cluster.

    It may give a `Cluster`, the text `HOST:PORT`, or any object with `bootstrap_servers` and perhaps
    `client_config`, `brokers` and `version`.

    Raises:
        UsageError: none of these.

    """
    if isinstance(given, clusters.Cluster):
        return given
    servers = given if isinstance(given, str) else getattr(given, "bootstrap_servers", None)
    if isinstance(servers, list | tuple):
        servers = ",".join(map(str, servers))
    if not isinstance(servers, str):
        raise UsageError(
            f"the kafka_cluster fixture gave {type(given).__name__}; give a pytest_kafkaperf.Cluster, the text "
            "'HOST:PORT', or an object with 'bootstrap_servers'"
        )
    clusters.parse_target(servers)
    taken = ("client_config", "brokers", "version")
    extra = {name: getattr(given, name) for name in taken if hasattr(given, name)}
    return clusters.Cluster(bootstrap_servers=servers, **extra)


def _resolved(case: Case, cluster: Cluster) -> tuple[Case, str | None]:
    """The case with what its scenario takes over from a topic that exists, and why there is no such topic."""
    try:
        return dataclasses.replace(case, scenario=resolve_scenario(case.scenario, cluster)), None
    except ClusterError as error:
        return case, str(error)


def _is_sound(cluster: Cluster) -> bool:
    """Whether the next test can have it: brokers that were stopped and started again are cold, and lead little."""
    try:
        cluster.check()
    except ClusterLostError:
        return False
    return cluster.fleet is None or not cluster.fleet.disturbed


def _described(scenario: Scenario) -> Mapping[str, Any]:
    described: dict[str, Any] = scenario.model_dump(mode="json")
    return described


def _fingerprint(cluster: Cluster) -> dict[str, str]:
    facts = {"provider": cluster.provider, "kafka": cluster.version, **cluster.facts}
    return dict(fingerprint(facts))


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
