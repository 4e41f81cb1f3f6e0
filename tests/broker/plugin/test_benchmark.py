"""Perf tests in the files of pytest-benchmark, and in its table."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_kafkaperf.plugin.conclusion import NOT_JUDGED
from tests.support.project import Project

approx: Any = pytest.approx

TEST = """
@pytest.mark.benchmark(group="topics")
@pytest.mark.parametrize("record_size", [100, 1000])
@pytest.mark.kafka_scenario(rate="200 records/s", duration="500 ms", warmup="200 ms", rounds=2)
@pytest.mark.kafka_threshold("produce.latency.p50 <= {limit}")
def test_sizes(kafka_perf, record_size):
    kafka_perf()
"""
FINE, BROKEN = TEST.format(limit="10 s"), TEST.format(limit="1 ns")


SIDE_BY_SIDE = """
def test_parsing(benchmark):
    benchmark.pedantic(int, args=("7",), rounds=3)
"""


@pytest.mark.story
def test_its_table_leaves_perf_tests_out(project: Project, on_broker: str) -> None:
    """Nanoseconds a record say nothing about load with a rate; its files have them, and an option shows them."""
    run = project.test(FINE + SIDE_BY_SIDE).run_steadily(on_broker, "--benchmark-json=saved.json")
    assert run.status == pytest.ExitCode.OK, run.out
    assert "benchmark: 1 tests" in run.out
    assert "benchmark 'topics'" not in run.out
    assert ("\npytest-benchmark recorded 2 perf tests; to show: --benchmark-columns=ops,rounds\n") in run.out
    saved = json.loads((project.folder / "saved.json").read_text(encoding="utf-8"))["benchmarks"]
    assert [bench["name"] for bench in saved] == ["test_sizes[100]", "test_sizes[1000]", "test_parsing"]


def test_its_comparison_fails_a_slower_perf_test(project: Project, on_broker: str) -> None:
    """Whoever relies on it must not get a green build because a table is shorter."""
    project.test(FINE).run_steadily(on_broker, "--benchmark-autosave", "-k", "[100]")
    project.test(FINE.replace("200 records/s", "20 records/s"))
    fails = ("--benchmark-compare", "--benchmark-compare-fail=mean:50%")
    run = project.run(on_broker, "-k", "[100]", *fails)
    assert run.status == pytest.ExitCode.TESTS_FAILED, run.out
    assert run.verdicts == {"test_sizes[100]": "PASSED"}
    assert "Performance has regressed:\n\ttest_sizes[100] (0001_unversi) - " in run.out
    assert "which its table leaves out" not in run.out


def test_its_ops_are_the_records_a_second_of_the_rounds(project: Project, on_broker: str) -> None:
    """Tools that read its files, such as github-action-benchmark and Bencher, read ours as they are."""
    run = project.test(FINE).run_steadily(on_broker, "--benchmark-json=saved.json", "--benchmark-columns=ops,rounds")
    assert run.verdicts == {"test_sizes[100]": "PASSED", "test_sizes[1000]": "PASSED"}, run.out
    assert "benchmark 'topics': 2 tests" in run.out
    saved = json.loads((project.folder / "saved.json").read_text(encoding="utf-8"))["benchmarks"]
    for bench, test in zip(saved, run.report["tests"], strict=True):
        rates = test["metrics"]["produce.throughput"]["values"]
        assert bench["fullname"] == test["nodeid"]
        assert bench["stats"]["data"] == approx([1 / rate for rate in rates])
        assert bench["stats"]["ops"] == approx(len(rates) / sum(1 / rate for rate in rates))
        assert bench["extra_info"]["verdict"] == "PASSED"
        assert bench["extra_info"]["produce.latency.p99"] == test["metrics"]["produce.latency.p99"]["value"]
        assert bench["extra_info"]["checks"][0]["verdict"] == "PASSED"


def test_disabled_it_is_a_smoke_test(project: Project, on_broker: str) -> None:
    """Each scenario runs once, and no limit is looked at."""
    project.test(BROKEN)
    gated = project.run(on_broker, "--dist=loadfile")  # with it alone pytest-benchmark is off, and tests run one by one
    assert gated.status == pytest.ExitCode.TESTS_FAILED
    smoke = project.run(on_broker, "--benchmark-disable", "--kafka-update-baselines", "--kafka-calibrate=2")
    assert smoke.status == pytest.ExitCode.OK, smoke.out
    assert [(len(test["trials"][0]["rounds"]), test["checks"]) for test in smoke.report["tests"]] == [(1, [])] * 2
    assert smoke.baselines == {}
    assert "smoke test (--benchmark-disable): the test ran one round, and no threshold was judged" in smoke.out


def test_disabled_it_is_a_smoke_test_even_if_it_times_something_itself(project: Project, on_broker: str) -> None:
    """Another revision does not even start then, so a test that waited for it could not be judged."""
    project.test(BROKEN.replace("record_size):", "record_size, benchmark):\n    benchmark(int, '7')"))
    smoke = project.run(on_broker, "--benchmark-disable", "-k", "[100]")
    assert smoke.status == pytest.ExitCode.OK, smoke.out
    assert [len(test["trials"][0]["rounds"]) for test in smoke.report["tests"]] == [1]


def test_a_run_that_cannot_be_trusted_is_in_no_file(project: Project, on_broker: str) -> None:
    """It has no results: the one broker refuses a topic with three replicas."""
    project.test(FINE.replace("rounds=2", "rounds=2, replication_factor=3"))
    run = project.run(on_broker, "--benchmark-json=saved.json", "-W", "error", "-k", "[100]")
    assert (run.status, run.verdicts) == (NOT_JUDGED, {"test_sizes[100]": "INVALID"}), run.out
    assert json.loads((project.folder / "saved.json").read_text(encoding="utf-8"))["benchmarks"] == []
