"""Performance regression tests for Kafka deployments, written as ordinary pytest tests.

The public names below are imported on first use, because pytest imports this package in every run.

PYTEST_DONT_REWRITE: pytest would otherwise look for assertions here in every run without cached bytecode.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.access.cloud_tokens import AwsToken, AzureToken, GoogleToken
    from pytest_kafkaperf.clusters.cluster import Cluster
    from pytest_kafkaperf.core.errors import KafkaPerfError, NotMeasuredError
    from pytest_kafkaperf.core.metrics import Metric
    from pytest_kafkaperf.plugin.decorators import kafka_cluster, kafka_scenario, kafka_threshold
    from pytest_kafkaperf.plugin.kafka_perf import KafkaPerf
    from pytest_kafkaperf.runner.measure import measure
    from pytest_kafkaperf.runner.result import MetricValues, Result, Trial
    from pytest_kafkaperf.runner.rounds.round import Round
    from pytest_kafkaperf.scenarios.payloads import Record
    from pytest_kafkaperf.scenarios.scenario import Scenario
    from pytest_kafkaperf.verdict.outcome import Check, Verdict

__all__ = [
    "AwsToken",
    "AzureToken",
    "Check",
    "Cluster",
    "GoogleToken",
    "KafkaPerf",
    "KafkaPerfError",
    "Metric",
    "MetricValues",
    "NotMeasuredError",
    "Record",
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
    "AwsToken": "clusters.access.cloud_tokens",
    "AzureToken": "clusters.access.cloud_tokens",
    "GoogleToken": "clusters.access.cloud_tokens",
    "Check": "verdict.outcome",
    "Cluster": "clusters.cluster",
    "KafkaPerf": "plugin.kafka_perf",
    "KafkaPerfError": "core.errors",
    "Trial": "runner.result",
    "Metric": "core.metrics",
    "MetricValues": "runner.result",
    "NotMeasuredError": "core.errors",
    "Record": "scenarios.payloads",
    "Result": "runner.result",
    "Round": "runner.rounds.round",
    "Scenario": "scenarios.scenario",
    "Verdict": "verdict.outcome",
    "kafka_cluster": "plugin.decorators",
    "measure": "runner.measure",
    "kafka_scenario": "plugin.decorators",
    "kafka_threshold": "plugin.decorators",
}

if not TYPE_CHECKING:  # otherwise type checkers would accept any name

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
        # An import statement hides the text of an AttributeError.
        if name.lower().startswith("kafka"):
            from pytest_kafkaperf.plugin.misuse import hint_for_import  # noqa: PLC0415 - only for errors

            raise ImportError(f"cannot import name {name!r} from {__name__!r}: {hint_for_import(name)}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
