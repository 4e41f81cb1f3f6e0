"""Which tests run on brokers with the quick compiler alone, and when they are measured again with all compilers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.clusters.brokers.config import Security
from pytest_kafkaperf.clusters.brokers.fleet import Fleet
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.runner.perftest import PerfTest, read_perftest
from pytest_kafkaperf.runner.quick_brokers import compilers, reasons_to_repeat, starts_quick, without_repeat
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.verdict.outcome import Check, Judgement, Verdict
from tests.support.problems import problem_told

GIT = {"compare": "git:main"}
P50, P99 = "e2e.latency.p50", "e2e.latency.p99"
PACED = {"rate": "1k records/s", "consumers": 1}


def perftest_of(
    folder: Path,
    *thresholds: str,
    scenario: dict[str, Any] = PACED,
    cluster: dict[str, Any] | None = None,
    options: dict[str, str] = GIT,
    ini: dict[str, object] | None = None,
) -> PerfTest:
    settings = read_settings({"cluster": "local", **options}, ini or {}, invocation_folder=folder, root=folder)
    marks = [pytest.mark.kafka_scenario(**scenario).mark, pytest.mark.kafka_cluster(**(cluster or {})).mark]
    if thresholds:
        marks.append(pytest.mark.kafka_threshold(*thresholds).mark)
    return read_perftest("a.py::test", marks, {}, settings, folder=folder)


@pytest.mark.parametrize(
    ("quick", "thresholds", "changes"),
    [
        (True, [f"{P50} <= baseline + 10%", "lost == 0", "error_ratio <= 1%"], {}),
        (True, [f"{P50} <= baseline + 10%", f"{P99} <= 250 ms", "produce.throughput >= 900 records/s"], {}),
        (True, [], {}),
        (True, [f"{P50} <= baseline + 10%"], {"options": {"compare": "path:.."}}),
        (True, [f"{P50} <= baseline + 10%"], {"cluster": {"quick_compiler": True}, "options": {}}),
        (
            False,
            ["produce.throughput >= baseline - 5%"],
            {"scenario": {}},
        ),  # slow brokers may be the limit on both sides
        (False, ["errors >= 1"], {}),  # slow brokers meet these more easily
        (False, ["errors > 0"], {}),
        (False, ["produce.throughput <= 1k records/s"], {}),
        (False, [f"{P50} >= 5 ms"], {}),
        (False, [f"{P50} <= min(baseline + 10%, 250 ms)"], {}),  # its absolute part has no outcome of its own
        (False, ["broker.cpu_per_record <= baseline + 10%"], {}),
        (False, ["produce.throughput.steadiness >= 90%"], {"scenario": {**PACED, "duration": "10 s"}}),
        (False, ["app.cpu <= 0.5"], {}),  # a slow broker makes larger batches
        (False, [f"{P50} <= baseline + 10%"], {"cluster": {"quick_compiler": False}}),
        (False, [f"{P50} <= baseline + 10%"], {"ini": {"quick-compiler": False}}),
        (False, [f"{P50} <= baseline + 10%"], {"ini": {"thresholds": ["broker.cpu_per_record <= 1 s/M records"]}}),
        (False, [f"{P50} <= baseline + 10%"], {"options": {"compare": "local:4.0.0"}}),
        (False, [f"{P50} <= baseline + 10%"], {"options": {}}),
    ],
)
def test_comparisons_of_code_start_on_quick_brokers_unless_a_limit_depends_on_them(
    tmp_path: Path, thresholds: list[str], changes: dict[str, Any], *, quick: bool
) -> None:
    """A limit that is met on slow brokers is met on fast ones, and only then may it be judged there."""
    if "app.cpu <= 0.5" in thresholds:
        changes = {"scenario": {**PACED, "topic": "in", "output_topic": "out"}}
    assert starts_quick(perftest_of(tmp_path, *thresholds, **changes)) is quick


def side(*, quick: bool | None) -> Side:
    """A side whose brokers, which never start, use these compilers."""
    fleet = Fleet(
        servers={},
        bootstrap_servers="127.0.0.1:1",
        cluster_id="",
        security=Security.make(None, ["127.0.0.1"]),
        quick=quick,
        shared_probes={},
    )
    return Side.of(Cluster.of_fleet(fleet, provider="local", version="4.3.1", facts={}))


@pytest.mark.parametrize(
    ("known", "thresholds", "wanted"),
    [
        ([True, True], [f"{P50} <= baseline + 10%"], True),
        ([True, False], [f"{P50} <= baseline + 10%"], True),
        ([True, True], ["broker.cpu_per_record <= baseline + 10%"], False),
        ([True, None], [f"{P50} <= baseline + 10%"], False),  # both sides must be alike
        ([None, None], [f"{P50} <= baseline + 10%"], None),
    ],
)
def test_both_sides_always_use_the_same_compilers(
    tmp_path: Path, known: list[bool | None], thresholds: list[str], *, wanted: bool | None
) -> None:
    """The side that measures decides for both, whatever each has started."""
    test, sides = perftest_of(tmp_path, *thresholds), [side(quick=each) for each in known]
    assert compilers(test, sides, same_kafka=True) is wanted
    assert compilers(test, sides, same_kafka=False) is (None if known == [None, None] else False)


def test_brokers_of_other_comparisons_stay_as_they_were_started(tmp_path: Path) -> None:
    """A baseline may have been measured with another compiler."""
    test = perftest_of(tmp_path, f"{P50} <= baseline + 10%", options={"compare": "local:4.0.0"})
    assert compilers(test, [side(quick=True), side(quick=False)], same_kafka=True) is None


def check(metric: str, outcome: Verdict, *, observed: float = 0.3, is_relative: bool = False) -> Check:
    return Check(
        expression=metric,
        metric=metric,
        outcome=outcome,
        observed=observed,
        limit_value=None,
        reasons=(),
        is_relative=is_relative,
    )


def judgement(*checks: Check, kinds: tuple[ProblemKind, ...] = ()) -> Judgement:
    problems = tuple(problem_told(kind, "the text") for kind in kinds)
    verdict = Verdict.INVALID if kinds else Verdict.VIOLATED
    return Judgement(verdict=verdict, checks=checks, problems=problems)


@pytest.mark.parametrize(
    ("judged", "reasons"),
    [
        (judgement(check(P99, Verdict.VIOLATED)), f"{P99} was 300 ms"),
        (judgement(kinds=(ProblemKind.GENERATOR_TOO_SLOW,)), "the text"),
        (judgement(check(P50, Verdict.REGRESSED, is_relative=True)), None),
        (judgement(check(P99, Verdict.PASSED)), None),
        (judgement(check("lost", Verdict.VIOLATED, observed=1), check(P99, Verdict.VIOLATED)), None),
        (judgement(check("duplicated", Verdict.VIOLATED, observed=3)), None),
        (judgement(check("errors", Verdict.VIOLATED, observed=3)), "errors was 3 records"),
        (judgement(check(P99, Verdict.VIOLATED), kinds=(ProblemKind.APPLICATION_ENDED,)), None),
    ],
)
def test_what_slow_brokers_may_explain_is_measured_again_and_nothing_else(
    judged: Judgement, reasons: str | None
) -> None:
    """A second measurement must not hide a lost record, or an application that crashed."""
    assert reasons_to_repeat(judged) == reasons


def test_without_time_to_measure_again_a_limit_says_why_it_may_be_unfair() -> None:
    """An undecided limit would be green without --kafka-strict, in every run."""
    judged = without_repeat(judgement(check(P99, Verdict.VIOLATED), check(P50, Verdict.PASSED, is_relative=True)))
    assert [one.outcome for one in judged.checks] == [Verdict.VIOLATED, Verdict.PASSED]
    assert judged.verdict is Verdict.VIOLATED
    assert "increase --kafka-time-budget" in judged.checks[0].reason
