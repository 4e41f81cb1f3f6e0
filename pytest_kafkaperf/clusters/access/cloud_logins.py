"""Settings of cloud providers' Java libraries, and the access tokens with which this plugin does the same.

Amazon MSK accepts OAUTHBEARER on the same ports as its own mechanism AWS_MSK_IAM, so settings for the latter are read
as settings for the former.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from pytest_kafkaperf.clusters.access.cloud_tokens import AwsToken, GoogleToken
from pytest_kafkaperf.clusters.access.jaas import read_options
from pytest_kafkaperf.core.errors import UsageError

MSK_MECHANISM = "AWS_MSK_IAM"

LOGIN_HANDLER = "sasl.login.callback.handler.class"
CLIENT_HANDLER = "sasl.client.callback.handler.class"
BOOTSTRAP_SERVERS = "bootstrap.servers"
_JAAS = "sasl.jaas.config"
_OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

_MSK = "software.amazon.msk.auth.iam."
_MSK_MODULE = f"{_MSK}IAMLoginModule"
_MSK_CLIENT = f"{_MSK}IAMClientCallbackHandler"
_MSK_HANDLER = f"{_MSK}IAMOAuthBearerLoginCallbackHandler"
_GOOGLE_HANDLER = "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"

_MSK_OPTIONS = {
    "awsProfileName": "profile",
    "awsRoleArn": "role_arn",
    "awsRoleSessionName": "role_session_name",
    "awsStsRegion": "sts_region",
}
"""Options of both of MSK's login modules, each with its field in `AwsToken`."""

_MSK_SERVER = r".+\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?(?::[0-9]+)?"
_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")


def as_oauth(values: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings of AWS_MSK_IAM as those of OAUTHBEARER, and all others unchanged.

    Raises:
        UsageError: some of the settings for AWS_MSK_IAM are missing or do not belong to it.

    """
    line = values.get(_JAAS, "")
    if values.get("sasl.mechanism") != MSK_MECHANISM:
        if line.startswith(_MSK_MODULE):
            raise UsageError(f"{_JAAS!r} uses {_MSK_MODULE}, which supports only {MSK_MECHANISM}")
        return values
    if not line.startswith(_MSK_MODULE):
        raise UsageError(f"{MSK_MECHANISM} requires {_JAAS!r} to be {_MSK_MODULE} required;")
    if values.get(CLIENT_HANDLER) != _MSK_CLIENT:
        raise UsageError(f"{MSK_MECHANISM} requires {CLIENT_HANDLER!r} to be {_MSK_CLIENT}")
    if LOGIN_HANDLER in values:
        raise UsageError(f"{LOGIN_HANDLER!r} has no effect with {MSK_MECHANISM}; leave it out")
    line = _OAUTH_MODULE + line.removeprefix(_MSK_MODULE)
    others = {name: value for name, value in values.items() if name != CLIENT_HANDLER}
    return others | {"sasl.mechanism": "OAUTHBEARER", _JAAS: line, LOGIN_HANDLER: _MSK_HANDLER}


def read_cloud_token(values: Mapping[str, str], oauth_settings: tuple[str, ...]) -> AwsToken | GoogleToken | None:
    """Return the tokens of the login handler in the settings; None if it is not a cloud provider's.

    Args:
        values: the settings.
        oauth_settings: the names of the settings that only OAUTHBEARER has.

    Raises:
        UsageError: other settings contradict the handler, or the region of an MSK cluster is unknown.

    """
    handler = values.get(LOGIN_HANDLER)
    if handler not in (_MSK_HANDLER, _GOOGLE_HANDLER):
        return None
    # MSK's documentation sets this handler twice.
    allowed = (LOGIN_HANDLER, CLIENT_HANDLER) if values.get(CLIENT_HANDLER) == _MSK_HANDLER else (LOGIN_HANDLER,)
    unused = [repr(name) for name in oauth_settings if name in values and name not in allowed]
    if unused:
        raise UsageError(f"with {LOGIN_HANDLER!r} {handler}, leave out {', '.join(unused)}")
    options = read_options(values.get(_JAAS, f"{_OAUTH_MODULE} required;"), _OAUTH_MODULE)
    if handler == _GOOGLE_HANDLER:
        if options != {}:
            raise UsageError(f"{_JAAS!r} must be {_OAUTH_MODULE} required; without options")
        return GoogleToken()
    if options is None or options.keys() - _MSK_OPTIONS.keys():
        raise UsageError(
            f"{_JAAS!r} cannot be read, or contains options that are not supported; use only {', '.join(_MSK_OPTIONS)}"
        )
    given = {_MSK_OPTIONS[name]: value for name, value in options.items() if value}
    return AwsToken(region=_region(values.get(BOOTSTRAP_SERVERS, "")), **given)


def _region(servers: str) -> str:
    """Return the AWS region in the servers' host names, or else in the environment."""
    matches = (re.fullmatch(_MSK_SERVER, server.strip(), re.IGNORECASE) for server in servers.split(","))
    found = {match[1].lower() for match in matches if match is not None}
    if len(found) == 1:
        return found.pop()
    for name in _REGION_VARIABLES:
        if os.environ.get(name):
            return os.environ[name]
    raise UsageError(
        f"the AWS region cannot be read from the servers ({servers or 'none'}); set the environment variable "
        "AWS_REGION, for example to eu-central-1"
    )
