"""Certificates for brokers that the plugin starts: a new authority for each cluster, and a server certificate."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from pydantic import SecretStr

from pytest_kafkaperf.clusters.access.stores import pem_of, unencrypted

_LEEWAY = datetime.timedelta(hours=1)
"""Tolerance for slow clocks on other machines and in containers."""

_VALIDITY = datetime.timedelta(days=30)
"""Validity: longer than any run, but short enough that a leftover key soon becomes useless."""

_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """A server's certificates and private key, in PEM format."""

    authority: str
    """The authority's certificate. The authority's private key is discarded, so it cannot sign anything else."""
    certificate: str
    """The server's certificate, followed by the authority's."""
    key: SecretStr
    """The server's private key (PKCS #8, unencrypted)."""


def certificates(hosts: Sequence[str]) -> Certificates:
    """Create a new authority, and a certificate for a server with these host names and IP addresses.

    The extensions comply with RFC 5280, because Python has verified them strictly since version 3.13.
    """
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority_name = _name("pytest-kafkaperf authority")
    authority = (
        _builder(authority_name, authority_name, authority_key, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_SIGNS_CERTIFICATES, critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    server = (
        _builder(_name("pytest-kafkaperf broker"), authority_name, key, authority_key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            # Brokers are also clients of each other.
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
            critical=False,
        )
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return Certificates(
        authority=pem_of(authority), certificate=pem_of(server) + pem_of(authority), key=SecretStr(unencrypted(key))
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, issuer_key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _LEEWAY)
        .not_valid_after(now + _VALIDITY)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
