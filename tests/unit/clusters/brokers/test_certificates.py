"""Certificates of clusters: what TLS, as Python and Java speak it, makes of them."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.brokers.certificates import Certificates, certificates
from pytest_kafkaperf.clusters.brokers.config import Files, Security
from pytest_kafkaperf.clusters.external import reach
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.errors import ClusterError
from tests.support.access_properties import properties_of
from tests.support.client_files import written
from tests.support.field_certificates import DAY, HOUR, lax_certificates, verify_strictly
from tests.support.keytool import keytool
from tests.support.patience import PATIENCE_S

TIMEOUT_S = PATIENCE_S
MADE = certificates(["broker-1", "127.0.0.1", "::1"])


def _server_context(made: Certificates, folder: Path, *, clients: str | None = None) -> ssl.SSLContext:
    file = folder / "server.pem"
    file.write_text(made.key.get_secret_value() + made.certificate)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=clients)
    context.load_cert_chain(file)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@contextmanager
def _server(context: ssl.SSLContext) -> Iterator[tuple[str, int]]:
    """A server for one connection that says `ok` and who the client is."""

    def serve() -> None:
        try:
            with context.wrap_socket(listener.accept()[0], server_side=True) as connection:
                connection.sendall(b"ok certified" if connection.getpeercert() else b"ok")
        except OSError:
            pass  # the client has gone: its test says why

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(TIMEOUT_S)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()
        finally:
            thread.join(TIMEOUT_S)


def _shake_hands(address: tuple[str, int], access: Access, host: str) -> bytes:
    context: ssl.SSLContext = access.arguments()["ssl_context"]
    with (
        socket.create_connection(address, TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as connection,
    ):
        return connection.recv(100)


@pytest.mark.parametrize("host", ["broker-1", "127.0.0.1", "::1"])
def test_a_client_that_trusts_the_authority_gets_in_by_every_name(tmp_path: Path, host: str) -> None:
    """Brokers are named by host name and by address alike."""
    with _server(_server_context(MADE, tmp_path)) as address:
        access = Access(protocol="SSL", trusted=MADE.authority)
        assert _shake_hands(address, access, host) == b"ok"


@pytest.mark.parametrize("host", ["broker-2", "127.0.0.2"])
def test_another_name_is_refused(tmp_path: Path, host: str) -> None:
    """A broker that answers under a name that is not its own may be anyone."""
    access = Access(protocol="SSL", trusted=MADE.authority)
    with (
        _server(_server_context(MADE, tmp_path)) as address,
        pytest.raises(ssl.SSLCertVerificationError, match="mismatch|not valid for"),
    ):
        _shake_hands(address, access, host)


def test_another_name_passes_where_names_are_not_checked(tmp_path: Path) -> None:
    """What `ssl.endpoint.identification.algorithm=` asks for."""
    access = Access(protocol="SSL", trusted=MADE.authority, check_hostname=False)
    with _server(_server_context(MADE, tmp_path)) as address:
        assert _shake_hands(address, access, "broker-2") == b"ok"


@pytest.mark.parametrize("check_hostname", [True, False])
@pytest.mark.parametrize("trusted", [certificates(["broker-1"]).authority, None])
def test_a_foreign_authority_is_refused(tmp_path: Path, trusted: str | None, *, check_hostname: bool) -> None:
    """Every authority has the same name, so that only its key tells; names unchecked must not mean unchecked."""
    access = Access(protocol="SSL", trusted=trusted, check_hostname=check_hostname)
    with (
        _server(_server_context(MADE, tmp_path)) as address,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        _shake_hands(address, access, "broker-1")


def test_a_client_shows_its_own_certificate(tmp_path: Path) -> None:
    """Mutual TLS: the broker lets in whom its own authority vouches for."""
    client = certificates(["client"])
    access = Access(protocol="SSL", trusted=MADE.authority, certificate=client.certificate, key=client.key)
    with _server(_server_context(MADE, tmp_path, clients=client.authority)) as address:
        assert _shake_hands(address, access, "broker-1") == b"ok certified"


def test_strict_verification_finds_nothing_amiss(tmp_path: Path) -> None:
    """Python 3.13 and newer verify by RFC 5280 to the letter."""
    context = ssl.create_default_context(cadata=MADE.authority)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    with (
        _server(_server_context(MADE, tmp_path)) as address,
        socket.create_connection(address, TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname="broker-1") as connection,
    ):
        assert connection.recv(100) == b"ok"


def test_a_certificate_that_java_accepts_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.13 and newer refuse it by default; Java and older versions of Python do not."""
    verify_strictly(monkeypatch)
    made = lax_certificates(["broker-1"])
    with _server(_server_context(made, tmp_path)) as address:
        assert _shake_hands(address, Access(protocol="SSL", trusted=made.authority), "broker-1") == b"ok"


HERE = ["127.0.0.1"]
OWN = certificates(HERE)
EXPIRED = lax_certificates(HERE, starts_in=-DAY, ends_in=-HOUR)
FUTURE = lax_certificates(HERE, starts_in=HOUR)
SELF_SIGNED = lax_certificates(HERE, self_signed=True)
OTHER_NAME = certificates(["broker-2"])


@pytest.mark.parametrize(
    ("server", "trusted", "cause"),
    [
        (EXPIRED, EXPIRED, "certificate has expired"),
        (FUTURE, FUTURE, "certificate is not yet valid"),
        (OWN, lax_certificates(HERE), "self-signed certificate in certificate chain"),
        (SELF_SIGNED, OWN, "self-signed certificate"),
        (OTHER_NAME, OTHER_NAME, "IP address mismatch, certificate is not valid for '127.0.0.1'."),
    ],
)
def test_a_refused_certificate_is_told_with_the_cause(
    tmp_path: Path, server: Certificates, trusted: Certificates, cause: str
) -> None:
    """The settings are right more often than the certificate, and nothing will change while the plugin waits."""
    file = written(tmp_path, properties_of(Access(protocol="SSL", trusted=trusted.authority)))
    with _server(_server_context(server, tmp_path)) as (host, port), pytest.raises(ClusterError) as raised:
        reach(ClusterSpec(), [f"{host}:{port}"], file, (), timeout_s=TIMEOUT_S)
    assert f"{host}:{port} is not ready: no connection; " in str(raised.value)
    assert str(raised.value).endswith(
        f". The brokers' certificate is rejected ({cause}): it must be valid today, contain the servers "
        "of --kafka-cluster and advertised.listeners (unless ssl.endpoint.identification.algorithm= is empty), "
        f"and be issued by an authority in 'ssl.truststore.location' of {file}"
    )


def test_what_was_made_says_what_it_is() -> None:
    """An authority that may sign one level, and a server that may sign nothing."""
    server, authority = x509.load_pem_x509_certificates(MADE.certificate.encode())
    assert authority == x509.load_pem_x509_certificate(MADE.authority.encode())
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints) == x509.Extension(
        x509.BasicConstraints.oid, critical=True, value=x509.BasicConstraints(ca=True, path_length=0)
    )
    assert server.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["broker-1"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    server.verify_directly_issued_by(authority)
    assert load_pem_private_key(MADE.key.get_secret_value().encode(), None).public_key() == server.public_key()


def test_it_is_valid_already_and_not_for_long() -> None:
    """The clock of a container may be behind; a key that was left behind must soon be worth nothing."""
    now = datetime.datetime.now(datetime.UTC)
    for certificate in x509.load_pem_x509_certificates(MADE.certificate.encode()):
        assert certificate.not_valid_before_utc <= now - datetime.timedelta(minutes=30)
        assert now + datetime.timedelta(days=29) < certificate.not_valid_after_utc <= now + datetime.timedelta(days=30)


def test_no_two_are_alike_and_none_shows_its_key() -> None:
    """Two runs must not take each other's brokers for their own."""
    other = certificates(["broker-1"])
    assert {other.authority, other.certificate, other.key}.isdisjoint({MADE.authority, MADE.certificate, MADE.key})
    assert "PRIVATE KEY" not in MADE.certificate + MADE.authority + repr(MADE)


def test_java_reads_them(tmp_path: Path) -> None:
    """Brokers run on Java: its own tool must find the chain whole."""
    file = tmp_path / "server.pem"
    file.write_text(MADE.certificate)
    shown = keytool("-printcert", "-file", file)
    assert "DNSName: broker-1" in shown
    assert "SHA256withECDSA" in shown
    assert shown.count("Owner: ") == 2


@pytest.mark.parametrize("kind", ["sasl_scram", "sasl_plain", "sasl_oauth", "tls", "sasl_scram+tls"])
def test_what_a_broker_was_told_is_shown_without_its_secrets(kind: str) -> None:
    """The end of its log stands in errors, and may repeat its properties, or a line of its key."""
    security = Security.make(kind, ["127.0.0.1"])
    files = Files(keystore="/keystore.pem", keys="/keys.json")
    told = [*security.properties(files).values(), *(security.keystore or "").splitlines()]
    told += map(str, (security.issued, *security.access.secrets()))
    secrets = {*security.access.secrets(), *security.admin.secrets()}
    if security.certificates is not None:
        secrets |= {*security.certificates.key.get_secret_value().splitlines()[1:-1]}

    shown = security.redact("\n".join(told))

    assert secrets
    assert [secret for secret in secrets if secret in shown] == []
    assert "***" in shown
