"""What is known of a cluster's properties, in reports and baselines."""

from __future__ import annotations

from pytest_kafkaperf.clusters.admin.admin import Property
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.provision import facts


def test_properties_that_may_be_secret_are_no_facts() -> None:
    """Kafka hides the values that a plug-in declares as passwords; not every plug-in does."""
    reported = {
        "num.io.threads": "4",
        "acme.audit.password": "hunter2",
        "acme.audit.url": "https://me:hunter2@audit.example.com",
        "acme.audit.header": "Bearer abcdefghijkl",
    }
    brokers = {1: {name: Property(value=value, changed=True) for name, value in reported.items()}}
    cluster = Cluster(bootstrap_servers="broker:9092", brokers=1)

    assert dict(facts(cluster, brokers)) == {"config.num.io.threads": "4"}
