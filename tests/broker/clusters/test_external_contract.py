"""The contract of a cluster that somebody else runs: reached by its own client properties, used, and left as it was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.logins import Scram
from pytest_kafkaperf.clusters.admin.admin import Admin
from pytest_kafkaperf.clusters.brokers import config
from pytest_kafkaperf.clusters.brokers.certificates import certificates
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.errors import ClusterError, UsageError
from pytest_kafkaperf.runner.rounds.side_rounds import resolve_scenario
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.external_cluster import HEAP, SECURED, Foreign, foreign_cluster, load, load_and_restart
from tests.support.field_certificates import lax_certificates, verify_strictly

PROTOCOLS = {None: "PLAINTEXT", SECURED: "SASL_SSL"}


@pytest.fixture(scope="module")
def foreign(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    security: str | None = request.param
    with foreign_cluster(security, tmp_path_factory.mktemp("foreign")) as cluster:
        yield cluster


both = pytest.mark.parametrize("foreign", [None, SECURED], ids=["plaintext", SECURED], indirect=True, scope="module")
secured = pytest.mark.parametrize("foreign", [SECURED], indirect=True, scope="module")
plaintext = pytest.mark.parametrize("foreign", [None], ids=["plaintext"], indirect=True, scope="module")


@both
def test_a_foreign_cluster_is_ready_and_tells_of_itself(foreign: Foreign) -> None:
    """The facts go into the fingerprint; the plugin does not control brokers that it did not start."""
    servers = foreign.owned.bootstrap_servers
    with provision(ClusterSpec(), target=servers, client_properties=foreign.properties) as cluster:
        assert (cluster.provider, cluster.brokers, cluster.bootstrap_servers) == ("external", 1, servers)
        assert cluster.version == "unknown"
        told = {name for name in cluster.facts if not name.startswith("config.")}
        assert told == {"cluster id"}
        assert foreign.owned.fleet is not None
        assert cluster.facts["cluster id"] == foreign.owned.fleet.cluster_id
        assert not any(text in str(cluster.facts) for text in (servers, *foreign.owned.access.secrets()))
        assert cluster.access.protocol == PROTOCOLS[foreign.security]
        assert cluster.access.login == foreign.owned.access.login
        assert cluster.pids == ()
        assert cluster.probes() == {}
        for control in (cluster.stop_broker, cluster.start_broker, cluster.pause_broker, cluster.resume_broker):
            with pytest.raises(UsageError) as raised:
                control(1)
            assert str(raised.value) == (
                f"the plugin did not start the brokers at {servers} and cannot stop or start them; "
                "use --kafka-cluster=local or --kafka-cluster=docker"
            )
    foreign.owned.check()  # and it outlives its user


@secured
def test_load_on_a_foreign_cluster_is_exact_and_leaves_nothing_also_after_a_restart(foreign: Foreign) -> None:
    """Its owner finds neither topics nor groups afterwards, and may restart a broker between two runs."""
    load_and_restart(foreign)


def refused(servers: str, properties: Path | None) -> str:
    """Return the error of a cluster that is up and cannot be used; it comes at once, not after the timeout."""
    with (
        pytest.raises(ClusterError) as raised,
        provision(ClusterSpec(), target=servers, client_properties=properties),
    ):
        pass
    told = str(raised.value)
    assert told.startswith(f"{servers} is not ready: "), told  # after the timeout: "is not ready after 15 s: "
    return told


@secured
def test_a_wrong_password_is_told_as_such_and_not_shown(foreign: Foreign) -> None:
    """aiokafka itself only says that it is unable to bootstrap."""
    assert isinstance(foreign.owned.access.login, Scram)
    login = replace(foreign.owned.access.login, password=SecretStr("open sesame"))
    access = replace(foreign.owned.access, login=login)
    file = foreign.written(access, "password.properties")
    told = refused(foreign.owned.bootstrap_servers, file)
    assert "Authentication failed" in told
    assert told.endswith(f". Check the user name, the password and 'sasl.mechanism' in {file}")
    assert "open sesame" not in told


@secured
def test_a_certificate_of_another_authority_is_told_as_such(foreign: Foreign) -> None:
    """The most common mistake with a cluster that has an authority of its own."""
    access = replace(foreign.owned.access, trusted=certificates(["localhost"]).authority)
    file = foreign.written(access, "authority.properties")
    told = refused(foreign.owned.bootstrap_servers, file)
    assert "certificate verify failed" in told
    assert told.endswith(f"and be issued by an authority in 'ssl.truststore.location' of {file}")


def test_a_broker_whose_certificate_only_strict_verification_refuses_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java's clients use it; so must this one with every version of Python."""
    verify_strictly(monkeypatch)
    monkeypatch.setattr(config, "certificates", lax_certificates)
    with foreign_cluster("tls", tmp_path) as foreign:
        servers = foreign.owned.bootstrap_servers
        with provision(ClusterSpec(), target=servers, client_properties=foreign.properties) as cluster:
            assert load(cluster)["lost"] == 0


def test_topics_have_the_cluster_s_own_replication_factor() -> None:
    """Managed clusters demand 3; a factor of 1 would measure a topic that nobody there uses."""
    spec = ClusterSpec.of({"brokers": 2, "heap": HEAP, "config": {"default.replication.factor": "2"}})
    with provision(spec, target="local") as cluster:
        admin = Admin(cluster.bootstrap_servers, cluster.access)
        admin.create_topic("defaults", Scenario())
        described = resolve_scenario(Scenario(topic="defaults"), cluster)
    assert (described.partitions, described.replication_factor) == (6, 2)


@secured
def test_a_tls_listener_that_is_reached_in_plaintext_is_told_with_advice(foreign: Foreign) -> None:
    """The option that was forgotten is named."""
    servers = foreign.owned.bootstrap_servers
    told = refused(servers, None)
    assert told.startswith(
        f"{servers} is not ready: the listener at {servers} uses SASL_SSL, but the client uses PLAINTEXT. Check"
    )
    assert "--kafka-client-config=FILE" in told


@plaintext
@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL", "SASL_PLAINTEXT"])
def test_a_plaintext_listener_is_told_with_the_file_that_asks_for_another(foreign: Foreign, protocol: Any) -> None:
    """Both protocols are named, with the file that asks for one of them."""
    access = Access(protocol=protocol, trusted=certificates(["localhost"]).authority)
    if "SASL" in protocol:
        login = Scram(mechanism="SCRAM-SHA-512", username="someone", password=SecretStr("open sesame"))
        access = replace(access, login=login)
    file = foreign.written(access, f"{protocol}.properties")
    servers = foreign.owned.bootstrap_servers
    told = refused(servers, file)
    assert told.startswith(
        f"{servers} is not ready: the listener at {servers} uses PLAINTEXT, but the client uses {protocol}. Check"
    )
    assert told.endswith(f"{protocol} one as in {file}")
