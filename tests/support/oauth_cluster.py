"""Clusters that accept the tokens of a token server, and make their clients log in again often."""

from __future__ import annotations

import dataclasses
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import javaproperties
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.oauth import OAuth
from pytest_kafkaperf.clusters.access.tokens import ClientCredentials
from pytest_kafkaperf.clusters.brokers import distribution, java, jmx_exporter
from pytest_kafkaperf.clusters.brokers.config import Files, Security
from pytest_kafkaperf.clusters.brokers.fleet import launched
from pytest_kafkaperf.clusters.brokers.local_brokers import Layout, free_ports
from pytest_kafkaperf.clusters.brokers.run_folders import run_folder
from pytest_kafkaperf.clusters.brokers.token_issuer import IssuedToken
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from tests.support.mock_oauth2 import AUDIENCE, CLIENT, SECRET, MockOAuth2
from tests.support.patience import PATIENCE_S
from tests.support.token_server import CLIENT_ID, CLIENT_SECRET, TokenServer

REAUTH_S = 10
"""After this time, the brokers close the connections of clients that have not logged in again."""
_COUNTS = """\
includeObjectNames:
- kafka.server:type=socket-server-metrics,*
rules:
- pattern: kafka.server<type=socket-server-metrics, listener=CLIENT, networkProcessor=(\\d+)><>(\\S+):.*
  name: $2
  labels:
    processor: $1
"""
"""Of the JMX exporter, for the brokers' own counts of logins."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSecurity(Security):
    """Protection by the tokens of a server whose keys the brokers fetch over HTTP."""

    server: MockOAuth2
    ports: tuple[int, ...]
    """Where the brokers publish their counts, one each."""

    @property
    def access(self) -> Access:
        source = ClientCredentials(
            endpoint=self.server.token_endpoint, client_id=CLIENT, client_secret=SecretStr(SECRET)
        )
        return Access(protocol="SASL_PLAINTEXT", login=OAuth(source=source))

    def java_options(self, files: Files) -> list[str]:
        home = Path(files.keys).parent
        counts = home / "counts.yml"
        counts.write_text(_COUNTS, encoding="ascii")
        port = self.ports[int(home.name.removeprefix("broker-")) - 1]
        agent = jmx_exporter.option(jmx_exporter.jar(distribution.cache_folder()), counts, port)
        return [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.server.keys}", agent]

    def properties(self, files: Files) -> dict[str, str]:
        del files
        prefix = "listener.name.client"
        return {
            f"{prefix}.sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{prefix}.oauthbearer.sasl.jaas.config": f"{OAuth.module} required;",
            f"{prefix}.oauthbearer.sasl.server.callback.handler.class": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
            ),
            f"{prefix}.sasl.oauthbearer.jwks.endpoint.url": self.server.keys,
            f"{prefix}.sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{prefix}.sasl.oauthbearer.expected.issuer": self.server.issuer,
        }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CountingCluster:
    """A cluster whose brokers publish what they count."""

    servers: str
    ports: tuple[int, ...]

    def logins(self) -> dict[str, float]:
        """The brokers' counts since their start, by Kafka's name with `_`; the exporter drops `_total`."""
        found: dict[str, float] = {}
        for port in self.ports:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as page:
                for family in text_string_to_metric_families(page.read().decode()):
                    for sample in family.samples:
                        if "processor" in sample.labels:
                            found[sample.name] = found.get(sample.name, 0) + sample.value
        return found


@contextmanager
def oauth_cluster(server: TokenServer, *, brokers: int = 1, version: str = DEFAULT_VERSION) -> Iterator[str]:
    """Start brokers that trust the token server's key; gives their servers."""
    own = IssuedToken(keys=server.keys, token=SecretStr(server.token(24 * 3600)))
    security = dataclasses.replace(Security.make("sasl_oauth", ["127.0.0.1"]), issued=own)
    with _launched(security, brokers=brokers, version=version) as servers:
        yield servers


@contextmanager
def mock_oauth2_cluster(server: MockOAuth2, *, brokers: int = 1) -> Iterator[CountingCluster]:
    """Start brokers that fetch the server's keys from the server itself."""
    plain = Security.make(None, ["127.0.0.1"])
    shared = {each.name: getattr(plain, each.name) for each in dataclasses.fields(plain)}
    security = EndpointSecurity(**shared, server=server, ports=tuple(free_ports(brokers)))
    with _launched(security, brokers=brokers, version=DEFAULT_VERSION) as servers:
        yield CountingCluster(servers=servers, ports=security.ports)


@contextmanager
def _launched(security: Security, *, brokers: int, version: str) -> Iterator[str]:
    spec = ClusterSpec(brokers=brokers, heap="256m", config={"connections.max.reauth.ms": str(REAUTH_S * 1000)})
    runtime, cache = java.find(), distribution.cache_folder()
    kafka = distribution.installed(version, java=runtime, cache=cache)
    with run_folder(cache / "runs") as folder:
        layout = Layout(spec=spec, runtime=runtime, kafka=kafka, security=security, agent=None, folder=folder)
        with launched(layout.plan, what=f"Kafka {version}") as fleet:
            yield fleet.bootstrap_servers


def mock_oauth2_properties(server: MockOAuth2) -> dict[str, str]:
    """The client properties for a cluster of `mock_oauth2_cluster`."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": server.token_endpoint,
        "sasl.oauthbearer.client.credentials.client.id": CLIENT,
        "sasl.oauthbearer.client.credentials.client.secret": SECRET,
        "sasl.oauthbearer.scope": "kafka",
    }


def oauth_properties(server: TokenServer, **changes: str) -> dict[str, str]:
    """The client properties that the owner of such a cluster hands over."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": server.url,
        "sasl.oauthbearer.client.credentials.client.id": CLIENT_ID,
        "sasl.oauthbearer.client.credentials.client.secret": CLIENT_SECRET,
        **changes,
    }


def write_properties(path: Path, properties: dict[str, str]) -> Path:
    """Write client properties."""
    path.write_text(javaproperties.dumps(properties, timestamp=False), encoding="latin-1")
    return path
