"""JSON reports as dictionaries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_kafkaperf.scenarios.scenario import Scenario

P99, RATE = "produce.latency.p99", "produce.throughput"
NODEID = "tests/perf/test_orders.py::test_ingest"
SPREAD = (0.98, 0.99, 1.0, 1.01, 1.02)
SCENARIO = Scenario().model_dump(mode="json")


def rounds(factor: float = 1.0, **metrics: float) -> list[dict[str, Any]]:
    """Five rounds that differ by 1%."""
    values = {P99: 0.01, RATE: 1000.0, **metrics}
    return [{"metrics": {name: value * spread * factor for name, value in values.items()}} for spread in SPREAD]


def trial(factor: float = 1.0, **more: Any) -> dict[str, Any]:
    """A trial that is slower by this factor."""
    return {"created": "", "rounds": rounds(factor), "baseline_rounds": None, "problems": [], **more}


def problem(text: str) -> dict[str, Any]:
    """A problem of the machine."""
    return {"kind": "generator_too_slow", "values": {}, "text": text}


def check(expression: str, verdict: str = "PASSED", reason: str = "") -> dict[str, Any]:
    """The result of a threshold."""
    metric, _, _ = expression.partition(" ")
    return {"expression": expression, "metric": metric, "change": None, "verdict": verdict, "reason": reason}


def perftest(
    factor: float = 1.0,
    *further: float,
    first: list[dict[str, Any]] | None = None,
    limit: str | None = f"{P99} <= baseline + 10%",
    problems: Sequence[str] = (),
    **more: Any,
) -> Any:
    """A test with a trial, and further trials that are slower by these factors; `first` replaces the first rounds.

    It has the fields that `kafkaperf diff` reads.
    """
    trials = [trial(factor) if first is None else trial(rounds=first), *map(trial, further)]
    return {
        "nodeid": NODEID,
        "verdict": "PASSED",
        "pytest_outcome": "passed",
        "failed_by_verdict": False,
        "scenario": SCENARIO,
        "search": None,
        "trials": trials,
        "live_baseline": None,
        "metrics": {},
        "checks": [check(limit)] if limit else [],
        "notes": [],
        "problems": [problem(text) for text in problems],
        **more,
    }


def report(*tests: Any, key: str = "ci", **environment: str) -> dict[str, Any]:
    """A report of these tests."""
    return {
        "schema_version": 1,
        "created": "2025-01-31T12:00:00+00:00",
        "plugin": "0.1.0",
        "environment": {"key": key, "kafka": "4.1.0", **environment},
        "tests": list(tests),
        "unmeasured": [],
    }
