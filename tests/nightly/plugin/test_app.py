"""Applications under test: further thresholds, fresh trials, and an instance on each side."""

from __future__ import annotations

import pytest

from tests.support.orphans import ended
from tests.support.project import Project, measured_again
from tests.support.serviced import drop_most_records, starts, through


def test_a_service_that_drops_more_than_the_test_allows_fails(serviced: Project, on_broker: str) -> None:
    """It has less to do, so it looks faster."""
    drop_most_records(serviced, on_broker, '"app.output_ratio >= 15%"', "VIOLATED")


def test_a_fresh_trial_restarts_the_service_with_its_brokers(serviced: Project) -> None:
    """A service that had lost its brokers would need longer, and its log would be full of that."""
    body = "def test_moved(service, kafka_perf):\n    kafka_perf()\n    assert service.output == ''"
    marked = through(body, limits=', "e2e.latency.p50 <= baseline + 1000%"')
    run = serviced.test(marked).run("--kafka-calibrate=2")
    assert run.status == pytest.ExitCode.OK, run.out
    (test,) = run.report["tests"]
    trials = len(test["trials"]) + measured_again(test)
    assert len(starts(serviced)) == len({pid for pid, *_ in starts(serviced)}) == trials >= 2


def test_both_sides_of_a_comparison_have_an_instance(serviced: Project) -> None:
    """An action is done to both, and both record metrics; the one on the live baseline also ends with the test."""
    body = """
def test_moved(service, kafka_perf):
    kafka_perf.at("100 ms", service.restart)
    kafka_perf.add_metric("app.process", lambda app: app.pid, service, unit="id", better="lower")
    kafka_perf()
"""
    marked = through(body).replace('"1 s"', '"4 s"').replace('"moved-in": 2, ', "")  # which the plugin creates
    run = serviced.test(marked).run("--kafka-compare=local")
    (test,) = run.report["tests"]
    assert test["problems"] == [], run.out
    sides = [(side, servers) for _, side, servers in starts(serviced)]
    expected = 2 * (1 + measured_again(test))
    assert [side for side, _ in sorted(sides)] == ["baseline"] * expected + ["test"] * expected
    (trial,) = test["trials"]
    recorded = [trial[side][0]["metrics"]["app.process"] for side in ("rounds", "baseline_rounds")]
    last = {side: int(pid) for pid, side, _ in starts(serviced)}
    assert recorded == [last["test"], last["baseline"]]
    assert len({servers for _, servers in sides}) == 2
    assert all(ended(int(pid)) for pid, *_ in starts(serviced))
