"""What the other packages ask a login, answered by each of them."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.logins import LOGIN_VARIABLES, Login, Plain, Scram, password_login
from tests.support.client_files import PLAIN, SCRAM

QUOTED = 'hunter"2\\'
LOGINS = (
    (Plain(username="alice", password=SecretStr(QUOTED)), "PLAIN", PLAIN),
    (Scram(mechanism="SCRAM-SHA-256", username="alice", password=SecretStr(QUOTED)), "SCRAM-SHA-256", SCRAM),
    (Scram(mechanism="SCRAM-SHA-512", username="alice", password=SecretStr(QUOTED)), "SCRAM-SHA-512", SCRAM),
)


@pytest.mark.parametrize(("login", "mechanism", "module"), LOGINS)
def test_a_login_answers_for_every_client(login: Login, mechanism: str, module: str) -> None:
    """aiokafka, an application, Kafka's own tools and its ACLs must mean the same user."""
    assert login.arguments() == {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": QUOTED,
    }
    assert login.variables() == {
        "KAFKA_SASL_MECHANISM": mechanism,
        "KAFKA_SASL_USERNAME": "alice",
        "KAFKA_SASL_PASSWORD": QUOTED,
    }
    assert login.jaas_line() == f'{module} required username="alice" password="hunter\\"2\\\\";'
    assert login.principal == "alice"
    assert login.to_check == "the user name, the password and 'sasl.mechanism'"


@pytest.mark.parametrize(("login", "mechanism", "module"), LOGINS)
def test_nothing_that_is_printed_of_a_login_shows_its_password(login: Login, mechanism: str, module: str) -> None:
    """Neither as it is nor as it stands in a JAAS line."""
    assert login.secrets() == {QUOTED, 'hunter\\"2\\\\'}
    shown = f"{login!r} {login} {login.arguments()} {login.variables()}"
    assert mechanism in shown
    assert module not in shown
    assert "hunter" not in shown


def test_an_empty_password_is_not_a_secret() -> None:
    """Otherwise, hiding it would put asterisks between all characters of a text."""
    assert Plain(username="alice", password=SecretStr("")).secrets() == set()


@pytest.mark.parametrize(("login", "mechanism", "module"), LOGINS)
def test_the_mechanism_decides_the_login(login: Login, mechanism: str, module: str) -> None:
    """A login from a file and one from a fixture must be equal."""
    assert password_login(mechanism, "alice", QUOTED) == login
    assert login.module == module


def test_an_application_without_a_login_gets_no_login_of_another_cluster() -> None:
    """None removes what the user's shell has, whichever login it is for."""
    assert all(login.variables().keys() <= set(LOGIN_VARIABLES) for login, *_ in LOGINS)
    assert Access().variables() == {"KAFKA_SECURITY_PROTOCOL": "PLAINTEXT", **dict.fromkeys(LOGIN_VARIABLES)}
