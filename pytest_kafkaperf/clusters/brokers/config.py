"""Kafka properties for brokers that the plugin starts. All functions are pure; providers choose addresses and files.

Each broker is also a controller and has three listeners: CLIENT for tests, protected according to `security`; INTERNAL
for brokers; and CONTROLLER for controllers. The last two use plaintext on loopback or the cluster's network.
"""

from __future__ import annotations

import base64
import secrets
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import SecretStr

from pytest_kafkaperf.clusters.access.access import Access, Protocol, secret_lines
from pytest_kafkaperf.clusters.access.logins import Login, Plain, Scram, ScramMechanism
from pytest_kafkaperf.clusters.access.oauth import OAuth
from pytest_kafkaperf.clusters.access.tokens import FixedToken
from pytest_kafkaperf.clusters.brokers.certificates import Certificates, certificates
from pytest_kafkaperf.clusters.brokers.token_issuer import (
    IssuedToken,
    allowing_option,
    issue_token,
    verifying_properties,
)

CLIENT = "CLIENT"
INTERNAL = "INTERNAL"
CONTROLLER = "CONTROLLER"
LISTENERS = (CLIENT, INTERNAL, CONTROLLER)

_MAX_INTERNAL_REPLICAS = 3
"""Kafka's default replication factor for its internal topics; reduced if there are fewer brokers."""

_INTERNAL_TOPICS = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A broker in a cluster; addresses are `HOST:PORT`, by listener."""

    id: int
    bound: Mapping[str, str]
    """Addresses on which the broker listens."""
    advertised: Mapping[str, str]
    """Addresses that the broker advertises to clients and to other brokers."""


def broker_properties(
    node: Node, nodes: Sequence[Node], security: Security, *, log_folder: str, files: Files, config: Mapping[str, str]
) -> dict[str, str]:
    """Return all properties of one broker.

    Args:
        node: the broker.
        nodes: all brokers of the cluster, including `node`.
        security: the protection for the CLIENT listener.
        log_folder: the value of `log.dirs`.
        files: paths at which the broker finds the files that belong to `security`.
        config: the spec's properties, which override everything except the broker's identity and protection
            (`spec.OWN_PROPERTIES`).

    """
    protocols = {CLIENT: security.access.protocol, INTERNAL: "PLAINTEXT", CONTROLLER: "PLAINTEXT"}
    identity = {
        "process.roles": "broker,controller",
        "node.id": str(node.id),
        "controller.quorum.voters": ",".join(f"{each.id}@{each.advertised[CONTROLLER]}" for each in nodes),
        "controller.listener.names": CONTROLLER,
        "inter.broker.listener.name": INTERNAL,
        "listeners": _join("://", {name: node.bound[name] for name in LISTENERS}),
        "advertised.listeners": _join("://", {name: node.advertised[name] for name in (CLIENT, INTERNAL)}),
        "listener.security.protocol.map": _join(":", protocols),
        "log.dirs": log_folder,
    }
    return {**default_properties(len(nodes)), **config, **security.properties(files), **identity}


def default_properties(brokers: int) -> dict[str, str]:
    """Return the properties that differ from Kafka's defaults on every cluster of this size that the plugin starts."""
    replicas = min(brokers, _MAX_INTERNAL_REPLICAS)
    internal = {}
    for topic in _INTERNAL_TOPICS:
        internal[f"{topic}.replication.factor"] = str(replicas)
        # Kafka would create 50 partitions on first use, during a test's warm-up.
        internal[f"{topic}.num.partitions"] = "5"
    for topic in _INTERNAL_TOPICS[1:]:
        internal[f"{topic}.min.isr"] = str(max(1, replicas - 1))
    return {
        **internal,
        # Kafka's 3 s wait for further consumers is unnecessary, because a test's consumers start together.
        "group.initial.rebalance.delay.ms": "0",
        # A misspelled topic name must cause an error.
        "auto.create.topics.enable": "false",
        # Kafka keeps deleted files for a minute by default. Their disk space and unwritten pages would slow down the
        # next round (to half the throughput, measured with 2 GB of unwritten pages).
        "log.segment.delete.delay.ms": "100",
        "log.initial.task.delay.ms": "500",
    }


def new_uuid() -> str:
    """Return a new UUID in Kafka's format: base64 without padding, and no leading `-`, which Kafka rejects."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
        if not text.startswith("-"):
            return text


def _join(separator: str, texts: Mapping[str, str]) -> str:
    return ",".join(f"{name}{separator}{text}" for name, text in texts.items())


USER = "kafkaperf"
"""User name for clients."""

_ADMIN = "admin"
"""User name for creating `USER` on a SCRAM listener. Brokers keep SCRAM credentials in the cluster's metadata, which is
empty when a cluster has just started."""

_SCRAM: ScramMechanism = "SCRAM-SHA-512"

_PASSWORD_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Paths at which a broker finds the files that belong to its `Security`."""

    keystore: str
    """Path of `Security.keystore`."""
    keys: str
    """Path of `Security.keys`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Protection, if any, for a cluster's client listener. Its repr does not show secrets."""

    scram: bool
    plain: bool
    password: SecretStr
    admin_password: SecretStr
    certificates: Certificates | None
    issued: IssuedToken | None
    """The clients' access token; None without OAUTHBEARER."""

    @classmethod
    def make(cls, kind: str | None, hosts: Sequence[str]) -> Security:
        """Create credentials and certificates.

        Args:
            kind: `ClusterSpec.security`; None for no protection.
            hosts: the brokers' host names and IP addresses, for their certificate.

        Raises:
            ClusterError: a package for signing tokens is missing.

        """
        kinds = (kind or "").split("+")
        return cls(
            scram="sasl_scram" in kinds,
            plain="sasl_plain" in kinds,
            # Hexadecimal digits do not have to be escaped in JAAS, properties files, shells or templates.
            password=SecretStr(secrets.token_hex(_PASSWORD_BYTES)),
            admin_password=SecretStr(secrets.token_hex(_PASSWORD_BYTES)),
            certificates=certificates(hosts) if "tls" in kinds else None,
            issued=issue_token(USER) if "sasl_oauth" in kinds else None,
        )

    @property
    def access(self) -> Access:
        """Access settings for clients."""
        if self.issued is not None:
            return self._access(OAuth(source=FixedToken(value=self.issued.token)))
        if self.scram:
            return self._access(Scram(mechanism=_SCRAM, username=USER, password=self.password))
        return self._access(Plain(username=USER, password=self.password))

    @property
    def admin(self) -> Access:
        """Access settings for use before SCRAM users exist."""
        return self._access(Plain(username=_ADMIN, password=self.admin_password))

    @property
    def keystore(self) -> str | None:
        """The brokers' private key and certificate as a single, secret PEM text; None without TLS."""
        if self.certificates is None:
            return None
        return self.certificates.key.get_secret_value() + self.certificates.certificate

    @property
    def keys(self) -> str | None:
        """The public key with which brokers verify access tokens, as a JSON Web Key Set; None without OAUTHBEARER."""
        return None if self.issued is None else self.issued.keys

    def java_options(self, files: Files) -> list[str]:
        """Return the brokers' Java options."""
        return [] if self.issued is None else [allowing_option(files.keys)]

    def properties(self, files: Files) -> dict[str, str]:
        """Return the broker properties that protect the CLIENT listener."""
        prefix = f"listener.name.{CLIENT.lower()}"
        properties: dict[str, str] = {}
        if self.certificates is not None:
            properties |= {
                f"{prefix}.ssl.keystore.type": "PEM",
                f"{prefix}.ssl.keystore.location": files.keystore,
                f"{prefix}.ssl.client.auth": "none",
            }
        if self.issued is not None:
            properties |= {
                f"{prefix}.sasl.enabled.mechanisms": "OAUTHBEARER",
                f"{prefix}.oauthbearer.sasl.jaas.config": f"{OAuth.module} required;",
                **verifying_properties(prefix, files.keys),
            }
        if self.scram or self.plain:
            users = {_ADMIN: self.admin_password} if self.scram else {USER: self.password}
            logins = " ".join(f'user_{name}="{password.get_secret_value()}"' for name, password in users.items())
            properties |= {
                f"{prefix}.sasl.enabled.mechanisms": f"PLAIN,{_SCRAM}" if self.scram else "PLAIN",
                f"{prefix}.plain.sasl.jaas.config": f"{Plain.module} required {logins};",
            }
        if self.scram:
            properties[f"{prefix}.{_SCRAM.lower()}.sasl.jaas.config"] = f"{Scram.module} required;"
        return properties

    def redact(self, text: str) -> str:
        """Replace this cluster's secrets in text with `***`."""
        hidden = [*self.access.secrets(), *self.admin.secrets()]
        if self.certificates is not None:
            hidden += secret_lines(self.certificates.key.get_secret_value())
        for secret in hidden:
            text = text.replace(secret, "***")
        return text

    def _access(self, login: Login) -> Access:
        trusted = None if self.certificates is None else self.certificates.authority
        if not (self.scram or self.plain or self.issued):
            return Access(protocol="PLAINTEXT" if trusted is None else "SSL", trusted=trusted)
        protocol: Protocol = "SASL_PLAINTEXT" if trusted is None else "SASL_SSL"
        return Access(protocol=protocol, login=login, trusted=trusted)
