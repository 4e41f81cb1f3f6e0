"""The metrics that a test measures, and what a metric needs that is not measured."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.clusters.target import External
from pytest_kafkaperf.core.errors import ScenarioError, did_you_mean
from pytest_kafkaperf.core.metrics import (
    EVENT_METRICS,
    FEWEST_RECORDS,
    HOST_METRICS,
    JMX_METRICS,
    PROCESS_METRICS,
    SEARCH_METRICS,
    plugins_like,
)
from pytest_kafkaperf.runner.settings import Settings
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.scenarios.threshold import Threshold


def measured_metrics(scenario: Scenario, settings: Settings, spec: ClusterSpec) -> set[str]:
    """Return a round's metrics on the `--kafka-cluster` cluster, even if a fixture provides a different cluster."""
    measured = {*scenario.metrics(), *PROCESS_METRICS, *EVENT_METRICS, *SEARCH_METRICS}
    if not scenario.watch_group:
        measured -= {name for name in EVENT_METRICS if name.startswith("app.")}
    if isinstance(settings.cluster, External):
        return measured | {*(JMX_METRICS if settings.metrics_urls else ())}
    return measured | {*HOST_METRICS, *(JMX_METRICS if spec.jmx else ())}


def refuse_unmeasured(thresholds: Sequence[Threshold], scenario: Scenario, measured: AbstractSet[str]) -> None:
    """Raise `ScenarioError` for a threshold on a metric that this test does not measure."""
    for threshold in thresholds:
        name = threshold.metric.name
        if name not in measured and not threshold.metric.is_own:
            reason = _too_few(name, scenario) or _requirement(name, scenario)
            raise ScenarioError(f"threshold {threshold.expression!r}: {name} is not measured here; {reason}")


def _too_few(name: str, scenario: Scenario) -> str | None:
    """Return an explanation if a round has too few records for a quantile; None otherwise."""
    family, _, part = name.partition(".p")
    if f"p{part}" not in FEWEST_RECORDS or f"{family}.p99" not in scenario.metrics():
        return None
    return f"it needs at least {FEWEST_RECORDS[f'p{part}']} records per round; increase the rate or the duration"


_NEEDED = {
    "catchup": "a backlog, and consumers=1 or more on a new topic",
    "app.output_ratio": "output_topic, the topic that the application writes to",
    "app": "watch_group, the application's consumer group",
    "produce": "a rate",
    "unsent": "a rate",
}
"""Declarations that a metric requires in a test with producers, by the name of the metric or its first part."""


def _requirement(name: str, scenario: Scenario) -> str:
    family = name.partition(".")[0]
    needed = _NEEDED.get(name, _NEEDED.get(family))
    if name in HOST_METRICS:
        needed = "brokers that the plugin starts: --kafka-cluster=local or docker"
    elif family == "broker":
        needed = "kafka_jmx = true in the ini file, or kafka_metrics_url with a running cluster"
    elif not scenario.producers:
        needed = "producers=1 or more"
    elif family in ("consume", "e2e", "lag"):
        needed = "consume='live'" if scenario.consumers else "consumers=1 or more"
    elif needed is None and scenario.output_topic is not None:
        return "an application may move records to other partitions; remove output_topic or the threshold"
    elif needed is None:
        needed = "acks=1 or acks='all'"
    return f"it needs {needed}"


def remedy_for(name: str) -> str:
    """Return a hint for a threshold on a metric that neither the test nor the plugin measures."""
    alike = [known for known in plugins_like(name) if known.startswith("app.")]
    instead = f"; {did_you_mean(alike)}" if alike else ""
    return f"call kafka_perf.add_metric({name!r}, ...) before the load{instead}"
