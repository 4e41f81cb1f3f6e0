"""Servers of an external cluster that do not answer."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.admin import admin, connection
from pytest_kafkaperf.clusters.admin.admin import Admin
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.provision import provision, with_config
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.errors import ClusterError
from tests.support.rounds import within
from tests.support.silent import silent_server

HINT = (
    ". Check the address and the port in --kafka-cluster, that the brokers are up, and that their listener is "
    "a PLAINTEXT one; for TLS or a login, use --kafka-client-config=FILE, or for --kafka-compare "
    "kafka_compare_client_config in the ini file"
)


@pytest.fixture
def _slow_dns(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    answered = threading.Event()

    def look_up(*_: object, **__: object) -> None:
        answered.wait(60)
        raise socket.gaierror(socket.EAI_AGAIN, "no DNS server answers")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield
    answered.set()


@pytest.mark.usefixtures("_slow_dns")
def test_a_slow_dns_server_does_not_make_timeouts_longer() -> None:
    """Its own timeout is often half a minute for each server."""
    server = "broker.example:9092"
    with (
        within(30),
        pytest.raises(ClusterError) as raised,
        provision(ClusterSpec(), target=server, connect_timeout_s=1),
    ):
        pass
    assert str(raised.value) == f"{server} is not ready after 1 s: no answer{HINT}"
    with within(30), pytest.raises(ClusterError, match=r"^could not delete topic 'topic' on broker\.example:9092: no"):
        Admin(server, Access()).delete_topic("topic", timeout_s=1)


@pytest.mark.parametrize("host", ["kafka..example.com", f"{'k' * 64}.example.com"])
def test_a_host_name_that_is_none_is_told(host: str) -> None:
    """A part of it is empty, or longer than 63 characters."""
    starting = provision(ClusterSpec(), target=f"{host}:9092", connect_timeout_s=1)
    with pytest.raises(ClusterError, match=r"label (empty or )?too long\)\. Check the address"), starting:
        pass


def test_servers_that_do_not_answer_are_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The load that follows tells better what is wrong."""
    assert admin.LOOK_TIMEOUT_S <= 5
    monkeypatch.setattr(admin, "LOOK_TIMEOUT_S", 0.3)
    with silent_server() as silent:
        for server in ("127.0.0.1:9", silent):
            cluster = Cluster(bootstrap_servers=server)
            with within(30):  # a request of the client alone takes 40 s
                assert with_config(cluster) == replace(cluster, facts={"broker settings": "unknown"})


def test_servers_that_refuse_connections_are_named_with_the_reason(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """One error that says it all, and no noise of the client library before it."""
    with pytest.raises(ClusterError) as raised, provision(ClusterSpec(), target="127.0.0.1:9", connect_timeout_s=1):
        pass

    assert str(raised.value) == (
        '127.0.0.1:9 is not ready after 1 s: no connection; Unable connect to "127.0.0.1:9": '
        f"[Errno {errno.ECONNREFUSED}] Connect call failed ('127.0.0.1', 9){HINT}"
    )
    assert caplog.text == ""
    assert capfd.readouterr() == ("", "")


def test_a_server_that_never_answers_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that something else than Kafka listens on."""
    monkeypatch.setattr(connection, "_MIN_ATTEMPT_S", 0.3)
    with (
        silent_server() as server,
        pytest.raises(ClusterError) as raised,
        provision(ClusterSpec(), target=server, connect_timeout_s=1),
    ):
        pass

    assert str(raised.value) == f"{server} is not ready after 1 s: no answer{HINT}"
