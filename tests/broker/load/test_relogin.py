"""Loads that outlive their logins: access tokens are renewed, and connections log in again without losing anything."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import conn
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.metadata import MetadataRequest

from pytest_kafkaperf import AzureToken
from pytest_kafkaperf.clusters.admin.relogin import ReloginConnection
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.errors import ClusterError
from tests.support.cloud_api import Asked, cloud_api
from tests.support.oauth_cluster import REAUTH_S, oauth_cluster, oauth_properties, write_properties
from tests.support.patience import PATIENCE_S
from tests.support.rounds import Load
from tests.support.token_server import TokenServer, token_server

LIFE_S = 15
"""Of a token: longer than a connection may live without a new login."""
WINDOW_S = 25
EXACT = {"lost": 0, "duplicated": 0, "errors": 0, "reordered": 0}


@pytest.fixture(scope="module")
def server() -> Iterator[TokenServer]:
    with token_server(life_s=LIFE_S) as running:
        yield running


@pytest.fixture(scope="module")
def servers(server: TokenServer) -> Iterator[str]:
    with oauth_cluster(server, brokers=2) as running:
        yield running


@pytest.fixture
def cluster(server: TokenServer, servers: str, tmp_path: Path) -> Iterator[Cluster]:
    """The cluster as its users reach it."""
    properties = write_properties(tmp_path / "client.properties", oauth_properties(server))
    with provision(ClusterSpec(), target=servers, client_properties=properties) as found:
        yield found


@pytest.mark.parametrize(
    "fields",
    [
        {"rate": "5k records/s", "acks": "all", "consumers": 2},
        {"rate": "5k records/s", "acks": "all", "idempotence": True, "consumers": 1},
        {"rate": "5k records/s", "acks": 0},
        {"acks": 1},
        {"rate": "500 records/s", "client": "record"},
    ],
    ids=lambda fields: "-".join(map(str, fields)),
)
def test_a_load_outlives_its_logins(cluster: Cluster, server: TokenServer, load: Load, fields: dict[str, Any]) -> None:
    """Runs are longer than tokens live: neither the brokers nor the tokens may end a load."""
    before = len(server.issued)
    ran = load(cluster, duration=f"{WINDOW_S} s", partitions=4, producers=2, record_size=100, **fields)
    assert ran.faults == []
    assert {name: value for name, value in ran.metrics.items() if name in EXACT} == {
        name: value for name, value in EXACT.items() if name in ran.metrics
    }
    assert ran.metrics["errors"] == 0
    assert [worker.repeated_batches for worker in ran.report.workers] == [0] * len(ran.report.workers)
    noted = [note.text for worker in ran.report.workers for note in worker.notes]
    # On a busy machine, the second consumer joins its group after the first one has got all partitions.
    assert [text for text in noted if "because it is rebalancing" not in text] == []
    assert len(server.issued) - before >= WINDOW_S // LIFE_S


def test_a_load_outlives_the_tokens_of_a_managed_identity(
    servers: str, server: TokenServer, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that users of a cloud write is one line in a fixture; the rest comes from the machine."""
    issued: list[str] = []

    def identity(asked: Asked) -> tuple[int, str]:
        assert asked.headers["x-identity-header"] == "header"
        issued.append(server.token())
        return 200, json.dumps({"access_token": issued[-1], "expires_on": str(int(time.time()) + LIFE_S)})

    with cloud_api(identity) as api:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{api.url}/token")
        monkeypatch.setenv("IDENTITY_HEADER", "header")
        cluster = Cluster(
            bootstrap_servers=servers,
            brokers=2,
            client_config={"security.protocol": "SASL_PLAINTEXT"},
            token=AzureToken(scope="https://shop.servicebus.windows.net/.default"),
        )
        ran = load(cluster, duration=f"{WINDOW_S} s", rate="2k records/s", acks="all", consumers=1, partitions=4)
    assert ran.faults == []
    assert {name: ran.metrics[name] for name in EXACT} == EXACT
    assert len(issued) >= WINDOW_S // LIFE_S + 1
    assert len({*issued}) == len(issued)


@pytest.mark.parametrize("security", ["sasl_oauth+tls", "sasl_scram", "sasl_plain"])
def test_every_login_is_renewed(load: Load, security: str) -> None:
    """Brokers limit how long any login lasts, whatever its mechanism."""
    spec = ClusterSpec.of(
        {"security": security, "heap": "256m", "config": {"connections.max.reauth.ms": REAUTH_S * 1000}}
    )
    with provision(spec, target="local") as cluster:
        ran = load(cluster, duration=f"{1.5 * REAUTH_S} s", rate="2k records/s", consumers=1)
    assert ran.faults == []
    assert {name: ran.metrics[name] for name in EXACT} == EXACT
    assert [worker.repeated_batches for worker in ran.report.workers] == [0] * len(ran.report.workers)


async def _ask_for(connection: Any, length_s: float) -> int:
    """Send a request every 50 ms; gives the number of responses, and ends with an error if there is none."""
    answers, end_s = 0, time.monotonic() + length_s
    while time.monotonic() < end_s:
        await connection.send(MetadataRequest([]))
        answers += 1
        await asyncio.sleep(0.05)
    return answers


async def _connect(cluster: Cluster, kind: type[Any]) -> Any:
    host, _, port = cluster.bootstrap_servers.split(",")[0].partition(":")
    connection = kind(host, int(port), request_timeout_ms=PATIENCE_S * 1000, **cluster.access.arguments())
    await connection.connect()
    return connection


def test_a_broker_closes_a_connection_that_does_not_log_in_again(cluster: Cluster) -> None:
    """Otherwise, the other tests would also pass without a renewal."""

    async def last() -> float:
        began_s = time.monotonic()
        connection = await _connect(cluster, ReloginConnection.__base__)
        with pytest.raises(KafkaConnectionError):
            await _ask_for(connection, PATIENCE_S)
        return time.monotonic() - began_s

    cluster.access.arguments()  # replaces aiokafka's class, whose base is the original one
    assert issubclass(conn.AIOKafkaConnection, ReloginConnection)
    assert REAUTH_S - 1 <= asyncio.run(last()) < 2.5 * REAUTH_S  # a connection that logs in again lasts for longer


def test_a_connection_stays_open_for_as_long_as_it_logs_in_again(cluster: Cluster) -> None:
    """A new login, on the same connection, is all that the broker asks for."""

    async def relogins() -> tuple[int, int]:
        connection = await _connect(cluster, ReloginConnection)
        answers = await _ask_for(connection, 2.5 * REAUTH_S)
        closing = connection.close()
        await closing
        return answers, connection.relogins

    answers, count = asyncio.run(relogins())
    assert answers > REAUTH_S
    assert count == 3


def test_a_load_without_valid_tokens_ends_at_once_with_the_reason(
    cluster: Cluster, server: TokenServer, load: Load
) -> None:
    """Clients that retry until they give up would hide the reason, and a minute of the user's time."""
    server.is_down = True
    try:
        began_s = time.monotonic()
        try:
            ran = load(cluster, duration="120 s", rate="1k records/s")
        finally:
            server.is_down = False
        assert time.monotonic() - began_s < LIFE_S + PATIENCE_S
        (problem,) = ran.faults
    except ClusterError as error:  # the token had expired before the load
        assert "503" in str(error)
    else:
        assert "the access token has expired and could not be renewed" in str(problem)
        assert "503 Server Error" in str(problem)


def test_a_rejected_token_is_reported_with_what_the_broker_checks(
    servers: str, server: TokenServer, tmp_path: Path
) -> None:
    """The broker says only that it is invalid."""
    properties = write_properties(tmp_path / "client.properties", oauth_properties(server))
    server.audience = "payroll"
    try:
        with (
            pytest.raises(ClusterError) as raised,
            provision(ClusterSpec(), target=servers, client_properties=properties),
        ):
            pass
    finally:
        server.audience = "pytest-kafkaperf"
    assert "invalid_token" in str(raised.value)
    assert "aud 'payroll'" in str(raised.value)
