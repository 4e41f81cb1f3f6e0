"""The series in the JSON report: what other programs draw plots from."""

from __future__ import annotations

import hashlib
import json

from tests.support.project import Project, problem_kinds

SCENARIO = """
@pytest.mark.kafka_scenario(
    rate="200 -> 1000 records/s over 1 s", duration="1.5 s", warmup="500 ms", rounds=2, producers=2, key="zipf:100",
    payload="file:orders.txt", headers={"trace": "a"}, compression="lz4", transaction_size=100, abort_ratio=0.2,
    consumers=1, consumer_groups=2, isolation_level="read_committed", consumer_config={"fetch.max.wait.ms": 100},
)
@pytest.mark.kafka_threshold("errors == 0", "lost == 0", "duplicated == 0", "reordered == 0")
def test_orders(kafka_perf):
    kafka_perf()
"""


def test_a_report_holds_every_acknowledged_record_of_each_second(project: Project, on_broker: str) -> None:
    """All features in one test, as a user writes it; the samples are found next to the test's file."""
    project.write("orders.txt", "\n".join(f"order {number:020}" for number in range(1000)))
    run = project.test(SCENARIO).run(on_broker)

    (test,) = run.report["tests"]
    assert len(test["trials"][0]["rounds"]) == 2
    assert test["scenario"]["payload"] == {
        "file": "orders.txt",
        "delimiter": "\n",
        "size_bytes": 26_999,
        "sha256": hashlib.sha256((project.folder / "orders.txt").read_bytes()).hexdigest(),
    }
    assert test["scenario"]["key"] == "zipf:100"
    for one in test["trials"][0]["rounds"]:
        assert {*problem_kinds(one)} <= {"generator_too_slow"}
        produce, consume = one["series"]["produce"], one["series"]["consume"]
        # 1100 records are due in the window; of the warm-up's 100 and these, every fifth hundred of a producer is not
        # committed: one or two of six.
        assert sum(consume["count"]) == 2 * sum(produce["count"])
        assert 900 <= sum(produce["count"]) <= 1100
        assert produce["interval_s"] == 1
        assert produce["first_s"] in (-1, 0)  # a slow machine acknowledges nothing in the warm-up
        assert {len(curve) for name, curve in produce.items() if isinstance(curve, list)} == {len(produce["count"])}
        assert all(high is None or high > 0 for high in produce["max"])
    assert [check["verdict"] for check in test["checks"]] == ["PASSED"] * 4, run.out


SAMPLES_OF_A_FIXTURE = """
import os, pathlib

@pytest.fixture(autouse=True)
def orders():
    pathlib.Path("orders.txt").write_text("0123456789\\n" * int(os.environ["ORDERS"]))

@pytest.mark.kafka_scenario(payload="file:orders.txt", rate="200 records/s", duration="500 ms", warmup="0 s", rounds=2)
@pytest.mark.kafka_threshold("produce.latency.p50 <= baseline + 900%")
def test_orders(kafka_perf):
    kafka_perf()
"""


def test_a_baseline_of_other_samples_is_not_compared(project: Project, on_broker: str) -> None:
    """The same name says nothing: this fixture replaces the file after the collection, before the load."""
    project.write("orders.txt", "x").test(SAMPLES_OF_A_FIXTURE)
    first = project.run_steadily(on_broker, "--kafka-update-baselines", ORDERS="1")
    (baseline,) = first.baselines.values()
    assert json.loads(baseline)["scenario"]["payload"]["size_bytes"] == 11

    same = project.run_steadily(on_broker, ORDERS="1")
    other = project.run_steadily(on_broker, ORDERS="2")
    assert other.verdicts == {"test_orders": "INCONCLUSIVE"}, other.out
    assert "file:orders.txt (11 B, SHA-256 " in other.out
    assert "the scenario differs" not in same.out
