"""Results of a few figures that are always the same, judged by the rule: texts about them can be stated whole.

`results` has those whose figures are drawn, with curves: what a page shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pytest_kafkaperf.clusters.spec import Cluster
from pytest_kafkaperf.runner.result import Ending, MeasuredSession, Result
from pytest_kafkaperf.runner.round import Round
from pytest_kafkaperf.scenario.scenario import Scenario
from pytest_kafkaperf.scenario.threshold import parse_threshold
from pytest_kafkaperf.verdict.advice import Advice
from pytest_kafkaperf.verdict.baselines.record import BaselineRounds
from pytest_kafkaperf.verdict.comparison import Measured
from pytest_kafkaperf.verdict.verdict import judge

FILE = "tests/perf/test_orders.py"
_WOBBLE = (0.98, 0.99, 1.0, 1.01, 1.02)
_FIGURES = {
    "produce.throughput": 52_300.0,
    "produce.latency.p50": 0.0021,
    "produce.latency.p99": 0.0121,
    "e2e.latency.p99": 0.0172,
    "errors": 0.0,
    "lost": 0.0,
}


def rounds(**changed: float) -> list[dict[str, float]]:
    """Five rounds that differ by 1 %, with some figures multiplied; names with two underscores for dots."""
    factors = {name.replace("__", "."): factor for name, factor in changed.items()}
    return [{name: value * wobble * factors.get(name, 1.0) for name, value in _FIGURES.items()} for wobble in _WOBBLE]


def result(
    name: str,
    *limits: str,
    measured: Sequence[Mapping[str, float]] | None = None,
    baseline: Sequence[Mapping[str, float]] | None = None,
    problems: Sequence[str] = (),
    file: str = FILE,
    **fields: Any,
) -> Result:
    """What one session found, against a baseline where there is one."""
    measured = rounds() if measured is None else measured
    known = BaselineRounds(obstacle="no baseline for this test; make one with --kafka-update-baselines")
    if baseline is not None:
        known = BaselineRounds(sessions=(tuple(baseline),))
    judgement = judge(
        thresholds=[parse_threshold(limit) for limit in limits],
        session=Measured(rounds=measured),
        baseline=known,
        problems=problems,
    )
    session = MeasuredSession(
        created="2026-01-31T12:00:00+00:00",
        rounds=tuple(Round(metrics=one) for one in measured),
        problems=tuple(problems),
    )
    given = {
        "scenario": Scenario(),
        "sources": {},
        "cluster": Cluster(bootstrap_servers="127.0.0.1:9092", provider="local", version="4.1.1"),
        "reference": None,
        "baseline_sessions": 1 if baseline else None,
        "changed": (),
        "advice": (),
        "calibration": {},
        "warnings": (),
        **fields,
    }
    return Result(
        nodeid=f"{file}::{name}",
        sessions=(session,),
        verdict=judgement.verdict,
        checks=judgement.checks,
        problems=tuple(problems),
        **given,
    )


def ending(
    nodeid: str,
    outcome: Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed"],
    reason: str | None = None,
    line: int | None = 7,
) -> Ending:
    """How a test of that file ended."""
    return Ending(nodeid=nodeid, outcome=outcome, reason=reason, file=nodeid.partition("::")[0], line=line)


def endings(results: Sequence[Result]) -> dict[str, Ending]:
    """What the verdicts stand for."""
    return {
        each.nodeid: ending(each.nodeid, "failed" if each.verdict.fails else "passed", line=7 + place)
        for place, each in enumerate(results)
    }


def session() -> list[Result]:
    """One test of each kind."""
    relative, absolute = "produce.latency.p99 <= baseline + 20%", "e2e.latency.p99 <= max(baseline + 20%, 5 ms)"
    return [
        result("test_ingest", relative, "produce.throughput >= baseline - 10%", "errors == 0", baseline=rounds()),
        result(
            "test_slow[1 KiB-acks=all]",
            relative,
            absolute,
            "produce.throughput >= baseline - 10%",
            baseline=rounds(),
            measured=rounds(produce__latency__p99=1.5, e2e__latency__p99=1.1),
            changed=("kafka: 4.0.0 -> 4.1.1", "config.num.io.threads: not set -> 16"),
            advice=(
                Advice(
                    metric="produce.latency.p50",
                    observed=0.0028,
                    baseline=0.0021,
                    change=0.32,
                    better=False,
                    p=0.002,
                ),
            ),
        ),
        result("test_sla", "produce.latency.p99 <= 10 ms", "produce.throughput >= 50k records/s"),
        result("test_new", "produce.throughput >= baseline - 10%"),
        result(
            "test_lost_broker",
            "lost == 0",
            measured=[],
            problems=["round 1: no record was acknowledged for 15 s while 300 were outstanding: the cluster is down"],
        ),
        result("test_counts", "errors == 0", "lost == 0", warnings=("broker 2 left at 1.2 s",)),
        result("test_bare"),
    ]
