"""A client's access settings, TLS context, and certificate files."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import SecretStr

from pytest_kafkaperf.clusters.access.logins import LOGIN_VARIABLES, Login
from pytest_kafkaperf.clusters.access.oauth import TOKEN_URL_VARIABLE, OAuth
from pytest_kafkaperf.clusters.access.tokens import write_token_file
from pytest_kafkaperf.core.errors import UsageError

if TYPE_CHECKING:
    import ssl


TOKEN_SUFFIX = ".jwt"  # noqa: S105 - of files
"""Suffix of files with an access token for applications."""

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]

_MIN_SECRET_CHARACTERS = 16
"""Minimum length of private key lines to hide; shorter lines reveal nothing and can occur in other texts by chance."""


def _hide_passwords(record: logging.LogRecord) -> bool:
    """Redact login requests in a line from aiokafka's log, because PLAIN sends the password in plain text."""
    if isinstance(record.args, tuple):
        record.args = tuple(
            f"{type(each).__name__}(***)" if type(each).__name__.startswith("SaslAuthenticateRequest") else each
            for each in record.args
        )
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A client's valid access settings, which can be sent to other processes."""

    protocol: Protocol = "PLAINTEXT"
    login: Login | None = None
    """The login; None if and only if the protocol does not use SASL."""
    trusted: str | None = field(default=None, repr=False)
    """Certificates of trusted authorities, in PEM format; None to trust the system's authorities."""
    certificate: str | None = field(default=None, repr=False)
    """The client's certificate, followed by its authorities' certificates, in PEM format."""
    key: SecretStr | None = None
    """The client's private key, unencrypted, in PEM format."""
    check_hostname: bool = True
    options: Mapping[str, int | str] = field(default_factory=dict)
    """Further arguments for aiokafka's clients, by name."""

    def arguments(self) -> dict[str, Any]:
        """Return keyword arguments for aiokafka's clients; their repr does not show secrets."""
        result: dict[str, Any] = {} if self.protocol == "PLAINTEXT" else {"security_protocol": self.protocol}
        if self.protocol.endswith("SSL"):
            result["ssl_context"] = make_context(
                self.trusted, self.certificate, _revealed(self.key), check_hostname=self.check_hostname
            )
        if self.login is not None:
            logging.getLogger("aiokafka.conn").addFilter(_hide_passwords)
            result |= self.login.arguments()
        return result | dict(self.options)

    def log_in(self) -> None:
        """Get the access token or the ticket that the login needs, so that a problem is reported before connecting.

        Raises:
            ClusterError: there is no token or ticket; the message contains the reason.

        """
        if self.login is not None:
            self.login.log_in()

    def variables(self) -> dict[str, str | None]:
        """Return environment variables for applications; None unsets a variable that may refer to another cluster."""
        login = {} if self.login is None else self.login.variables()
        return {"KAFKA_SECURITY_PROTOCOL": self.protocol, **dict.fromkeys(LOGIN_VARIABLES), **login}

    def write_files(self, folder: Path) -> dict[str, str | None]:
        """Write certificates, and a token that the application cannot get itself, to files in a private folder.

        Returns environment variables with the locations of the files; None unsets a variable.

        Raises:
            ClusterError: there is no token.

        """
        found: dict[str, str | None] = {}
        for name, text in (("CA", self.trusted), ("CERTIFICATE", self.certificate), ("KEY", _revealed(self.key))):
            path = folder / f"{name.lower()}.pem"
            found[f"KAFKA_SSL_{name}_FILE"] = None if text is None else str(path)
            if text is not None and not path.exists():  # other instances may be reading it
                write_token_file(path, text)
        token = self.login.token_for_file() if isinstance(self.login, OAuth) else None
        if token is not None:
            file = folder.absolute() / f"token{TOKEN_SUFFIX}"
            write_token_file(file, token)
            found[TOKEN_URL_VARIABLE] = file.as_uri()
        return found

    def secrets(self) -> tuple[str, ...]:
        """Return texts that must never be shown, longest first."""
        found = set() if self.login is None else self.login.secrets()
        key = _revealed(self.key)
        if key:
            found |= {key, *secret_lines(key)}
        return tuple(sorted(found, key=lambda text: (-len(text), text)))

    def redact(self, text: str) -> str:
        """Replace the secrets in text with `***`."""
        for secret in self.secrets():
            text = text.replace(secret, "***")
        return text


def secret_lines(key: str) -> list[str]:
    """Return the lines of a private key (PEM) that must never be shown."""
    lines = (line for line in key.splitlines() if not line.startswith("-----"))
    return [line for line in lines if len(line) >= _MIN_SECRET_CHARACTERS]


def _revealed(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


HOSTNAME = "ssl.endpoint.identification.algorithm"
"""Setting that controls whether clients check the broker's host name: `https`, or empty for no check."""


def make_context(
    trusted: str | None, certificate: str | None, key: str | None, *, check_hostname: bool = True
) -> ssl.SSLContext:
    """Create a client's TLS context; the certificates and the unencrypted key are in PEM format.

    Raises:
        ValueError: a part is not in PEM format.
        OSError: OpenSSL cannot read a part, or the key belongs to another certificate.

    """
    import ssl  # noqa: PLC0415 - only for TLS

    context = ssl.create_default_context(cadata=trusted)
    context.check_hostname = check_hostname
    # As in Java, a trusted certificate may not be self-signed, and may lack extensions that RFC 5280 requires.
    # Since 3.13, Python sets the strict flag by default.
    context.verify_flags = (context.verify_flags | ssl.VERIFY_X509_PARTIAL_CHAIN) & ~ssl.VERIFY_X509_STRICT
    if certificate is not None and key is not None:
        _load_certificate(context, certificate, key)
    return context


def _load_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load a certificate and its key from a file (in memory on Linux), because OpenSSL does not offer any other way."""
    with contextlib.ExitStack() as stack:
        if hasattr(os, "memfd_create"):
            file = stack.enter_context(os.fdopen(os.memfd_create("client.pem"), "w", encoding="ascii"))
            path = Path(f"/proc/self/fd/{file.fileno()}")
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kafkaperf-"))  # only this user can read it
            path = Path(folder) / "client.pem"
            file = stack.enter_context(path.open("w", encoding="ascii"))
        file.write(key + certificate)
        file.flush()
        # Pass an empty password. Otherwise, OpenSSL would prompt for one on the terminal.
        context.load_cert_chain(path, password="")


def content_of(path: Path) -> bytes:
    """Read an entire file.

    Raises:
        UsageError: the file cannot be read; the message contains the reason.

    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; give the path of a readable file") from None
