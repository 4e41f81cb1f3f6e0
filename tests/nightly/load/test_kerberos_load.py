"""Loads that log in with Kerberos tickets and outlive them, and logins that fail with Kerberos' own reason."""

from __future__ import annotations

import asyncio
import contextlib
import re
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.protocol.metadata import MetadataRequest

from pytest_kafkaperf.clusters.admin.relogin import ReloginConnection
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.errors import ClusterError
from tests.nightly.faults.faults import clock_environment
from tests.support.kdc import REALM, Kdc, running_kdc
from tests.support.kerberos_cluster import (
    BROKER,
    CLIENT,
    REAUTH_S,
    kerberos_cluster,
    kerberos_properties,
    with_cache,
    with_keytab,
)
from tests.support.oauth_cluster import write_properties
from tests.support.patience import PATIENCE_S
from tests.support.rounds import Once
from tests.support.strangers import drop_topic, make_topic

if TYPE_CHECKING:
    from tests.support.rounds import Load

LIFE_S = 24
"""Of a ticket."""
WINDOW_S = 100
EXACT = {"lost": 0, "duplicated": 0, "errors": 0, "reordered": 0}
KINIT_S = 8


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """A KDC, which the library of this process and of its workers finds."""
    pytest.importorskip("gssapi", reason="no Kerberos: the package gssapi is not installed")
    with running_kdc(tmp_path_factory.mktemp("kdc"), life_s=LIFE_S) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(running.config))
        patch.setenv("KRB5CCNAME", f"FILE:{running.folder}/no-cache")
        yield running


@pytest.fixture(scope="module")
def servers(kdc: Kdc) -> Iterator[str]:
    with kerberos_cluster(kdc, brokers=2) as running:
        yield running


@contextlib.contextmanager
def reached(servers: str, folder: Path, options: str, **changes: str) -> Iterator[Cluster]:
    """The cluster as its users reach it."""
    properties = write_properties(folder / "client.properties", kerberos_properties(options, **changes))
    with provision(ClusterSpec(), target=servers, client_properties=properties) as found:
        yield found


@contextlib.contextmanager
def kept_up_to_date(kdc: Kdc, cache: Path) -> Iterator[None]:
    """Run kinit again and again, as a cron job would."""
    ended = threading.Event()

    def keep() -> None:
        while not ended.wait(KINIT_S):
            kdc.kinit(CLIENT, kdc.folder / "client.keytab", cache)

    kdc.kinit(CLIENT, kdc.folder / "client.keytab", cache)
    thread = threading.Thread(target=keep)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("kind", ["keytab", "cache"])
def test_a_load_outlives_its_tickets(servers: str, kdc: Kdc, load: Load, tmp_path: Path, kind: str) -> None:
    """A run is longer than several tickets: neither they nor the brokers may end a load, or cost a record."""
    cache = tmp_path / "cache"
    options = with_keytab(kdc) if kind == "keytab" else with_cache(cache)
    refreshed = contextlib.nullcontext() if kind == "keytab" else kept_up_to_date(kdc, cache)
    with refreshed, reached(servers, tmp_path, options) as cluster:
        before = kdc.issued(CLIENT)
        ran = load(
            cluster,
            duration=f"{WINDOW_S} s",
            rate="2k records/s",
            acks="all",
            partitions=4,
            producers=2,
            consumers=2,
            record_size=100,
        )
        issued = kdc.issued(CLIENT) - before
    assert ran.faults == []
    assert {name: ran.metrics[name] for name in EXACT} == EXACT
    assert [worker.repeated_batches for worker in ran.report.workers] == [0] * len(ran.report.workers)
    assert [worker.notes for worker in ran.report.workers] == [[]] * len(ran.report.workers)
    assert issued >= WINDOW_S // LIFE_S


def test_a_connection_logs_in_again_with_new_tickets(servers: str, kdc: Kdc, tmp_path: Path) -> None:
    """On the same connection, before the broker closes it."""

    async def relogins(cluster: Cluster) -> int:
        host, _, port = servers.split(",", maxsplit=1)[0].partition(":")
        connection = ReloginConnection(
            host, int(port), request_timeout_ms=PATIENCE_S * 1000, **cluster.access.arguments()
        )
        await connection.connect()
        end_s = time.monotonic() + 4.5 * REAUTH_S
        while time.monotonic() < end_s:
            await connection.send(MetadataRequest([]))
            await asyncio.sleep(0.1)
        await connection.close()
        return connection.relogins

    with reached(servers, tmp_path, with_keytab(kdc)) as cluster:
        before = kdc.issued(CLIENT)
        assert asyncio.run(relogins(cluster)) == 5
        assert kdc.issued(CLIENT) - before >= 2


def test_a_group_is_watched_across_several_tickets(servers: str, kdc: Kdc, load: Load, tmp_path: Path) -> None:
    """The main process's requests log in, too."""
    topic, group = "kerberos-orders", "kerberos-sink"
    joined, ended = threading.Event(), threading.Event()

    async def take(cluster: Cluster) -> None:
        consumer = AIOKafkaConsumer(
            topic,
            **{**cluster.client_config, "bootstrap_servers": cluster.bootstrap_servers},
            group_id=group,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=200,
        )
        async with consumer:
            joined.set()
            while not ended.is_set():
                await consumer.getmany(timeout_ms=100)

    with reached(servers, tmp_path, with_keytab(kdc)) as cluster:
        make_topic(cluster, topic, partitions=2)
        thread = threading.Thread(target=lambda: asyncio.run(take(cluster)))
        thread.start()
        try:
            assert joined.wait(PATIENCE_S)
            ran = load(cluster, topic=topic, watch_group=group, rate=200, duration=f"{1.5 * LIFE_S} s", warmup=0)
        finally:
            ended.set()
            thread.join(PATIENCE_S)
            drop_topic(cluster, topic)
    assert ran.faults == []
    assert (ran.metrics["lost"], ran.metrics["errors"]) == (0, 0)
    assert ran.metrics["app.throughput"] == pytest.approx(200, rel=0.1)


def refusal(servers: str, folder: Path, options: str, **changes: str) -> str:
    """The error of a login that fails, which must be final: no attempt is repeated."""
    with pytest.raises(ClusterError) as raised, reached(servers, folder, options, **changes):
        pass
    assert "is not ready after" not in str(raised.value)
    return str(raised.value)


def test_a_login_that_fails_is_reported_at_once_with_kerberos_reason(servers: str, kdc: Kdc, tmp_path: Path) -> None:
    """The reason alone decides whom to ask: the KDC's administrators, the cluster's, or oneself."""
    other = kdc.keytab("gone", "gone")
    kdc.administer("delprinc -force gone")
    found = refusal(servers, tmp_path, with_keytab(kdc, name="gone", client="gone"))
    assert found == (
        f"no Kerberos ticket for 'gone@{REALM}' with the keytab {other}: Client 'gone@{REALM}' not found in Kerberos "
        "database"
    )
    found = refusal(servers, tmp_path, with_keytab(kdc, client="nobody"))
    assert found.endswith(f"client.keytab: No key table entry found for nobody@{REALM}")
    found = refusal(servers, tmp_path, with_keytab(kdc, name="absent"))
    assert re.search(r"cannot read the keytab .*/absent\.keytab on .*: No such file or directory; it must", found)
    (kdc.folder / "broken.keytab").write_text("the key is hunter2\n")
    found = refusal(servers, tmp_path, with_keytab(kdc, name="broken"))
    assert found.endswith("broken.keytab: Unsupported key table format version number")
    found = refusal(servers, tmp_path, with_keytab(kdc), **{"sasl.kerberos.service.name": "orders"})
    assert f"Server orders/127.0.0.1@{REALM} not found in Kerberos database" in found
    assert "that brokers have the principal orders/HOST for each HOST that clients connect to" in found


def test_a_ticket_cache_without_a_valid_ticket_is_reported_at_once(servers: str, kdc: Kdc, tmp_path: Path) -> None:
    """Only the user can renew it."""
    cache = tmp_path / "cache"
    found = refusal(servers, tmp_path, with_cache(cache))
    assert re.search(rf"no valid Kerberos ticket in the ticket cache FILE:{cache} on .*: .*; run kinit there", found)
    found = refusal(servers, tmp_path, "useTicketCache=true")
    assert f"(default cache: FILE:{kdc.folder}/no-cache); run kinit there" in found
    kdc.kinit(CLIENT, kdc.folder / "client.keytab", cache)
    with reached(servers, tmp_path, with_cache(cache)):
        pass
    found = refusal(servers, tmp_path, f'{with_cache(cache)} principal="somebody"')
    assert "Principal in credential cache does not match desired name; run kinit there" in found
    expired_s = time.monotonic() + LIFE_S
    while time.monotonic() < expired_s:  # nothing but time lets a ticket expire
        time.sleep(0.5)
    found = refusal(servers, tmp_path, with_cache(cache))
    assert "The referenced credential has expired; run kinit there" in found


@pytest.mark.parametrize("kind", ["keytab", "cache"])
def test_a_load_without_valid_tickets_ends_with_the_reason(
    servers: str, kdc: Kdc, load: Load, tmp_path: Path, kind: str
) -> None:
    """Clients that retry until they give up would hide the reason, and a minute of the user's time."""
    cache = tmp_path / "cache"
    kdc.kinit(CLIENT, kdc.folder / "client.keytab", cache)
    options = with_keytab(kdc) if kind == "keytab" else with_cache(cache)
    stop = Once(kdc.stop)
    try:
        with reached(servers, tmp_path, options) as cluster:
            ran = load(cluster, duration=f"{WINDOW_S} s", rate="1k records/s", on_progress=stop)
            assert stop.done_s is not None
            assert time.monotonic() - stop.done_s < WINDOW_S
    finally:
        kdc.stop()
        kdc.start()
    problems = "; ".join(str(problem) for problem in ran.faults)
    expected = {
        "keytab": f"client.keytab: Cannot contact any KDC for realm '{REALM}'",
        "cache": "The referenced credential has expired; run kinit there",
    }
    assert expected[kind] in problems


def test_a_kdc_that_is_down_is_reported_at_once(servers: str, kdc: Kdc, tmp_path: Path) -> None:
    """It is the first that a client needs."""
    kdc.stop()
    try:
        found = refusal(servers, tmp_path, with_keytab(kdc))
    finally:
        kdc.start()
    assert found.endswith(f"client.keytab: Cannot contact any KDC for realm '{REALM}'")


def test_clocks_that_differ_are_reported_at_once(servers: str, kdc: Kdc, tmp_path: Path) -> None:
    """Tickets are valid for a time, and only who sees both clocks knows that they differ."""
    variables = clock_environment(tmp_path)
    step = Path(variables["CLOCK_STEP"])
    found = {}
    for hours in (-1, 1):
        step.write_bytes(struct.pack("q", hours * 3600))
        kdc.stop()
        try:
            kdc.start(variables)
            found[hours] = refusal(servers, tmp_path, with_keytab(kdc))
        finally:
            kdc.stop()
            kdc.start()
    assert found[-1] == (
        f"the new Kerberos ticket for '{CLIENT}@{REALM}' has already expired, according to this machine's clock; check "
        "the clocks of this machine and of the KDC"
    )
    assert "the clocks of all machines" in found[1]


def test_the_host_in_the_principal_is_what_krb5_conf_makes_of_the_advertised_one(
    servers: str, kdc: Kdc, tmp_path: Path
) -> None:
    """A host with several names has a principal for one of them, and the error must show which one was asked for."""
    by_name = servers.replace("127.0.0.1", "localhost")
    assert f"Server kafka/localhost@{REALM} not found" in refusal(by_name, tmp_path, with_keytab(kdc))
    kdc.configure(life_s=LIFE_S, canonicalize=True)
    try:
        assert f"Server kafka/localhost@{REALM} not found" in refusal(servers, tmp_path, with_keytab(kdc))
    finally:
        kdc.configure(life_s=LIFE_S)


@pytest.mark.usefixtures("kdc")
def test_a_ticket_that_a_broker_cannot_decrypt_is_reported_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its keytab must be replaced, too, whenever its key changes. Other tests need the key."""
    with running_kdc(tmp_path, life_s=LIFE_S) as own:
        monkeypatch.setenv("KRB5_CONFIG", str(own.config))
        with kerberos_cluster(own) as servers:
            own.administer(f"cpw -randkey {BROKER}")
            found = refusal(servers, tmp_path, with_keytab(own))
    assert "GSSAPI" in found
    assert "the clocks of all machines" in found
