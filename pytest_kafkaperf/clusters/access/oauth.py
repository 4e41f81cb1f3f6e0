"""OAUTHBEARER logins (RFC 7628), and their conversion from Kafka's settings `sasl.oauthbearer.*`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import SecretStr

from pytest_kafkaperf.clusters.access.cloud_logins import CLIENT_HANDLER, LOGIN_HANDLER, read_cloud_token
from pytest_kafkaperf.clusters.access.cloud_tokens import AwsToken, AzureToken, GoogleToken
from pytest_kafkaperf.clusters.access.jaas import escaped, jaas_line, read_options
from pytest_kafkaperf.clusters.access.tokens import (
    ENCODES,
    ClientCredentials,
    FixedToken,
    PushedToken,
    Token,
    TokenFile,
    TokenFunction,
    Tokens,
    claims_of,
    describe,
)
from pytest_kafkaperf.core.errors import ClusterError, UsageError

ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_SCOPE = "sasl.oauthbearer.scope"
_ID, _SECRET = (f"sasl.oauthbearer.client.credentials.client.{name}" for name in ("id", "secret"))
_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"

OAUTH_SETTINGS = (CLIENT_HANDLER, LOGIN_HANDLER, _ID, _SECRET, ENCODES, _RETRIEVER, _SCOPE, ENDPOINT)
"""Settings that only OAUTHBEARER logins have, under their names in Kafka 4 (KIP-1139)."""

_CLASSES = {
    CLIENT_HANDLER: ("org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerSaslClientCallbackHandler",),
    LOGIN_HANDLER: (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    ),
    _RETRIEVER: tuple(
        f"org.apache.kafka.common.security.oauthbearer.{name}"
        for name in ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever")
    ),
}
"""Settings whose values are Java classes, each with the classes that do the same as this plugin."""

_JAAS_NAMES = {"clientId": _ID, "clientSecret": _SECRET, "scope": _SCOPE}
"""Options of the login module in Kafka before 4.1, each with its setting in later versions."""

_EXTENSION = "extension_"
"""Prefix of options that are sent with the token as SASL extensions (KIP-342)."""

TOKEN_URL_VARIABLE = "KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL"  # noqa: S105 - the name of a variable
OAUTH_VARIABLES = (
    TOKEN_URL_VARIABLE,
    "KAFKA_SASL_OAUTHBEARER_CLIENT_ID",
    "KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET",
    "KAFKA_SASL_OAUTHBEARER_SCOPE",
    "KAFKA_SASL_OAUTHBEARER_HEADER_URLENCODE",
)


class Hidden(str):
    """Secret whose repr is hidden, even inside a mapping, because tracebacks print the repr of values."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


@dataclass(frozen=True, kw_only=True)
class OAuth:
    """An OAUTHBEARER login, which sends an access token to the broker."""

    module: ClassVar[str] = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    """Kafka's login module."""

    source: ClientCredentials | TokenFile | TokenFunction | FixedToken | PushedToken
    mechanism: Literal["OAUTHBEARER"] = "OAUTHBEARER"
    extensions: Mapping[str, str] = field(default_factory=dict)
    """SASL extensions, by name."""

    def __post_init__(self) -> None:
        """Create the cache of tokens, which copies of this login in the same process do not share."""
        object.__setattr__(self, "tokens", Tokens(self.source))

    tokens: ClassVar[Tokens]
    """The current token; each login has its own."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Send the source to another process, which it may refuse, but no tokens."""
        return _restored, (self.source, dict(self.extensions))

    def token(self) -> Token:
        """Return a valid token; raise `ClusterError` if there is none."""
        return self.source.fetch() if isinstance(self.source, PushedToken) else self.tokens.current()

    def log_in(self) -> None:
        """Get a token, so that a problem is reported before connecting; raise `ClusterError` if there is none."""
        self.token()

    @property
    def principal(self) -> str:
        """The user name in Kafka's ACLs, which brokers take from the token by default."""
        try:
            subject = claims_of(self.token().value.get_secret_value()).get("sub")
        except ClusterError:
            subject = None
        return subject if isinstance(subject, str) else "SUBJECT-OF-THE-TOKEN"

    @property
    def to_check(self) -> str:
        """Settings to mention in the error message if the cluster rejects the login, because they may be wrong."""
        if isinstance(self.source, TokenFunction) and isinstance(
            self.source.function, AwsToken | AzureToken | GoogleToken
        ):
            return f"{self.source.function.to_check}, and the clocks of all machines"
        try:
            described = describe(self.token().value.get_secret_value())
        except ClusterError:
            described = ""
        claims = f" (the token has {described})" if described else ""
        return (
            f"the issuer, audience and scope that the brokers expect{claims}, the clocks of all machines, and "
            "'sasl.oauthbearer.*'"
        )

    def arguments(self) -> dict[str, Any]:
        """Return keyword arguments for aiokafka's clients; their repr does not show secrets."""
        from pytest_kafkaperf.clusters.admin.relogin import TokenProvider, use_relogin  # noqa: PLC0415 - aiokafka

        use_relogin()
        provider = TokenProvider(self.token, self.extensions)
        return {"sasl_mechanism": self.mechanism, "sasl_oauth_token_provider": provider}

    def variables(self) -> dict[str, str | None]:
        """Return environment variables for applications; their repr does not show secrets."""
        found: dict[str, str | None] = {"KAFKA_SASL_MECHANISM": self.mechanism}
        match self.source:
            case ClientCredentials(endpoint=endpoint, client_id=client_id, client_secret=secret, scope=scope) as given:
                encodes = "true" if given.encodes else None
                values = (endpoint, client_id, Hidden(secret.get_secret_value()), scope, encodes)
                found |= dict(zip(OAUTH_VARIABLES, values, strict=True))
            case TokenFile(path=path):
                found[TOKEN_URL_VARIABLE] = path.absolute().as_uri()
        return found

    def token_for_file(self) -> str | None:
        """Return the token that an application must read from a file; None if the application can get its own."""
        if isinstance(self.source, ClientCredentials | TokenFile):
            return None
        return self.token().value.get_secret_value()

    def jaas_line(self) -> str:
        """Return the value of `sasl.jaas.config`."""
        options: dict[str, str] = {}
        if isinstance(self.source, ClientCredentials):
            options = {"clientId": self.source.client_id, "clientSecret": self.source.client_secret.get_secret_value()}
            if self.source.scope is not None:
                options["scope"] = self.source.scope
        return jaas_line(self.module, options | {f"{_EXTENSION}{name}": text for name, text in self.extensions.items()})

    def secrets(self) -> set[str]:
        """Return texts that must never be shown."""
        known = self.tokens.secrets()
        return known | {escaped(each) for each in known}


def _restored(source: PushedToken | FixedToken, extensions: Mapping[str, str]) -> OAuth:
    return OAuth(source=source, extensions=extensions)


def read_oauth(values: Mapping[str, str]) -> OAuth:
    """Return the login in the settings; raise `UsageError` with a problem that does not quote secrets."""
    cloud_token = read_cloud_token(values, OAUTH_SETTINGS)
    if cloud_token is not None:
        return OAuth(source=TokenFunction(function=cloud_token))
    options, extensions = _options(values)
    for name, classes in _CLASSES.items():
        if values.get(name, classes[0]) not in classes:
            raise UsageError(
                f"{name!r} is a class that this plugin cannot run; use {classes[0]}, or get tokens with your own "
                "function: Cluster(token=...) in a kafka_cluster fixture"
            )
    endpoint = values.get(ENDPOINT)
    if endpoint is None:
        raise UsageError(f"{ENDPOINT!r} is missing; give the URL from which clients get their tokens")
    encodes = values.get(ENCODES)
    if encodes is not None and encodes.lower() not in ("true", "false"):
        raise UsageError(f"{ENCODES!r} must be true or false, not {encodes!r}")
    return OAuth(source=_endpoint_source(endpoint, options, encodes), extensions=extensions)


def _endpoint_source(endpoint: str, options: Mapping[str, str], encodes: str | None) -> ClientCredentials | TokenFile:
    parts = urlsplit(endpoint)
    if parts.scheme == "file" and parts.path.startswith("/") and not options and encodes is None:
        return TokenFile(path=Path(parts.path))
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise UsageError(
            f"{ENDPOINT!r} must be an http:// or https:// URL without a login, or the file:///... URL of a token file "
            "without client credentials"
        )
    for name in (_ID, _SECRET):
        if name not in options:
            jaas = next(option for option, setting in _JAAS_NAMES.items() if setting == name)
            raise UsageError(f"{name!r} is missing; give it, or {jaas}=\"...\" in 'sasl.jaas.config'")
    return ClientCredentials(
        endpoint=endpoint,
        client_id=options[_ID],
        client_secret=SecretStr(options[_SECRET]),
        scope=options.get(_SCOPE),
        encodes=encodes is not None and encodes.lower() == "true",
    )


def _options(values: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the credentials by the name of their setting, and the SASL extensions by name."""
    found = {name: values[name] for name in (_ID, _SECRET, _SCOPE) if name in values}
    line = values.get("sasl.jaas.config", f"{OAuth.module} required;")
    options = read_options(line, OAuth.module) if line.startswith(OAuth.module) else None
    valid = ", ".join((*_JAAS_NAMES, f"{_EXTENSION}NAME"))
    if options is None:
        raise UsageError(
            f'\'sasl.jaas.config\' cannot be read; write {OAuth.module} required clientId="..." clientSecret="..."; '
            'with \\" and \\\\ for " and \\ in the values (in a properties file, write each \\ twice)'
        )
    extensions = {name.removeprefix(_EXTENSION): text for name, text in options.items() if name.startswith(_EXTENSION)}
    if options.keys() - _JAAS_NAMES.keys() - {f"{_EXTENSION}{name}" for name in extensions}:
        raise UsageError(f"'sasl.jaas.config' contains options that are not supported; use only {valid}")
    for option, name in _JAAS_NAMES.items():
        if option in options and name in found:
            raise UsageError(f"{name!r} and {option} in 'sasl.jaas.config' are both given; use only one of them")
        if options.get(option):
            found[name] = options[option]
    return found, extensions


def function_login(function: Callable[[], object], values: Mapping[str, str]) -> OAuth:
    """Return a login with tokens from a user's function; raise `UsageError` if other settings contradict it."""
    mechanism = values.get("sasl.mechanism", "OAUTHBEARER")
    if mechanism != "OAUTHBEARER":
        raise UsageError(f"'token' requires 'sasl.mechanism' OAUTHBEARER, not {mechanism!r}")
    options, extensions = _options(values)
    if options or any(name in values for name in OAUTH_SETTINGS):
        raise UsageError("'token' and client credentials or a token endpoint are both given; use only one of them")
    return OAuth(source=TokenFunction(function=function), extensions=extensions)
