"""Applications with several instances that share a consumer group, one of which is lost under load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import careful
from tests.support.careful import SESSION_MS
from tests.support.project import Project, problem_kinds, texts

KILLED_S = 3.0
PERF_TEST = """
@pytest.fixture
def service(kafka_app):
    return kafka_app(
        ["python", "careful.py", "orders", "bills", "billing"],
        instances=3,
        ready="group:billing",
        topics={{"orders": 6, "bills": 6}},
        name="billing",
        timeout="90 s",
    )


@pytest.mark.kafka_scenario(
    topic="orders", output_topic="bills", watch_group="billing", rate="200 records/s", duration="{duration_s} s",
    warmup="500 ms", rounds={rounds}, consumers=1
)
@pytest.mark.kafka_threshold("lost == 0", "errors == 0"{limits})
def test_billing(service, kafka_perf):
    {actions}
    kafka_perf()
"""


@pytest.fixture
def billing(project: Project) -> Project:
    """A project with the application."""
    return project.write("careful.py", Path(careful.__file__).read_text(encoding="utf-8"))


def perf_test(*actions: str, duration_s: int, rounds: int = 1, limits: str = "") -> str:
    return PERF_TEST.format(actions="\n    ".join(actions), duration_s=duration_s, rounds=rounds, limits=limits)


def events_of(one: dict[str, Any]) -> list[tuple[str, float]]:
    """What the test did to the instances in a round, and when."""
    return [(event["text"].partition(": ")[2], event["at_s"]) for event in one["events"] if event["action"]]


@pytest.mark.story
def test_a_fleet_that_loses_an_instance_loses_no_record(billing: Project, on_broker: str) -> None:
    """The others take over after the timeout of its membership, and the report shows when and how long."""
    actions = f'kafka_perf.at("{KILLED_S:g} s", service.kill, 1)'
    limits = ', "app.recovery <= 1 min", "app.cpu <= 2 cores"'
    run = billing.test(perf_test(actions, duration_s=20, limits=limits)).run(on_broker, "-v")
    assert run.verdicts == {"test_billing": "PASSED"}, run.out
    (test,) = run.report["tests"]
    metrics = {name: one["value"] for name, one in test["metrics"].items()}
    assert metrics["lost"] == 0
    timeout_s = SESSION_MS / 1000
    assert timeout_s - 1 < metrics["app.recovery"] < 17  # its last heartbeat was up to half a second before
    assert "app.start" not in metrics
    ((text, at_s),) = events_of(test["trials"][0]["rounds"][0])
    assert text == "billing-1 killed (ended by SIGKILL)"
    assert at_s >= KILLED_S
    assert f"at {at_s:.1f} s: {text}" in run.out
    assert f"at {at_s:.1f} s: {text}" in texts(test["warnings"])
    curves = test["trials"][0]["rounds"][0]["series"]["brokers"]["brokers"]
    used = {name: one for name, one in curves.items() if name.startswith("application ")}
    assert [*used] == [f"application billing-{number}" for number in range(3)]
    assert used["application billing-1"]["memory"][-1] is None
    together = [sum(one["memory"][place] or 0 for one in used.values()) for place in range(3)]
    assert metrics["app.memory"] == pytest.approx(max(together), rel=0.2)
    assert metrics["app.memory"] > 2 * max(filter(None, used["application billing-0"]["memory"]))


def test_it_is_scaled_and_replaced_under_load(billing: Project, on_broker: str) -> None:
    """Each member leaves or joins the group, which the others have to notice."""
    actions = [
        'kafka_perf.at("1 s", service.scale, 4)',
        'kafka_perf.at("15 s", service.scale, 2)',
        'kafka_perf.at("20 s", service.restart, 0)',
    ]
    run = billing.test(perf_test(*actions, duration_s=35, limits=', "app.recovery <= 1 min"')).run(on_broker)
    assert run.verdicts == {"test_billing": "PASSED"}, run.out
    (test,) = run.report["tests"]
    assert [text for text, _ in events_of(test["trials"][0]["rounds"][0])] == [
        "billing-3 started",
        "billing ready",
        "billing-2 stopped (exited with status 0)",
        "billing-3 stopped (exited with status 0)",
        "billing-0 stopped (exited with status 0)",
        "billing-0 started",
        "billing ready",
    ]
    assert 19 < test["metrics"]["app.recovery"]["value"] < 34


def test_an_instance_that_stays_dead_makes_the_next_round_invalid(billing: Project, on_broker: str) -> None:
    """As with a broker: what the test stops stays stopped, and a round without the fault must not count as one."""
    actions = 'kafka_perf.at("1 s", service.kill, 1)'
    run = billing.test(perf_test(actions, duration_s=20, rounds=2)).run(on_broker)
    (test,) = run.report["tests"]
    assert (test["verdict"], problem_kinds(test)) == ("INVALID", ["action_failed"]), run.out
    reason = "instance 1 of application billing is already stopped; start it first: start(1)"
    assert reason in " ".join(texts(test["problems"]))


def test_the_end_of_an_instance_that_nobody_asked_for_is_never_green(billing: Project, on_broker: str) -> None:
    """The two others are fast enough for the load."""
    actions = 'kafka_perf.at("1 s", lambda: os.kill(service.instances[2].pid, signal.SIGKILL))'
    body = "import os\nimport signal\n" + perf_test(actions, duration_s=20)
    run = billing.test(body).run(on_broker)
    (test,) = run.report["tests"]
    assert (test["verdict"], problem_kinds(test)) == ("INVALID", ["application_ended"]), run.out
    assert "application billing-2 (pid " in run.out
    assert ") was ended by SIGKILL" in run.out


def test_both_sides_of_a_comparison_lose_the_same_instance(billing: Project) -> None:
    """Otherwise a version would be blamed for the fault of the other."""
    actions = f'kafka_perf.at("{KILLED_S:g} s", service.kill, 1)'
    body = perf_test(actions, duration_s=16).replace(
        "@pytest.mark.kafka_scenario", '@pytest.mark.kafka_cluster(heap="256m")\n@pytest.mark.kafka_scenario'
    )
    run = billing.test(body).run("--kafka-cluster=local", "--kafka-compare=local")
    assert run.verdicts == {"test_billing": "PASSED"}, run.out
    (test,) = run.report["tests"]
    for trial in test["trials"]:
        for one in (*trial["rounds"], *trial["baseline_rounds"]):
            ((text, at_s),) = events_of(one)
            assert text == "billing-1 killed (ended by SIGKILL)"
            assert at_s >= KILLED_S
            assert one["metrics"]["app.recovery"] > SESSION_MS / 1000 - 1
            assert one["metrics"]["lost"] == 0
