"""`kafka_perf.capacity()` as a user calls it."""

from __future__ import annotations

import pytest

from tests.support.project import Project

SEARCHES = """
pytestmark = pytest.mark.kafka_scenario(warmup="200 ms", record_size="1 KiB")


@pytest.mark.kafka_threshold("capacity >= 300 records/s")
def test_kept(kafka_perf):
    result = kafka_perf.capacity("produce.latency.p99 <= 2 s", low=200, high="1 MiB/s", hold="1 s")
    assert result.metrics["capacity"] > 300


@pytest.mark.kafka_threshold("capacity >= 1M records/s")
def test_out_of_reach(kafka_perf):
    kafka_perf.capacity("produce.latency.p99 <= 2 s", low=200, high=400, hold="1 s")


@pytest.mark.kafka_scenario(acks=1)
def test_refused(kafka_perf):
    kafka_perf.capacity("produce.latency.p99 <= 20 parsecs")
"""


@pytest.mark.story
def test_a_search_gates_and_is_shown(project: Project, on_broker: str) -> None:
    """The highest rate that was asked for holds: the capacity is at least that, which is enough for one limit only."""
    run = project.test(SEARCHES).run_steadily(on_broker, "-v", "--kafka-update-baselines")

    assert run.status == pytest.ExitCode.TESTS_FAILED, run.out
    assert run.verdicts == {"test_kept": "PASSED", "test_out_of_reach": "INVALID"}, run.out
    kept, out_of_reach = run.report["tests"]
    (only,) = kept["trials"][0]["rounds"]
    assert kept["search"] == {"thresholds": ["produce.latency.p99 <= 2 s"], "low": 200.0, "high": 1024.0}
    assert 1024 / (1 + 2) <= only["metrics"]["capacity"] <= 1.01 * 1024  # a second of load, answered within 2 s
    assert only["lower_bounds"] == ["capacity"]
    assert list(dict.fromkeys(step["rate"] for step in only["steps"]))[:2] == [200, 400]  # a step may be tried again
    assert (only["steps"][-1]["rate"], only["steps"][-1]["settled"]) == (1024, True)
    (problem,) = out_of_reach["problems"]
    assert (problem["kind"], problem["values"]["metric"]) == ("lower_bound", "capacity")
    assert problem["text"] == (
        "capacity >= 1M records/s: only a lower bound of capacity is known, so the true value may meet the threshold; "
        "the warnings explain why"
    )
    assert "even the highest rate met the thresholds; pass a higher high= to kafka_perf.capacity()" in run.out
    assert "step 2, 400 records/s" in run.out
    assert "kafka_perf.capacity: invalid threshold 'produce.latency.p99 <= 20 parsecs':" in run.out
    (written,) = run.baselines
    assert written.endswith("test_kept.json")
    assert '"capacity": "produce.latency.p99 <= 2 s"' in run.baselines[written]
    assert "Traceback" not in run.out
