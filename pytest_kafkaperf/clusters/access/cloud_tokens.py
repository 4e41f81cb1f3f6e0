"""Access tokens from cloud providers, with the providers' own libraries, which are extras.

Each class is a function for `Cluster(token=...)`: calling it returns a token and its expiry in milliseconds since 1970.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_kafkaperf.core.detached import detached
from pytest_kafkaperf.core.errors import ClusterError, UsageError, shortened
from pytest_kafkaperf.core.text import printable, repr_of

IssuedToken = tuple[str, int]
"""A token and its expiry in milliseconds since 1970."""

_TIMEOUT_S = 60
"""Time limit for a token, because the libraries look for credentials in many places, and retry for minutes."""
_STS_TIMEOUT_S = 10
"""Time limit for connecting to AWS STS, and for each part of its answer."""
_MAX_REASON = 2000
"""Maximum length of a library's reason. Azure's lists each kind of credentials with the reason why there are none."""
_LIBRARY_LOGGERS = ("azure", "boto3", "botocore", "google", "msal", "urllib3")
_REGION = r"[a-z]{2,4}(?:-[a-z]+){1,3}-[0-9]{1,2}"
_ROLE_SESSION = "pytest-kafkaperf"
"""Name of the role's use in AWS's logs. It never changes, because MSK does not allow connections to change it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsToken:
    """A signed request that proves an AWS identity to Amazon MSK, which accepts it as an access token.

    The credentials come from botocore's usual places: environment variables, profiles, containers and instances.
    Requires the extra `aws`.
    """

    to_check: ClassVar[str] = (
        "that the identity's IAM policy allows 'kafka-cluster:Connect' to this cluster, the region"
    )
    """Advice for an error message if the brokers reject the token."""

    region: str
    """The cluster's region."""
    profile: str | None = None
    """A profile in AWS's configuration files; None for the default credentials."""
    role_arn: str | None = None
    """A role that the default credentials assume; None to use them directly."""
    role_session_name: str = _ROLE_SESSION
    """A name for AWS's logs, with `role_arn`."""
    sts_region: str | None = None
    """The region whose STS endpoint issues the role's credentials; None for the cluster's region."""

    def __post_init__(self) -> None:
        """Raise `UsageError` if a region is invalid, or both a profile and a role are given."""
        for region in (self.region, self.sts_region or self.region):
            if not isinstance(region, str) or not re.fullmatch(_REGION, region):
                raise UsageError(f"AWS region {repr_of(region)}: must be a region's name, such as 'eu-central-1'")
        if self.profile is not None and self.role_arn is not None:
            raise UsageError(
                "a profile and a role are both given; use only one of them (a profile can also contain 'role_arn')"
            )

    def __call__(self) -> IssuedToken:
        """Sign a token; raise `ClusterError` if that fails."""
        return _issued("AWS", self._sign)

    def _sign(self) -> IssuedToken:
        try:
            from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415 - an extra
            from botocore.credentials import EnvProvider  # noqa: PLC0415 - the same
        except ImportError:
            raise ClusterError(
                "logging in to Amazon MSK with IAM requires aws-msk-iam-sasl-signer-python; run: pip install "
                "'pytest-kafkaperf[aws]'"
            ) from None
        provider = EnvProvider(environ=self._credentials())
        token, expires_ms = MSKAuthTokenProvider.generate_auth_token_from_credentials_provider(self.region, provider)
        return token, expires_ms

    def _credentials(self) -> dict[str, str]:
        """Return credentials as AWS's environment variables."""
        from botocore.config import Config  # noqa: PLC0415 - an extra
        from botocore.session import get_session  # noqa: PLC0415 - the same

        aws = get_session()
        if self.role_arn is not None:
            config = Config(
                connect_timeout=_STS_TIMEOUT_S, read_timeout=_STS_TIMEOUT_S, retries={"total_max_attempts": 2}
            )
            sts = aws.create_client("sts", region_name=self.sts_region or self.region, config=config)
            answer = sts.assume_role(RoleArn=self.role_arn, RoleSessionName=self.role_session_name)["Credentials"]
            values = (answer["AccessKeyId"], answer["SecretAccessKey"], answer["SessionToken"])
        else:
            aws.set_config_variable("profile", self.profile)
            found = aws.get_credentials()
            if found is None:
                raise LookupError("no credentials found; run 'aws sso login' or 'aws configure', or set AWS_PROFILE")
            values = found.get_frozen_credentials()[:3]
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        return {name: value for name, value in zip(names, values, strict=True) if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureToken:
    """A token from Microsoft Entra for a managed identity, a workload identity, or the user of the Azure CLI.

    `DefaultAzureCredential` of azure-identity finds the identity. Requires the extra `azure`.
    """

    to_check: ClassVar[str] = "that the identity has a role such as 'Azure Event Hubs Data Owner', the scope"
    """Advice for an error message if the brokers reject the token."""

    scope: str
    """The resource and its permissions, such as `https://NAMESPACE.servicebus.windows.net/.default` for Event Hubs."""

    def __post_init__(self) -> None:
        """Raise `UsageError` if the scope is invalid."""
        if not isinstance(self.scope, str) or not re.fullmatch(r"\S+/\S+", self.scope):
            raise UsageError(
                f"AzureToken(scope={repr_of(self.scope)}): must be a resource and its permissions, such as "
                "'https://NAMESPACE.servicebus.windows.net/.default'"
            )

    def __call__(self) -> IssuedToken:
        """Request a token; raise `ClusterError` if that fails."""
        return _issued("Azure", self._request)

    def _request(self) -> IssuedToken:
        try:
            from azure.identity import DefaultAzureCredential  # noqa: PLC0415 - an extra
        except ImportError:
            raise ClusterError(
                "logging in with an Azure identity requires azure-identity; run: pip install 'pytest-kafkaperf[azure]'"
            ) from None
        with DefaultAzureCredential() as credential:
            found = credential.get_token(self.scope)
        return found.token, found.expires_on * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleToken:
    """A token for Google Cloud Managed Service for Apache Kafka.

    Application Default Credentials identify the service account. Requires the extra `google`.

    The brokers expect an access token in the form of a JSON Web Token, whose third part is the access token itself
    instead of a signature. See https://cloud.google.com/managed-service-for-apache-kafka/docs/authentication-kafka,
    whose handlers for Java and other languages are in https://github.com/googleapis/managedkafka.
    """

    to_check: ClassVar[str] = "that the service account has the role 'Managed Kafka Client' in the cluster's project"
    """Advice for an error message if the brokers reject the token."""

    def __call__(self) -> IssuedToken:
        """Request a token; raise `ClusterError` if that fails."""
        return _issued("Google", self._request)

    def _request(self) -> IssuedToken:
        try:
            from google.auth import default  # noqa: PLC0415 - an extra
            from google.auth.transport.requests import Request  # noqa: PLC0415 - the same
        except ImportError:
            raise ClusterError(
                "logging in with Google's credentials requires google-auth; run: pip install 'pytest-kafkaperf[google]'"
            ) from None
        request = Request()
        credentials: Any
        credentials, _ = default(["https://www.googleapis.com/auth/cloud-platform"], request=request)
        credentials.refresh(request)
        email = getattr(credentials, "service_account_email", None) or getattr(credentials, "account", None)
        if not email:
            raise LookupError(
                "the credentials do not contain the address of an account; use a service account, for example with "
                "'gcloud auth application-default login --impersonate-service-account=ADDRESS'"
            )
        expires_s = int(credentials.expiry.replace(tzinfo=datetime.UTC).timestamp())
        header = {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
        claims = {"exp": expires_s, "iss": "Google", "iat": int(time.time()), "scope": "kafka", "sub": email}
        parts = (json.dumps(header), json.dumps(claims), credentials.token)
        return ".".join(map(_base64, parts)), expires_s * 1000


def _base64(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode("ascii")


def _issued(provider: str, fetch: Callable[[], IssuedToken]) -> IssuedToken:
    """Return a library's token, or raise `ClusterError` with its reason if it fails or takes too long."""
    with _QUIET_LOCK, _quiet():
        answer = detached(fetch)  # the libraries have no time limit for everything that they try
        is_late = not wait([answer], _TIMEOUT_S).done
    error = TimeoutError(f"no answer within {_TIMEOUT_S} s") if is_late else answer.exception()
    if error is None:
        return answer.result()
    if isinstance(error, ClusterError):
        raise error
    reason = str(error.args[0] if error.args and isinstance(error.args[0], str) else error)
    shown = printable(shortened(" ".join(reason.split()), _MAX_REASON))
    raise ClusterError(f"{provider} did not issue an access token: {shown}")


_QUIET_LOCK = threading.Lock()
"""Only one thread at a time changes the loggers' levels."""


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the libraries' logs: their most detailed level contains secrets, and others repeat our errors."""
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in _LIBRARY_LOGGERS}
    for logger in levels:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)
