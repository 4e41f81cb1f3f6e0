"""A test on a topic that exists: what it has of it stands in the report and in the baseline."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.plugin.conclusion import NOT_JUDGED
from tests.support.project import Project
from tests.support.strangers import drop_topic, make_topic

SCENARIO = """
@pytest.mark.kafka_scenario(topic="invoices", records=1000, rate=2000, warmup=0, rounds=1)
@pytest.mark.kafka_threshold("lost == 0")
def test_invoices(kafka_perf):
    kafka_perf()
"""


@pytest.fixture
def invoices(broker: Cluster) -> Iterator[str]:
    make_topic(broker, "invoices", partitions=4)
    yield "invoices"
    drop_topic(broker, "invoices")


@pytest.mark.usefixtures("invoices")
def test_partitions_of_the_topic_stand_in_the_report_and_in_the_baseline(project: Project, on_broker: str) -> None:
    """When somebody adds partitions, the values are those of another workload."""
    run = project.test(SCENARIO).run(on_broker, "-o", "kafka_writable_topics=invoices", "--kafka-update-baselines")

    (test,) = run.report["tests"]
    (baseline,) = run.baselines.values()
    for scenario in (test["scenario"], json.loads(baseline)["scenario"]):
        assert (scenario["topic"], scenario["partitions"], scenario["replication_factor"]) == ("invoices", 4, 1)


def test_a_topic_that_is_not_there_makes_the_run_invalid(project: Project, on_broker: str) -> None:
    """And says what to do; no topic is created."""
    run = project.test(SCENARIO).run(on_broker, "-o", "kafka_writable_topics=invoices")

    assert (run.status, run.verdicts) == (NOT_JUDGED, {"test_invoices": "INVALID"}), run.out
    assert "topic 'invoices' does not exist" in run.out
    assert "Traceback" not in run.out


OWN_BROKERS = """
import pytest

from pytest_kafkaperf.clusters.admin.admin import Admin

scenario = pytest.mark.kafka_scenario(topic="invoices", rate="500/s", duration="500 ms", warmup=0, rounds=2)


@scenario
@pytest.mark.kafka_scenario(partitions=3, topic_config={"retention.ms": "60000"})
def test_new_topic(kafka_perf, kafka_cluster):
    result = kafka_perf()
    assert result.scenario.partitions == 3
    assert not Admin(kafka_cluster.bootstrap_servers, kafka_cluster.access).is_gone("invoices")


def test_deleted_topic(kafka_cluster):
    assert Admin(kafka_cluster.bootstrap_servers, kafka_cluster.access).is_gone("invoices")


@scenario
@pytest.mark.kafka_scenario(producers=0, consumers=1, rate=None, duration=None)
def test_nothing_to_read(kafka_perf):
    kafka_perf()
"""


@pytest.mark.story
def test_brokers_that_the_plugin_starts_have_the_topic_during_the_test(project: Project) -> None:
    """A name alone is enough; a test that only reads would read nothing, and gets no topic."""
    run = project.write("test_perf.py", OWN_BROKERS).run("--kafka-cluster=local", "-p", "no:randomly")
    assert run.verdicts == {"test_new_topic": "MEASURED", "test_nothing_to_read": "INVALID"}, run.out
    assert "topic 'invoices' does not exist" in run.out
    assert "1 failed, 2 passed" in run.out


@pytest.mark.usefixtures("invoices")
def test_an_existing_topic_refuses_other_properties(project: Project, on_broker: str) -> None:
    """Silently ignored partitions would make another workload of the test."""
    changed = SCENARIO.replace('topic="invoices"', 'topic="invoices", partitions=12')
    run = project.test(changed).run(on_broker, "-o", "kafka_writable_topics=invoices")
    assert run.status == pytest.ExitCode.TESTS_FAILED, run.out
    assert "partitions cannot be combined with topic 'invoices'" in run.out
