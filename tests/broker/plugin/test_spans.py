"""Where the time of a test goes, on brokers that the plugin starts."""

from __future__ import annotations

from pytest_kafkaperf.core.spans import Span
from tests.support.project import Project, Run

LOAD_S = 0.3 + 0.6
GAP_S = 0.5
TESTS = """
pytestmark = [
    pytest.mark.kafka_scenario(
        rate="500 records/s", duration="600 ms", warmup="300 ms", rounds=2, producers=2, consumers=1
    ),
    pytest.mark.kafka_threshold("produce.throughput >= baseline - 30%"),
]


@pytest.fixture(scope="module")
def application(kafka_cluster_factory, kafka_app_factory):
    code = "import time; print('ready', flush=True); time.sleep(3600)"
    return kafka_app_factory(["python", "-c", code], ready="line:ready", cluster=kafka_cluster_factory(), name="idle")


def test_first(application, kafka_perf):
    kafka_perf()


def test_second(application, kafka_perf):
    kafka_perf()
"""
INI = f"""
[pytest]
kafka_cluster = local
kafka_trial_gap = {GAP_S} s
kafka_broker_warmup = 3 s
"""


def durations_s(run: Run) -> dict[str, float]:
    """What pytest measured of each test: its setup, its call and its teardown."""
    return {test.attrib["name"]: float(test.attrib["time"]) for test in run.junit.iter("testcase")}


def test_the_spans_of_a_test_are_its_duration(project: Project) -> None:
    """A span that is missing, counted twice or measured in the wrong place would send its reader the wrong way."""
    project.write("pytest.ini", INI)
    run = project.test(TESTS).run_steadily("-v", "--kafka-calibrate=2", "--kafka-quick-compiler", COLUMNS="80")
    # On a busy machine, brokers may still be cold after 3 s. The test is then INVALID, but its spans are as exact.
    assert [test["verdict"] in {"MEASURED", "INVALID"} for test in run.report["tests"]] == [True, True], run.out
    first, second = (test["spans_s"] for test in run.report["tests"])

    whole_s = durations_s(run)
    assert 0.9 * whole_s["test_first"] < sum(first.values()) < whole_s["test_first"]
    assert 0.9 * whole_s["test_second"] < sum(second.values()) < whole_s["test_second"]

    assert list(first) == list(Span)
    assert [name for name, seconds in first.items() if seconds <= 0] == []
    assert [name for name, seconds in second.items() if seconds <= 0] == ["fetch", "setup"]  # shared with the first
    trials, rounds = 2, 2
    for spans in (first, second):
        assert spans["window"] > trials * rounds * LOAD_S
        assert spans["pause"] >= (trials - 1) * GAP_S
        assert spans["other"] < 0.2 * sum(spans.values())

    # No record reaches the application, so its compiler, which is unknown, prolongs no warm-up.
    warm_ups = [warm_up for test in run.report["tests"] for warm_up in test["trials"][0]["warm_ups"]]
    assert {program for warm_up in warm_ups for shares in warm_up["compiler"] for program in shares} == {"1"}

    assert "  time " in run.out
    assert "where the time of 2 tests went: " in run.out
