"""A metric that a test records itself, next to a live baseline."""

from __future__ import annotations

from tests.support.project import Project

NUMBER = """
@pytest.mark.kafka_scenario(rate="300 records/s", duration="300 ms", warmup="100 ms", partitions=2, rounds=1)
@pytest.mark.kafka_threshold("app.size <= 4 MB", "app.size <= baseline + 10%")
def test_size(kafka_perf):
    kafka_perf.add_metric("app.size", 3e6, unit="B", better="lower")
    kafka_perf()
"""


def test_with_a_live_baseline_a_number_is_of_the_tests_own_side(project: Project) -> None:
    """It is judged by absolute thresholds alone: as a value of both sides it would always be unchanged."""
    run = project.test(NUMBER).run("--kafka-cluster=local", "--kafka-compare=local")
    (test,) = run.report["tests"]
    assert [check["verdict"] for check in test["checks"]] == ["PASSED", "INCONCLUSIVE"], run.out
    assert "app.size" not in test["trials"][0]["baseline_rounds"][0]["metrics"]
    assert "app.size" in test["checks"][1]["reason"]
