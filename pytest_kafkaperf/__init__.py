"""Performance regression tests for Kafka deployments, written as ordinary pytest tests.

The public names below are imported on first use, because pytest imports this package in every run.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.cluster import Cluster
    from pytest_kafkaperf.core.errors import KafkaPerfError, NotMeasuredError
    from pytest_kafkaperf.core.metrics import Metric
    from pytest_kafkaperf.plugin.kafka_perf import KafkaPerf
    from pytest_kafkaperf.plugin.options import kafka_cluster, kafka_scenario, kafka_threshold
    from pytest_kafkaperf.runner.measure import measure
    from pytest_kafkaperf.runner.result import MetricValues, Result, Trial
    from pytest_kafkaperf.runner.rounds.round import Round
    from pytest_kafkaperf.scenarios.scenario import Scenario
    from pytest_kafkaperf.verdict.outcome import Check, Verdict

__all__ = [
    "Check",
    "Cluster",
    "KafkaPerf",
    "KafkaPerfError",
    "Metric",
    "MetricValues",
    "NotMeasuredError",
    "Result",
    "Round",
    "Scenario",
    "Trial",
    "Verdict",
    "kafka_cluster",
    "kafka_scenario",
    "kafka_threshold",
    "measure",
]

_MODULES = {
    "Check": "verdict.outcome",
    "Cluster": "clusters.cluster",
    "KafkaPerf": "plugin.kafka_perf",
    "KafkaPerfError": "core.errors",
    "Trial": "runner.result",
    "Metric": "core.metrics",
    "MetricValues": "runner.result",
    "NotMeasuredError": "core.errors",
    "Result": "runner.result",
    "Round": "runner.rounds.round",
    "Scenario": "scenarios.scenario",
    "Verdict": "verdict.outcome",
    "kafka_cluster": "plugin.options",
    "measure": "runner.measure",
    "kafka_scenario": "plugin.options",
    "kafka_threshold": "plugin.options",
}


_MARKERS = ("kafka_cluster", "kafka_scenario", "kafka_threshold")
_FIXTURES = ("kafka_app", "kafka_app_factory", "kafka_cluster_factory", "kafka_perf")

if not TYPE_CHECKING:  # otherwise type checkers would accept any name

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
        # An import statement hides the text of an AttributeError.
        if name.lower().startswith("kafka"):
            raise ImportError(f"cannot import name {name!r} from {__name__!r}: {_hint(name)}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _hint(name: str) -> str:
    """Return a suggestion for a name that does not exist."""
    from pytest_kafkaperf.core.errors import suggestion  # noqa: PLC0415 - only for errors

    if name in _FIXTURES:
        return "it is a fixture; add it to the arguments of the test function, without an import"
    return suggestion(name.lower(), _MARKERS, similarity=0.8) or f"the decorators are {', '.join(_MARKERS)}"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
