"""A cluster that somebody else runs, and a load on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import javaproperties

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.access_properties import properties_of
from tests.support.orphans import becomes
from tests.support.rounds import run_scenario
from tests.support.strangers import groups, topics

HEAP = "256m"


SECURED = "sasl_scram+tls"


HERE, LIKE_ELSEWHERE = "127.0.0.1", "127.1"
"""This machine's address, and the same one in a form that the plugin takes for the name of another machine."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A cluster, and what its owner gives to those who may use it."""

    owned: Cluster
    security: str | None
    properties: Path

    def written(self, access: Access, name: str) -> Path:
        """Another file of client properties, next to the right one."""
        return write(self.properties.with_name(name), access)


def write(path: Path, access: Access) -> Path:
    """Write client properties."""
    path.write_text(javaproperties.dumps(properties_of(access)), encoding="latin-1")
    return path


def load(cluster: Cluster) -> dict[str, float]:
    """Metrics of one round, with a group of consumers."""
    fields = {"records": 3000, "warmup": "200 ms", "rounds": 1, "consumers": 1, "partitions": 2, "idempotence": True}
    (one,) = run_scenario(Scenario.of(fields), cluster)
    assert one.problems == ()
    return dict(one.metrics)


@contextmanager
def foreign_cluster(security: str | None, folder: Path) -> Iterator[Foreign]:
    """Start a cluster, and write the client properties that its owner would hand over."""
    with provision(ClusterSpec.of({"security": security, "heap": HEAP}), target="local") as owned:
        yield Foreign(owned, security, write(folder / "client.properties", owned.access))


def load_and_restart(foreign: Foreign) -> None:
    """Put load on an external cluster before and after its owner restarts it: it is exact and leaves nothing."""
    spec, servers = ClusterSpec(), foreign.owned.bootstrap_servers
    with provision(spec, target=servers, client_properties=foreign.properties) as cluster:
        for restart in (True, False):
            metrics = load(cluster)
            assert {name: metrics[name] for name in ("lost", "duplicated", "errors", "reordered")} == {
                "lost": 0,
                "duplicated": 0,
                "errors": 0,
                "reordered": 0,
            }
            assert becomes(lambda: topics(foreign.owned) == set())  # brokers hear of a removal later
            assert becomes(lambda: groups(foreign.owned) == set())
            if restart:
                foreign.owned.stop_broker(1)
                foreign.owned.start_broker(1)
