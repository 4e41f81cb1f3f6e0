"""JSON reports as dictionaries."""

from __future__ import annotations

from typing import Any

from pytest_kafkaperf.scenarios.scenario import Scenario

P99, RATE = "produce.latency.p99", "produce.throughput"
NODEID = "tests/perf/test_orders.py::test_ingest"
SPREAD = (0.98, 0.99, 1.0, 1.01, 1.02)
SCENARIO = Scenario().model_dump(mode="json")


def rounds(factor: float = 1.0, **metrics: float) -> list[dict[str, Any]]:
    """Five rounds that differ by 1 %."""
    values = {P99: 0.01, RATE: 1000.0, **metrics}
    return [
        {"metrics": {name: value * spread * factor for name, value in values.items()}, "problems": []}
        for spread in SPREAD
    ]


def perftest(factor: float = 1.0, *fresh: float, limit: str | None = f"{P99} <= baseline + 10%", **more: Any) -> Any:
    """A test with a trial, and further trials that are slower by these factors."""
    return {
        "nodeid": NODEID,
        "verdict": "PASSED",
        "scenario": SCENARIO,
        "rounds": rounds(factor),
        "further_trials": [{"created": "", "rounds": rounds(each), "problems": []} for each in fresh],
        "checks": [{"expression": limit, "metric": P99}] if limit else [],
        "problems": [],
        **more,
    }


def report(*tests: Any, key: str = "ci", **environment: str) -> dict[str, Any]:
    """A report of these tests."""
    return {
        "schema": 1,
        "created": "2025-01-31T12:00:00+00:00",
        "plugin": "0.1.0",
        "environment": {"key": key, "kafka": "4.1.0", **environment},
        "tests": list(tests),
    }
