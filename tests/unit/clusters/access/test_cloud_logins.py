"""Settings for the Java libraries of cloud providers: users paste what their Java clients have."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_kafkaperf import AwsToken, Cluster, GoogleToken
from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.client_properties import read_client_properties
from pytest_kafkaperf.clusters.access.oauth import OAuth
from pytest_kafkaperf.clusters.access.tokens import TokenFunction
from tests.support.client_files import OAUTH, PLAIN, SECRET, refused, written

MSK = "software.amazon.msk.auth.iam"
CLIENT = "sasl.client.callback.handler.class"
LOGIN = "sasl.login.callback.handler.class"
SERVERS = "b-1.shop.k8xyz1.c2.kafka.eu-central-1.amazonaws.com:9098"
IAM = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": f"{MSK}.IAMLoginModule required;",
    CLIENT: f"{MSK}.IAMClientCallbackHandler",
}
IAM_OAUTH = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": f"{OAUTH} required;",
    LOGIN: f"{MSK}.IAMOAuthBearerLoginCallbackHandler",
    CLIENT: f"{MSK}.IAMOAuthBearerLoginCallbackHandler",
}
GOOGLE = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": f"{OAUTH} required;",
    LOGIN: "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler",
}
ROLE = "arn:aws:iam::123456789012:role/perf"


@pytest.fixture(autouse=True)
def no_region(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)


def with_tokens(source: AwsToken | GoogleToken) -> Access:
    return Access(protocol="SASL_SSL", login=OAuth(source=TokenFunction(function=source)))


@pytest.mark.parametrize("settings", [IAM, IAM_OAUTH, {name: IAM_OAUTH[name] for name in IAM_OAUTH if name != CLIENT}])
@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ("", {}),
        (' awsProfileName="perf"', {"profile": "perf"}),
        (" awsProfileName=perf", {"profile": "perf"}),
        (f' awsRoleArn="{ROLE}"', {"role_arn": ROLE}),
        (
            f' awsRoleArn="{ROLE}" awsRoleSessionName="producer" awsStsRegion="us-west-2"',
            {"role_arn": ROLE, "role_session_name": "producer", "sts_region": "us-west-2"},
        ),
    ],
)
def test_both_mechanisms_of_msk_are_the_same_login(
    settings: dict[str, str], options: str, fields: dict[str, str], tmp_path: Path
) -> None:
    """MSK accepts OAUTHBEARER on the same port, so the file for Java clients must do as it is."""
    line = settings["sasl.jaas.config"].replace(" required", f" required{options}")
    file = written(tmp_path, settings | {"sasl.jaas.config": line})
    assert read_client_properties(file, servers=SERVERS) == with_tokens(AwsToken(region="eu-central-1", **fields))


@pytest.mark.parametrize(
    ("servers", "region"),
    [
        (SERVERS, "eu-central-1"),
        (f"{SERVERS},{SERVERS.replace('b-1', 'b-2')}", "eu-central-1"),
        ("B-1.shop.k8.c2.kafka.us-gov-west-1.AmazonAWS.com:9198", "us-gov-west-1"),
        ("boot-ab12.c1.kafka-serverless.us-east-1.amazonaws.com:9098", "us-east-1"),
        ("b-1.shop.k8.c2.kafka.cn-north-1.amazonaws.com.cn:9098", "cn-north-1"),
        ("kafka.shop.example:9098", "ap-south-1"),
        ("127.0.0.1:9098", "ap-south-1"),
    ],
)
def test_the_region_is_in_the_names_of_the_brokers(
    servers: str, region: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java clients know it from there; a token for another region is rejected without a reason."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "ap-south-1")
    access = read_client_properties(written(tmp_path, IAM), servers=servers)
    assert access == with_tokens(AwsToken(region=region))


def test_the_servers_that_are_used_decide_the_region(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file may be for another cluster; those in it count only if there are no others."""
    file = written(tmp_path, IAM | {"bootstrap.servers": SERVERS})
    assert read_client_properties(file) == with_tokens(AwsToken(region="eu-central-1"))
    other = SERVERS.replace("eu-central-1", "us-east-1")
    assert read_client_properties(file, servers=other) == with_tokens(AwsToken(region="us-east-1"))
    assert Cluster(bootstrap_servers=other, client_config=IAM).access == with_tokens(AwsToken(region="us-east-1"))
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    assert read_client_properties(written(tmp_path, IAM)) == with_tokens(AwsToken(region="eu-west-3"))


def test_googles_handler_is_a_login(tmp_path: Path) -> None:
    """It has no settings: the machine's credentials decide who logs in."""
    assert read_client_properties(written(tmp_path, GOOGLE)) == with_tokens(GoogleToken())


def without(settings: dict[str, str], name: str) -> dict[str, str]:
    return {each: value for each, value in settings.items() if each != name}


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            IAM | {"bootstrap.servers": "broker1:9098"},
            "the AWS region cannot be read from the servers (broker1:9098); set the environment variable AWS_REGION, "
            "for example to eu-central-1",
        ),
        (without(IAM, CLIENT), f"AWS_MSK_IAM requires '{CLIENT}' to be {MSK}.IAMClientCallbackHandler"),
        (
            IAM | {"sasl.jaas.config": f'{PLAIN} required username="a" password="{SECRET}";'},
            f"AWS_MSK_IAM requires 'sasl.jaas.config' to be {MSK}.IAMLoginModule required;",
        ),
        (IAM | {LOGIN: IAM_OAUTH[LOGIN]}, f"'{LOGIN}' has no effect with AWS_MSK_IAM; leave it out"),
        (
            IAM | {"sasl.mechanism": "PLAIN"},
            f"'{CLIENT}' has no effect with 'sasl.mechanism' PLAIN; use OAUTHBEARER, or leave it out; "
            f"'sasl.jaas.config' uses {MSK}.IAMLoginModule, which supports only AWS_MSK_IAM",
        ),
        (
            IAM | {"sasl.jaas.config": f'{MSK}.IAMLoginModule required awsRoleSecretAccessKey="{SECRET}";'},
            "'sasl.jaas.config' cannot be read, or contains options that are not supported; use only awsProfileName, "
            "awsRoleArn, awsRoleSessionName, awsStsRegion",
        ),
        (
            IAM | {"sasl.jaas.config": f'{MSK}.IAMLoginModule required awsProfileName={SECRET}";'},
            "'sasl.jaas.config' cannot be read, or contains options that are not supported; use only awsProfileName, "
            "awsRoleArn, awsRoleSessionName, awsStsRegion",
        ),
        (
            IAM_OAUTH | {"sasl.oauthbearer.token.endpoint.url": "https://login.example/token"},
            f"with '{LOGIN}' {IAM_OAUTH[LOGIN]}, leave out 'sasl.oauthbearer.token.endpoint.url'",
        ),
        (
            GOOGLE | {CLIENT: "example.Other"},
            f"with '{LOGIN}' {GOOGLE[LOGIN]}, leave out '{CLIENT}'",
        ),
        (
            GOOGLE | {"sasl.jaas.config": f'{OAUTH} required clientSecret="{SECRET}";'},
            f"'sasl.jaas.config' must be {OAUTH} required; without options",
        ),
    ],
)
def test_what_would_not_be_the_same_login_is_refused(settings: dict[str, str], problem: str, tmp_path: Path) -> None:
    """A run must not log in as somebody else than the Java client with this file."""
    assert refused(tmp_path, {"bootstrap.servers": SERVERS} | settings) == problem
