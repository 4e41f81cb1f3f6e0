"""Warm and cold applications in Java."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_kafkaperf.clusters.brokers import distribution, java
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from tests.support.project import Project, texts

SOURCE = Path(__file__).parents[2] / "support" / "Enrich.java"
COMPILER = shutil.which("javac")
COMPILE_S = 60

TEST = """
pytestmark = [
    pytest.mark.kafka_scenario(
        topic="orders", output_topic="enriched", rate="8k records/s", record_size=400, duration="1 s",
        warmup="100 ms", rounds=3, consumers=1,
    ),
    pytest.mark.kafka_threshold("lost == 0", "e2e.latency.p50 <= baseline + 50%"),
]


@pytest.fixture
def enrich(kafka_app):
    command = {command!r}
    return kafka_app(command, ready="group:enrich", topics=["orders", "enriched"], name="enrich")


def test_enriched(enrich, kafka_perf):
    kafka_perf()
"""

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no javac on PATH")


@pytest.fixture
def enriching(project: Project) -> Project:
    """A project with a test of a Java application, compiled before."""
    runtime = java.find()
    kafka = distribution.installed(DEFAULT_VERSION, java=runtime, cache=distribution.cache_folder())
    classpath = os.pathsep.join(map(str, kafka.classpath))
    assert COMPILER is not None
    compiling = [COMPILER, "--release", "17", "-cp", classpath, "-d", str(project.folder), str(SOURCE)]
    subprocess.run(compiling, check=True, timeout=COMPILE_S, capture_output=True)
    program = [str(runtime.path), "-Xmx256m", "-cp", f"{project.folder}{os.pathsep}{classpath}", "Enrich"]
    return project.test(TEST.format(command=[*program, "enrich", "orders", "enriched"]))


@pytest.mark.speed
def test_a_cold_application_is_reported_and_a_warm_one_is_not(enriching: Project, on_broker: str) -> None:
    """Its first records are slower than those that it gets in production."""
    cold = enriching.run_steadily(on_broker, "-o", "kafka_broker_warmup=0 s")
    assert cold.verdicts, cold.out
    (test,) = cold.report["tests"]
    assert "application enrich" in test["trials"][0]["rounds"][0]["cold"], test["trials"][0]["rounds"]
    assert any(text.startswith("application enrich still compiled code") for text in texts(test["warnings"])), texts(
        test["warnings"]
    )

    warm = enriching.run_steadily(on_broker, "-o", "kafka_broker_warmup=60 s")
    (test,) = warm.report["tests"]
    (warm_up,) = test["trials"][0]["warm_ups"]
    assert warm_up["end"] == "idle", warm_up
    assert [one["cold"] for one in test["trials"][0]["rounds"]] == [[], [], []], warm_up
    assert not any("still compiled code" in text for text in texts(test["warnings"])), texts(test["warnings"])
    assert test["metrics"]["lost"]["value"] == 0
