"""What protects the CLIENT listeners of a cluster: credentials and certificates, made anew for each cluster."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import SecretStr

from pytest_kafkaperf.access import Access, secret_lines
from pytest_kafkaperf.clusters.certificates import Certificates, certificates
from pytest_kafkaperf.clusters.properties import CLIENT

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
