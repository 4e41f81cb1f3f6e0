"""Runs against token servers that other people wrote: what the plugin asks for and gets is what such servers offer."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import javaproperties
import pytest

from pytest_kafkaperf.clusters.access.client_properties import read_client_properties
from pytest_kafkaperf.core.errors import ClusterError
from tests.support.dask_workers import can_be_elsewhere, dask
from tests.support.mock_oauth2 import CLIENT, MockOAuth2, mock_oauth2
from tests.support.oauth_cluster import (
    REAUTH_S,
    CountingCluster,
    mock_oauth2_cluster,
    mock_oauth2_properties,
    write_properties,
)
from tests.support.project import Project, Run

LIFE_S = 30
"""Of a token: the shortest that administrators allow is longer."""
WINDOW_S = 120
LOGIN = ("--kafka-client-config=client.properties", "--kafka-rounds=1")
LONG = ("--kafka-duration=12 s", "--kafka-rounds=2")
"""Trials side by side shorten rounds, unless they are asked for on the command line."""
EXACT = {"lost": 0, "duplicated": 0, "errors": 0, "reordered": 0}

LOAD = f"""
pytestmark = [
    pytest.mark.kafka_scenario(rate="2k records/s", duration="WINDOW", warmup="1 s", acks="all", record_size=100),
    pytest.mark.kafka_threshold({", ".join(repr(f"{name} == 0") for name in EXACT)}),
]


def test_orders(kafka_perf):
    kafka_perf(partitions=4, producers=2, consumers=2)
"""

TAKE = """
consumer.subscribe(["orders"])
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
try:
    while True:
        message = consumer.poll(0.1)
        if message is not None and message.error():
            raise SystemExit(str(message.error()))
finally:
    consumer.close()
"""

SINK = """
import os
import signal
import sys

from confluent_kafka import Consumer

given = {name.removeprefix("KAFKA_SASL_OAUTHBEARER_").lower(): text for name, text in os.environ.items()}
consumer = Consumer(
    {
        "bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"],
        "security.protocol": os.environ["KAFKA_SECURITY_PROTOCOL"],
        "sasl.mechanism": os.environ["KAFKA_SASL_MECHANISM"],
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": given["token_endpoint_url"],
        "sasl.oauthbearer.client.id": given["client_id"],
        "sasl.oauthbearer.client.secret": given["client_secret"],
        "sasl.oauthbearer.scope": given["scope"],
        "group.id": "shop",
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 200,
    }
)
"""

APP = """
@pytest.mark.kafka_scenario(topic="orders", watch_group="shop", rate="500 records/s", duration="60 s", warmup=0)
@pytest.mark.kafka_threshold("lost == 0", "errors == 0", "app.lag.end <= 1k records", "app.drain <= 10 s")
def test_orders(kafka_app, kafka_perf):
    with kafka_app(["python", "sink.py"], ready="group:shop", topics={"orders": 2}):
        kafka_perf()
"""

READER = """
import os
import pathlib
import signal
import sys
import time
import urllib.parse

from confluent_kafka import Consumer

FILE = pathlib.Path(urllib.parse.urlsplit(os.environ["KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL"]).path)


def read(_):
    print("read a token", flush=True)
    return FILE.read_text(), time.time() + 5


consumer = Consumer(
    {
        "bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"],
        "security.protocol": os.environ["KAFKA_SECURITY_PROTOCOL"],
        "sasl.mechanism": os.environ["KAFKA_SASL_MECHANISM"],
        "oauth_cb": read,
        "group.id": "shop",
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 200,
    }
)
"""

FIXTURE = """
from pathlib import Path

import pytest

from pytest_kafkaperf import Cluster
from pytest_kafkaperf.clusters.access.client_properties import read_client_properties


@pytest.fixture(scope="session")
def kafka_cluster():
    login = read_client_properties(Path("client.properties")).login

    def token():
        return login.source.fetch().value.get_secret_value()

    return Cluster(bootstrap_servers="SERVERS", client_config={"security.protocol": "SASL_PLAINTEXT"}, token=token)
"""

SEARCH = """
@pytest.mark.kafka_scenario(warmup="200 ms", record_size="1 KiB")
@pytest.mark.kafka_threshold("capacity >= 300 records/s")
def test_orders(kafka_perf):
    kafka_perf.capacity("produce.latency.p99 <= 2 s", low=200, high="1 MiB/s", hold="12 s")
"""

COMPARED = """
@pytest.mark.kafka_scenario(rate="1k records/s", warmup="1 s", consumers=1)
@pytest.mark.kafka_threshold("produce.throughput >= baseline - 30%", "lost == 0", "errors == 0")
def test_orders(kafka_perf):
    kafka_perf()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MockOAuth2]:
    with mock_oauth2(tmp_path_factory.mktemp("token-server"), life_s=LIFE_S) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(server: MockOAuth2) -> Iterator[CountingCluster]:
    with mock_oauth2_cluster(server, brokers=2) as running:
        yield running


@pytest.fixture
def client(project: Project, server: MockOAuth2) -> Project:
    """A project of somebody who may use the cluster."""
    return project.write("client.properties", javaproperties.dumps(mock_oauth2_properties(server)))


@contextlib.contextmanager
def no_connection_is_lost(cluster: CountingCluster, *, relogins: int) -> Iterator[None]:
    """The brokers saw at least so many new logins, refused none, and closed no connection for the lack of one."""
    before = cluster.logins()
    yield
    seen = {name: value - before[name] for name, value in cluster.logins().items()}
    assert seen["expired_connections_killed_count"] == 0
    assert seen["failed_authentication"] == seen["failed_reauthentication"] == 0
    assert seen["successful_reauthentication"] >= relogins


@contextlib.contextmanager
def one_process_asks(server: MockOAuth2, *, lives: int) -> Iterator[None]:
    """One process asks for tokens, and only for a new one when that is due: after 60% of the life of the last one."""
    before, began_s = server.issued, time.monotonic()
    yield
    took_s = time.monotonic() - began_s
    assert lives <= server.issued - before <= 2 + took_s / (0.5 * LIFE_S)


def exact(run: Run) -> dict[str, float]:
    """The exact counts of a run's only round."""
    (test,) = run.report["tests"]
    (only,) = test["trials"][0]["rounds"]
    return {name: only["metrics"][name] for name in EXACT}


def test_a_load_of_two_minutes_outlives_its_tokens(
    client: Project, server: MockOAuth2, cluster: CountingCluster
) -> None:
    """Each of its five or more connections logs in again at least every ten seconds, with several tokens in turn."""
    logins = no_connection_is_lost(cluster, relogins=5 * WINDOW_S // REAUTH_S)
    with logins, one_process_asks(server, lives=WINDOW_S // LIFE_S):
        run = client.test(LOAD.replace("WINDOW", f"{WINDOW_S} s")).run(f"--kafka-cluster={cluster.servers}", *LOGIN)
    assert run.verdicts == {"test_orders": "PASSED"}, run.out
    assert exact(run) == EXACT


def test_dask_workers_use_the_tokens_of_the_main_process(
    client: Project, server: MockOAuth2, cluster: CountingCluster
) -> None:
    """The token server is asked by one process only, however many workers there are."""
    client.test(LOAD.replace("WINDOW", f"{2 * LIFE_S} s"))
    logins = no_connection_is_lost(cluster, relogins=5 * 2 * LIFE_S // REAUTH_S)
    with dask(client.folder) as workers, logins, one_process_asks(server, lives=2):
        workers.add(elsewhere=can_be_elsewhere())
        workers.add()
        place = (f"--kafka-workers=dask://{workers.address}", "--kafka-insecure-workers")
        run = client.run(f"--kafka-cluster={cluster.servers}", *LOGIN, *place)
    assert run.verdicts == {"test_orders": "PASSED"}, run.out
    assert exact(run) == EXACT


def test_a_watched_application_logs_in_with_what_the_plugin_gives_it(
    client: Project, server: MockOAuth2, cluster: CountingCluster
) -> None:
    """By librdkafka, which gets its own tokens; the plugin's own requests about the group outlive theirs."""
    client.write("sink.py", SINK + TAKE).test(APP)
    before = server.issued
    with no_connection_is_lost(cluster, relogins=60 // REAUTH_S):
        run = client.run(f"--kafka-cluster={cluster.servers}", *LOGIN)
    assert run.verdicts == {"test_orders": "PASSED"}, run.out
    (test,) = run.report["tests"]
    assert test["trials"][0]["rounds"][0]["metrics"]["app.throughput"] > 0
    assert server.issued - before >= 2 * 60 // LIFE_S  # the plugin's and the application's


def test_a_watched_application_reads_tokens_that_only_a_fixture_can_get(
    client: Project, server: MockOAuth2, cluster: CountingCluster
) -> None:
    """The plugin renews them in the application's file, as it does for its own connections."""
    client.write("sink.py", READER + TAKE).test(APP)
    client.write("conftest.py", FIXTURE.replace("SERVERS", cluster.servers))
    with no_connection_is_lost(cluster, relogins=60 // REAUTH_S), one_process_asks(server, lives=2):
        run = client.run("--kafka-rounds=1")
    assert run.verdicts == {"test_orders": "PASSED"}, run.out


def test_a_search_for_the_capacity_outlives_its_tokens(
    client: Project, server: MockOAuth2, cluster: CountingCluster
) -> None:
    """Its steps reuse connections and workers."""
    with no_connection_is_lost(cluster, relogins=3 * 12 // REAUTH_S), one_process_asks(server, lives=2):
        run = client.test(SEARCH).run_steadily(f"--kafka-cluster={cluster.servers}", *LOGIN)
    assert run.verdicts == {"test_orders": "PASSED"}, run.out


def test_credentials_are_encoded_as_the_server_expects(server: MockOAuth2, tmp_path: Path) -> None:
    """By the standard, the server decodes them; Kafka's own clients do not encode them unless they are told to."""
    secret = "100% of nobody's secrets"  # noqa: S105 - of nobody
    given = mock_oauth2_properties(server) | {"sasl.oauthbearer.client.credentials.client.secret": secret}
    (plain, encoded) = (
        read_client_properties(write_properties(tmp_path / name, given | changes)).login
        for name, changes in (("plain", {}), ("encoded", {"sasl.oauthbearer.header.urlencode": "true"}))
    )
    assert plain is not None
    assert encoded is not None
    with pytest.raises(ClusterError, match="set 'sasl.oauthbearer.header.urlencode' to true"):
        plain.log_in()
    encoded.log_in()


def test_two_clusters_are_compared_side_by_side(client: Project, server: MockOAuth2, cluster: CountingCluster) -> None:
    """Both sides log in with the same settings, and their rounds are longer than a login."""
    with mock_oauth2_cluster(server) as other:
        compare = (f"--kafka-cluster={cluster.servers}", f"--kafka-compare={other.servers}")
        with no_connection_is_lost(cluster, relogins=1), no_connection_is_lost(other, relogins=1):
            run = client.test(COMPARED).run_steadily(*compare, LOGIN[0], *LONG)
    assert run.status == pytest.ExitCode.OK, run.out
    (test,) = run.report["tests"]
    assert test["verdict"] in ("PASSED", "IMPROVED"), run.out
    rounds = [one for trial in test["trials"] for side in ("rounds", "baseline_rounds") for one in trial[side]]
    assert {one["metrics"]["lost"] for one in rounds} == {0}
    assert len(rounds) >= 4


def test_a_server_without_client_credentials_is_reported_with_its_own_reason(
    project: Project, cluster: CountingCluster
) -> None:
    """oidc-provider-mock, like other servers for the logins of people, offers codes and refresh tokens only."""
    provider = pytest.importorskip(
        "oidc_provider_mock", reason="no token server: the package oidc-provider-mock is not installed"
    )
    with provider.run_server_in_thread() as running:
        endpoint = f"http://127.0.0.1:{running.server_port}/oauth2/token"
        given = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": endpoint,
            "sasl.oauthbearer.client.credentials.client.id": CLIENT,
            "sasl.oauthbearer.client.credentials.client.secret": "secret",
        }
        project.write("client.properties", javaproperties.dumps(given)).test(SEARCH)
        run = project.run(f"--kafka-cluster={cluster.servers}", *LOGIN)
    assert run.status == pytest.ExitCode.TESTS_FAILED
    assert f"the token endpoint {endpoint} refused the client '{CLIENT}': unsupported_grant_type" in " ".join(
        run.out.split()
    )
