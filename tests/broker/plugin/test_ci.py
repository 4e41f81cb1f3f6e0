"""What CI systems get of a run: GitHub's annotations and summary, files for others, and one answer in all of them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.project import Project, texts

TESTS = """
pytestmark = pytest.mark.kafka_scenario(records=500, warmup="100 ms", rounds=1, partitions=1)

@pytest.fixture
def late_failure():
    yield
    raise RuntimeError("the application did not stop")

@pytest.fixture
def early_failure():
    raise RuntimeError("no application")

@pytest.mark.kafka_threshold("errors == 0")
def test_good(kafka_perf):
    kafka_perf()

@pytest.mark.kafka_threshold("produce.latency.p99 <= 1 us")
def test_broken(kafka_perf):
    kafka_perf()

@pytest.mark.kafka_threshold("produce.throughput >= baseline - 10%")
def test_new(kafka_perf):
    kafka_perf()

def test_own_assertion(kafka_perf):
    result = kafka_perf()
    assert result.metrics["produce.throughput"] > 1e9, "orders, 50% of them"

def test_teardown(late_failure, kafka_perf):
    kafka_perf()

@pytest.mark.xfail(reason="a broker of last year")
@pytest.mark.kafka_threshold("produce.latency.p99 <= 1 us")
def test_known(kafka_perf):
    kafka_perf()

def test_down(early_failure, kafka_perf):
    kafka_perf()
"""


HEADLINE = (
    "### ❌ 1 of 7 Kafka tests could not be measured, 1 broke its limit, 2 failed, 1 broke its limit (xfailed), "
    "1 could not be decided"
)


@pytest.mark.story
def test_every_report_tells_the_same(project: Project, on_broker: str, github: dict[str, Any]) -> None:
    """Whoever reads only one of them must not think that the run was green."""
    files = ("--kafka-report=markdown:out/summary.md", "--kafka-report=gitlab:out/metrics.txt")
    run = project.test(TESTS).run(on_broker, "-q", *files, **github)
    report = run.report
    assert run.status == report["exit_status"] == pytest.ExitCode.TESTS_FAILED, run.out
    found = {test["nodeid"].rpartition("::")[2]: (test["verdict"], test["pytest_outcome"]) for test in report["tests"]}
    assert found == {
        "test_good": ("PASSED", "passed"),
        "test_broken": ("VIOLATED", "failed"),
        "test_new": ("INCONCLUSIVE", "passed"),
        "test_own_assertion": ("MEASURED", "failed"),
        "test_teardown": ("MEASURED", "error"),
        "test_known": ("VIOLATED", "xfailed"),
    }
    assert [(each["pytest_outcome"], each["reason"]) for each in report["unmeasured"]] == [
        ("error", "RuntimeError: no application")
    ]
    junit = run.junit.attrib
    assert [junit[name] for name in ("failures", "errors", "skipped")] == ["2", "2", "1"]
    properties = {
        test.attrib["name"]: {each.attrib["name"]: each.attrib["value"] for each in test.iter("property")}
        for test in run.junit.iter("testcase")
    }
    assert {name: verdict for name, (verdict, _) in found.items()} == {
        name: given["kafka_verdict"] for name, given in properties.items() if given
    }
    assert properties["test_broken"]["kafka_check_1_verdict"] == "VIOLATED"
    assert properties["test_new"]["kafka_check_1_reason"].startswith("no baseline for this test")

    lines = [line for line in run.out.splitlines() if line.startswith("::")]
    told = [re.match(r"::(\w+) file=project/test_perf\.py,line=(\d+),title=test_perf\.py%3A%3A(\w+)", x) for x in lines]
    annotated = [found.group(1, 3) for found in told if found]
    failed = ["test_down", "test_broken", "test_own_assertion", "test_teardown"]
    assert annotated[:4] == [("error", name) for name in failed]
    assert {kind for kind, _ in annotated[4:]} == {"warning"}  # others too, if the machine slowed their load down
    assert {("warning", "test_known"), ("warning", "test_new")} <= {*annotated}
    source = (project.folder / "test_perf.py").read_text(encoding="utf-8").splitlines()
    for found_line in filter(None, told):  # of the test, or of its first decorator
        line, name = int(found_line[2]), found_line[3]
        assert any(f"def {name}(" in text for text in source[line - 1 : line + 2]), (line, name)
    assert "orders, 50%25 of them%0A" in lines[2]
    assert "::test_broken broke its limit: produce.latency.p99 " in lines[1]

    summary = (project.folder.parent / "summary.md").read_text(encoding="utf-8")
    written = (project.folder / "out/summary.md").read_text(encoding="utf-8")
    assert written.partition("\n")[0] == HEADLINE
    without_link = written.partition("\n[Open this run")[0]  # which this test's own job may have
    assert summary.endswith(f"\n{without_link}")
    metrics = (project.folder / "out/metrics.txt").read_text(encoding="utf-8")
    _, _, rest = metrics.partition('kafka_produce_latency_seconds{quantile="0.99",test="test_perf.py::test_good"} ')
    (good,) = [test for test in run.report["tests"] if test["nodeid"] == "test_perf.py::test_good"]
    assert float(rest.split()[0]) == pytest.approx(good["metrics"]["produce.latency.p99"]["value"], rel=0.01)


SHORT = """
@pytest.mark.kafka_scenario(records=500, warmup="100 ms", rounds=1, partitions=1)
def test_short(kafka_perf):
    kafka_perf()
"""


def test_a_report_that_cannot_be_written_fails_the_run_and_the_others_say_so(project: Project, on_broker: str) -> None:
    """A log in CI has a line a round with `-v`, and nothing that moves."""
    summary = project.folder / "summary.md"
    tests = f"{SHORT}\n    import pathlib\n    pathlib.Path({str(summary)!r}).mkdir()\n"
    run = project.test(tests).run(on_broker, "-v", f"--kafka-report=markdown:{summary}", CI="true")
    assert run.status == run.report["exit_status"] == pytest.ExitCode.TESTS_FAILED, run.out
    assert run.verdicts == {"test_short": "MEASURED"}
    problem = "this is not a regular file; give the path of a file"
    assert f"ERROR: --kafka-report=markdown:{summary}: {problem}" in run.out
    assert len(re.findall(r"(?m)^test_short  round 1/1", run.out)) == 1
    assert "\x1b" not in run.out
    assert "\r" not in run.out


TWICE = """
import itertools

runs = itertools.count()

@pytest.mark.kafka_scenario(records=500, warmup=0, rounds=1, partitions=1)
def test_twice(kafka_perf):
    kafka_perf()
    assert next(runs), "not the first time"
"""


def test_of_a_test_that_another_plugin_repeats_the_last_run_counts(project: Project, on_broker: str) -> None:
    """That there was one before is said. JUnit's file has the properties of both, each once: pytest adds up."""
    run = project.test(TWICE).run(on_broker, "--reruns=1")
    assert (run.status, run.verdicts) == (pytest.ExitCode.OK, {"test_twice": "MEASURED"}), run.out
    (test,) = run.report["tests"]
    assert "this test was repeated; its earlier verdict was MEASURED" in texts(test["notes"])
    assert test["pytest_outcome"] == "passed"
    names = [each.attrib["name"] for each in run.junit.iter("property")]
    assert {names.count(name) for name in names} == {2}
