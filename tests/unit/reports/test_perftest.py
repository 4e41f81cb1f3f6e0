"""Each round in the words of Kafka's own tools."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from pytest_kafkaperf.load.messages import WorkerShare
from pytest_kafkaperf.reports.perftest import perftest_lines
from pytest_kafkaperf.reports.tool_runs import read_runs
from pytest_kafkaperf.runner.result import Result
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.results import FILE, result

approx: Any = pytest.approx

FIGURES = {
    "produce.throughput": 5000.0,
    "produce.bandwidth": 5000.0 * 1024,
    "produce.latency.mean": 0.00251,
    "produce.latency.max": 0.125,
    "produce.latency.p50": 0.002,
    "produce.latency.p95": 0.007,
    "produce.latency.p99": 0.012,
    "produce.latency.p99.9": 0.09,
}
READ = {"consume.throughput": 4990.0, "consume.bandwidth": 4990.0 * 1024}


def counted(found: Result) -> Result:
    """The same rounds by two workers, which sent 50,000 records and received them."""
    share = WorkerShare(host=None, producers=1, consumers=1, cpu_s=1.0, busy_ratio=0.5, sent=25_000, received=25_000)
    rounds = tuple(dataclasses.replace(one, shares=(share, share)) for one in found.rounds)
    return dataclasses.replace(found, sessions=(dataclasses.replace(found.sessions[0], rounds=rounds),))


def test_a_script_that_reads_the_tools_reads_our_rounds() -> None:
    """A line a round, after the test's name; what is printed is what was measured, to the printed digits."""
    scenario = Scenario.of({"duration": "10 s", "rate": 5000, "consumers": 1, "record_size": "1 KiB"})
    found = counted(result("test_orders", measured=[FIGURES | READ] * 2, scenario=scenario))
    name, *lines = perftest_lines(found)
    assert name == f"{FILE}::test_orders"
    assert (
        lines[:2]
        == [
            (
                "50000 records sent, 5000.000000 records/sec (4.88 MB/sec), 2.51 ms avg latency, "
                "125.00 ms max latency, 2 ms 50th, 7 ms 95th, 12 ms 99th, 90 ms 99.9th."
            )
        ]
        * 2
    )
    assert [run.metrics for run in read_runs("\n".join(lines[:2]).encode(), file="x")] == [
        {**FIGURES, "produce.bandwidth": approx(5000 * 1024, rel=0.001)}
    ] * 2
    assert lines[2].startswith("start.time, end.time, data.consumed.in.MB, MB.sec")
    assert [run.metrics["consume.throughput"] for run in read_runs("\n".join(lines[2:]).encode(), file="x")] == [
        4990.0
    ] * 2


def test_a_round_without_a_figure_has_no_line() -> None:
    """Nothing is made up."""
    short = {name: value for name, value in FIGURES.items() if name != "produce.latency.p95"}
    assert [*perftest_lines(counted(result("test_orders", measured=[short, FIGURES])))][1:] != []
    assert len([*perftest_lines(counted(result("test_orders", measured=[short])))]) == 1
