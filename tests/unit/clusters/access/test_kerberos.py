"""GSSAPI logins: what settings describe them, and what others get of them. `tests/nightly` logs in with them."""

from __future__ import annotations

import dataclasses
import pickle
import sys
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.client_properties import read_access, read_client_properties
from pytest_kafkaperf.clusters.access.kerberos import Kerberos
from pytest_kafkaperf.clusters.access.logins import LOGIN_VARIABLES
from pytest_kafkaperf.core.errors import ClusterError
from tests.support.client_files import KERBEROS as MODULE
from tests.support.client_files import SCRAM, refused, written

GSSAPI = {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"}
KEYTAB = 'useKeyTab=true storeKey=true keyTab="/etc/perf.keytab" principal="perf/ci@EXAMPLE.COM"'
WITH_KEYTAB = Kerberos(service="kafka", client="perf/ci@EXAMPLE.COM", keytab="/etc/perf.keytab")
EXAMPLE = (
    f'write {MODULE} required useKeyTab=true keyTab="/path/to/client.keytab" principal="client@REALM"; or '
    "useTicketCache=true;"
)


def login_of(folder: Path, options: str, **changes: str | None) -> Kerberos:
    settings = GSSAPI | {name.replace("_", "."): text for name, text in changes.items()}
    given = {name: text for name, text in settings.items() if text is not None}
    access = read_client_properties(written(folder, given | {"sasl.jaas.config": f"{MODULE} required {options};"}))
    assert isinstance(access.login, Kerberos)
    return access.login


@pytest.mark.parametrize(
    ("options", "login"),
    [
        (KEYTAB, WITH_KEYTAB),
        (
            f"{KEYTAB} debug=true renewTGT=false refreshKrb5Config=true doNotPrompt=true isInitiator=true "
            "useTicketCache=false",
            WITH_KEYTAB,
        ),
        (f"{KEYTAB} serviceName=kafka", WITH_KEYTAB),
        (KEYTAB.replace('"/etc', '"FILE:/etc'), WITH_KEYTAB),
        ("useTicketCache=true renewTGT=true", Kerberos(service="kafka")),
        (
            'useTicketCache=true ticketCache="/tmp/cc" principal="perf@EXAMPLE.COM"',
            Kerberos(service="kafka", client="perf@EXAMPLE.COM", ticket_cache="FILE:/tmp/cc"),
        ),
        (
            'useTicketCache=true ticketCache="KEYRING:persistent:0"',
            Kerberos(service="kafka", ticket_cache="KEYRING:persistent:0"),
        ),
    ],
)
def test_the_options_of_javas_module_describe_the_login(tmp_path: Path, options: str, login: Kerberos) -> None:
    """The file that users have for Kafka's own tools must do."""
    assert login_of(tmp_path, options) == login


def test_relative_paths_start_at_the_folder_of_the_file(tmp_path: Path) -> None:
    """As those of truststores do; worker processes run elsewhere."""
    assert login_of(tmp_path, KEYTAB.replace("/etc/", "")).keytab == f"{tmp_path}/perf.keytab"
    cache = login_of(tmp_path, 'useTicketCache=true ticketCache="cc"').ticket_cache
    assert cache == f"FILE:{tmp_path}/cc"


def test_kafkas_default_mechanism_may_be_left_out_for_a_login_that_has_no_other(tmp_path: Path) -> None:
    """Many files rely on the default."""
    assert login_of(tmp_path, KEYTAB, sasl_mechanism=None) == WITH_KEYTAB


def test_a_fixture_gives_the_name_of_the_service_in_aiokafkas_spelling() -> None:
    """An application's own tests may have the arguments at hand."""
    arguments = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
        "sasl.jaas.config": f"{MODULE} required {KEYTAB};",
    }
    access = read_access(arguments, origin="client_config", folder=Path())
    assert access == Access(protocol="SASL_SSL", login=WITH_KEYTAB)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sasl.jaas.config": ""}, f"'sasl.jaas.config' is missing; {EXAMPLE.replace('write', 'give', 1)}"),
        (
            {"sasl.kerberos.service.name": ""},
            "'sasl.kerberos.service.name' is missing; give the first part of the brokers' principals, which is usually "
            "kafka",
        ),
        (
            {"sasl.jaas.config": f"{MODULE} required {KEYTAB} serviceName=broker;"},
            "'sasl.kerberos.service.name' and serviceName in 'sasl.jaas.config' differ; use only one of them",
        ),
        ({"sasl.jaas.config": f"{MODULE} required {KEYTAB}"}, f"'sasl.jaas.config' cannot be read; {EXAMPLE}"),
        (
            {"sasl.jaas.config": f"{MODULE} required {KEYTAB} useFirstPass=true;"},
            "'sasl.jaas.config' contains options that are not supported; use only debug, doNotPrompt, isInitiator, "
            "keyTab, principal, refreshKrb5Config, renewTGT, serviceName, storeKey, ticketCache, useKeyTab, "
            "useTicketCache",
        ),
        (
            {"sasl.jaas.config": f"{MODULE} required {KEYTAB} isInitiator=false;"},
            f"'sasl.jaas.config' contains isInitiator=false, which is for servers; {EXAMPLE}",
        ),
        (
            {"sasl.jaas.config": f"{MODULE} required {KEYTAB} useTicketCache=true;"},
            f"'sasl.jaas.config' must contain only one of useKeyTab=true and useTicketCache=true; {EXAMPLE}",
        ),
        (
            {"sasl.jaas.config": f"{MODULE} required;"},
            f"'sasl.jaas.config' must contain one of useKeyTab=true and useTicketCache=true; {EXAMPLE}",
        ),
        (
            {"sasl.jaas.config": f'{MODULE} required useKeyTab=true principal="perf";'},
            f"'sasl.jaas.config' must contain keyTab and principal with useKeyTab=true; {EXAMPLE}",
        ),
        (
            {"sasl.jaas.config": f'{MODULE} required useTicketCache=true keyTab="/etc/perf.keytab";'},
            f"'sasl.jaas.config' contains keyTab, which has no effect without useKeyTab=true; {EXAMPLE}",
        ),
        (
            {"sasl.jaas.config": f'{MODULE} required {KEYTAB} ticketCache="/tmp/cc";'},
            f"'sasl.jaas.config' contains ticketCache, which has no effect without useTicketCache=true; {EXAMPLE}",
        ),
        (
            {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": f'{SCRAM} required username="a" password="b";'},
            "'sasl.kerberos.service.name' has no effect with 'sasl.mechanism' SCRAM-SHA-512; use GSSAPI, or leave it "
            "out",
        ),
    ],
)
def test_a_login_that_cannot_be_says_what_to_give(tmp_path: Path, changes: dict[str, str], problem: str) -> None:
    """What the plugin would read differently from Java must not pass."""
    settings = GSSAPI | {"sasl.jaas.config": f"{MODULE} required {KEYTAB};"} | changes
    assert refused(tmp_path, settings) == problem


def test_an_application_logs_in_by_itself() -> None:
    """It gets what its own client needs, and nothing that another cluster needs."""
    assert Access(protocol="SASL_SSL", login=WITH_KEYTAB).variables() == {
        "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        **dict.fromkeys(LOGIN_VARIABLES),
        "KAFKA_SASL_MECHANISM": "GSSAPI",
        "KAFKA_SASL_KERBEROS_SERVICE_NAME": "kafka",
        "KAFKA_SASL_KERBEROS_PRINCIPAL": "perf/ci@EXAMPLE.COM",
        "KAFKA_SASL_KERBEROS_KEYTAB": "/etc/perf.keytab",
    }


@pytest.mark.parametrize(
    "login", [WITH_KEYTAB, Kerberos(service="broker", client="perf@EXAMPLE.COM", ticket_cache="FILE:/tmp/cc")]
)
def test_a_login_survives_every_way_to_another_process(login: Kerberos, tmp_path: Path) -> None:
    """Workers, and the other revision's process, log in by themselves."""
    access = Access(protocol="SASL_SSL", login=login)
    assert pickle.loads(pickle.dumps(access)) == access  # noqa: S301 - our own
    assert TypeAdapter(Access).validate_python(dataclasses.asdict(access)) == access
    settings = GSSAPI | {"sasl.kerberos.service.name": login.service, "sasl.jaas.config": login.jaas_line()}
    assert read_client_properties(written(tmp_path, settings)) == access


def test_the_user_of_permissions_is_the_first_part_of_the_principal() -> None:
    """Kafka's default rule for names of its own realm."""
    assert WITH_KEYTAB.principal == "perf"
    assert Kerberos(service="kafka", client="perf@EXAMPLE.COM").principal == "perf"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """aiokafka's own check is an assertion."""
    monkeypatch.setitem(sys.modules, "gssapi", None)
    access = Access(protocol="SASL_SSL", login=WITH_KEYTAB)
    for attempt in (access.log_in, access.arguments):
        with pytest.raises(ClusterError) as raised:
            attempt()
        assert str(raised.value) == (
            "logging in with Kerberos (GSSAPI) requires gssapi for MIT Kerberos; run: pip install "
            "'pytest-kafkaperf[kerberos]' (on Debian and Ubuntu, install gcc, libkrb5-dev and python3-dev first)"
        )
    assert Kerberos(service="kafka").principal == "FIRST-PART-OF-THE-PRINCIPAL"
