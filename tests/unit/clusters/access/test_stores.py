"""Truststores and keystores: PEM and PKCS12, from whatever made them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from pydantic import SecretStr

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.client_properties import read_client_properties
from pytest_kafkaperf.clusters.access.logins import Scram
from pytest_kafkaperf.clusters.brokers.certificates import Certificates, certificates
from tests.support.access_properties import properties_of
from tests.support.client_files import CHAIN, KEY, MADE, SECRET, TLS, refused, written
from tests.support.keytool import keytool

NO_STORE = (
    "or is neither PEM nor PKCS12; convert a store in Java's old JKS format: keytool -importkeystore -srckeystore OLD "
    "-destkeystore NEW.p12 -deststoretype PKCS12"
)
LOCKED = f"cannot be opened without its password, 'ssl.truststore.password', {NO_STORE}"


def _encrypted_key(made: Certificates, password: str) -> str:
    key = serialization.load_pem_private_key(made.key.get_secret_value().encode(), None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    ).decode()


def _pkcs12(made: Certificates, password: str | None, *, with_key: bool = True) -> bytes:
    own, authority = x509.load_pem_x509_certificates(made.certificate.encode())
    key = serialization.load_pem_private_key(made.key.get_secret_value().encode(), None)
    encryption: serialization.KeySerializationEncryption = (
        serialization.NoEncryption() if password is None else serialization.BestAvailableEncryption(password.encode())
    )
    return pkcs12.serialize_key_and_certificates(
        b"me",
        key if with_key else None,  # type: ignore[arg-type]
        own if with_key else None,
        [authority],
        encryption,
    )


def _own(access: Access) -> tuple[list[x509.Certificate], Any]:
    """Chain and public key of the client's own certificate."""
    assert access.certificate is not None
    assert access.key is not None
    key = serialization.load_pem_private_key(access.key.get_secret_value().encode(), None)
    return x509.load_pem_x509_certificates(access.certificate.encode()), key.public_key()


@pytest.mark.parametrize("kind", [{}, {"ssl.truststore.type": "PEM"}, {"ssl.truststore.type": "pem"}])
def test_a_pem_truststore_starts_at_the_folder_of_the_file(tmp_path: Path, kind: dict[str, str]) -> None:
    """The tests run in another folder than the file lies in."""
    (tmp_path / "ca.pem").write_text(f"é subject=whoever\n{MADE.authority}", encoding="utf-8")
    access = read_client_properties(written(tmp_path, TLS | kind | {"ssl.truststore.location": "ca.pem"}))
    assert access == Access(protocol="SSL", trusted=MADE.authority)


@pytest.mark.parametrize("joint", ["\n", " ", ""])
def test_inline_pem_may_have_any_line_breaks(tmp_path: Path, joint: str) -> None:
    """Properties files fold lines by backslashes, and take the space at their start away."""
    properties = TLS | {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": MADE.authority.replace("\n", joint),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": KEY.replace("\n", joint),
        "ssl.keystore.certificate.chain": MADE.certificate.replace("\n", joint),
    }
    assert read_client_properties(written(tmp_path, properties)) == Access(
        protocol="SSL", trusted=MADE.authority, certificate=MADE.certificate, key=MADE.key
    )


def test_everything_comes_back_from_its_properties(tmp_path: Path) -> None:
    """Kafka's tools and the load must get in by the same door."""
    access = Access(
        protocol="SASL_SSL",
        login=Scram(mechanism="SCRAM-SHA-256", username="alice", password=SecretStr(SECRET)),
        trusted=MADE.authority,
        certificate=MADE.certificate,
        key=MADE.key,
        check_hostname=False,
        options={"client_id": "me", "retry_backoff_ms": 0},
    )
    assert read_client_properties(written(tmp_path, properties_of(access))) == access


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_pem_keystore_has_key_and_chain_in_one_file(tmp_path: Path, *, encrypted: bool) -> None:
    """Kafka asks for encrypted keys in some versions."""
    key = _encrypted_key(MADE, SECRET) if encrypted else KEY
    (tmp_path / "me.pem").write_text(key + MADE.certificate)
    properties = TLS | {"ssl.keystore.type": "PEM", "ssl.keystore.location": "me.pem", "ssl.key.password": SECRET}
    access = read_client_properties(written(tmp_path, properties))
    assert access == Access(protocol="SSL", certificate=MADE.certificate, key=MADE.key)


@pytest.mark.parametrize("kind", [{}, {"ssl.keystore.type": "JKS"}, {"ssl.keystore.type": "PKCS12"}])
@pytest.mark.parametrize("password", [SECRET, None])
def test_a_pkcs12_keystore_is_known_by_its_content(tmp_path: Path, kind: dict[str, str], password: str | None) -> None:
    """Java's default type is JKS, under which it reads PKCS12, too."""
    (tmp_path / "me.p12").write_bytes(_pkcs12(MADE, password))
    secret = {} if password is None else {"ssl.keystore.password": password}
    access = read_client_properties(written(tmp_path, TLS | kind | secret | {"ssl.keystore.location": "me.p12"}))
    assert _own(access) == (CHAIN, CHAIN[0].public_key())


def test_stores_of_javas_own_tool_are_read(tmp_path: Path) -> None:
    """A truststore of keytool's has certificates and no key; its keystore keeps chains in its own order."""
    (tmp_path / "ca.pem").write_text(MADE.authority)
    (tmp_path / "me.p12").write_bytes(_pkcs12(MADE, SECRET))
    trust, own = tmp_path / "trust.jks", tmp_path / "own.jks"
    common = ("-noprompt", "-storepass", SECRET)
    keytool("-importcert", "-keystore", trust, "-alias", "ca", "-file", tmp_path / "ca.pem", *common)
    keytool(
        "-importkeystore",
        "-srckeystore",
        tmp_path / "me.p12",
        "-srcstorepass",
        SECRET,
        "-destkeystore",
        own,
        "-deststorepass",
        SECRET,
        "-noprompt",
    )
    stores = {
        "ssl.truststore.location": str(trust),
        "ssl.truststore.password": SECRET,
        "ssl.keystore.location": str(own),
        "ssl.keystore.password": SECRET,
    }
    access = read_client_properties(written(tmp_path, TLS | stores))
    assert access.trusted == MADE.authority
    assert _own(access) == (CHAIN, CHAIN[0].public_key())
    assert refused(tmp_path, TLS | stores | {"ssl.truststore.password": "other"}) == (
        "'ssl.truststore.location' trust.jks cannot be opened with the password in 'ssl.truststore.password', "
        f"{NO_STORE}"
    )


def test_a_store_of_javas_old_kind_says_how_to_convert_it(tmp_path: Path) -> None:
    """Java alone reads it."""
    (tmp_path / "ca.pem").write_text(MADE.authority)
    keytool(
        "-importcert",
        "-keystore",
        tmp_path / "old.jks",
        "-storetype",
        "JKS",
        "-noprompt",
        "-storepass",
        SECRET,
        "-file",
        tmp_path / "ca.pem",
    )
    assert refused(tmp_path, TLS | {"ssl.truststore.location": "old.jks", "ssl.truststore.password": SECRET}) == (
        f"'ssl.truststore.location' old.jks cannot be opened with the password in 'ssl.truststore.password', {NO_STORE}"
    )


@pytest.mark.timeout(20)
def test_blocks_without_an_end_take_no_longer_than_their_number(tmp_path: Path) -> None:
    """Looking for the end of each to the end of the file would take the square of it."""
    (tmp_path / "torn.pem").write_text("-----BEGIN CERTIFICATE-----\n" * 200_000)
    assert refused(tmp_path, TLS | {"ssl.truststore.location": "torn.pem"}) == (
        "'ssl.truststore.location' torn.pem contains no certificate; add the CA certificate of the brokers"
    )


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        (
            {"ssl.truststore.location": "absent.pem"},
            "'ssl.truststore.location' absent.pem: No such file or directory; give the path of a readable file",
        ),
        (
            {"ssl.truststore.location": "folder"},
            "'ssl.truststore.location' folder: Is a directory; give the path of a readable file",
        ),
        ({"ssl.truststore.location": "text"}, f"'ssl.truststore.location' text {LOCKED}"),
        ({"ssl.truststore.location": "empty"}, f"'ssl.truststore.location' empty {LOCKED}"),
        (
            {"ssl.truststore.location": "key.pem"},
            "'ssl.truststore.location' key.pem contains no certificate; add the CA certificate of the brokers",
        ),
        (
            {"ssl.truststore.location": "torn.pem"},
            "'ssl.truststore.location' torn.pem contains a certificate that cannot be read; export it again",
        ),
        (
            {"ssl.truststore.location": "noise.pem"},
            "'ssl.truststore.location' noise.pem contains a CERTIFICATE that is not base64; export it again",
        ),
        (
            {"ssl.truststore.location": "me.p12"},
            f"'ssl.truststore.location' me.p12 {LOCKED}",
        ),
        (
            {"ssl.keystore.location": "me.p12", "ssl.keystore.password": "other"},
            f"'ssl.keystore.location' me.p12 cannot be opened with the password in 'ssl.keystore.password', {NO_STORE}",
        ),
        (
            {"ssl.keystore.location": "trust.p12", "ssl.keystore.password": SECRET},
            "'ssl.keystore.location' trust.p12 must contain a private key and its certificate",
        ),
        (
            {"ssl.keystore.location": "key.pem"},
            "'ssl.keystore.location' key.pem must contain one private key and its certificate",
        ),
        (
            {"ssl.keystore.location": "locked.pem"},
            "'ssl.keystore.location' locked.pem contains an encrypted private key; set 'ssl.key.password'",
        ),
        (
            {"ssl.keystore.location": "locked.pem", "ssl.key.password": "other"},
            "'ssl.keystore.location' locked.pem contains a private key that cannot be read with the password in "
            "'ssl.key.password'; export it again",
        ),
        (
            {"ssl.keystore.location": "foreign.pem"},
            "'ssl.keystore.location' foreign.pem: the first certificate does not match the private key, or cannot "
            "be read",
        ),
        ({"ssl.keystore.key": KEY}, "'ssl.keystore.certificate.chain' is missing; it goes with 'ssl.keystore.key'"),
        (
            {"ssl.keystore.location": "key.pem", "ssl.keystore.key": KEY},
            "'ssl.keystore.location' and 'ssl.keystore.key' are both given; use only one of them",
        ),
        (
            {"ssl.keystore.location": KEY},
            "'ssl.keystore.location' contains PEM text; give the path of a PEM file, "
            "or use 'ssl.keystore.key' and 'ssl.keystore.certificate.chain'",
        ),
        (
            {"ssl.truststore.type": "BCFKS", "ssl.truststore.location": "text"},
            "'ssl.truststore.type' is 'BCFKS', which is not supported; use PEM or PKCS12",
        ),
        (
            {"ssl.truststore.password": SECRET},
            "'ssl.truststore.location' is missing; it goes with 'ssl.truststore.password'",
        ),
    ],
)
def test_a_store_that_cannot_be_says_file_and_key(tmp_path: Path, properties: dict[str, str], problem: str) -> None:
    """OpenSSL's own errors name neither."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text(SECRET)
    (tmp_path / "key.pem").write_text(KEY)
    (tmp_path / "torn.pem").write_text("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
    (tmp_path / "noise.pem").write_text("-----BEGIN CERTIFICATE-----\n???\n-----END CERTIFICATE-----\n")
    (tmp_path / "locked.pem").write_text(_encrypted_key(MADE, SECRET) + MADE.certificate)
    (tmp_path / "foreign.pem").write_text(KEY + certificates(["localhost"]).certificate)
    (tmp_path / "me.p12").write_bytes(_pkcs12(MADE, SECRET))
    (tmp_path / "trust.p12").write_bytes(_pkcs12(MADE, SECRET, with_key=False))
    text = refused(tmp_path, TLS | properties)
    assert text == problem
    assert not any(line in text for line in Access(key=MADE.key).secrets())
