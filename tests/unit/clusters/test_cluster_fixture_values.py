"""The values of a user's fixture `kafka_cluster`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster, as_cluster
from pytest_kafkaperf.clusters.monitoring.probes import ContainerProbe, ExporterProbe
from pytest_kafkaperf.core.errors import UsageError


class KafkaContainer:
    """What testcontainers' class of that name offers, as far as the plugin uses it."""

    image = "confluentinc/cp-kafka:7.6.0"

    def __init__(self, *, started: bool = True) -> None:
        self.started = started

    def get_bootstrap_server(self) -> str:
        """Wait for a container that was never started, as testcontainers does."""
        assert self.started, "waits for 2 minutes"
        return "localhost:49153"

    def get_wrapped_container(self) -> Any:
        if not self.started:
            raise RuntimeError("Container is not started")
        return "a container"


def test_a_container_of_testcontainers_is_a_cluster_with_its_image_and_its_probe() -> None:
    """Many projects have such a fixture already."""
    cluster = as_cluster(KafkaContainer())
    image = "confluentinc/cp-kafka:7.6.0"
    assert cluster == Cluster(bootstrap_servers="localhost:49153", facts={"image": image}, containers=("a container",))
    assert cluster.probes() == {1: [ContainerProbe("a container")]}


def test_any_object_with_the_method_is_a_cluster() -> None:
    """Other classes of a project have the same interface."""
    cluster = as_cluster(SimpleNamespace(get_bootstrap_server=lambda: "localhost:9092", version="4.1.0"))
    assert cluster == Cluster(bootstrap_servers="localhost:9092", version="4.1.0")
    assert cluster.probes() == {}


def test_each_exporter_is_read_under_its_address_without_its_login() -> None:
    """Several may be behind one gateway."""
    urls = (
        "http://me:a@b@h:1/metrics",
        "http://gate/one/metrics?token=2",
        "https://gate/two/metrics",
        "http://[::1]:9/",
    )
    probes = Cluster(bootstrap_servers="h:9092", metrics_urls=urls).probes()
    assert [*probes] == ["h:1", "gate/one", "gate/two", "[::1]:9/"]


def test_exporters_whose_urls_differ_only_in_hidden_parts_are_numbered() -> None:
    """One gateway can serve all brokers, which a parameter selects, and a query may contain a password."""
    urls = (
        "http://gate/metrics?target=broker1&token=2",
        "http://gate/metrics?target=broker2&token=2",
        "https://gate/metrics",
    )
    probes = Cluster(bootstrap_servers="h:9092", metrics_urls=(*urls, urls[0])).probes()
    assert probes == {
        "gate": [ExporterProbe(urls[0])],
        "gate (2)": [ExporterProbe(urls[1])],
        "gate (3)": [ExporterProbe(urls[2])],
    }


@pytest.mark.parametrize(
    ("servers", "problem"),
    [("broker1:kafka", "'broker1:kafka' is not HOST:PORT"), ("broker1", "'broker1' has no port"), ("", "''")],
)
def test_servers_of_a_cluster_are_checked_as_those_of_a_text(servers: str, problem: str) -> None:
    """The client library raises a ValueError for some of them, with a traceback that explains nothing."""
    with pytest.raises(UsageError) as raised:
        as_cluster(Cluster(bootstrap_servers=servers))
    given = f"the kafka_cluster fixture returned Cluster(bootstrap_servers={servers!r}): {problem}"
    assert str(raised.value).startswith(given)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (7, "the kafka_cluster fixture returned int"),
        (KafkaContainer, "the kafka_cluster fixture returned type"),
        (SimpleNamespace(get_bootstrap_server=lambda: None), "the kafka_cluster fixture returned SimpleNamespace"),
    ],
)
def test_a_value_of_another_type_is_refused_with_all_that_are_valid(given: Any, problem: str) -> None:
    """The error says what to return."""
    with pytest.raises(UsageError) as raised:
        as_cluster(given)
    assert str(raised.value) == (
        f"{problem}; return a pytest_kafkaperf.Cluster, the text 'HOST:PORT', a started KafkaContainer of "
        "testcontainers or another object with 'get_bootstrap_server()', or an object with 'bootstrap_servers'"
    )


def test_a_container_that_was_not_started_is_refused_at_once() -> None:
    """Testcontainers itself would wait for two minutes."""
    with pytest.raises(UsageError) as raised:
        as_cluster(KafkaContainer(started=False))
    assert str(raised.value) == (
        "the kafka_cluster fixture returned a KafkaContainer that has no bootstrap server: Container is not started; "
        "return a started one: 'with KafkaContainer() as container: yield container'"
    )
