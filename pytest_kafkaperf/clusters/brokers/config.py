"""What a broker of the session is told: Kafka's properties. Pure; a provider decides on addresses and files.

Every broker is a controller, too, and has three listeners: CLIENT, which is what a test sees and what `security`
protects, INTERNAL between brokers, and CONTROLLER between controllers; these two are plaintext, on loopback or on a
network of the cluster's own.
"""

from __future__ import annotations

import base64
import secrets
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import SecretStr

from pytest_kafkaperf.clusters.access import Access, secret_lines
from pytest_kafkaperf.clusters.brokers.certificates import Certificates, certificates

CLIENT, INTERNAL, CONTROLLER = LISTENERS = ("CLIENT", "INTERNAL", "CONTROLLER")

_MAX_INTERNAL_REPLICAS = 3
"""Kafka's own default for its internal topics, where there are so many brokers."""

_INTERNAL_TOPICS = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One broker of a cluster; addresses are `HOST:PORT` by listener."""

    id: int
    bound: Mapping[str, str]
    """Where it listens."""
    advertised: Mapping[str, str]
    """Where the others, or clients, find it."""


def broker_properties(
    node: Node, nodes: Sequence[Node], *, log_folder: str, protection: Mapping[str, str], config: Mapping[str, str]
) -> dict[str, str]:
    """All properties of one broker.

    Args:
        node: the broker.
        nodes: all brokers of the cluster, it among them.
        log_folder: where its data goes.
        protection: properties that protect CLIENT, with its protocol under the key `CLIENT`; see `security`.
        config: of the spec; overrides everything but what makes this broker this one (`spec.OWN_PROPERTIES`).

    """
    protocols = {CLIENT: "PLAINTEXT", INTERNAL: "PLAINTEXT", CONTROLLER: "PLAINTEXT"}
    protected = dict(protection)
    protocols[CLIENT] = protected.pop(CLIENT, "PLAINTEXT")
    identity = {
        "process.roles": "broker,controller",
        "node.id": str(node.id),
        "controller.quorum.voters": ",".join(f"{each.id}@{each.advertised[CONTROLLER]}" for each in nodes),
        "controller.listener.names": CONTROLLER,
        "inter.broker.listener.name": INTERNAL,
        "listeners": _joined("://", {name: node.bound[name] for name in LISTENERS}),
        "advertised.listeners": _joined("://", {name: node.advertised[name] for name in (CLIENT, INTERNAL)}),
        "listener.security.protocol.map": _joined(":", protocols),
        "log.dirs": log_folder,
    }
    return {**standing(len(nodes)), **config, **protected, **identity}


def standing(brokers: int) -> dict[str, str]:
    """What differs from Kafka's own defaults in every cluster of so many brokers that a session starts."""
    replicas = min(brokers, _MAX_INTERNAL_REPLICAS)
    internal = {}
    for topic in _INTERNAL_TOPICS:
        internal[f"{topic}.replication.factor"] = str(replicas)
        # 50 partitions each are created at the first use, in the middle of somebody's warm-up.
        internal[f"{topic}.num.partitions"] = "5"
    for topic in _INTERNAL_TOPICS[1:]:
        internal[f"{topic}.min.isr"] = str(max(1, replicas - 1))
    return {
        **internal,
        # Consumers of a test start at once: there is nobody to wait 3 s for.
        "group.initial.rebalance.delay.ms": "0",
        # A misspelt topic is an error.
        "auto.create.topics.enable": "false",
        # A topic that is deleted gives its disk space back at once, and its pages that are not written yet: kept for a
        # minute, as by default, they would slow down what is measured next (here to half, once 2 GB were dirty).
        "log.segment.delete.delay.ms": "100",
        "log.initial.task.delay.ms": "500",
    }


def new_uuid() -> str:
    """A UUID as Kafka writes it: base64 without padding; Kafka refuses a leading `-`."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
        if not text.startswith("-"):
            return text


def _joined(between: str, texts: Mapping[str, str]) -> str:
    return ",".join(f"{name}{between}{text}" for name, text in texts.items())


USER = "kafkaperf"
"""Whom clients log in as."""

_ADMIN = "admin"
"""Who creates that user where a listener takes SCRAM: brokers keep SCRAM credentials in their metadata, and a cluster
that has just started has none."""

_SCRAM: Literal["SCRAM-SHA-512"] = "SCRAM-SHA-512"

_PASSWORD_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """The protection of one cluster; its repr shows no secret."""

    scram: bool
    plain: bool
    password: SecretStr
    admin_password: SecretStr
    certificates: Certificates | None

    @classmethod
    def make(cls, kind: str, hosts: Sequence[str]) -> Security:
        """Make credentials, and certificates for the brokers at `hosts`; `kind` is the spec's `security`."""
        return cls(
            scram="sasl_scram" in kind,
            plain="sasl_plain" in kind,
            # No character of these needs an escape in JAAS, properties, shells or templates.
            password=SecretStr(secrets.token_hex(_PASSWORD_BYTES)),
            admin_password=SecretStr(secrets.token_hex(_PASSWORD_BYTES)),
            certificates=certificates(hosts) if "tls" in kind else None,
        )

    @property
    def access(self) -> Access:
        """How clients get in."""
        return self._access(_SCRAM if self.scram else "PLAIN", USER, self.password)

    @property
    def admin(self) -> Access:
        """How to get in before the users of SCRAM are there."""
        return self._access("PLAIN", _ADMIN, self.admin_password)

    @property
    def keystore(self) -> str | None:
        """Private key and certificate of the brokers as one PEM text, which is secret; None without TLS."""
        if self.certificates is None:
            return None
        return self.certificates.key.get_secret_value() + self.certificates.certificate

    def properties(self, *, keystore: str) -> dict[str, str]:
        """What `broker_properties` takes; `keystore` is where the broker finds that text."""
        own = f"listener.name.{CLIENT.lower()}"
        found: dict[str, str] = {CLIENT: self.access.protocol}
        if self.certificates is not None:
            found |= {
                f"{own}.ssl.keystore.type": "PEM",
                f"{own}.ssl.keystore.location": keystore,
                f"{own}.ssl.client.auth": "none",
            }
        if self._sasl:
            users = {_ADMIN: self.admin_password} if self.scram else {USER: self.password}
            known = " ".join(f'user_{name}="{password.get_secret_value()}"' for name, password in users.items())
            found |= {
                f"{own}.sasl.enabled.mechanisms": f"PLAIN,{_SCRAM}" if self.scram else "PLAIN",
                f"{own}.plain.sasl.jaas.config": (
                    f"org.apache.kafka.common.security.plain.PlainLoginModule required {known};"
                ),
            }
        if self.scram:
            found[f"{own}.{_SCRAM.lower()}.sasl.jaas.config"] = (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            )
        return found

    def redact(self, text: str) -> str:
        """The text without the secrets of this cluster."""
        hidden = [*self.access.secrets(), *self.admin.secrets()]
        if self.certificates is not None:
            hidden += secret_lines(self.certificates.key.get_secret_value())
        for secret in hidden:
            text = text.replace(secret, "***")
        return text

    @property
    def _sasl(self) -> bool:
        return self.scram or self.plain

    def _access(self, mechanism: Literal["PLAIN", "SCRAM-SHA-512"], user: str, password: SecretStr) -> Access:
        trusted = None if self.certificates is None else self.certificates.authority
        if not self._sasl:
            return Access(protocol="SSL", trusted=trusted)
        return Access(
            protocol="SASL_PLAINTEXT" if trusted is None else "SASL_SSL",
            mechanism=mechanism,
            username=user,
            password=password,
            trusted=trusted,
        )


def protection(security: Security | None, *, keystore: str) -> Mapping[str, str]:
    """The properties of a cluster with or without protection."""
    return {} if security is None else security.properties(keystore=keystore)
