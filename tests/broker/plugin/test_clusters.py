"""Which cluster a user's tests run on: chosen, shared, replaced, disturbed, or brought along."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import javaproperties
import pytest

from pytest_kafkaperf.clusters.access import Access
from pytest_kafkaperf.clusters.docker.daemon import look
from pytest_kafkaperf.clusters.monitoring.probes import ExporterProbe
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import Cluster, ClusterSpec
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from pytest_kafkaperf.core.environment import default_environment_key
from tests.support.project import Project

SHORT = "pytestmark = pytest.mark.kafka_scenario(records=1000, warmup='200 ms', rounds=1, partitions=1)\n"
LONG_ENOUGH = "pytestmark = pytest.mark.kafka_scenario(duration='3 s', warmup='200 ms', rounds=1, partitions=1)\n"
"""Brokers are read once a second. Without a rate no load is too much for a busy machine."""
TEST = "@pytest.mark.kafka_threshold({limits})\ndef test_one(kafka_perf):\n    kafka_perf()\n"
ONE = SHORT + TEST

SHARED = """
import pathlib

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
    kafka_perf.at("0.5 s", kafka_cluster.pause_broker, 1)
    kafka_perf.at("1 s", kafka_cluster.resume_broker, 1)
    kafka_perf(duration="1500 ms")

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
        assert self.access.password is not None
        password = self.access.password.get_secret_value()
        return {"SERVERS": self.servers, "PASSWORD": password, "AUTHORITY": str(self.authority)}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with provision(ClusterSpec(security=SECURED, heap="256m"), target="local") as cluster:
        authority = tmp_path_factory.mktemp("secured") / "ca.pem"
        authority.write_text(cluster.access.trusted or "", encoding="ascii")
        yield Secured(cluster.bootstrap_servers, cluster.access, authority)


SKIPPED = "pytestmark = pytest.mark.skip\ndef test_one(kafka_perf): ...\n"


@pytest.mark.docker
def test_a_line_after_the_collection_says_that_a_docker_daemon_was_found(project: Project) -> None:
    """Nothing was named, so people want to know what was chosen, and why."""
    run = project.test(SKIPPED).run("--kafka-cluster=auto", reports=False)
    assert run.status == pytest.ExitCode.OK, run.out
    key = default_environment_key("docker")
    assert (
        f"kafkaperf: cluster docker (auto: a Docker daemon answers at {look()[0]}), Kafka {DEFAULT_VERSION}, "
        f"baselines kafka-baselines, environment {key}\n"
    ) in run.out


def test_a_line_after_the_collection_says_why_there_is_no_docker(project: Project) -> None:
    """Other figures than a colleague's begin with another provider."""
    nowhere = "unix:///nowhere/docker.sock"
    environment = "--kafka-environment=ci"
    run = project.test(SKIPPED).run("--kafka-cluster=auto", environment, reports=False, DOCKER_HOST=nowhere)
    assert run.status == pytest.ExitCode.OK, run.out
    assert (
        f"kafkaperf: cluster local (auto: no Docker daemon at {nowhere}: FileNotFoundError: [Errno 2] No such file or "
        f"directory), Kafka {DEFAULT_VERSION}, baselines kafka-baselines, environment ci\n"
    ) in run.out


def test_equal_specs_share_a_cluster_until_a_test_disturbs_it(project: Project) -> None:
    """Starting brokers is what takes long; a disturbed one would spoil the figures of the next test."""
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
    told = "\n".join(paused["warnings"])
    assert "broker 1 paused" in told
    assert "broker 1 resumed" in told
    assert "test_after_the_stop: " in run.out.replace("\n", "")
    assert "broker 1 paused" in run.out
    assert paused["metrics"]["produce.latency.max"]["median"] > 0.3


def test_an_application_brings_its_own_cluster_as_a_text_a_cluster_or_an_object(
    project: Project, broker: Cluster
) -> None:
    """A fixture of the same name is pytest's own way; no option is needed, and everything works as without it."""
    check_own(project, ["text", "cluster", "object"], dict.fromkeys(("PASSWORD", "AUTHORITY"), ""), broker)


def check_own(project: Project, params: list[str], environment: dict[str, str], broker: Cluster | None) -> None:
    """Run a test once for each way to give a cluster: load, limits, baselines and the report."""
    if broker is not None:
        environment = {**environment, "SERVERS": broker.bootstrap_servers}
    project.write("conftest.py", OWN.format(params=params)).test(ONE.format(limits=LIMITS))
    run = project.run("--kafka-update-baselines", reports=True, **environment)
    assert run.status == pytest.ExitCode.OK, run.out
    names = [f"test_one[{param}]" for param in params]
    assert run.verdicts == dict.fromkeys(names, "PASSED")
    assert len(run.baselines) == len(params)
    for test in run.report["tests"]:
        assert test["cluster"]["provider"] == "external"
        assert test["metrics"]["errors"]["values"] == [0]
        assert [check["expression"] for check in test["checks"]] == LIMITS[1:-1].split("', '")


def test_an_application_brings_a_secured_cluster_in_kafkas_names_and_in_aiokafkas(
    project: Project, secured: Secured
) -> None:
    """Applications have their credentials in one of these two forms."""
    check_own(project, ["java", "aiokafka", "attributes"], secured.environment, None)


@pytest.mark.parametrize("given", ["pytest_kafkaperf.Cluster", "types.SimpleNamespace"])
def test_an_ssl_context_is_refused_with_what_to_give_instead(project: Project, given: str) -> None:
    """It cannot be handed to the processes that make the load."""
    project.write(
        "conftest.py",
        "import pytest, pytest_kafkaperf, ssl, types\n"
        "@pytest.fixture\n"
        "def kafka_cluster():\n"
        "    config = {'security_protocol': 'SSL', 'ssl_context': ssl.create_default_context()}\n"
        f"    return {given}(bootstrap_servers='127.0.0.1:1', client_config=config)\n",
    )
    run = project.test(ONE.format(limits="'errors == 0'")).run()
    assert run.status == pytest.ExitCode.TESTS_FAILED
    assert (
        "client_config: 'ssl_context' cannot be handed to worker processes; give 'ssl.truststore.location' instead, "
        "and 'ssl.keystore.location' for a certificate of the client's own "
        "('ssl.endpoint.identification.algorithm': '' checks no host names)"
    ) in run.out


def test_a_password_in_a_refused_client_config_is_not_shown(project: Project) -> None:
    """Where the credentials come from the environment, the source that pytest prints has none."""
    project.write(
        "conftest.py",
        "import os, pytest, pytest_kafkaperf\n"
        "@pytest.fixture\n"
        "def kafka_cluster():\n"
        "    return pytest_kafkaperf.Cluster(bootstrap_servers='127.0.0.1:1', client_config={\n"
        "        'security_protocol': 'SASL_SSL', 'sasl_mechanism': 'SCRAM-SHA-1', 'sasl_plain_username': 'app',\n"
        "        'sasl_plain_password': os.environ['PASSWORD'],\n"
        "    })\n",
    )
    project.test(ONE.format(limits="'errors == 0'"))
    environment = {"PASSWORD": "correct-horse-battery"}
    run = project.run("--showlocals", "--tb=long", "--full-trace", "-vv", reports=True, **environment)
    assert run.status == pytest.ExitCode.TESTS_FAILED
    assert "'sasl.mechanism' is 'SCRAM-SHA-1', which is not supported" in run.out
    places = [line[:200] for line in run.out.splitlines() if "correct-horse-battery" in line]
    assert places == []


def test_a_foreign_broker_is_not_stopped(project: Project, on_broker: str) -> None:
    """A mistyped address must not take a broker of production down."""
    project.test("def test_stop(kafka_cluster):\n    kafka_cluster.stop_broker(1)\n")
    run = project.run(on_broker)
    assert run.status == pytest.ExitCode.TESTS_FAILED
    assert (
        f"this session did not start the brokers at {on_broker.partition('=')[2]} and cannot stop or start them; "
        "use --kafka-cluster=local or --kafka-cluster=docker"
    ) in run.out


JMX_LIMITS = "'broker.handlers.idle >= 0.001', 'broker.under_replicated == 0'"


def test_a_limit_on_what_brokers_tell_is_judged(project: Project) -> None:
    """With the exporter, which --kafka-jmx puts into the brokers."""
    limits = f"{JMX_LIMITS}, 'broker.cpu <= 8 cores'"
    run = project.test(LONG_ENOUGH + TEST.format(limits=limits)).run("--kafka-jmx")
    assert (run.status, run.verdicts) == (pytest.ExitCode.OK, {"test_one": "PASSED"}), run.out
    (test,) = run.report["tests"]
    assert 0 < test["metrics"]["broker.handlers.idle"]["median"] <= 1
    assert {check["outcome"] for check in test["checks"]} == {"PASSED"}
    assert len(test["checks"]) == 3


def test_the_exporters_of_a_foreign_cluster_give_the_same(project: Project) -> None:
    """They are there already where Prometheus reads the brokers."""
    with provision(ClusterSpec(jmx=True, heap="256m"), target="local") as cluster:
        (exporter,) = [probe for probe in cluster.probes()[1] if isinstance(probe, ExporterProbe)]
        project.test(LONG_ENOUGH + TEST.format(limits=JMX_LIMITS))
        run = project.run(f"--kafka-cluster={cluster.bootstrap_servers}", f"--kafka-metrics-url={exporter.url}")
    assert (run.status, run.verdicts) == (pytest.ExitCode.OK, {"test_one": "PASSED"}), run.out
    (test,) = run.report["tests"]
    assert 0 < test["metrics"]["broker.handlers.idle"]["median"] <= 1
    assert "broker.cpu" not in test["metrics"]


@pytest.mark.parametrize(
    ("limit", "arguments", "told"),
    [
        (
            "broker.handlers.idle >= 0.1",
            (),
            "test_one: threshold 'broker.handlers.idle >= 0.1': broker.handlers.idle is not measured here; "
            "it needs --kafka-jmx, or --kafka-metrics-url with a running cluster",
        ),
        (
            "broker.cpu <= 8 cores",
            ("--kafka-cluster=127.0.0.1:1",),
            "test_one: threshold 'broker.cpu <= 8 cores': broker.cpu is not measured here; "
            "it needs brokers that the session starts: --kafka-cluster=local or docker",
        ),
        (
            "errors == 0",
            ("--kafka-client-config=client.properties",),
            "client.properties is for a running cluster only, and this session starts its brokers (local); name a "
            "cluster with --kafka-cluster=HOST:PORT, or leave --kafka-client-config out",
        ),
        (
            "errors == 0",
            ("--kafka-metrics-url=http://127.0.0.1:1/metrics",),
            "test_one: --kafka-metrics-url is for a running cluster only, and this session starts its brokers (local); "
            "use --kafka-jmx, or name a cluster with --kafka-cluster=HOST:PORT",
        ),
        (
            "errors == 0",
            ("--kafka-cluster=127.0.0.1:1", "--kafka-log-dirs=/tmp/a"),
            "test_one: --kafka-log-dirs is for local brokers only, and this run uses external; "
            "use --kafka-cluster=local, or leave --kafka-log-dirs out",
        ),
        (
            "errors == 0",
            ("--kafka-brokers=0",),
            "test_one: kafka_cluster: brokers='0': input should be greater than or equal to 1",
        ),
        (
            "errors == 0",
            ("--kafka-image=bad image",),
            "test_one: kafka_cluster: image='bad image': not the name of a Docker image, such as 'apache/kafka:4.1.0'",
        ),
    ],
    ids=["jmx", "host", "client-config", "metrics-url", "log-dirs", "brokers", "image"],
)
def test_what_the_cluster_cannot_give_is_refused_at_collection(
    project: Project, limit: str, arguments: tuple[str, ...], told: str
) -> None:
    """Before anything starts, with what to do."""
    project.write("client.properties", javaproperties.dumps({"security.protocol": "SSL"}))
    run = project.test(ONE.format(limits=repr(limit))).run(*arguments)
    assert run.status == pytest.ExitCode.INTERRUPTED, run.out  # errors at collection
    assert told in run.out
    assert " test_one" not in run.out  # nothing ran


@pytest.mark.parametrize("url", ["kafka:9404", "ftp://u:p@kafka/metrics", "http://:9404/metrics", "http://kafka:0/"])
def test_an_address_that_is_no_page_of_metrics_is_refused(project: Project, url: str) -> None:
    """At once; the address itself, which may have a password in it, is not shown."""
    run = project.run(f"--kafka-metrics-url={url}", reports=False)
    assert run.status == pytest.ExitCode.USAGE_ERROR
    assert "--kafka-metrics-url: one of the addresses is not http://HOST:PORT/PATH" in run.out
    assert url not in run.out
