"""A Java application in a container under test: Kafka's console consumer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from docker.errors import ImageNotFound
from testcontainers.core.transferable import build_transfer_tar

from pytest_kafkaperf.clusters.brokers import downloads
from pytest_kafkaperf.clusters.docker.container import remove
from pytest_kafkaperf.clusters.docker.daemon import connection, image_of
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from tests.support.project import Project

DURATION_S = 25
"""Duration of the round; on a busy machine, the restart alone took 10 s."""
IMAGE = "localhost/kafkaperf-tests/archive:1.2"

PERF_TEST = """
@pytest.mark.kafka_scenario(
    topic="orders", watch_group="archive", rate="500 records/s", duration="DURATION", warmup="500 ms", rounds=1
)
@pytest.mark.kafka_threshold(
    "app.delay.p99 <= 30 s", "app.drain <= 5 s", "app.recovery <= 1 min", "app.cpu <= 4 cores", "app.memory <= 1 GiB"
)
def test_archive(kafka_app, kafka_perf):
    java = ["java", "-Xmx128m", "-cp", "/opt/archive.jar:/opt/kafka/libs/*"]
    consumer = ["org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server={bootstrap_servers}"]
    settings = ["--topic=orders", "--group=archive", "--command-property=auto.commit.interval.ms=250"]
    archive = kafka_app(
        [*java, *consumer, *settings, "--from-beginning"],
        image="IMAGE",
        ready="group:archive",
        topics={"orders": 2},
        timeout="1 min",
    )
    kafka_perf.at("1500 ms", archive.restart)
    kafka_perf()
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image with the console consumer, which the brokers' may lack."""
    scratch = tmp_path_factory.mktemp("jar")
    tools = f"org.apache.kafka:kafka-tools:{DEFAULT_VERSION}"
    jar = downloads.fetch_one("Kafka's tools", tools, scratch=scratch / "fetched", target=scratch)
    with connection() as docker:
        container = docker.client.containers.create(image_of(ClusterSpec()), "true")
        try:
            container.put_archive("/", build_transfer_tar(jar, "/opt/archive.jar"))
            container.commit(*IMAGE.rsplit(":", 1))
            yield IMAGE
        finally:
            remove(container)
            docker.client.images.remove(IMAGE, force=True)
            with pytest.raises(ImageNotFound):
                docker.client.images.get(IMAGE)


def measure_and_restart(project: Project, image: str, target: str) -> None:
    """Measure the consumer and restart it under load; its container is removed."""
    cluster = "@pytest.mark.kafka_cluster(heap='300m')" if target == "docker" else ""
    run = project.test(cluster + PERF_TEST.replace("IMAGE", image).replace("DURATION", f"{DURATION_S} s")).run(
        f"--kafka-cluster={target}"
    )
    assert run.verdicts == {"test_archive": "PASSED"}, run.out
    (test,) = run.report["tests"]
    metrics = {name: one["value"] for name, one in test["metrics"].items()}
    assert 0.01 < metrics["app.cpu"] < 2
    assert 10e6 < metrics["app.memory"] < 800e6
    assert 0.1 < metrics["app.recovery"] < DURATION_S - 1.5  # from the restart to the end of the round
    events = [one["text"].partition(": ")[2] for one in test["trials"][0]["rounds"][0]["events"]]
    assert events == ["archive stopped (exited with status 143)", "archive started", "archive ready"]
    with connection() as docker:
        assert docker.client.containers.list(all=True, filters={"ancestor": image}) == []
