"""Thresholds of the ini file that no test has judged. Whether a test records a metric is known only after it ran."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_kafkaperf.core.errors import suggestion
from pytest_kafkaperf.core.metrics import JMX_METRICS
from pytest_kafkaperf.runner.result import Result
from pytest_kafkaperf.scenarios.threshold import Threshold


def describe_unjudged(thresholds: Sequence[Threshold], results: Sequence[Result]) -> list[str]:
    """Return one sentence for each of these thresholds that none of the results has judged."""
    judged = {check.expression for result in results for check in result.checks}
    measured = sorted({name for result in results for one in result.rounds for name in one.metrics})
    return [
        f"kafka_thresholds: no test judged {limit.expression!r}, because none measures {limit.metric.name}; "
        f"{_remedy(limit, measured)}"
        for limit in thresholds
        if limit.expression not in judged
    ]


def _remedy(limit: Threshold, measured: Sequence[str]) -> str:
    name = limit.metric.name
    if limit.metric.is_own:
        record = f"record it with kafka_perf.add_metric({name!r}, ...), or remove the threshold"
        return suggestion(name, measured) or record
    if name in JMX_METRICS:
        return "set kafka_jmx = true or kafka_metrics_url, or remove the threshold"
    return "add a test that measures it, or remove the threshold"
