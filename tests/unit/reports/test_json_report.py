"""What programs read of a run: the JSON report and the properties of JUnit."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.core.notices import NoticeKind
from pytest_kafkaperf.core.problems import Cause, Problem, ProblemKind
from pytest_kafkaperf.core.units import Count, Quantity, Unit
from pytest_kafkaperf.plugin.options import REPORTS
from pytest_kafkaperf.reports.ci import junit_properties
from pytest_kafkaperf.reports.html.html_report import html_page
from pytest_kafkaperf.reports.json_report import json_schema, json_text
from pytest_kafkaperf.reports.markdown import markdown
from pytest_kafkaperf.reports.writing import write_reports
from pytest_kafkaperf.runner.result import Ending, Result, RunResult
from pytest_kafkaperf.verdict.outcome import Ungated, Verdict
from tests.support import results
from tests.support.report_schema import validate_report
from tests.support.results import (
    bare_result,
    calibration,
    ending,
    endings,
    one_of_each,
    result,
    rounds,
    sizes,
    trial_at,
)


def report(tests: list[Result], ends: dict[str, Ending], *, exit_status: int = 1, **given: Any) -> dict[str, Any]:
    run = results.run_of(tests, endings=ends, created="now", environment={}, **given)
    document: dict[str, Any] = json.loads(json_text(run, exit_status=exit_status))
    validate_report(document)
    return document


def test_a_check_has_its_values_and_what_they_lie_between() -> None:
    """Base units and ratios; the keys are a contract."""
    slow = result(
        "test_slow",
        "produce.latency.p99 <= baseline + 20%",
        baseline=rounds(),
        measured=rounds(produce__latency__p99=1.5),
    )
    (check,) = report([slow], endings([slow]))["tests"][0]["checks"]
    assert check == {
        "expression": "produce.latency.p99 <= baseline + 20%",
        "metric": "produce.latency.p99",
        "observed": pytest.approx(0.01815),
        "is_upper_bound": False,
        "spread": pytest.approx([0.01815 * 0.98, 0.01815 * 1.02]),
        "limit": pytest.approx(0.01452),
        "baseline": pytest.approx(0.0121),
        "change": pytest.approx(0.5),
        "interval": pytest.approx([0.38, 0.63], abs=0.001),
        "detectable_change": pytest.approx(0.242, abs=0.001),
        "verdict": "REGRESSED",
        "reason": (
            "+50.0% against the baseline; the threshold is +20.0%; noise can explain up to +9.5% (baseline of 10 days)"
        ),
        "implied": False,
    }


SAMPLES = [
    *results.one_of_each(),
    *results.sizes(),
    *results.codecs(),
    *results.many(2),
    *results.hostile("<b>"),
    results.regression(),
    results.failover(),
    results.side_by_side(),
    results.capacity(),
    results.calibration(),
    results.external(),
    results.nothing("the brokers did not start"),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.nodeid)
def test_every_report_matches_the_published_schema(sample: Result) -> None:
    """Users generate code from it."""
    assert report([sample], endings([sample]))["schema_version"] == 1


def test_a_problem_has_its_kind_its_values_in_base_units_and_a_text() -> None:
    """Programs need no number from a sentence."""
    values = {"who": "group 'billing'", "metric": "app.recovery", "waited": Quantity(4.5, Unit.SECONDS)}
    late = Problem(Cause.NOT_CAUGHT_UP, values)
    cold = Problem(Cause.COLD_BROKER, {"names": "broker 1", "cold": 1, "rounds": Count(5, "round"), "most": math.inf})
    kind, text = late.kind, late.text
    lost = dataclasses.replace(bare_result(trial_at(12)), verdict=Verdict.INVALID, problems=(late, cold))
    first, second = report([lost], endings([lost]))["tests"][0]["problems"]
    assert first == {"kind": kind, "values": {**values, "waited": 4.5}, "text": text}
    assert second["values"] == {"names": "broker 1", "cold": 1, "rounds": 5, "most": None}


def test_the_schema_has_every_kind_of_problem_and_every_verdict() -> None:
    """A report with a kind that the schema lacks would be refused by its readers."""
    definitions = json_schema()["$defs"]
    assert definitions["Problem"]["properties"]["kind"]["enum"] == [*ProblemKind]
    assert definitions["Verdict"]["enum"] == [*Verdict]
    assert definitions["Notice"]["properties"]["kind"]["enum"] == [*NoticeKind]


def test_every_report_tells_what_weakens_a_baseline() -> None:
    """Who reads the page of a job never sees the terminal."""
    weak = result("test_ingest", "produce.throughput >= baseline - 10%", baseline=rounds(), days_written=1)
    (found,) = report([weak], endings([weak]))["tests"][0]["baseline_doubts"]
    doubt = found["text"]
    assert doubt.startswith("weak baselines (fewer than 3 days; ")
    assert doubt in html_page(results.run_of([weak]))
    assert f"- {doubt}\n" in markdown(results.run_of([weak], endings=endings([weak])))
    strong = dataclasses.replace(weak, days_written=3)
    assert report([strong], endings([strong]))["tests"][0]["baseline_doubts"] == []


def test_a_change_that_no_trial_finds_is_null_whichever_way_is_better() -> None:
    """Infinitely far down is -100% for a throughput, and would read as a change that is found."""
    (found,) = calibration().calibration.values()
    blind = dataclasses.replace(found, detectable_change=math.inf)
    calibrated = dict.fromkeys(("produce.throughput", "produce.latency.p99"), blind)
    whole = dataclasses.replace(calibration(), calibration=calibrated)
    told = report([whole], endings([whole]))["tests"][0]["calibration"]
    assert [(one["detectable_change"], one["tolerance"]) for one in told.values()] == [
        (None, pytest.approx(1 / 1.1 - 1)),
        (None, pytest.approx(0.1)),
    ]


def test_the_report_says_how_tests_ended_and_what_the_exit_status_is() -> None:
    """A test may fail after a good verdict, or before any: whoever reads the report must not think it green."""
    good = result("test_ok", "errors == 0")
    ends = {
        good.nodeid: ending(good.nodeid, "error", "teardown"),
        "a.py::test_down": ending("a.py::test_down", "error", "127.0.0.1:1 is not ready"),
    }
    document = report([good], ends, errors=["--kafka-report=markdown:x: cannot write"])
    assert [(test["verdict"], test["pytest_outcome"]) for test in document["tests"]] == [("PASSED", "error")]
    assert document["unmeasured"] == [
        {"nodeid": "a.py::test_down", "pytest_outcome": "error", "reason": "127.0.0.1:1 is not ready"}
    ]
    assert (document["exit_status"], document["errors"]) == (1, ["--kafka-report=markdown:x: cannot write"])


@pytest.mark.parametrize("ungated", [*Ungated])
def test_a_threshold_that_was_not_judged_has_passed_in_no_report(ungated: Ungated) -> None:
    """A calibration proves nothing about a threshold, and neither does the run that makes its baseline."""
    limits = "produce.throughput >= baseline - 10%", "errors == 0"
    one = result("test_new", *limits, baseline=rounds(produce__throughput=3), ungated=ungated)
    assert (one.verdict, [check.outcome for check in one.checks]) == ("MEASURED", ["MEASURED", "PASSED"])
    test = report([one], endings([one]))["tests"][0]
    assert (test["verdict"], test["checks"][0]["verdict"]) == ("MEASURED", "MEASURED")
    properties = dict(junit_properties(one))
    assert (properties["kafka_verdict"], properties["kafka_check_1_verdict"]) == ("MEASURED", "MEASURED")
    assert f"      not judged: {ungated}" in results.table([one], {})
    assert "| -10%, not judged |" in markdown(results.run_of([one], endings=endings([one])))
    page = html_page(results.run_of([one]))
    assert re.findall(r'<span class="verdict[^>]*>(.*?)</span></td>', page)[-2:] == ["MEASURED", "PASSED"]


def test_an_end_that_was_not_seen_is_null() -> None:
    """Ctrl-C between the measurement and the end of its test."""
    good = result("test_ok", "errors == 0")
    assert report([good], {}, exit_status=2)["tests"][0]["pytest_outcome"] is None


def test_properties_hold_the_verdict_the_metrics_and_each_limit() -> None:
    """CI systems show them next to the test, and keep them."""
    one = result(
        "test_x",
        "produce.latency.p99 <= baseline + 20%",
        "errors == 0",
        measured=[{"produce.latency.p99": 0.0121, "errors": 0.0}] * 5,
        baseline=[{"produce.latency.p99": 0.0121}] * 5,
    )
    assert junit_properties(one) == [
        ("kafka_verdict", "PASSED"),
        ("produce.latency.p99", 0.0121),
        ("errors", 0.0),
        ("kafka_check_1", "produce.latency.p99 <= baseline + 20%"),
        ("kafka_check_1_verdict", "PASSED"),
        ("kafka_check_1_reason", "0.0% against the baseline; the threshold is +20.0%"),
        ("kafka_check_1_observed", 0.0121),
        ("kafka_check_1_limit", pytest.approx(0.01452)),
        ("kafka_check_1_baseline", 0.0121),
        ("kafka_check_1_change", 0.0),
        ("kafka_check_1_detectable_change", pytest.approx(0.2)),
        ("kafka_check_2", "errors == 0"),
        ("kafka_check_2_verdict", "PASSED"),
        ("kafka_check_2_reason", "sum of 5 rounds, each 0 records"),
        ("kafka_check_2_observed", 0.0),
        ("kafka_check_2_limit", 0.0),
    ]


def test_properties_of_an_invalid_test_say_why() -> None:
    """It has no values, and the reason is what one looks for."""
    (lost,) = [each for each in one_of_each() if each.problems]
    assert junit_properties(lost) == [
        ("kafka_verdict", "INVALID"),
        ("kafka_problem", str(lost.problems[0])),
        ("kafka_check_1", "lost == 0"),
        ("kafka_check_1_verdict", "INCONCLUSIVE"),
        ("kafka_check_1_reason", "no round was measured"),
        ("kafka_check_1_limit", 0.0),
    ]


def _run(paths: dict[str, Path]) -> RunResult:
    run = results.run_of(sizes(), commit=None)
    return dataclasses.replace(run, settings=dataclasses.replace(run.settings, reports=paths))


KINDS = sorted(REPORTS.keys() - {"history"})  # its lines are appended after each test


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, kind: str) -> None:
    """The folder may be read-only in CI; what was there stays as it was."""
    assert write_reports(_run({kind: tmp_path}), exit_status=int, variables={}).errors == (
        f"--kafka-report={kind}:{tmp_path}: this is not a regular file; give the path of a file",
    )
    assert list(tmp_path.iterdir()) == []


class _Nameless:
    """A parameter of a test."""

    def __str__(self) -> str:
        raise RuntimeError("this client is closed")


def test_a_report_that_cannot_show_a_parameter_keeps_no_other_report_from_being_written(tmp_path: Path) -> None:
    """Fixtures may already have closed the objects of users; the measurements took minutes."""
    run = _run({kind: tmp_path / kind for kind in ("html", "json")})
    tests = [dataclasses.replace(one, parameters={"client": _Nameless()}) for one in run.results]
    run = write_reports(dataclasses.replace(run, results=tuple(tests)), exit_status=int, variables={})
    assert run.errors == ("--kafka-report=html: RuntimeError: this client is closed",)
    document = json.loads((tmp_path / "json").read_text(encoding="utf-8"))
    assert (document["errors"], document["exit_status"], len(document["tests"])) == ([*run.errors], 1, len(tests))


def test_every_kind_of_report_has_a_writer(tmp_path: Path) -> None:
    """A kind without a writer would be accepted and write nothing."""
    run = _run({kind: tmp_path / kind for kind in KINDS})
    assert write_reports(run, exit_status=int, variables={}) == run
    assert sorted(path.name for path in tmp_path.iterdir()) == KINDS


def test_a_quantile_that_a_round_had_too_few_records_for_is_in_no_value() -> None:
    """Slow rounds have the fewest: without them, p99.99 was below p99.9."""
    slow = {"produce.latency.p99.9": 0.07, "recovery": 1.0}
    fast = {"produce.latency.p99.9": 0.02, "produce.latency.p99.99": 0.03}
    assert [bare_result(trial_at(12, *rounds)).values() for rounds in ((slow, fast), (fast, fast))] == [
        {"produce.latency.p99.9": [0.07, 0.02], "recovery": [1.0]},
        {"produce.latency.p99.9": [0.02, 0.02], "produce.latency.p99.99": [0.03, 0.03]},
    ]
