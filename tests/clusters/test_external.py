"""Servers that somebody else runs."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

import pytest

from pytest_kafkaperf.clusters import ClusterSpec, external, provision
from pytest_kafkaperf.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator

HINT = (
    ". Check the address and the port in --kafka-cluster, that the brokers are up, and that their listener is "
    "a PLAINTEXT one; how to log in elsewhere, --kafka-client-config=FILE tells"
)


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external, "_TIMEOUT_S", 2)


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with provision(ClusterSpec(), target="local") as cluster:
        yield cluster.bootstrap_servers


@pytest.mark.broker
def test_an_external_cluster_is_used_as_it_is(servers: str) -> None:
    """The same test file runs on a laptop and on staging: what cannot be applied there is told."""
    spec = ClusterSpec.of({"version": "4.0.0", "heap": "1g", "config": {"num.io.threads": 4}})

    with provision(spec, target=servers) as cluster:
        assert (cluster.bootstrap_servers, cluster.provider, cluster.brokers) == (servers, "external", 1)
        assert cluster.version == "4.3"
        assert dict(cluster.facts) == {"metadata.version": "30", "not applied": "version, config, heap"}
        assert cluster.pids == ()
        cluster.check()


@pytest.mark.broker
def test_one_of_several_servers_is_enough_to_find_the_cluster(servers: str) -> None:
    """Bootstrap servers are there for redundancy."""
    with provision(ClusterSpec(), target=f"127.0.0.1:9,{servers}") as cluster:
        assert cluster.brokers == 1


@pytest.mark.broker
@pytest.mark.usefixtures("_impatient")
def test_fewer_brokers_than_asked_for_are_an_error(servers: str) -> None:
    """Three brokers and one are two different measurements."""
    with pytest.raises(ClusterError) as raised, provision(ClusterSpec(brokers=3), target=servers):
        pass

    assert str(raised.value) == f"{servers} is not ready after 2 s: 1 of 3 brokers are there{HINT}"


@pytest.mark.usefixtures("_impatient")
def test_servers_that_refuse_connections_are_named_with_the_reason(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """One error that says it all, and no noise of the client library before it."""
    with pytest.raises(ClusterError) as raised, provision(ClusterSpec(), target="127.0.0.1:9"):
        pass

    assert str(raised.value) == (
        '127.0.0.1:9 is not ready after 2 s: no connection; Unable connect to "127.0.0.1:9": '
        f"[Errno {errno.ECONNREFUSED}] Connect call failed ('127.0.0.1', 9){HINT}"
    )
    assert caplog.text == ""
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("_impatient")
def test_a_server_that_never_answers_is_given_up_in_time() -> None:
    """A port that something else than Kafka listens on."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        server = f"127.0.0.1:{silent.getsockname()[1]}"

        with pytest.raises(ClusterError) as raised, provision(ClusterSpec(), target=server):
            pass

    assert str(raised.value) == f"{server} is not ready after 2 s: no answer{HINT}"
