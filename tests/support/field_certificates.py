"""Certificates as brokers in the field have them: without the extensions that strict verification demands."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Sequence

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pydantic import SecretStr

from pytest_kafkaperf.clusters.brokers.certificates import Certificates

HOUR, DAY = datetime.timedelta(hours=1), datetime.timedelta(days=1)


def lax_certificates(
    hosts: Sequence[str],
    *,
    starts_in: datetime.timedelta = -HOUR,
    ends_in: datetime.timedelta = DAY,
    self_signed: bool = False,
) -> Certificates:
    """Make an authority without key usage, and a certificate without an Authority Key Identifier."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    now = datetime.datetime.now(datetime.UTC)

    def issued(name: str, own: ec.EllipticCurvePrivateKey, *, ca: bool) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(_name(name if self_signed else "field authority"))
            .public_key(own.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + starts_in if not ca else now - DAY)
            .not_valid_after(now + ends_in if not ca else now + DAY)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=False)
        )

    names = x509.SubjectAlternativeName([_host(host) for host in hosts])
    authority = issued("field authority", authority_key, ca=True).sign(authority_key, hashes.SHA256())
    server = issued("field broker", key, ca=False).add_extension(names, critical=False)
    signed = server.sign(key if self_signed else authority_key, hashes.SHA256())
    return Certificates(
        authority=_pem(authority),
        certificate=_pem(signed) if self_signed else _pem(signed) + _pem(authority),
        key=SecretStr(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ).decode()
        ),
    )


def verify_strictly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make default contexts verify strictly, as from Python 3.13 on."""
    make = ssl.create_default_context

    def strict(*arguments: object, **named: object) -> ssl.SSLContext:
        context: ssl.SSLContext = make(*arguments, **named)  # type: ignore[arg-type]
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(host: str) -> x509.GeneralName:
    return x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
