"""Measures a scenario from a script or a notebook, without pytest."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.clusters.cluster import Cluster, as_cluster
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.clusters.target import External, parse_target
from pytest_kafkaperf.core.errors import KafkaPerfError, ScenarioError
from pytest_kafkaperf.load.allocation import WorkerAllocation, parse_workers
from pytest_kafkaperf.load.engines.engine import client_problems
from pytest_kafkaperf.runner.result import Trial
from pytest_kafkaperf.runner.rounds.permission import parse_max_rate, permission_on
from pytest_kafkaperf.runner.rounds.samples import with_content, with_path
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.rounds.side_rounds import SideRounds, resolve_scenario
from pytest_kafkaperf.runner.trial import TrialRunner
from pytest_kafkaperf.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

_WARM_UP_S = 60.0
"""Maximum warm-up for brokers started here; the same as the default in tests."""


def measure(
    scenario: Scenario | Mapping[str, Any],
    cluster: object = "auto",
    *,
    workers: str | None = None,
    allow_unlimited: bool = False,
    max_rate: str | None = None,
    writable_topics: Sequence[str] = (),
) -> Trial:
    """Measure a scenario's rounds as a test would: `measure({"rate": "5k/s"}, "localhost:9092")`.

    `measure(...)["produce.latency.p99"].median` is a value in the metric's base unit.

    Args:
        scenario: the scenario, or its fields as in the `kafka_scenario` marker.
        cluster: a value of `--kafka-cluster`, or anything that a `kafka_cluster` fixture may return. Brokers that are
            started here are warmed up before the rounds and stopped afterward.
        workers: a value of `--kafka-workers`; None to choose the number of worker processes with a short probe load.
        allow_unlimited: allow unlimited load on an external cluster.
        max_rate: a value of `kafka_max_rate`, the maximum rate on an external cluster; None for its default.
        writable_topics: existing topics of an external cluster that the scenario may write to.

    Raises:
        KafkaPerfError: the scenario or the cluster is invalid, the cluster failed, or the measurement is not
            trustworthy; the message gives the reason.

    """
    given = scenario if isinstance(scenario, Scenario) else Scenario.of(scenario, further=client_problems)
    if problems := [*client_problems(given)]:
        raise ScenarioError("; ".join(problems))
    given.refuse_topic_properties()
    given = with_content(with_path(given, Path.cwd(), ""))
    allocation = WorkerAllocation() if workers is None else parse_workers(workers)
    limit = None if max_rate is None else parse_max_rate(max_rate)
    with _provided(cluster) as running:
        permission = permission_on(
            running,
            named=_named(cluster),
            unlimited=allow_unlimited,
            max_rate=limit,
            topics=writable_topics,
            of_script=True,
        )
        permission.check(given)
        side = Side(cluster=running, brokers=running.fleet, permission=permission)
        rounds = SideRounds(side, resolve_scenario(given, running))
        trial = TrialRunner([rounds], warm_up_s=_WARM_UP_S, allocation=allocation).measure()
    if trial.problems:
        raise KafkaPerfError("; ".join(map(str, trial.problems)))
    return trial


def _named(cluster: object) -> list[External]:
    target = parse_target(cluster) if isinstance(cluster, str) else None
    return [target] if isinstance(target, External) else []


def _provided(cluster: object) -> AbstractContextManager[Cluster]:
    if isinstance(cluster, str) and not _named(cluster):
        return provision(ClusterSpec(), target=parse_target(cluster))
    return contextlib.nullcontext(as_cluster(cluster))
