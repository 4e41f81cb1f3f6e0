"""The JSON report, which contains all measurements in base units for other programs to use."""

from __future__ import annotations

import dataclasses
import importlib.resources
import json
import math
import numbers
from collections.abc import Mapping
from typing import Any

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.monitoring.readings import Key
from pytest_kafkaperf.core.metrics import CATALOGUE, Metric
from pytest_kafkaperf.core.notices import Notice
from pytest_kafkaperf.core.problems import Cause, Problem
from pytest_kafkaperf.core.units import Count, Quantity
from pytest_kafkaperf.reports.calibration import calibration_remarks
from pytest_kafkaperf.runner.evidence import baseline_doubts
from pytest_kafkaperf.runner.result import Ending, Result, RunResult, Trial, unmeasured
from pytest_kafkaperf.runner.rounds.capacity import SearchPlan
from pytest_kafkaperf.runner.rounds.round import Round, RoundEvent
from pytest_kafkaperf.verdict.detectable import Calibrated
from pytest_kafkaperf.verdict.outcome import Check
from pytest_kafkaperf.verdict.scale import change_of

SCHEMA_VERSION = 1
"""Version of the report format, as described by `report.schema.json`. Within a version, fields are only added."""


def json_text(run: RunResult, *, exit_status: int) -> str:
    """Return the report as JSON text."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "created": run.created,
        "plugin": run.plugin,
        "environment": run.environment,
        "exit_status": exit_status,
        "errors": list(run.errors),
        "new_tests": list(run.new),
        "removed_tests": list(run.removed),
        "tests": [_test(result, run.endings.get(result.nodeid)) for result in run.results],
        "unmeasured": [
            {"nodeid": each.nodeid, "pytest_outcome": each.outcome, "reason": each.reason}
            for each in unmeasured(run.results, run.endings)
        ],
    }
    return f"{json.dumps(document, indent=2, allow_nan=False)}\n"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema for the report."""
    text = importlib.resources.files(__package__).joinpath("report.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _test(result: Result, ending: Ending | None) -> dict[str, Any]:
    return {
        "nodeid": result.nodeid,
        "verdict": str(result.verdict),
        "accepted": result.accepted,
        "pytest_outcome": None if ending is None else ending.outcome,
        "failed_by_verdict": ending is not None and ending.fails and ending.by_verdict,
        "scenario": result.scenario.model_dump(mode="json"),
        "search": None if result.plan is None else _search(result.plan),
        "cluster": _cluster(result.cluster),
        "allocation": {"scheduler": result.allocation.scheduler, "reason": result.allocation.reason},
        "trials": [_trial(trial) for trial in result.trials],
        "live_baseline": None if result.live_baseline is None else _cluster(result.live_baseline),
        "revision": None if result.revision is None else str(result.revision),
        "baseline_trial_count": result.baseline_trials,
        "baseline_doubts": list(map(_remark, baseline_doubts(result))),
        "changed": list(map(str, result.changed)),
        "metrics": {name: _metric(CATALOGUE[name], values) for name, values in result.values().items()},
        "lower_bounds": list(result.lower_bounds),
        "checks": [_check(check) for check in result.checks],
        "other_changes": [dataclasses.asdict(one) for one in result.other_changes],
        "calibration": {name: _calibrated(name, one, result) for name, one in result.calibration.items()},
        "spans_s": {str(span): seconds for span, seconds in result.spans.items()},
        "notes": list(map(_remark, result.notes)),
        "warnings": list(map(_remark, result.warnings)),
        "problems": list(map(_remark, result.problems)),
    }


def _metric(subject: Metric, values: list[float]) -> dict[str, Any]:
    return {
        "unit": str(subject.unit),
        "better": subject.better,
        "values": values,
        "value": subject.aggregate(values),
    }


def _search(plan: SearchPlan) -> dict[str, Any]:
    """Return a capacity search, with its rates in records per second."""
    return {"thresholds": [limit.expression for limit in plan.limits], "low": plan.low, "high": plan.high}


def _cluster(cluster: Cluster) -> dict[str, Any]:
    return {
        "provider": cluster.provider,
        "kafka": cluster.version,
        "brokers": cluster.brokers,
        **{name: str(fact) for name, fact in cluster.facts.items()},
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "created": trial.created,
        "warm_ups": _warm_ups(trial),
        "rounds": [_round(one) for one in trial.rounds],
        "baseline_rounds": None if trial.other_side is None else [_round(one) for one in trial.other_side],
        "problems": list(map(_remark, trial.problems)),
    }


def _warm_ups(trial: Trial) -> list[dict[str, Any]]:
    """Return the warm-up of each side, starting with the test's side."""
    return [
        {"end": str(one.end), "took_s": one.took_s, "compiler": [_by_program(shares) for shares in one.shares]}
        for one in trial.warm_ups
    ]


def _by_program(shares: Mapping[Key, float | None]) -> dict[str, float | None]:
    return {str(key): share for key, share in shares.items()}


def _calibrated(name: str, found: Calibrated, result: Result) -> dict[str, Any]:
    """Return a metric's noise and detectable changes as ratios; a negative change is a drop."""
    subject = CATALOGUE[name]
    is_detectable = math.isfinite(found.detectable_change)
    return {
        "trial_count": found.trials,
        "noise_within": found.noise.within,
        "noise_between": found.noise.between,
        "noise_between_assumed": found.noise.assumed,
        "tolerance": change_of(subject, found.tolerance),
        "suspected": found.suspected,
        "detectable_change": change_of(subject, found.detectable_change) if is_detectable else None,
        "remarks": calibration_remarks(name, found, result),
    }


def _round(one: Round) -> dict[str, Any]:
    series: dict[str, Any] = {**one.series}
    if one.brokers is not None:
        series["brokers"] = one.brokers
    return {
        "metrics": dict(one.metrics),
        "problems": list(map(_remark, one.problems)),
        "warnings": list(map(_remark, one.warnings)),
        "series": series,
        "broker_use": {broker: dataclasses.asdict(use) for broker, use in one.uses.items()},
        "workers": [dataclasses.asdict(share) for share in one.shares],
        "compiler": _by_program(one.compiler),
        "cold": [str(key) for key in one.cold],
        "e2e_uncertainty_s": one.e2e_uncertainty_s,
        "commit_interval_s": one.commit_interval_s,
        "events": list(map(_event, one.events)),
        "steps": [{**dataclasses.asdict(step), "outcome": str(step.outcome)} for step in one.steps],
        "lower_bounds": list(one.at_least),
        "window_s": one.window_s,
    }


def _event(one: RoundEvent) -> dict[str, Any]:
    action = None if one.action is None else str(one.action.kind)
    return {"at_s": one.at_s, "action": action, "text": one.notice.text}


def _remark(one: Problem | Notice) -> dict[str, Any]:
    values = {name: _plain(value) for name, value in one.values.items()}
    return {"kind": str(one.kind), "values": values, "text": one.text}


def _plain(value: object) -> float | str | None:
    """Convert a value in a problem or notice for JSON, either to a number in base units or to text."""
    match value:
        case bool() | None:
            return value
        case Quantity(value=number) | Count(number=number):
            return _plain(number)
        case numbers.Integral():
            return int(value)
        case float():
            return _number(value)
    return value.name.lower() if isinstance(value, Cause) else str(value)


def _check(check: Check) -> dict[str, Any]:
    return {
        "expression": check.expression,
        "metric": check.metric,
        "observed": _number(check.observed),
        "is_upper_bound": check.is_upper_bound,
        "spread": None if check.spread is None else [_number(value) for value in check.spread],
        "limit": _number(check.limit_value),
        "baseline": _number(check.baseline),
        "change": _number(check.change),
        "interval": None if check.interval is None else [_number(value) for value in check.interval],
        "detectable_change": _number(check.detectable_change),
        "verdict": str(check.outcome),
        "reason": check.reason,
        "implied": check.implied,
    }


def _number(value: float | None) -> float | None:
    """Replace infinity and NaN, which JSON does not support, with None."""
    return value if value is not None and math.isfinite(value) else None
