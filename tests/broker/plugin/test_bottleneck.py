"""A service that became slower: the report names its commit, and tells it from Kafka."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support import service
from tests.support.project import Project, texts
from tests.support.repository import git
from tests.support.stored_baselines import FACTOR, scale

TEST = """
@pytest.mark.kafka_scenario(
    topic="moved-in", output_topic="moved-out", rate="100 records/s", duration="500 ms", warmup="200 ms", rounds=3,
    consumers=1,
)
@pytest.mark.kafka_threshold("consume.throughput >= baseline - 50%")
def test_moved(kafka_app, kafka_perf):
    topics = {{"moved-in": 1, "moved-out": 1}}
    kafka_app(["python", "service.py", "--delay-ms={delay_ms}"], ready="group:mover", topics=topics)
    kafka_perf()
"""


def test_a_service_that_became_slower_is_told_from_kafka(project: Project, on_broker: str) -> None:
    """It takes 16 of 100 records/s; nobody should look for the cause in Kafka."""
    project.write("service.py", Path(service.__file__).read_text(encoding="utf-8")).test(TEST.format(delay_ms=0))
    git(project.folder, "init")
    git(project.folder, "add", ".")
    git(project.folder, "commit", "-m", "Move records")
    commit = git(project.folder, "rev-parse", "HEAD")[:7]
    first = project.run(on_broker, "--kafka-update-baselines")
    assert first.status == 0, first.out
    scale(project, {"produce.latency.p50": FACTOR, "produce.throughput": 1 / FACTOR})  # a busy machine is no cause

    reports = ("--kafka-report=markdown:summary.md", "--kafka-report=html:page.html")
    slow = project.test(TEST.format(delay_ms=60)).run(on_broker, "--kafka-no-confirm", *reports)
    (test,) = slow.report["tests"]
    assert test["verdict"] == "REGRESSED", slow.out
    assert test["changed"] == [f"commit: {commit} -> {commit} with uncommitted changes"]
    (line,) = [note for note in texts(test["notes"]) if "bottleneck" in note]
    assert line.startswith("produce.latency.p50 "), line
    assert re.search(r"; output \d\d(\.\d)?/s of \d+(\.\d)?/s, lag \d+: the application is the bottleneck", line), line
    assert re.search(r"; [\d.]+ ms per record at 0(\.\d+)? cores: it waits \(I/O, locks, sleep\)$", line), line
    assert f"changed: commit {commit} → {commit} with uncommitted changes" in slow.out
    assert f"likely cause: {line}" in slow.out
    for name in ("summary.md", "page.html"):
        assert "the application is the bottleneck" in Path(project.folder, name).read_text(encoding="utf-8"), name
