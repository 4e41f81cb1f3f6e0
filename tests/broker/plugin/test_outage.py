"""Applications that are down for a while, or start at a backlog: their recovery is what arithmetic says.

The sink takes a known time for each record, so that its capacity is known, and commits at a known interval.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import service, sink
from tests.support.project import Project

RATE = 100
COMMIT_S = 0.25
POLL_S = 0.1

PERF_TEST = """
@pytest.fixture
def service(kafka_app):
    names = ["--bootstrap-servers={{bootstrap_servers}}", "--topic=orders", "--group=orders-sink"]
    command = ["python", "sink.py", *names, "--delay-ms={delay_ms}", "--commit-ms=250"]
    return kafka_app(command, ready="group:orders-sink", topics={{"orders": 1}}, name="sink")


@pytest.mark.kafka_scenario(
    topic="orders", watch_group="orders-sink", rate="100 records/s", duration="{duration_s} s", warmup=0,
    rounds=1{fields}
)
@pytest.mark.kafka_threshold("app.recovery <= 1 min", "app.start <= 1 min", "lost == 0")
def test_recovery(service, kafka_perf):
    {actions}
    kafka_perf()
"""


@pytest.fixture
def sunk(project: Project) -> Project:
    """A project with the sink."""
    return project.write("sink.py", Path(sink.__file__).read_text(encoding="utf-8"))


def measured(sunk: Project, on_broker: str, **given: Any) -> tuple[dict[str, float], dict[str, float]]:
    """Run the test; return the metrics of its round, and the time of each event of the sink in it."""
    run = sunk.test(PERF_TEST.format(**{"fields": "", "actions": "pass", **given})).run(on_broker)
    assert run.verdicts == {"test_recovery": "PASSED"}, run.out
    (test,) = run.report["tests"]
    times = {one["action"]: one["at_s"] for one in test["trials"][0]["rounds"][0]["events"]}
    return {name: one["value"] for name, one in test["metrics"].items()}, times


def near(expected_s: float) -> Any:
    """Within one commit interval, as far as two readings show it, and 5%."""
    return pytest.approx(expected_s, abs=COMMIT_S + 2 * POLL_S + 0.05 * expected_s)


@pytest.mark.speed
def test_missed_load_is_caught_up_with_by_arithmetic(sunk: Project, on_broker: str) -> None:
    """It does 300 records/s; while it was down, 100 records/s came in."""
    actions = 'kafka_perf.at("1 s", service.stop)\n    kafka_perf.at("4 s", service.start)'
    metrics, times = measured(sunk, on_broker, delay_ms=10 / 3, duration_s=12, actions=actions)
    expected_s = (times["ready"] - times["stopped"]) * 300 / (300 - RATE)
    assert metrics["app.recovery"] == near(expected_s)
    assert metrics["app.start"] == pytest.approx(times["ready"] - times["started"], abs=COMMIT_S + 2 * POLL_S)
    assert metrics["app.recovery.throughput"] == pytest.approx(300, rel=0.2)


def test_an_outage_that_is_too_long_already_fails_without_its_end(sunk: Project, on_broker: str) -> None:
    """However long it would have taken, it is longer than promised."""
    perf_test = PERF_TEST.replace("app.recovery <= 1 min", "app.recovery <= 1 s").replace('"app.start <= 1 min", ', "")
    actions = 'kafka_perf.at("1 s", service.stop)\n    kafka_perf.at("7.9 s", service.start)'
    run = sunk.test(perf_test.format(delay_ms=1, duration_s=8, fields="", actions=actions)).run(on_broker)
    assert run.verdicts == {"test_recovery": "VIOLATED"}, run.out
    (test,) = run.report["tests"]
    assert (test["problems"], test["lower_bounds"]) == ([], ["app.recovery"])
    (stopped_s,) = [one["at_s"] for one in test["trials"][0]["rounds"][0]["events"] if "stopped" in one["text"]]
    assert 1 < test["metrics"]["app.recovery"]["value"] <= 8 - stopped_s + 0.01
    assert "test_recovery broke its limit: app.recovery ≥ " in run.out
    assert "round 1: group 'orders-sink' had not caught up when the load ended" in " ".join(run.out.split())


@pytest.mark.speed
def test_a_backlog_is_caught_up_with_by_arithmetic(sunk: Project, on_broker: str) -> None:
    """It does 400 records/s, and is started when the window opens."""
    fields = ', backlog="1000 records"'
    metrics, times = measured(sunk, on_broker, delay_ms=2.5, duration_s=9, fields=fields)
    expected_s = (1000 + 400 * times["ready"]) / (400 - RATE)
    assert metrics["app.recovery"] == near(expected_s)
    assert metrics["app.recovery.throughput"] == pytest.approx(400, rel=0.1)
    assert metrics["app.lag.max"] == pytest.approx(1000 + RATE * times["ready"], rel=0.05)


MOVED = """
@pytest.mark.kafka_scenario(
    topic="moved-in", output_topic="moved-out", watch_group="mover", backlog="1k records", rate="200 records/s",
    duration="15 s", warmup="200 ms", rounds=2, consumers=1,
)
@pytest.mark.kafka_threshold("lost == 0", "duplicated == 0", "errors == 0", "app.recovery <= 1 min")
def test_moved(kafka_app, kafka_perf):
    command = ["python", "service.py", "--commit-ms=250"]
    kafka_app(command, ready="group:mover", topics={"moved-in": 2, "moved-out": 2}, name="mover")
    kafka_perf()
"""


def test_each_round_has_a_backlog_that_is_none_of_its_records(project: Project, on_broker: str) -> None:
    """What comes out of a service that catches up is told apart from the load."""
    project.write("service.py", Path(service.__file__).read_text(encoding="utf-8"))
    run = project.test(MOVED).run(on_broker)
    assert run.verdicts == {"test_moved": "PASSED"}, run.out
    (test,) = run.report["tests"]
    assert len(test["trials"][0]["rounds"]) == 2
    for one in test["trials"][0]["rounds"]:
        assert [event["text"].split()[-1] for event in one["events"]] == ["started", "ready"]
        assert one["metrics"]["app.lag.max"] >= 1_000
        assert sum(share["received"] for share in one["workers"]) == 3000
