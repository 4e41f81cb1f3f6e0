"""Tokens of cloud providers: in the form that each one's brokers expect, and one reason if there is none."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import json
import logging
import os
import pickle
import sys
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from joserfc import jwt
from joserfc.jwk import RSAKey

from pytest_kafkaperf import AwsToken, AzureToken, Cluster, GoogleToken
from pytest_kafkaperf.clusters.access import cloud_tokens
from pytest_kafkaperf.clusters.access.oauth import OAuth
from pytest_kafkaperf.clusters.access.tokens import TokenFunction
from pytest_kafkaperf.core.errors import ClusterError, UsageError
from tests.support.cloud_api import Asked, CloudApi, cloud_api

REGION = "eu-central-1"
KEY_ID, KEY = "AKIAEXAMPLE", "wJalrXUtnFEMI-EXAMPLEKEY"
ROLE = "arn:aws:iam::123456789012:role/perf"
STS_KEY, STS_TOKEN = "temporary-EXAMPLEKEY", "FwoGZXIvYXdzEXAMPLE"
SCOPE = "https://shop.servicebus.windows.net/.default"
EMAIL = "perf@shop.iam.gserviceaccount.com"
ACCESS_TOKEN = "ya29.c.example"  # noqa: S105 - of nobody


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without anybody's credentials, and without a way to the providers."""
    for name in ("AWS_", "AZURE_", "IDENTITY_", "MSI_", "GOOGLE_", "GCE_", "HTTP_PROXY", "HTTPS_PROXY"):
        for variable in [each for each in os.environ if each.upper().startswith(name)]:
            monkeypatch.delenv(variable)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual variables of AWS."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)


def signed_url(token: str) -> urllib.parse.SplitResult:
    return urllib.parse.urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())


def check_signature(url: urllib.parse.SplitResult, *, key: str) -> dict[str, str]:
    """Compute the signature as AWS specifies it (Signature Version 4, query parameters); gives the parameters."""
    given = urllib.parse.parse_qsl(url.query, strict_parsing=True)
    parameters = dict(given)
    signed = sorted((name, value) for name, value in given if name not in ("X-Amz-Signature", "User-Agent"))
    quoted = "&".join("=".join(urllib.parse.quote(each, safe="-_.~") for each in pair) for pair in signed)
    request = f"GET\n/\n{quoted}\nhost:{url.netloc}\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    scope = parameters["X-Amz-Credential"].partition("/")[2]
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{parameters['X-Amz-Date']}\n{scope}\n{digest}"
    signing_key = f"AWS4{key}".encode()
    for part in scope.split("/"):
        signing_key = hmac.digest(signing_key, part.encode(), "sha256")
    assert parameters["X-Amz-Signature"] == hmac.digest(signing_key, text.encode(), "sha256").hex()
    return parameters


@pytest.mark.usefixtures("keys")
def test_the_token_for_amazon_msk_is_a_signed_request() -> None:
    """MSK takes it as the request of an AWS identity, so all parts of it must be as AWS specifies them."""
    began_s = int(time.time())
    token, expires_ms = AwsToken(region=REGION)()
    url = signed_url(token)
    assert (url.scheme, url.netloc, url.path) == ("https", f"kafka.{REGION}.amazonaws.com", "/")
    parameters = check_signature(url, key=KEY)
    signed_at = datetime.datetime.strptime(parameters["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
    assert began_s <= signed_at.timestamp() <= time.time()
    assert expires_ms == (signed_at.timestamp() + 900) * 1000
    assert parameters.pop("User-Agent").startswith("aws-msk-iam-sasl-signer-python/")
    assert parameters == {
        "Action": "kafka-cluster:Connect",
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{KEY_ID}/{signed_at:%Y%m%d}/{REGION}/kafka-cluster/aws4_request",
        "X-Amz-Date": parameters["X-Amz-Date"],
        "X-Amz-Expires": "900",
        "X-Amz-SignedHeaders": "host",
        "X-Amz-Signature": parameters["X-Amz-Signature"],
    }


@pytest.mark.usefixtures("keys")
def test_a_profile_is_used_instead_of_the_default_credentials(tmp_path: Path) -> None:
    """It is what the user asked for."""
    (tmp_path / "credentials").write_text("[perf]\naws_access_key_id = AKIAPERF\naws_secret_access_key = other\n")
    url = signed_url(AwsToken(region=REGION, profile="perf")()[0])
    assert check_signature(url, key="other")["X-Amz-Credential"].startswith("AKIAPERF/")


def assume_role(asked: Asked) -> tuple[int, str]:
    """Answer as AWS STS does."""
    if "forbidden" in asked.form["RoleArn"]:
        error = "<Code>AccessDenied</Code><Message>User perf is not authorized to perform: sts:AssumeRole</Message>"
        return 403, f"<ErrorResponse><Error>{error}</Error></ErrorResponse>"
    expires = f"{datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    return 200, (
        '<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>'
        f"<AccessKeyId>ASIAEXAMPLE</AccessKeyId><SecretAccessKey>{STS_KEY}</SecretAccessKey>"
        f"<SessionToken>{STS_TOKEN}</SessionToken><Expiration>{expires}</Expiration>"
        "</Credentials></AssumeRoleResult></AssumeRoleResponse>"
    )


@pytest.fixture
def sts(monkeypatch: pytest.MonkeyPatch) -> Iterator[CloudApi]:
    with cloud_api(assume_role) as api:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", api.url)
        yield api


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("sts_region", [None, "eu-west-1"])
def test_a_role_is_assumed_for_each_token(sts: CloudApi, sts_region: str | None) -> None:
    """MSK refuses a new login under another name, so the name must stay the same."""
    url = signed_url(AwsToken(region=REGION, role_arn=ROLE, sts_region=sts_region)()[0])
    parameters = check_signature(url, key=STS_KEY)
    assert parameters["X-Amz-Credential"].startswith("ASIAEXAMPLE/")
    assert parameters["X-Amz-Security-Token"] == STS_TOKEN
    (asked,) = sts.asked
    assert asked.form["RoleArn"] == ROLE
    assert asked.form["RoleSessionName"] == "pytest-kafkaperf"
    assert f"/{sts_region or REGION}/sts/aws4_request" in asked.headers["authorization"]
    AwsToken(region=REGION, role_arn=ROLE, role_session_name="nightly")()
    assert sts.asked[1].form["RoleSessionName"] == "nightly"


@pytest.mark.usefixtures("keys", "sts")
def test_no_secret_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """At the most detailed level, botocore logs the answer of STS and all that is needed to repeat a signature."""
    caplog.set_level(logging.DEBUG)
    logging.getLogger("botocore.unrelated").debug("shown before")
    url = signed_url(AwsToken(region=REGION, role_arn=ROLE)()[0])
    logging.getLogger("botocore.unrelated").debug("shown after")
    signature = check_signature(url, key=STS_KEY)["X-Amz-Signature"]
    assert not [secret for secret in (KEY, STS_KEY, STS_TOKEN, signature) if secret in caplog.text]
    assert "shown before" in caplog.text
    assert "shown after" in caplog.text


EXPIRED_SSO = f"""
[profile sso]
sso_start_url = https://shop.awsapps.com/start
sso_region = {REGION}
sso_account_id = 123456789012
sso_role_name = perf
"""


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "no credentials found; run 'aws sso login' or 'aws configure', or set AWS_PROFILE"),
        ({"profile": "missing"}, "The config profile (missing) could not be found"),
        (
            {"profile": "sso"},
            "Error loading SSO Token: Token for https://shop.awsapps.com/start does not exist",
        ),
        ({"role_arn": ROLE}, "Unable to locate credentials"),
    ],
)
def test_a_machine_without_aws_credentials_says_what_is_missing(
    fields: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    """AWS's own words lead to a solution; a traceback of the signer does not."""
    (tmp_path / "config").write_text(EXPIRED_SSO)
    began_s = time.monotonic()
    with pytest.raises(ClusterError) as raised:
        AwsToken(region=REGION, **fields)()
    assert str(raised.value) == f"AWS did not issue an access token: {reason}"
    assert time.monotonic() - began_s < 10


@pytest.mark.usefixtures("keys", "sts")
def test_a_role_that_may_not_be_assumed_says_so() -> None:
    """Only AWS knows why, and the text must not show the keys."""
    with pytest.raises(ClusterError) as raised:
        AwsToken(region=REGION, role_arn=f"{ROLE}-forbidden")()
    assert "(AccessDenied) when calling the AssumeRole operation: User perf is not" in str(raised.value)
    assert KEY not in str(raised.value)


@pytest.mark.usefixtures("keys")
def test_an_api_that_does_not_answer_is_left_after_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run must not wait for as long as a library does, which tries several times."""
    monkeypatch.setattr(cloud_tokens, "_TIMEOUT_S", 1)
    with cloud_api(lambda _: None) as api:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", api.url)
        began_s = time.monotonic()
        with pytest.raises(ClusterError) as raised:
            AwsToken(region=REGION, role_arn=ROLE)()
        assert str(raised.value) == "AWS did not issue an access token: no answer within 1 s"
        assert time.monotonic() - began_s < 9


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"region": "Frankfurt"}, "AWS region 'Frankfurt': must be a region's name, such as 'eu-central-1'"),
        ({"region": None}, "AWS region None: must be a region's name, such as 'eu-central-1'"),
        (
            {"region": REGION, "sts_region": "x"},
            "AWS region 'x': must be a region's name, such as 'eu-central-1'",
        ),
        (
            {"region": REGION, "profile": "perf", "role_arn": ROLE},
            "a profile and a role are both given; use only one of them (a profile can also contain 'role_arn')",
        ),
    ],
)
def test_fields_that_contradict_or_make_no_address_are_refused(fields: dict[str, Any], problem: str) -> None:
    """A token for another address would be rejected without a reason."""
    with pytest.raises(UsageError) as raised:
        AwsToken(**fields)
    assert str(raised.value) == problem


@pytest.mark.parametrize("region", ["us-gov-west-1", "ap-southeast-2", "cn-north-1", "eusc-de-east-1"])
def test_all_kinds_of_regions_are_known(region: str) -> None:
    """AWS has more than one form of them."""
    assert AwsToken(region=region).region == region


def managed_identity(asked: Asked) -> tuple[int, str]:
    """Answer as the managed identity endpoint of Azure App Service does."""
    if asked.headers.get("x-identity-header") != "header":
        return 400, '{"statusCode": 400, "message": "No Managed Identity found"}'
    answer = {"access_token": ACCESS_TOKEN, "resource": asked.query["resource"], "token_type": "Bearer"}
    return 200, json.dumps(answer | {"expires_on": str(int(time.time()) + 3600)})


@pytest.mark.parametrize("is_known", [True, False])
def test_a_managed_identity_gives_a_token_for_azure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, is_known: bool
) -> None:
    """It needs no secret, so nobody has to keep one."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with cloud_api(managed_identity) as api:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{api.url}/msi/token")
        monkeypatch.setenv("IDENTITY_HEADER", "header" if is_known else "other")
        source = AzureToken(scope=SCOPE)
        if is_known:
            token, expires_ms = source()
            assert token == ACCESS_TOKEN
            assert expires_ms == pytest.approx((time.time() + 3600) * 1000, abs=5000)
        else:
            with pytest.raises(
                ClusterError, match="^Azure did not issue .* App Service managed identity .*invalid_scope"
            ):
                source()
    assert api.asked[0].path == "/msi/token"
    assert api.asked[0].query["resource"] == SCOPE.removesuffix("/.default")


def test_a_machine_without_an_azure_identity_shows_what_was_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Azure's list is the only hint at which kind of identity was expected."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "dev")  # nothing is asked of the network
    with pytest.raises(ClusterError) as raised:
        AzureToken(scope=SCOPE)()
    text = str(raised.value)
    assert text.startswith("Azure did not issue an access token: DefaultAzureCredential failed to retrieve a token")
    assert "AzureCliCredential: Azure CLI not found on path" in text
    assert "\n" not in text


@pytest.mark.parametrize("scope", ["", "kafka", None, "https://a b/.default"])
def test_a_scope_without_a_resource_is_refused(scope: Any) -> None:
    """Entra would say that it does not know the resource ''."""
    with pytest.raises(UsageError) as raised:
        AzureToken(scope=scope)
    assert str(raised.value) == (
        f"AzureToken(scope={scope!r}): must be a resource and its permissions, such as "
        "'https://NAMESPACE.servicebus.windows.net/.default'"
    )


@pytest.fixture(scope="module")
def private_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def decoded(part: str) -> bytes:
    assert "=" not in part
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


@pytest.mark.parametrize("is_known", [True, False])
def test_a_service_account_gives_a_token_for_google(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, private_key: rsa.RSAPrivateKey, *, is_known: bool
) -> None:
    """The brokers read who logs in from the second part, and whether it is true from the third."""
    pem = private_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()

    def token_endpoint(asked: Asked) -> tuple[int, str]:
        assert asked.form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
        claims = jwt.decode(asked.form["assertion"], RSAKey.import_key(pem), algorithms=["RS256"]).claims
        assert claims["iss"] == EMAIL
        assert claims["scope"] == "https://www.googleapis.com/auth/cloud-platform"
        if not is_known:
            return 400, '{"error": "invalid_grant", "error_description": "Invalid grant: account not found"}'
        return 200, json.dumps({"access_token": ACCESS_TOKEN, "expires_in": 3600, "token_type": "Bearer"})

    with cloud_api(token_endpoint) as api:
        account = {"type": "service_account", "client_email": EMAIL, "private_key": pem, "private_key_id": "1"}
        (tmp_path / "account.json").write_text(json.dumps(account | {"token_uri": f"{api.url}/token"}))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
        if not is_known:
            with pytest.raises(ClusterError) as raised:
                GoogleToken()()
            assert str(raised.value) == (
                "Google did not issue an access token: invalid_grant: Invalid grant: account not found"
            )
            return
        token, expires_ms = GoogleToken()()
    header, claims, access_token = map(decoded, token.split("."))
    assert json.loads(header) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    found = json.loads(claims)
    assert {type(found[name]) for name in ("exp", "iat")} == {int}
    assert expires_ms == found["exp"] * 1000 == pytest.approx((time.time() + 3600) * 1000, abs=5000)
    assert found.pop("iat") == pytest.approx(time.time(), abs=5)
    assert found.pop("exp") > time.time()
    assert found == {"iss": "Google", "scope": "kafka", "sub": EMAIL}
    assert access_token.decode() == ACCESS_TOKEN


def test_google_credentials_that_name_nobody_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The brokers need the address of an account, which a federated identity does not have."""
    answer = {"access_token": ACCESS_TOKEN, "expires_in": 3600, "token_type": "Bearer"}
    kind = "urn:ietf:params:oauth:token-type:"
    with cloud_api(lambda _: (200, json.dumps(answer | {"issued_token_type": f"{kind}access_token"}))) as api:
        (tmp_path / "subject").write_text("subject")
        federated = {
            "type": "external_account",
            "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/a/providers/b",
            "subject_token_type": f"{kind}jwt",
            "token_url": f"{api.url}/token",
            "credential_source": {"file": str(tmp_path / "subject")},
        }
        (tmp_path / "account.json").write_text(json.dumps(federated))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
        monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "shop")
        with pytest.raises(ClusterError) as raised:
            GoogleToken()()
    assert str(raised.value) == (
        "Google did not issue an access token: the credentials do not contain the address of an account; use a service "
        "account, for example with 'gcloud auth application-default login --impersonate-service-account=ADDRESS'"
    )


def test_a_missing_file_of_google_credentials_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The variable may come from somewhere else."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "gone.json"))
    with pytest.raises(ClusterError) as raised:
        GoogleToken()()
    assert str(raised.value) == f"Google did not issue an access token: File {tmp_path}/gone.json was not found."


@pytest.mark.parametrize(
    ("source", "module", "sentence"),
    [
        (
            AwsToken(region=REGION),
            "aws_msk_iam_sasl_signer",
            "logging in to Amazon MSK with IAM requires aws-msk-iam-sasl-signer-python; run: pip install "
            "'pytest-kafkaperf[aws]'",
        ),
        (
            AzureToken(scope=SCOPE),
            "azure.identity",
            "logging in with an Azure identity requires azure-identity; run: pip install 'pytest-kafkaperf[azure]'",
        ),
        (
            GoogleToken(),
            "google.auth",
            "logging in with Google's credentials requires google-auth; run: pip install 'pytest-kafkaperf[google]'",
        ),
    ],
)
def test_a_missing_package_is_one_sentence(
    source: cloud_tokens.AwsToken, module: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is an extra, which few need."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ClusterError) as raised:
        source()
    assert str(raised.value) == sentence


@pytest.mark.usefixtures("keys")
def test_a_fixture_takes_them_as_functions() -> None:
    """The provider's reason is shown as it is, and the token alone goes to other processes."""
    cluster = Cluster(
        bootstrap_servers="broker1:9098",
        client_config={"security.protocol": "SASL_SSL"},
        token=AwsToken(region=REGION),
    )
    login = cluster.access.login
    assert isinstance(login, OAuth)
    check_signature(signed_url(login.token().value.get_secret_value()), key=KEY)
    assert login.to_check == (
        "that the identity's IAM policy allows 'kafka-cluster:Connect' to this cluster, the region, and the clocks of "
        "all machines"
    )
    with pytest.raises(TypeError):
        pickle.dumps(cluster.access)
    with pytest.raises(ClusterError, match=r"^AWS did not issue an access token: The config profile \(missing\)"):
        TokenFunction(function=AwsToken(region=REGION, profile="missing")).fetch()
