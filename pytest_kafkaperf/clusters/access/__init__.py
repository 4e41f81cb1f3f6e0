"""How clients get into a cluster: protocol, login and certificates, as a file or a fixture names them.

The names are those of Kafka's own clients, so that the file that its tools take by `--command-config` serves here,
too. What they would read differently, or what would have no effect, is refused and not guessed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import SecretStr

from pytest_kafkaperf.clusters.access.login import HOSTNAME, Mechanism, escaped, jaas_line
from pytest_kafkaperf.clusters.access.tls import make_context

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]

_LEAST_SECRET_LINE = 16
"""Characters of a line of a key: a shorter one tells nothing, and stands in other texts by chance."""


class _Secret(str):
    """A text that no repr shows, nor that of a mapping with it in it: tracebacks print those."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


def _without_logins(record: logging.LogRecord) -> bool:
    """Take what a client logs in with out of a line of aiokafka's log: PLAIN sends the password as it is."""
    if isinstance(record.args, tuple):
        record.args = tuple(
            f"{type(each).__name__}(***)" if type(each).__name__.startswith("SaslAuthenticateRequest") else each
            for each in record.args
        )
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How clients get in; valid, and the same in every process."""

    protocol: Protocol = "PLAINTEXT"
    mechanism: Mechanism | None = None
    username: str | None = None
    password: SecretStr | None = None
    trusted: str | None = field(default=None, repr=False)
    """Certificates of authorities, PEM; None: those that the system trusts."""
    certificate: str | None = field(default=None, repr=False)
    """The client's own certificate and those that lead to its authority, PEM."""
    key: SecretStr | None = None
    """Its private key, PEM, not encrypted."""
    check_hostname: bool = True
    options: Mapping[str, int | str] = field(default_factory=dict)
    """Further arguments of aiokafka's clients."""

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments for aiokafka's clients; a repr of them shows no secret."""
        given: dict[str, Any] = {} if self.protocol == "PLAINTEXT" else {"security_protocol": self.protocol}
        if self._uses_tls:
            given["ssl_context"] = make_context(
                self.trusted, self.certificate, _revealed(self.key), check_hostname=self.check_hostname
            )
        if self._uses_login:
            logging.getLogger("aiokafka.conn").addFilter(_without_logins)
            given["sasl_mechanism"] = self.mechanism
            given["sasl_plain_username"] = self.username
            given["sasl_plain_password"] = _Secret(_revealed(self.password) or "")
        return given | dict(self.options)

    def properties(self) -> dict[str, str]:
        """The same as properties for Kafka's own tools; a repr of them shows no secret."""
        given: dict[str, str] = {} if self.protocol == "PLAINTEXT" else {"security.protocol": self.protocol}
        if self._uses_tls:
            given[HOSTNAME] = "https" if self.check_hostname else ""
            if self.trusted is not None:
                given |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self.trusted}
            if self.certificate is not None and self.key is not None:
                given |= {
                    "ssl.keystore.type": "PEM",
                    "ssl.keystore.certificate.chain": self.certificate,
                    "ssl.keystore.key": _Secret(self.key.get_secret_value()),
                }
        if self._uses_login and self.mechanism is not None:
            given["sasl.mechanism"] = self.mechanism
            given["sasl.jaas.config"] = _Secret(
                jaas_line(self.mechanism, self.username or "", _revealed(self.password) or "")
            )
        return given | {name.replace("_", "."): str(value) for name, value in self.options.items()}

    def secrets(self) -> tuple[str, ...]:
        """Texts that must never be shown, the longest first."""
        password, key = _revealed(self.password), _revealed(self.key)
        found = set()
        if password:
            found |= {password, escaped(password)}
        if key:
            found |= {key, *secret_lines(key)}
        return tuple(sorted(found, key=lambda text: (-len(text), text)))

    @property
    def _uses_tls(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def _uses_login(self) -> bool:
        return self.protocol in ("SASL_PLAINTEXT", "SASL_SSL")


def secret_lines(key: str) -> list[str]:
    """The lines of a private key, PEM, that must never be shown."""
    lines = (line for line in key.splitlines() if not line.startswith("-----"))
    return [line for line in lines if len(line) >= _LEAST_SECRET_LINE]


def _revealed(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
