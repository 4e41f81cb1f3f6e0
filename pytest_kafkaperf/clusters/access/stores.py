"""Truststores and keystores: certificates and private keys as PEM, of a file or of a setting, or in PKCS12."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pytest_kafkaperf.clusters.access.login import MAX_SHOWN
from pytest_kafkaperf.clusters.access.tls import content_of, make_context
from pytest_kafkaperf.core.errors import UsageError, shortened

if TYPE_CHECKING:
    import ssl

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

_KEYSTORE_INLINE = ("ssl.keystore.key", "ssl.keystore.certificate.chain")


def read_trusted(values: Mapping[str, str], folder: Path) -> str | None:
    """Certificates of authorities; None where no truststore is named."""
    store = _store(values, folder, "truststore", inline=("ssl.truststore.certificates",))
    if store is None:
        return None
    where, content = store
    if isinstance(content, str):
        found = "".join(pem for label, pem in _blocks(content, where) if label == "CERTIFICATE")
    else:
        found = "".join(_pem(certificate) for certificate in _open_pkcs12(content, where, values, "truststore")[1])
    if not found:
        raise UsageError(f"{where} has no certificate in it; put that of the brokers' authority there")
    if not _fits(lambda: make_context(found, None, None)):
        raise UsageError(f"{where} has a certificate that cannot be read; export it again")
    return found


def read_own(values: Mapping[str, str], folder: Path) -> tuple[str, str] | None:
    """The client's own certificate chain and private key; None where no keystore is named."""
    store = _store(values, folder, "keystore", inline=_KEYSTORE_INLINE)
    if store is None:
        return None
    where, content = store
    if isinstance(content, str):
        blocks = list(_blocks(content, where))
        chain = "".join(pem for label, pem in blocks if label == "CERTIFICATE")
        keys = [pem for label, pem in blocks if label.endswith("PRIVATE KEY")]
        if not chain or len(keys) != 1:
            raise UsageError(f"{where} must have one private key and its certificate in it")
        key = _private_key(keys[0], values.get("ssl.key.password"), where)
    else:
        found, certificates = _open_pkcs12(content, where, values, "keystore")
        try:
            chain = "".join(_pem(certificate) for certificate in _in_order(certificates))
        except (ValueError, TypeError, KeyError):  # a name is read where it is asked for
            raise UsageError(f"{where} has a certificate that cannot be read; export it again") from None
        if found is None or not chain:
            raise UsageError(f"{where} must have a private key and its certificate in it")
        key = _unencrypted(found)
    if not _fits(lambda: make_context(chain, chain, key)):
        raise UsageError(f"{where}: the certificate that comes first is not that of the private key, or cannot be read")
    return chain, key


def _store(
    values: Mapping[str, str], folder: Path, store: Literal["keystore", "truststore"], *, inline: tuple[str, ...]
) -> tuple[str, str | bytes] | None:
    """What errors call the store, and its content: text where it is PEM; None where none is named."""
    kind = values.get(f"ssl.{store}.type", "PKCS12").upper()
    if kind not in ("PEM", "PKCS12", "JKS"):
        raise UsageError(
            f"'ssl.{store}.type' is {shortened(kind, MAX_SHOWN)!r}, which is not supported; use PEM or PKCS12"
        )
    name = f"ssl.{store}.location"
    given = [part for part in inline if part in values]
    if name in values and given:
        raise UsageError(f"'{name}' and '{given[0]}' are both given; give one of them")
    if given:
        missing = [part for part in inline if part not in values]
        if missing:
            raise UsageError(f"'{missing[0]}' is missing; it goes with '{given[0]}'")
        return " with ".join(map(repr, given)), "\n".join(values[part] for part in given)
    if "-----" in values.get(name, ""):
        raise UsageError(f"'{name}' holds PEM text; name a file with it, or give {' and '.join(map(repr, inline))}")
    if name in values:
        try:
            content = content_of(folder / values[name])
        except UsageError as error:
            raise UsageError(f"'{name}' {error}") from None
        where = f"'{name}' {folder / values[name]}"
        return where, content.decode("latin-1") if b"-----BEGIN" in content else _pkcs12(content, where)
    if f"ssl.{store}.password" in values:
        raise UsageError(f"'{name}' is missing; it goes with 'ssl.{store}.password'")
    return None


def _pkcs12(content: bytes, where: str) -> bytes:
    """The content if it may be PKCS 12, whatever the type says: recent Java writes that under the name JKS, too."""
    if content[:4] in (bytes.fromhex("feedfeed"), bytes.fromhex("cececece")):
        raise UsageError(
            f"{where} is a store of Java's own old kind (JKS); convert it: keytool -importkeystore "
            "-srckeystore OLD -destkeystore NEW.p12 -deststoretype PKCS12"
        )
    if content[:1] != b"\x30":  # an ASN.1 sequence
        raise UsageError(f"{where} is neither PEM nor PKCS12")
    return content


def _open_pkcs12(
    content: bytes, where: str, values: Mapping[str, str], store: str
) -> tuple[PrivateKeyTypes | None, list[x509.Certificate]]:
    """The key in a store and its certificates, the key's own first."""
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - only where a store is given
    from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415 - the same

    name = f"ssl.{store}.password"
    password = values.get(name)
    try:
        opened = pkcs12.load_pkcs12(content, None if password is None else password.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        reason = (
            f"has another password than '{name}'"
            if password is not None
            else f"cannot be opened without its password, '{name}'"
        )
        raise UsageError(f"{where} {reason}, or is not a PKCS12 store") from None
    first = [] if opened.cert is None else [opened.cert.certificate]
    return opened.key, first + [each.certificate for each in opened.additional_certs]


def _in_order(certificates: list[x509.Certificate]) -> Iterator[x509.Certificate]:
    """The first certificate and those that lead from it to its authority: a store keeps them in any order."""
    left = list(certificates)
    current = left.pop(0) if left else None
    while current is not None:
        yield current
        issuer = current.issuer
        current = next((each for each in left if each.subject == issuer), None)
        if current is not None:
            left.remove(current)


def _blocks(text: str, where: str) -> Iterator[tuple[str, str]]:
    """Label and text of each PEM block, its lines broken anew: a value in a properties file may be one long line."""
    import base64  # noqa: PLC0415 - only where a store is given
    import textwrap  # noqa: PLC0415 - the same

    # Each search ends at the next five hyphens: it takes no longer however many blocks have no end.
    for label, body in re.findall(r"-----BEGIN ([A-Z0-9 ]+)-----([^-]*(?:-(?!----)[^-]*)*)-----END \1-----", text):
        dense = "".join(body.split())
        try:
            base64.b64decode(dense, validate=True)
        except ValueError:
            raise UsageError(f"{where} has a {label} in it that is not base64; export it again") from None
        yield label, "\n".join((f"-----BEGIN {label}-----", *textwrap.wrap(dense, 64), f"-----END {label}-----\n"))


def _private_key(pem: str, password: str | None, where: str) -> str:
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - only where a store is given
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415 - the same

    encrypted = pem.startswith("-----BEGIN ENCRYPTED")
    if encrypted and password is None:
        raise UsageError(f"{where} has an encrypted private key; give 'ssl.key.password'")
    try:
        return _unencrypted(load_pem_private_key(pem.encode(), (password or "").encode() if encrypted else None))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        reason = "another password than 'ssl.key.password', or one" if encrypted else "one"
        raise UsageError(f"{where} has a private key with {reason} that cannot be read") from None


def _unencrypted(key: PrivateKeyTypes) -> str:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - only where a store is given

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _pem(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 - only where a store is given

    return certificate.public_bytes(Encoding.PEM).decode()


def _fits(make: Callable[[], ssl.SSLContext]) -> bool:
    """Whether the clients will be able to make their context, of the very parts that they will make it of."""
    try:
        make()
    except (ValueError, OSError):  # an SSLError is an OSError
        return False
    return True
