"""Arguments of clients, as fixtures of applications give them."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from hypothesis import given
from pydantic import SecretStr

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.client_properties import read_access
from pytest_kafkaperf.clusters.access.logins import Plain
from pytest_kafkaperf.core.errors import UsageError
from tests.support.client_files import LOGIN, MADE, SECRET, TEXT


@pytest.mark.parametrize(
    "arguments",
    [
        LOGIN | {"request.timeout.ms": 5000},
        {
            "bootstrap_servers": "a:1",
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "alice",
            "sasl_plain_password": SecretStr(SECRET),
            "request_timeout_ms": 5000,
            "ssl_context": None,
        },
        {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_plain_username": "alice",
            "sasl_plain_password": SECRET,
            "request.timeout.ms": "5000",
        },
    ],
)
def test_fixtures_give_either_spelling(arguments: dict[str, object]) -> None:
    """An application's own tests have one of them at hand already; PLAIN is aiokafka's default."""
    assert read_access(arguments, origin="client_config", folder=Path()) == Access(
        protocol="SASL_PLAINTEXT",
        login=Plain(username="alice", password=SecretStr(SECRET)),
        options={"request_timeout_ms": 5000},
    )


@given(username=TEXT, password=TEXT)
def test_any_login_of_a_fixture_is_kept_as_it_is(username: str, password: str) -> None:
    """An empty password, or one with quotes in it, is one."""
    arguments = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": username,
        "sasl_plain_password": password,
    }
    assert read_access(arguments, origin="client_config", folder=Path()).arguments() == arguments


def test_fixtures_give_paths_that_start_at_the_folder(tmp_path: Path) -> None:
    """A fixture makes its certificates in a folder of its own."""
    (tmp_path / "ca.pem").write_text(MADE.authority)
    for location in (tmp_path / "ca.pem", "ca.pem"):
        arguments = {"security_protocol": "SSL", "ssl.truststore.location": location}
        access = read_access(arguments, origin="client_config", folder=tmp_path)
        assert access == Access(protocol="SSL", trusted=MADE.authority)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            {"security_protocol": "SSL", "ssl_context": ssl.create_default_context()},
            "'ssl_context' cannot be sent to worker processes; give 'ssl.truststore.location' instead, and "
            "'ssl.keystore.location' for the client's own certificate "
            "('ssl.endpoint.identification.algorithm': '' turns off host name checks)",
        ),
        (
            LOGIN | {"sasl_plain_username": "a", "sasl_plain_password": SECRET},
            "'sasl_plain_username' and 'sasl.jaas.config' are both given; use only one of them",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_plain_password": SECRET},
            "'sasl_plain_username' is missing; give both user name and password",
        ),
        (
            {"sasl_plain_username": "a", "sasl_plain_password": SECRET},
            "'sasl_plain_username' and 'sasl_plain_password' require 'security_protocol' SASL_PLAINTEXT or SASL_SSL",
        ),
        (
            {"security_protocol": "SSL", "security.protocol": "SSL"},
            "'security.protocol' is given in two spellings; use only one of them",
        ),
        ({"client_id": True}, "'client_id' is a bool; give text or a whole number"),
        ({"sasl_plain_password": SECRET.encode()}, "'sasl_plain_password' is a bytes; give text or a whole number"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "sasl_plain_username": "a",
             "sasl_plain_password": SECRET},
            "'sasl_plain_username' and 'sasl_plain_password' have no effect with OAUTHBEARER; give client credentials, "
            "or a function: Cluster(token=...); 'sasl.oauthbearer.token.endpoint.url' is missing; give the URL from "
            "which clients get their tokens",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI", "sasl_kerberos_service_name": "kafka",
             "sasl_plain_username": "a", "sasl_plain_password": SECRET},
            "'sasl_plain_username' and 'sasl_plain_password' have no effect with GSSAPI; give a keytab or a ticket "
            "cache in 'sasl.jaas.config'; 'sasl.jaas.config' is missing; give "
            'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/path/to/client.keytab" '
            'principal="client@REALM"; or useTicketCache=true;',
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_oauth_token_provider": object()},
            "'sasl_oauth_token_provider' cannot be sent to worker processes; give a function that returns a token "
            "instead: Cluster(token=...); 'sasl.mechanism' is missing; use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, "
            "OAUTHBEARER, GSSAPI, AWS_MSK_IAM; 'sasl.jaas.config' is missing; give "
            'org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";',
        ),
    ],
)  # fmt: skip
def test_what_a_fixture_cannot_give_says_what_to_give(arguments: dict[str, object], problem: str) -> None:
    """The error must name the fixture's own words, and no secret."""
    with pytest.raises(UsageError) as caught:
        read_access(arguments, origin="client_config", folder=Path())
    assert str(caught.value) == f"client_config: {problem}"
    assert SECRET not in str(caught.value)
