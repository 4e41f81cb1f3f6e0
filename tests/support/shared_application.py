"""A project with an application that is started once, and serves all tests of the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import mover
from tests.support.project import Project

CONFTEST = """
import subprocess, sys, threading

import pytest


@pytest.fixture(scope="session")
def application(kafka_cluster_factory):
    cluster = kafka_cluster_factory(heap="256m")
    command = [sys.executable, "mover.py", cluster.bootstrap_servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        timer = threading.Timer(300, process.kill)
        timer.start()
        assert process.stdout.readline() == "ready\\n"
        timer.cancel()
        yield cluster
        process.kill()
"""

TESTS = """
pytestmark = [
    pytest.mark.kafka_cluster(heap="256m"),
    pytest.mark.kafka_scenario(
        topic="moved-in", output_topic="moved-out", rate="500 records/s", duration="1 s", warmup="200 ms", rounds=1,
        consumers=1,
    ),
    pytest.mark.kafka_threshold("lost == 0", "errors == 0"),
]


def test_through_the_application(application, kafka_cluster, kafka_perf):
    assert kafka_cluster.bootstrap_servers == application.bootstrap_servers
    kafka_perf()
    kafka_cluster.stop_broker(1)


def test_after_a_stop(application, kafka_cluster, kafka_perf):
    assert kafka_cluster.bootstrap_servers == application.bootstrap_servers
    kafka_perf()
"""


def use_the_same_brokers(project: Project, override: str = "") -> None:
    """Run the tests, with more in `conftest.py`: the application and they have one cluster, even after a stop."""
    project.write("mover.py", Path(mover.__file__).read_text(encoding="utf-8"))
    project.write("conftest.py", CONFTEST + override)
    run = project.test(TESTS).run()
    assert run.status == pytest.ExitCode.OK, run.out
    assert set(run.verdicts.values()) == {"PASSED"}
