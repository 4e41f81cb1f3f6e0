"""Truststores and keystores: certificates and private keys in PEM (a file or a setting) or PKCS12 format."""

from __future__ import annotations

import base64
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key, pkcs12

from pytest_kafkaperf.clusters.access.access import content_of, make_context
from pytest_kafkaperf.clusters.access.logins import MAX_SHOWN
from pytest_kafkaperf.core.errors import UsageError, shortened

_KEYSTORE_SETTINGS = ("ssl.keystore.key", "ssl.keystore.certificate.chain")


def read_trusted(values: Mapping[str, str], folder: Path) -> str | None:
    """Return the authorities' certificates in PEM format; None if no truststore is given."""
    store = _store(values, folder, "truststore", settings=("ssl.truststore.certificates",))
    if store is None:
        return None
    source, content = store
    if isinstance(content, str):
        found = "".join(pem for label, pem in _blocks(content, source) if label == "CERTIFICATE")
    else:
        found = "".join(pem_of(certificate) for certificate in _open_pkcs12(content, source, values, "truststore")[1])
    if not found:
        raise UsageError(f"{source} contains no certificate; add the CA certificate of the brokers")
    if not _is_usable(found, None, None):
        raise UsageError(f"{source} contains a certificate that cannot be read; export it again")
    return found


def read_own(values: Mapping[str, str], folder: Path) -> tuple[str, str] | None:
    """Return the client's certificate chain and private key in PEM format; None if no keystore is given."""
    store = _store(values, folder, "keystore", settings=_KEYSTORE_SETTINGS)
    if store is None:
        return None
    source, content = store
    if isinstance(content, str):
        blocks = list(_blocks(content, source))
        chain = "".join(pem for label, pem in blocks if label == "CERTIFICATE")
        keys = [pem for label, pem in blocks if label.endswith("PRIVATE KEY")]
        if not chain or len(keys) != 1:
            raise UsageError(f"{source} must contain one private key and its certificate")
        key = _private_key(keys[0], values.get("ssl.key.password"), source)
    else:
        found, certificates = _open_pkcs12(content, source, values, "keystore")
        chain = "".join(map(pem_of, certificates))
        if found is None or not chain:
            raise UsageError(f"{source} must contain a private key and its certificate")
        key = unencrypted(found)
    if not _is_usable(chain, chain, key):
        raise UsageError(f"{source}: the first certificate does not match the private key, or cannot be read")
    return chain, key


def _store(
    values: Mapping[str, str], folder: Path, store: Literal["keystore", "truststore"], *, settings: tuple[str, ...]
) -> tuple[str, str | bytes] | None:
    """Return the store's name for error messages, and its content (text if it is PEM); None if no store is given."""
    kind = values.get(f"ssl.{store}.type", "PKCS12").upper()
    if kind not in ("PEM", "PKCS12", "JKS"):
        raise UsageError(
            f"'ssl.{store}.type' is {shortened(kind, MAX_SHOWN)!r}, which is not supported; use PEM or PKCS12"
        )
    name = f"ssl.{store}.location"
    given = [part for part in settings if part in values]
    if name in values and given:
        raise UsageError(f"'{name}' and '{given[0]}' are both given; use only one of them")
    if given:
        missing = [part for part in settings if part not in values]
        if missing:
            raise UsageError(f"'{missing[0]}' is missing; it goes with '{given[0]}'")
        return " with ".join(map(repr, given)), "\n".join(values[part] for part in given)
    if "-----" in values.get(name, ""):
        raise UsageError(
            f"'{name}' contains PEM text; give the path of a PEM file, or use {' and '.join(map(repr, settings))}"
        )
    if name in values:
        path = folder / values[name]
        return f"'{name}' {path}", _read_store(name, path)
    if f"ssl.{store}.password" in values:
        raise UsageError(f"'{name}' is missing; it goes with 'ssl.{store}.password'")
    return None


def _read_store(name: str, path: Path) -> str | bytes:
    try:
        content = content_of(path)
    except UsageError as error:
        raise UsageError(f"'{name}' {error}") from None
    return content.decode("latin-1") if b"-----BEGIN" in content else content


def _open_pkcs12(
    content: bytes, source: str, values: Mapping[str, str], store: str
) -> tuple[PrivateKeyTypes | None, list[x509.Certificate]]:
    """Return a store's private key and certificates, starting with the key's own certificate.

    The store type does not matter, because recent Java versions also use the type JKS for PKCS12.
    """
    name = f"ssl.{store}.password"
    password = values.get(name)
    try:
        opened = pkcs12.load_pkcs12(content, None if password is None else password.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        how = "with the password in" if password is not None else "without its password,"
        raise UsageError(
            f"{source} cannot be opened {how} '{name}', or is neither PEM nor PKCS12; convert a store in Java's old "
            "JKS format: keytool -importkeystore -srckeystore OLD -destkeystore NEW.p12 -deststoretype PKCS12"
        ) from None
    first = [] if opened.cert is None else [opened.cert.certificate]
    return opened.key, first + [each.certificate for each in opened.additional_certs]


def _blocks(text: str, source: str) -> Iterator[tuple[str, str]]:
    """Yield each PEM block's label and text; restore line breaks, which are missing from some properties files."""
    # Each search ends at the next five hyphens, so that many unterminated blocks do not take longer.
    for label, body in re.findall(r"-----BEGIN ([A-Z0-9 ]+)-----([^-]*(?:-(?!----)[^-]*)*)-----END \1-----", text):
        dense = "".join(body.split())
        try:
            base64.b64decode(dense, validate=True)
        except ValueError:
            raise UsageError(f"{source} contains a {label} that is not base64; export it again") from None
        yield label, "\n".join((f"-----BEGIN {label}-----", *textwrap.wrap(dense, 64), f"-----END {label}-----\n"))


def _private_key(pem: str, password: str | None, source: str) -> str:
    encrypted = pem.startswith("-----BEGIN ENCRYPTED")
    if encrypted and password is None:
        raise UsageError(f"{source} contains an encrypted private key; set 'ssl.key.password'")
    try:
        return unencrypted(load_pem_private_key(pem.encode(), (password or "").encode() if encrypted else None))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        how = " with the password in 'ssl.key.password'" if encrypted else ""
        raise UsageError(f"{source} contains a private key that cannot be read{how}; export it again") from None


def unencrypted(key: PrivateKeyTypes) -> str:
    """Return a private key in PEM format (PKCS #8, unencrypted)."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def pem_of(certificate: x509.Certificate) -> str:
    """Return a certificate in PEM format."""
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _is_usable(trusted: str, certificate: str | None, key: str | None) -> bool:
    """Return True if clients can create their TLS context with these certificates and this key."""
    try:
        make_context(trusted, certificate, key)
    except (ValueError, OSError):  # an SSLError is an OSError
        return False
    return True
