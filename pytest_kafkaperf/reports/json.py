"""The JSON report: everything that was measured, in base units, for other programs."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.errors import UsageError
from pytest_kafkaperf.files import replace_file
from pytest_kafkaperf.metrics import CATALOGUE
from pytest_kafkaperf.result import summary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pytest_kafkaperf.result import Result
    from pytest_kafkaperf.verdict import Check

SCHEMA = 1


def write_json(
    path: Path, results: Sequence[Result], *, created: str, plugin: str, environment: Mapping[str, Any]
) -> None:
    """Write the report whole or not at all.

    Raises:
        UsageError: the file cannot be written; names it and the reason.

    """
    document = {
        "schema": SCHEMA,
        "created": created,
        "plugin": plugin,
        "environment": environment,
        "tests": [_test(result) for result in results],
    }
    try:
        replace_file(path, f"{json.dumps(document, indent=2, allow_nan=False)}\n".encode())
    except OSError as error:
        raise UsageError(f"--kafka-json={path}: cannot write the report: {error.strerror or error}") from None


def _test(result: Result) -> dict[str, Any]:
    cluster = result.cluster
    return {
        "nodeid": result.nodeid,
        "verdict": str(result.verdict),
        "scenario": result.scenario.model_dump(mode="json"),
        "cluster": {
            "provider": cluster.provider,
            "brokers": cluster.brokers,
            "version": cluster.version,
            **{name: str(fact) for name, fact in cluster.facts.items()},
        },
        "rounds": [
            {
                "metrics": dict(one.metrics),
                "problems": list(one.problems),
                "warnings": list(one.warnings),
                "series": {**one.series, **({} if one.brokers is None else {"brokers": one.brokers})},
                "brokers": {broker: dataclasses.asdict(use) for broker, use in one.uses.items()},
            }
            for one in result.rounds
        ],
        "metrics": {
            name: {
                "unit": str(CATALOGUE[name].unit),
                "better": CATALOGUE[name].better,
                "values": values,
                "median": summary(name, values),
            }
            for name, values in result.values().items()
        },
        "checks": [_check(check) for check in result.checks],
        "warnings": list(result.warnings),
        "problems": list(result.problems),
    }


def _check(check: Check) -> dict[str, Any]:
    return {
        "expression": check.expression,
        "metric": check.metric,
        "observed": _number(check.observed),
        "limit": _number(check.limit_value),
        "baseline": _number(check.baseline),
        "change": _number(check.change),
        "outcome": str(check.outcome),
        "reason": check.reason,
    }


def _number(value: float | None) -> float | None:
    """JSON has no infinity and no NaN."""
    return value if value is not None and math.isfinite(value) else None
