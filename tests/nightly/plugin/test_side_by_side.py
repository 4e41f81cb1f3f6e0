"""Regressions of brokers and of machines, told apart side by side with the baseline's brokers at full load."""

from __future__ import annotations

import pytest

from tests.support.project import Project
from tests.support.stored_baselines import AFTER, FACTOR, faster, paced_guard

GUARD = """
@pytest.mark.kafka_cluster(config={config})
@pytest.mark.kafka_scenario(duration="1 s", warmup="200 ms", record_size=100, rounds=5)
@pytest.mark.kafka_threshold("produce.throughput >= baseline - 50%")
def test_guard(kafka_perf):
    kafka_perf()
"""
TRIALS_S = 3600
"""Limit of a run: the noise decides how many trials a verdict takes, up to 28 of half a minute to two."""
FLUSHES = {"log.flush.interval.messages": "1"}


def guard(config: dict[str, str]) -> str:
    return GUARD.format(config=config)


@pytest.mark.speed  # how much flushes cost depends on the processor and the disk
@pytest.mark.timeout(3 * TRIALS_S)
def test_a_slower_machine_passes_and_a_slower_broker_fails(project: Project) -> None:
    """The stored values alone cannot tell the two apart."""
    project.test(guard({}) + AFTER)
    project.run_steadily("--kafka-update-baselines")
    faster(project, FACTOR)
    same = project.run_steadily(timeout_s=TRIALS_S)
    assert (same.status, same.verdicts) == (pytest.ExitCode.OK, {"test_guard": "PASSED"}), same.out
    out = " ".join(same.out.split())
    assert "compared with the stored baseline, with unchanged brokers; Kafka is not the cause" in out, same.out

    faster(project, 1 / FACTOR)
    project.test(guard(FLUSHES))
    slower = project.run_steadily(timeout_s=TRIALS_S)
    assert (slower.status, slower.verdicts) == (pytest.ExitCode.TESTS_FAILED, {"test_guard": "REGRESSED"}), slower.out
    assert "confirmed side by side in " in slower.out
    assert "broker setting log.flush.interval.messages (default) → 1" in slower.out


def test_what_takes_the_cluster_is_not_compared_side_by_side(project: Project) -> None:
    """Its brokers may be slower by what the test did to them, and the rebuilt ones would not be."""
    project.test(paced_guard("kafka_perf, kafka_cluster"))
    project.run_steadily("--kafka-update-baselines")
    faster(project, FACTOR)
    run = project.run_steadily()
    assert (
        "not side by side with the baseline's brokers: the test takes kafka_cluster, and may have changed it" in run.out
    ), run.out
    assert all(trial["baseline_rounds"] is None for trial in run.report["tests"][0]["trials"][1:])
