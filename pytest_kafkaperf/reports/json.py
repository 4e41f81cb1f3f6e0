"""The JSON report: everything that was measured, in base units, for other programs."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.comparison import sign_of
from pytest_kafkaperf.errors import UsageError
from pytest_kafkaperf.files import replace_file
from pytest_kafkaperf.metrics import CATALOGUE
from pytest_kafkaperf.result import summary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pytest_kafkaperf.calibration import Calibrated
    from pytest_kafkaperf.clusters import Cluster
    from pytest_kafkaperf.measurement import Round
    from pytest_kafkaperf.result import Result, Trial
    from pytest_kafkaperf.verdict import Check

SCHEMA = 1


def write_json(
    path: Path,
    results: Sequence[Result],
    *,
    created: str,
    plugin: str,
    environment: Mapping[str, Any],
    reference_seed: int | None,
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
        "reference_seed": reference_seed,
        "tests": [_test(result) for result in results],
    }
    try:
        replace_file(path, f"{json.dumps(document, indent=2, allow_nan=False)}\n".encode())
    except OSError as error:
        raise UsageError(f"--kafka-json={path}: cannot write the report: {error.strerror or error}") from None


def _test(result: Result) -> dict[str, Any]:
    return {
        "nodeid": result.nodeid,
        "verdict": str(result.verdict),
        "scenario": result.scenario.model_dump(mode="json"),
        "cluster": _cluster(result.cluster),
        "rounds": [_round(one) for one in result.rounds],
        "further_sessions": [_trial(trial) for trial in result.trials[1:]],
        "reference": None if result.reference is None else _reference(result.reference, result.trials[0]),
        "baseline_sessions": result.baseline_sessions,
        "changed": list(result.changed),
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
        "advice": [dataclasses.asdict(one) for one in result.advice],
        "calibration": {name: _calibrated(name, one) for name, one in result.calibration.items()},
        "notes": list(result.notes),
        "warnings": list(result.warnings),
        "problems": list(result.problems),
    }


def _cluster(cluster: Cluster) -> dict[str, Any]:
    return {
        "provider": cluster.provider,
        "brokers": cluster.brokers,
        "version": cluster.version,
        **{name: str(fact) for name, fact in cluster.facts.items()},
    }


def _reference(cluster: Cluster, first: Trial) -> dict[str, Any]:
    return {"cluster": _cluster(cluster), "rounds": [_round(one) for one in first.reference or ()]}


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "created": trial.created,
        "rounds": [_round(one) for one in trial.rounds],
        "reference_rounds": [_round(one) for one in trial.reference or ()],
        "problems": list(trial.problems),
    }


def _calibrated(name: str, found: Calibrated) -> dict[str, Any]:
    """Deviations and changes as ratios, the changes in the metric's direction."""
    sign = sign_of(CATALOGUE[name])
    return {
        "sessions": found.sessions,
        "noise_within": found.noise.within,
        "noise_between": found.noise.between,
        "noise_between_assumed": found.noise.assumed,
        "tolerance": math.expm1(sign * found.tolerance),
        "suspects": found.suspects,
        "false_alarms": found.alarms,
        "splits": found.splits,
        "detectable": _number(math.expm1(sign * found.detectable)),
    }


def _round(one: Round) -> dict[str, Any]:
    return {
        "metrics": dict(one.metrics),
        "problems": list(one.problems),
        "warnings": list(one.warnings),
        "series": {**one.series, **({} if one.brokers is None else {"brokers": one.brokers})},
        "brokers": {broker: dataclasses.asdict(use) for broker, use in one.uses.items()},
    }


def _check(check: Check) -> dict[str, Any]:
    return {
        "expression": check.expression,
        "metric": check.metric,
        "observed": _number(check.observed),
        "limit": _number(check.limit_value),
        "baseline": _number(check.baseline),
        "change": _number(check.change),
        "detectable": _number(check.detectable),
        "outcome": str(check.outcome),
        "reason": check.reason,
    }


def _number(value: float | None) -> float | None:
    """JSON has no infinity and no NaN."""
    return value if value is not None and math.isfinite(value) else None
