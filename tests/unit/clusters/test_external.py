"""Servers of an external cluster that do not answer."""

from __future__ import annotations

import errno
import socket
import time

import pytest

from pytest_kafkaperf.clusters import external
from pytest_kafkaperf.clusters.client import admin, readiness
from pytest_kafkaperf.clusters.provision import provision, with_config
from pytest_kafkaperf.clusters.spec import Cluster, ClusterSpec
from pytest_kafkaperf.core.errors import ClusterError

HINT = (
    ". Check the address and the port in --kafka-cluster, that the brokers are up, and that their listener is "
    "a PLAINTEXT one; for TLS or a login, use --kafka-client-config=FILE"
)


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external, "_TIMEOUT_S", 0.3)
    monkeypatch.setattr(external, "_PAUSE_S", 0.1)


def test_servers_that_do_not_answer_are_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The load that follows tells better what is wrong."""
    assert admin.LOOK_TIMEOUT_S <= 5
    monkeypatch.setattr(admin, "LOOK_TIMEOUT_S", 0.3)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        for server in ("127.0.0.1:9", f"127.0.0.1:{silent.getsockname()[1]}"):
            cluster = Cluster(bootstrap_servers=server)
            began_s = time.monotonic()
            assert with_config(cluster) is cluster
            assert time.monotonic() - began_s < 5


@pytest.mark.usefixtures("_impatient")
def test_servers_that_refuse_connections_are_named_with_the_reason(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """One error that says it all, and no noise of the client library before it."""
    with pytest.raises(ClusterError) as raised, provision(ClusterSpec(), target="127.0.0.1:9"):
        pass

    assert str(raised.value) == (
        '127.0.0.1:9 is not ready after 0.3 s: no connection; Unable connect to "127.0.0.1:9": '
        f"[Errno {errno.ECONNREFUSED}] Connect call failed ('127.0.0.1', 9){HINT}"
    )
    assert caplog.text == ""
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("_impatient")
def test_a_server_that_never_answers_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that something else than Kafka listens on."""
    monkeypatch.setattr(readiness, "_MIN_ATTEMPT_S", 0.3)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        server = f"127.0.0.1:{silent.getsockname()[1]}"

        with pytest.raises(ClusterError) as raised, provision(ClusterSpec(), target=server):
            pass

    assert str(raised.value) == f"{server} is not ready after 0.3 s: no answer{HINT}"
