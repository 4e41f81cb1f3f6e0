"""How clients get into a cluster: what they are given, and no secret in anything that is printed."""

from __future__ import annotations

import errno
import inspect
import pickle
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path

import aiokafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from cryptography.hazmat.primitives import serialization
from pydantic import SecretStr

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.client_properties import read_access
from pytest_kafkaperf.clusters.access.logins import Plain, Scram
from tests.support.client_files import CHAIN, KEY, LOGIN, MADE, SECRET, TIMEOUT_S, TLS


def test_plaintext_needs_nothing() -> None:
    """What a local cluster gets must be what it got before there was any access."""
    assert (Access().arguments(), Access().secrets()) == ({}, ())


def test_a_login_becomes_aiokafkas_arguments() -> None:
    """Every client of a run logs in the same way."""
    access = Access(
        protocol="SASL_PLAINTEXT",
        login=Scram(mechanism="SCRAM-SHA-512", username="alice", password=SecretStr(SECRET)),
        options={"request_timeout_ms": 5000, "client_id": "me"},
    )
    assert access.arguments() == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
        "sasl_plain_password": SECRET,
        "request_timeout_ms": 5000,
        "client_id": "me",
    }


@pytest.mark.parametrize("check_hostname", [True, False])
def test_certificates_become_a_context(*, check_hostname: bool) -> None:
    """No file for either of them: what is in memory cannot be left behind."""
    access = Access(
        protocol="SSL",
        trusted=MADE.authority,
        certificate=MADE.certificate,
        key=MADE.key,
        check_hostname=check_hostname,
    )
    arguments = access.arguments()
    context = arguments.pop("ssl_context")
    assert arguments == {"security_protocol": "SSL"}
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, check_hostname)
    assert context.get_ca_certs(binary_form=True) == [CHAIN[1].public_bytes(serialization.Encoding.DER)]


def test_the_file_of_a_key_is_gone_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL takes a key from a file only."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    Access(protocol="SSL", certificate=MADE.certificate, key=MADE.key).arguments()
    assert list(tmp_path.iterdir()) == []


def test_nothing_that_is_printed_shows_a_secret() -> None:
    """Tracebacks and debug logs print what functions were given, copies of it too."""
    access = Access(
        protocol="SASL_SSL",
        login=Plain(username="alice", password=SecretStr(SECRET)),
        trusted=MADE.authority,
        certificate=MADE.certificate,
        key=MADE.key,
    )
    printed = (access, access.arguments(), dict(access.arguments()), [access.arguments()], access.variables())
    shown = "".join(map(repr, printed))
    assert shown.count("'***'") == len(printed) - 1
    assert [secret for secret in access.secrets() if secret in shown] == []


def test_secrets_are_the_password_the_key_and_each_line_of_it() -> None:
    """What a tool prints may break a key into lines, and escape a password."""
    access = Access(login=Plain(username="alice", password=SecretStr('pass"word')), key=MADE.key)
    lines = KEY.splitlines()[1:-1]
    assert len(lines) >= 2
    assert set(access.secrets()) == {'pass"word', 'pass\\"word', KEY, *lines}
    assert access.secrets()[0] == KEY


def test_it_goes_to_worker_processes() -> None:
    """A context cannot be pickled; what it is made of can."""
    access = Access(protocol="SSL", trusted=MADE.authority, certificate=MADE.certificate, key=MADE.key)
    again = pickle.loads(pickle.dumps(access))  # noqa: S301 - its own
    assert again == access
    assert isinstance(again.arguments()["ssl_context"], ssl.SSLContext)


def test_every_argument_is_one_of_all_clients() -> None:
    """Producers, consumers, the admin client and the one that waits for readiness get the same."""
    options = {
        "client.id": "me",
        "connections.max.idle.ms": 1,
        "metadata.max.age.ms": 1,
        "request.timeout.ms": 1,
        "retry.backoff.ms": 0,
    }
    given_arguments = read_access(LOGIN | TLS | options | {"security.protocol": "SASL_SSL"}, origin="", folder=Path())
    clients = (
        aiokafka.AIOKafkaProducer,
        aiokafka.AIOKafkaConsumer,
        AIOKafkaAdminClient,
        aiokafka.client.AIOKafkaClient,
    )
    shared = set.intersection(*(set(inspect.signature(client.__init__).parameters) for client in clients))
    assert given_arguments.arguments().keys() <= shared
    assert given_arguments.options == {name.replace(".", "_"): value for name, value in options.items()}


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    """A plain cluster pays neither for TLS nor for a parser."""
    script = (
        "import sys, pytest_kafkaperf.clusters.access.access as access; before = set(sys.modules); "
        "access.Access().arguments(); "
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'aiokafka', 'cryptography', 'javaproperties'}))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=TIMEOUT_S
    )
    assert shown.stdout == "[]\n"


def test_a_certificate_file_is_complete_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk would otherwise leave half of one, which the next start of an application would use."""
    access = Access(protocol="SSL", trusted=MADE.authority)

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(Path, "replace", fail)
        with pytest.raises(OSError, match="No space left"):
            access.write_files(tmp_path)
    assert [*tmp_path.iterdir()] == []
    access.write_files(tmp_path)
    assert (tmp_path / "ca.pem").read_text(encoding="ascii") == MADE.authority
