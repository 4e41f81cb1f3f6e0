"""Suspected regressions that are measured again side by side with the baseline's brokers, on real brokers of both."""

from __future__ import annotations

import pytest

from tests.support.project import Project
from tests.support.stored_baselines import FACTOR, faster

TESTS = """
pytestmark = [
    pytest.mark.kafka_cluster(config={}),
    pytest.mark.kafka_scenario(
        rate="1k records/s", duration="500 ms", warmup="200 ms", record_size=100, partitions=1, rounds=2
    ),
    pytest.mark.kafka_threshold("produce.throughput >= baseline - 50%"),
]

def test_guard(kafka_perf):
    kafka_perf()

def test_after(kafka_cluster):
    import psutil

    assert len([one for one in psutil.Process().children() if "kafka.Kafka" in one.cmdline()]) == 1

def test_taking(kafka_perf, kafka_cluster):
    kafka_perf()
"""
"""In `test_after`, the baseline's brokers have stopped: they would take memory and cores from it."""


def test_a_slower_machine_passes_unless_the_test_may_have_changed_its_cluster(project: Project) -> None:
    """Both sides are equally slow today; but brokers may be slower by what a test that takes the cluster did to them.

    `tests/nightly` has a slower broker, at a load that depends on the machine's speed.
    """
    project.test(TESTS)
    project.run_steadily("--kafka-update-baselines")
    faster(project, FACTOR)
    run = project.run_steadily()
    assert run.verdicts == {"test_guard": "PASSED", "test_taking": "REGRESSED"}, run.out
    assert (run.status, "1 failed, 2 passed" in run.out) == (pytest.ExitCode.TESTS_FAILED, True), run.out
    out = " ".join(run.out.split())
    assert "against the stored baseline on both sides today; Kafka is unchanged" in out, run.out
    assert "re-tested side by side with freshly started baseline brokers (Kafka 4." in out
    guard, taking = run.report["tests"]
    assert len(guard["further_trials"]) >= 4
    assert all(len(trial["other_side_rounds"]) == 2 for trial in guard["further_trials"])
    assert (
        "not side by side with the baseline's brokers: the test takes kafka_cluster, and may have changed it" in run.out
    ), run.out
    assert all(trial["other_side_rounds"] == [] for trial in taking["further_trials"])
