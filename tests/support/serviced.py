"""A project whose perf tests start a service by `kafka_app`, between two topics."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import service
from tests.support.project import Project

MARKS = """
pytestmark = [
    {cluster}
    pytest.mark.kafka_scenario(
        topic="moved-in", output_topic="moved-out", rate="500 records/s", duration="1 s", warmup="200 ms",
        rounds={rounds}, consumers=1,
    ),
    pytest.mark.kafka_threshold("lost == 0", "errors == 0"{limits}),
]


@pytest.fixture
def service(kafka_app):
    topics = {{"moved-in": 2, "moved-out": 2}}
    return kafka_app(["python", "service.py"{arguments}], ready="group:mover", topics=topics, name="mover")

"""


@pytest.fixture
def serviced(project: Project) -> Project:
    """A project with a service."""
    return project.write("service.py", Path(service.__file__).read_text(encoding="utf-8"))


def through(body: str, *, cluster: str = "", rounds: int = 1, arguments: str = "", limits: str = "") -> str:
    """Tests of a project with the fixture `service`."""
    return f"{MARKS.format(cluster=cluster, rounds=rounds, arguments=arguments, limits=limits)}\n{body}\n"


def starts(project: Project) -> list[list[str]]:
    """Process id, side and servers of each start of the service."""
    return [line.split() for line in (project.folder / "starts").read_text(encoding="utf-8").splitlines()]


def drop_most_records(serviced: Project, on_broker: str, declared: str, verdict: str) -> None:
    """Run a service that drops nine of ten records; the threshold decides the verdict."""
    body = through("def test_moved(service, kafka_perf):\n    kafka_perf()", arguments=', "--every=10"')
    run = serviced.test(body.replace('"lost == 0"', declared)).run(on_broker)
    assert run.verdicts == {"test_moved": verdict}, run.out
    (test,) = run.report["tests"]
    assert test["metrics"]["app.output_ratio"]["value"] == pytest.approx(0.1, abs=0.01)
    implied = [check["expression"] for check in test["checks"] if check["implied"]]
    assert implied == (["lost == 0"] if "e2e" in declared else [])
