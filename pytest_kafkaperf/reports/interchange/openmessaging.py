"""The import of a result of OpenMessaging Benchmark, which is a JSON file.

Source: `io.openmessaging.benchmark.TestResult` and `WorkloadGenerator` (github.com/openmessaging/benchmark). Rates are
in records per second, one value for each interval of 10 s. Publish and end-to-end latencies are in milliseconds,
publish delays in microseconds; `aggregated...` values are those of the whole run. Publish latency starts at the send,
`produce.latency` when a record is due. The difference is the publish delay, which is the metric `produce.delay`.
"""

from __future__ import annotations

import statistics
from fractions import Fraction
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError, create_model

from pytest_kafkaperf.core.errors import UsageError, shortened
from pytest_kafkaperf.core.text import MAX_PROBLEM, parse_document
from pytest_kafkaperf.reports.interchange.runs import ToolRun
from pytest_kafkaperf.scenarios.fields import explain

TOOL = "OpenMessaging Benchmark"
_PARTS = {"Avg": "mean", "50pct": "p50", "95pct": "p95", "99pct": "p99", "999pct": "p99.9", "Max": "max"}
_FAMILIES = {
    "aggregatedPublishLatency": ("produce.latency", 1000),
    "aggregatedPublishDelayLatency": ("produce.delay", 10**6),
    "aggregatedEndToEndLatency": ("e2e.latency", 1000),
}
"""Prefixes of the benchmark's fields, with the plugin's family of metrics and the number of their units in a second."""


def _at_least_one(items: list[float]) -> list[float]:
    if not items:
        raise ValueError("at least one interval is needed")
    return items


_Figure = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False, strict=True)]
_Rates = Annotated[list[_Figure], AfterValidator(_at_least_one)]
_FIELDS: dict[str, Any] = {
    "publishRate": (_Rates, ...),
    "consumeRate": (list[_Figure], []),
    "publishErrorRate": (list[_Figure], []),
    "messageSize": (_Figure, 0.0),
    **{f"{family}{part}": (_Figure, 0.0) for family in _FAMILIES for part in _PARTS},
}
_Result = create_model("_Result", **_FIELDS)


def read_result(text: str) -> ToolRun:
    """Read a result file; values of 0 are left out, because they were not measured.

    Raises:
        UsageError: The text is not JSON, not such a result, or all its values are 0.

    """
    try:
        data = parse_document(text)
    except ValueError as error:
        raise UsageError(f"this starts like JSON but is not valid: {error}; give a result of {TOOL}") from None
    try:
        found = _Result.model_validate(data).model_dump()
    except ValidationError as error:
        problem = shortened(explain(error), MAX_PROBLEM)
        raise UsageError(f"this JSON is not a result of {TOOL}: {problem}; {_hint(data)}") from None
    metrics = _rates(found) | _latencies(found)
    if not metrics:
        raise UsageError(
            f"all figures of this result of {TOOL} are 0, so nothing was measured; run the benchmark again"
        )
    return ToolRun(tool=TOOL, line=1, metrics=metrics, notes=tuple(_notes(found)))


def _hint(data: Any) -> str:
    if isinstance(data, dict) and "tests" in data:
        return "to compare JSON reports (--kafka-report=json), use kafkaperf compare"
    if isinstance(data, dict) and "sessions" in data:
        return "to show a baseline, use kafkaperf show"
    return "give the file that the benchmark wrote, unchanged"


def _rates(found: dict[str, Any]) -> dict[str, float]:
    """Return the mean rates; all intervals have the same length."""
    metrics = {}
    for role, rates in (("produce", found["publishRate"]), ("consume", found["consumeRate"])):
        rate = statistics.fmean(rates) if rates else 0.0
        if rate:
            metrics[f"{role}.throughput"] = rate
            if found["messageSize"]:
                metrics[f"{role}.bandwidth"] = rate * found["messageSize"]
    return metrics


def _latencies(found: dict[str, Any]) -> dict[str, float]:
    return {
        f"{name}.{suffix}": float(Fraction(str(found[f"{family}{part}"])) / to_seconds)
        for family, (name, to_seconds) in _FAMILIES.items()
        for part, suffix in _PARTS.items()
        if found[f"{family}{part}"]
    }


def _notes(found: dict[str, Any]) -> list[str]:
    notes = ["publish latency starts at the send; with a rate, produce.latency starts when a record is due"]
    idle = sum(rate == 0 for rate in found["publishRate"])
    if idle:
        notes.append(f"{idle} of {len(found['publishRate'])} intervals sent nothing; they count")
    if any(found["publishErrorRate"]):
        notes.append("some sends failed (publishErrorRate)")
    if not found["messageSize"]:
        notes.append("no messageSize, so no bandwidth")
    return notes
