"""A cluster that accepts the tokens of a token server, and makes its clients log in again often."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import javaproperties
from pydantic import SecretStr

from pytest_kafkaperf.clusters.brokers import distribution, java
from pytest_kafkaperf.clusters.brokers.config import Security
from pytest_kafkaperf.clusters.brokers.fleet import launched
from pytest_kafkaperf.clusters.brokers.local_brokers import Layout
from pytest_kafkaperf.clusters.brokers.run_folders import run_folder
from pytest_kafkaperf.clusters.brokers.token_issuer import IssuedToken
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from tests.support.token_server import CLIENT_ID, CLIENT_SECRET, TokenServer

REAUTH_S = 10
"""After this time, the brokers close the connections of clients that have not logged in again."""


@contextmanager
def oauth_cluster(server: TokenServer, *, brokers: int = 1, version: str = DEFAULT_VERSION) -> Iterator[str]:
    """Start brokers that trust the token server's key; gives their servers."""
    spec = ClusterSpec(
        brokers=brokers,
        heap="256m",
        security="sasl_oauth",
        config={"connections.max.reauth.ms": str(REAUTH_S * 1000)},
    )
    runtime, cache = java.find(), distribution.cache_folder()
    kafka = distribution.installed(version, java=runtime, cache=cache)
    own = IssuedToken(keys=server.keys, token=SecretStr(server.token(24 * 3600)))
    security = dataclasses.replace(Security.make(spec.security, ["127.0.0.1"]), issued=own)
    with run_folder(cache / "runs") as folder:
        layout = Layout(spec=spec, runtime=runtime, kafka=kafka, security=security, agent=None, folder=folder)
        with launched(layout.plan, what=f"Kafka {version}") as fleet:
            yield fleet.bootstrap_servers


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
