"""Which cluster a user's tests run on: chosen, shared, replaced, disturbed, or brought along."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.logins import Scram
from pytest_kafkaperf.clusters.admin.run_names import SUFFIX_BYTES, run_name
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.docker.daemon import look
from pytest_kafkaperf.clusters.monitoring.probes import ExporterProbe
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from tests.support.project import INI, Project, problem_kinds, texts
from tests.support.strangers import make_topic, topics

SHORT = "pytestmark = pytest.mark.kafka_scenario(records=1000, warmup='200 ms', rounds=1, partitions=1)\n"
LONG_ENOUGH = "pytestmark = pytest.mark.kafka_scenario(duration='3 s', warmup='200 ms', rounds=1, partitions=1)\n"
"""Brokers are read once a second. Without a rate no load is too much for a busy machine."""
TEST = "@pytest.mark.kafka_threshold({limits})\ndef test_one(kafka_perf):\n    kafka_perf()\n"
ONE = SHORT + TEST

SHARED = """
import pathlib
import time

pytestmark = pytest.mark.kafka_scenario(records=1000, warmup="200 ms", rounds=1, partitions=2)
two = pytest.mark.kafka_cluster(brokers=2, heap="256m")
single = pytest.mark.kafka_cluster(heap="256m")


@pytest.fixture
def seen(kafka_cluster, request):
    with pathlib.Path("seen").open("a") as file:
        file.write(f"{request.node.name} {kafka_cluster.brokers} {kafka_cluster.bootstrap_servers}\\n")


@two
def test_two(kafka_perf, seen):
    kafka_perf(replication_factor=2)

@two
def test_two_again(kafka_cluster, seen):
    kafka_cluster.check()

@single
def test_single(kafka_cluster, seen):
    kafka_cluster.check()

@single
def test_stops(kafka_cluster, seen):
    kafka_cluster.stop_broker(1)

@single
def test_after_the_stop(kafka_cluster, kafka_perf, seen):
    def pause():
        kafka_cluster.pause_broker(1)
        time.sleep(1.5)
        kafka_cluster.resume_broker(1)

    kafka_perf.at("0.5 s", pause)
    kafka_perf(duration="6 s")

@single
def test_after_the_pause(kafka_cluster, seen):
    kafka_cluster.check()

@two
def test_two_at_last(kafka_cluster, seen):
    kafka_cluster.check()
"""

OWN = """
import os, types

import pytest

import pytest_kafkaperf

SERVERS, PASSWORD, AUTHORITY = (os.environ[name] for name in ("SERVERS", "PASSWORD", "AUTHORITY"))
JAVA = {{
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
    f'username="kafkaperf" password="{{PASSWORD}}";',
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": AUTHORITY,
}}
AIOKAFKA = {{
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_plain_username": "kafkaperf",
    "sasl_plain_password": PASSWORD,
    "ssl.truststore.location": AUTHORITY,
    "ssl.truststore.type": "PEM",
}}
GIVEN = {{
    "text": lambda: SERVERS,
    "cluster": lambda: pytest_kafkaperf.Cluster(bootstrap_servers=SERVERS),
    "object": lambda: types.SimpleNamespace(bootstrap_servers=[SERVERS], brokers=1, version="4.3"),
    "java": lambda: pytest_kafkaperf.Cluster(bootstrap_servers=SERVERS, client_config=JAVA),
    "aiokafka": lambda: pytest_kafkaperf.Cluster(bootstrap_servers=SERVERS, client_config=AIOKAFKA),
    "attributes": lambda: types.SimpleNamespace(bootstrap_servers=SERVERS, client_config=AIOKAFKA),
}}


@pytest.fixture(scope="session", params={params!r})
def kafka_cluster(request):
    return GIVEN[request.param]()
"""
LIMITS = "'errors == 0', 'lost == 0', 'produce.throughput >= baseline - 50%'"
SECURED = "sasl_scram+tls"


@dataclass(frozen=True, slots=True)
class Secured:
    """A cluster with a login and certificates, and the file with its authority."""

    servers: str
    access: Access
    authority: Path

    @property
    def environment(self) -> dict[str, str]:
        """What an application's conftest finds in CI."""
        assert isinstance(self.access.login, Scram)
        password = self.access.login.password.get_secret_value()
        return {"SERVERS": self.servers, "PASSWORD": password, "AUTHORITY": str(self.authority)}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with provision(ClusterSpec(security=SECURED, heap="256m"), target="local") as cluster:
        authority = tmp_path_factory.mktemp("secured") / "ca.pem"
        authority.write_text(cluster.access.trusted or "", encoding="ascii")
        yield Secured(cluster.bootstrap_servers, cluster.access, authority)


SKIPPED = "pytestmark = pytest.mark.skip\ndef test_one(kafka_perf): ...\n"


@pytest.mark.docker
def test_a_line_after_the_collection_shows_that_a_docker_daemon_was_found(project: Project) -> None:
    """Nothing was named, so people want to know what was chosen, and why."""
    project.write("conftest.py", "import sys\nsys.modules['jgo'] = None  # as if it were not installed\n")
    run = project.test(SKIPPED).run("--kafka-cluster=auto", reports=False)
    assert run.status == pytest.ExitCode.OK, run.out
    reason = f"auto: the extra 'local' is not installed, and a Docker daemon answers at {look()[0]}"
    assert f"kafkaperf: cluster docker ({reason}), Kafka {DEFAULT_VERSION}\n" in run.out


def test_equal_specs_share_a_cluster_until_a_test_disturbs_it(project: Project) -> None:
    """Starting brokers is what takes long; a disturbed one would invalidate the values of the next test."""
    run = project.test(SHARED).run("-rA")
    assert run.status == pytest.ExitCode.OK, run.out
    lines = (project.folder / "seen").read_text(encoding="utf-8").splitlines()
    servers = {name: (int(brokers), address) for name, brokers, address in map(str.split, lines)}
    two, single = servers["test_two"], servers["test_single"]
    assert (two[0], single[0]) == (2, 1)
    assert servers["test_two_again"] == servers["test_two_at_last"] == two
    assert servers["test_stops"] == single
    assert len({two, single, servers["test_after_the_stop"], servers["test_after_the_pause"]}) == 4

    _, paused = run.report["tests"]
    told = "\n".join(texts(paused["warnings"]))
    assert "broker 1 paused" in told
    assert "broker 1 resumed" in told
    assert "broker 1 paused" not in run.out  # it was planned, and the test passed
    assert paused["metrics"]["produce.latency.max"]["value"] > 1.4  # the broker did not answer for 1.5 s


def test_an_application_brings_its_own_cluster_as_a_text_a_cluster_or_an_object(
    project: Project, broker: Cluster
) -> None:
    """A fixture of the same name is pytest's own way; no option is needed, and everything works as without it."""
    check_own(project, ["text", "cluster", "object"], dict.fromkeys(("PASSWORD", "AUTHORITY"), ""), broker)


def check_own(project: Project, params: list[str], environment: dict[str, Any], broker: Cluster | None) -> None:
    """Run a test once for each way to give a cluster: load, limits, baselines and the report."""
    if broker is not None:
        environment = {**environment, "SERVERS": broker.bootstrap_servers}
    project.write("conftest.py", OWN.format(params=params)).test(ONE.format(limits=LIMITS))
    run = project.run("--kafka-update-baselines", reports=True, **environment)
    assert run.status == pytest.ExitCode.OK, run.out
    names = [f"test_one[{param}]" for param in params]
    assert run.verdicts == dict.fromkeys(names, "MEASURED")  # the threshold on the baseline is accepted
    assert len(run.baselines) == len(params)
    for test in run.report["tests"]:
        assert test["cluster"]["provider"] == "external"
        assert test["metrics"]["errors"]["values"] == [0]
        assert [check["expression"] for check in test["checks"]] == LIMITS[1:-1].split("', '")


PREFIXED = """
import asyncio
import contextlib
import os
import threading
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupLoadInProgressError


async def names(servers):
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        return [*await admin.list_topics(), *(group for group, *_ in await admin.list_consumer_groups())]
    finally:
        await admin.close()


@pytest.mark.kafka_scenario(rate=200, duration="2 s", warmup=0, rounds=1, producers=2, consumers=1)
def test_one(kafka_perf, kafka_cluster):
    found, over = set(), threading.Event()

    def watch():
        while not over.wait(0.1):
            with contextlib.suppress(GroupLoadInProgressError):  # the coordinator of the first groups takes a moment
                found.update(asyncio.run(names(kafka_cluster.bootstrap_servers)))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        kafka_perf()
    finally:
        over.set()
        watching.join()
    assert not [name for name in found if name.startswith("kafkaperf-")]
    # Those of the round, and of the short load before it that shows how many workers are needed.
    # More if the machine invalidated the trial, which is then measured again.
    assert len([name for name in found if name.startswith("team.perf-")]) >= (4 if (os.cpu_count() or 1) > 1 else 2)
"""


def test_topics_and_groups_have_the_prefix_of_the_option(project: Project, on_broker: str, broker: Cluster) -> None:
    """A naming policy or ACLs by prefix may leave no other names."""
    run = project.test(PREFIXED).run(on_broker, "-o", "kafka_topic_prefix=team.perf-")
    assert run.status == pytest.ExitCode.OK, run.out
    assert [name for name in topics(broker) if name.startswith("team.perf-")] == []


@pytest.mark.parametrize("fixture", [False, True], ids=["option", "fixture"])
def test_what_crashed_runs_left_is_removed_before_the_load(project: Project, broker: Cluster, fixture: Any) -> None:
    """On every cluster that the plugin did not start: also on one that a fixture gives."""
    left = run_name(datetime.datetime(2020, 2, 29, tzinfo=datetime.UTC), bytes(SUFFIX_BYTES), "team.perf-")
    make_topic(broker, left)
    project.write("pytest.ini", f"{INI}kafka_topic_prefix = team.perf-\n")
    servers = broker.bootstrap_servers
    if fixture:
        project.write(
            "conftest.py", f"import pytest\n\n@pytest.fixture\ndef kafka_cluster():\n    return {servers!r}\n"
        )
    run = project.test(ONE.format(limits="'lost == 0'")).run(*([] if fixture else [f"--kafka-cluster={servers}"]))
    assert run.status == pytest.ExitCode.OK, run.out
    assert left not in topics(broker)


@pytest.mark.story
def test_an_application_brings_a_secured_cluster_in_kafkas_names_and_in_aiokafkas(
    project: Project, secured: Secured
) -> None:
    """Applications have their credentials in one of these two forms."""
    check_own(project, ["java", "aiokafka", "attributes"], secured.environment, None)


def test_a_foreign_broker_is_not_stopped(project: Project, on_broker: str) -> None:
    """A mistyped address must not take a broker of production down."""
    project.test("def test_stop(kafka_cluster):\n    kafka_cluster.stop_broker(1)\n")
    run = project.run(on_broker)
    assert run.status == pytest.ExitCode.TESTS_FAILED
    assert (
        f"the plugin did not start the brokers at {on_broker.partition('=')[2]} and cannot stop or start them; "
        "use --kafka-cluster=local or --kafka-cluster=docker"
    ) in run.out


JMX_LIMITS = "'broker.handlers.idle >= 0.001', 'broker.under_replicated == 0'"


def test_a_limit_on_what_brokers_tell_is_judged(project: Project) -> None:
    """With the exporter, which kafka_jmx puts into the brokers."""
    limits = f"{JMX_LIMITS}, 'broker.cpu <= 8 cores'"
    run = project.test(LONG_ENOUGH + TEST.format(limits=limits)).run("-o", "kafka_jmx=true")
    assert (run.status, run.verdicts) == (pytest.ExitCode.OK, {"test_one": "PASSED"}), run.out
    (test,) = run.report["tests"]
    assert 0 < test["metrics"]["broker.handlers.idle"]["value"] <= 1
    assert {check["verdict"] for check in test["checks"]} == {"PASSED"}
    assert len(test["checks"]) == 3


def test_the_exporters_of_a_foreign_cluster_give_the_same(project: Project) -> None:
    """They are there already where Prometheus reads the brokers.

    The broker of one that does not answer may be the one that is out of sync: the metrics of the others would pass.
    """
    with provision(ClusterSpec(jmx=True, heap="256m"), target="local") as cluster:
        (exporter,) = [probe for probe in cluster.probes()[1] if isinstance(probe, ExporterProbe)]
        project.test(LONG_ENOUGH + TEST.format(limits=JMX_LIMITS))
        on_cluster = f"--kafka-cluster={cluster.bootstrap_servers}"
        run = project.run(on_cluster, "-o", f"kafka_metrics_url={exporter.url}")
        assert (run.status, run.verdicts) == (pytest.ExitCode.OK, {"test_one": "PASSED"}), run.out
        (test,) = run.report["tests"]
        assert 0 < test["metrics"]["broker.handlers.idle"]["value"] <= 1
        assert "broker.cpu" not in test["metrics"]

        run = project.run(on_cluster, "-o", f"kafka_metrics_url={exporter.url}\nhttp://127.0.0.1:9/metrics")
    (test,) = run.report["tests"]
    assert (test["verdict"], {*problem_kinds(test)}) == ("INVALID", {"value_missing"}), run.out
    assert "exporter 127.0.0.1:9 (ExporterProbe) in 0% of the window" in " ".join(texts(test["warnings"]))
