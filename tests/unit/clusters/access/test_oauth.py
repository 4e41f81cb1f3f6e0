"""OAUTHBEARER logins: what settings describe them, and what others get of them."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path

import pytest
from pydantic import SecretStr

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.client_properties import read_client_properties
from pytest_kafkaperf.clusters.access.oauth import OAUTH_VARIABLES, OAuth
from pytest_kafkaperf.clusters.access.tokens import ClientCredentials, FixedToken, TokenFile, TokenFunction
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.errors import UsageError
from tests.support.client_files import OAUTH as MODULE
from tests.support.client_files import SCRAM, SECRET, refused, written
from tests.support.token_server import token_server

URL = "https://login.example/token"
OAUTH = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": URL,
}
ID = "sasl.oauthbearer.client.credentials.client.id"
SECRET_NAME = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 - the name of a setting
LOGIN = OAuth(
    source=ClientCredentials(endpoint=URL, client_id="perf", client_secret=SecretStr(SECRET), scope="kafka orders")
)


@pytest.mark.parametrize(
    "settings",
    [
        {ID: "perf", SECRET_NAME: SECRET, "sasl.oauthbearer.scope": "kafka orders"},
        {
            ID: "perf",
            SECRET_NAME: SECRET,
            "sasl.oauthbearer.scope": "kafka orders",
            "sasl.jaas.config": f"{MODULE} required;",
            "sasl.oauthbearer.jwt.retriever.class": (
                "org.apache.kafka.common.security.oauthbearer.ClientCredentialsJwtRetriever"
            ),
        },
        {
            "sasl.jaas.config": (f'{MODULE} required clientId="perf" clientSecret="{SECRET}" scope="kafka orders" ;'),
            "sasl.login.callback.handler.class": (
                "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
            ),
        },
    ],
    ids=["since 4.1", "since 4.1 with a module", "before 4.1"],
)
def test_both_spellings_of_client_credentials_are_the_same_login(settings: dict[str, str], tmp_path: Path) -> None:
    """The file that users have for Kafka's own tools must do, whatever version it was written for."""
    access = read_client_properties(written(tmp_path, OAUTH | settings))
    assert access == Access(protocol="SASL_PLAINTEXT", login=LOGIN)


def test_extensions_go_with_the_token(tmp_path: Path) -> None:
    """Managed services read from them which cluster and which pool of identities are meant."""
    line = f'{MODULE} required clientId="perf" clientSecret="{SECRET}" extension_logicalCluster="lkc-1";'
    access = read_client_properties(written(tmp_path, OAUTH | {"sasl.jaas.config": line}))
    assert access.login is not None
    assert access.login.jaas_line() == line
    assert access.login.arguments()["sasl_oauth_token_provider"].extensions() == {"logicalCluster": "lkc-1"}


def test_a_file_with_a_token_is_an_endpoint(tmp_path: Path) -> None:
    """Kafka's clients read it like this, for tokens that something else keeps up to date."""
    settings = OAUTH | {"sasl.oauthbearer.token.endpoint.url": "file:///run/secrets/token"}
    access = read_client_properties(written(tmp_path, settings))
    assert access.login == OAuth(source=TokenFile(path=Path("/run/secrets/token")))
    assert access.login.variables() == {
        "KAFKA_SASL_MECHANISM": "OAUTHBEARER",
        OAUTH_VARIABLES[0]: "file:///run/secrets/token",
    }


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"sasl.oauthbearer.token.endpoint.url": ""},
            "'sasl.oauthbearer.token.endpoint.url' is missing; give the URL from which clients get their tokens",
        ),
        (
            {"sasl.oauthbearer.token.endpoint.url": f"https://perf:{SECRET}@login.example/token"},
            "'sasl.oauthbearer.token.endpoint.url' must be an http:// or https:// URL without a login, or the "
            "file:///... URL of a token file without client credentials",
        ),
        (
            {SECRET_NAME: SECRET},
            f"'{ID}' is missing; give it, or clientId=\"...\" in 'sasl.jaas.config'",
        ),
        (
            {ID: "perf"},
            f"'{SECRET_NAME}' is missing; give it, or clientSecret=\"...\" in 'sasl.jaas.config'",
        ),
        (
            {ID: "perf", SECRET_NAME: SECRET, "sasl.oauthbearer.header.urlencode": "yes"},
            "'sasl.oauthbearer.header.urlencode' must be true or false, not 'yes'",
        ),
        (
            {ID: "perf", "sasl.jaas.config": f'{MODULE} required clientId="perf" clientSecret="{SECRET}";'},
            f"'{ID}' and clientId in 'sasl.jaas.config' are both given; use only one of them",
        ),
        (
            {"sasl.jaas.config": f'{MODULE} required clientId="perf" clientSecret="{SECRET}" ssl.truststore="a";'},
            f'\'sasl.jaas.config\' cannot be read; write {MODULE} required clientId="..." clientSecret="..."; with '
            '\\" and \\\\ for " and \\ in the values (in a properties file, write each \\ twice)',
        ),
        (
            {"sasl.jaas.config": f'{MODULE} required clientId="perf" password="{SECRET}";'},
            "'sasl.jaas.config' contains options that are not supported; use only clientId, clientSecret, scope, "
            "extension_NAME",
        ),
        (
            {"sasl.jaas.config": f'{SCRAM} required username="a" password="{SECRET}";'},
            f"'sasl.jaas.config' uses {SCRAM}, which supports only SCRAM-SHA-256 and SCRAM-SHA-512",
        ),
        (
            {"sasl.login.callback.handler.class": "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"},
            "'sasl.login.callback.handler.class' is a class that this plugin cannot run; use "
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler, or get tokens with your own "
            "function: Cluster(token=...) in a kafka_cluster fixture",
        ),
    ],
)
def test_a_login_that_cannot_be_says_what_to_give(tmp_path: Path, settings: dict[str, str], problem: str) -> None:
    """The error must name the settings, and show none of their secrets."""
    assert refused(tmp_path, OAUTH | settings) == problem


def test_settings_of_another_mechanism_are_refused(tmp_path: Path) -> None:
    """One of them is not meant."""
    settings = OAUTH | {
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{SCRAM} required username="a" password="b";',
    }
    assert refused(tmp_path, settings) == (
        "'sasl.oauthbearer.token.endpoint.url' has no effect with 'sasl.mechanism' SCRAM-SHA-512; use OAUTHBEARER, or "
        "leave it out"
    )
    settings = {"sasl.oauthbearer.token.endpoint.url": URL}
    assert refused(tmp_path, settings).startswith(
        "'sasl.oauthbearer.token.endpoint.url' has no effect with 'security.protocol' PLAINTEXT; use SASL_PLAINTEXT or "
    )


def test_an_application_logs_in_by_itself() -> None:
    """It gets what users of SCRAM get: all that its own client needs."""
    assert LOGIN.variables() == {
        "KAFKA_SASL_MECHANISM": "OAUTHBEARER",
        "KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL": URL,
        "KAFKA_SASL_OAUTHBEARER_CLIENT_ID": "perf",
        "KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET": SECRET,
        "KAFKA_SASL_OAUTHBEARER_SCOPE": "kafka orders",
        "KAFKA_SASL_OAUTHBEARER_HEADER_URLENCODE": None,
    }


@pytest.mark.parametrize(("text", "encodes"), [("TRUE", True), ("false", False)])
def test_credentials_can_be_url_encoded(tmp_path: Path, text: str, *, encodes: bool) -> None:
    """As the standard requires, and Kafka's clients do only on request; the application must do the same."""
    settings = {ID: "perf", SECRET_NAME: SECRET, "sasl.oauthbearer.header.urlencode": text}
    login = read_client_properties(written(tmp_path, OAUTH | settings)).login
    assert login is not None
    assert login == OAuth(
        source=ClientCredentials(endpoint=URL, client_id="perf", client_secret=SecretStr(SECRET), encodes=encodes)
    )
    assert login.variables()["KAFKA_SASL_OAUTHBEARER_HEADER_URLENCODE"] == ("true" if encodes else None)


def test_an_application_reads_a_token_that_it_cannot_get(tmp_path: Path) -> None:
    """Kafka's clients take the file's URL as an endpoint."""
    access = Access(protocol="SASL_PLAINTEXT", login=OAuth(source=FixedToken(value=SecretStr("abc"))))
    found = access.write_files(tmp_path)
    assert found[OAUTH_VARIABLES[0]] == f"file://{tmp_path}/token.jwt"
    assert (tmp_path / "token.jwt").read_text() == "abc"
    assert OAUTH_VARIABLES[0] not in Access(protocol="SASL_PLAINTEXT", login=LOGIN).write_files(tmp_path)


def test_nothing_that_is_printed_of_a_login_shows_its_secret() -> None:
    """Neither the client secret, nor a token."""
    fixed = OAuth(source=FixedToken(value=SecretStr("ab.cd.ef")))
    fixed.token()
    for login, secret in ((LOGIN, SECRET), (fixed, "ab.cd.ef")):
        shown = f"{login!r} {login} {login.arguments()} {login.variables()} {Access(login=login)}"
        assert secret not in shown
        assert secret in login.secrets()
    assert Access(login=LOGIN).redact(f"clientSecret={SECRET}") == "clientSecret=***"


def test_the_user_of_permissions_is_the_subject_of_the_token() -> None:
    """Brokers take it as the principal."""
    with token_server() as server:
        login = OAuth(source=TokenFunction(function=server.token))
        assert login.principal == "perf"
        assert "sub 'perf'" in login.to_check
    assert OAuth(source=FixedToken(value=SecretStr("opaque"))).principal == "SUBJECT-OF-THE-TOKEN"


def test_a_fixture_gives_tokens_by_a_function() -> None:
    """Services whose tokens come from their own SDK need no setting of Kafka's."""
    calls = itertools.count()
    cluster = Cluster(
        bootstrap_servers="broker1:9098",
        client_config={"security.protocol": "SASL_SSL"},
        token=lambda: (f"token-{next(calls)}", 4_000_000_000_000),
    )
    login = cluster.access.login
    assert isinstance(login, OAuth)
    assert [login.token().value.get_secret_value() for _ in range(2)] == ["token-0"] * 2
    assert cluster.client_config["sasl_mechanism"] == "OAUTHBEARER"
    with pytest.raises(TypeError):
        pickle.dumps(cluster.access)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"token": "abc"}, "Cluster(token=...) is a str; must be a function that returns an access token"),
        (
            {"token": lambda: "abc"},
            "client_config: 'token' requires 'security.protocol' SASL_SSL or SASL_PLAINTEXT",
        ),
        (
            {"token": lambda: "abc", "client_config": {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}},
            "client_config: 'token' requires 'sasl.mechanism' OAUTHBEARER, not 'PLAIN'",
        ),
        (
            {"token": lambda: "abc", "client_config": {"security.protocol": "SASL_SSL", ID: "perf"}},
            "client_config: 'token' and client credentials or a token endpoint are both given; use only one of them",
        ),
    ],
)
def test_a_function_that_cannot_be_used_says_why(fields: dict[str, object], problem: str) -> None:
    """The error must name what the fixture wrote."""
    with pytest.raises(UsageError) as raised:
        Cluster(bootstrap_servers="broker1:9098", **fields)  # type: ignore[arg-type]
    assert str(raised.value) == problem
