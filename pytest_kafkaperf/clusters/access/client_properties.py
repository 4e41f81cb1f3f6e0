"""Access settings, from a properties file (`--kafka-client-config`) or a fixture's keyword arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast, get_args

from pydantic import SecretStr

from pytest_kafkaperf.clusters.access.access import HOSTNAME, Access, Protocol, content_of
from pytest_kafkaperf.clusters.access.cloud_logins import BOOTSTRAP_SERVERS, MSK_MECHANISM, as_oauth
from pytest_kafkaperf.clusters.access.kerberos import KERBEROS_SETTINGS
from pytest_kafkaperf.clusters.access.logins import (
    JAVA_SPACE,
    MAX_SHOWN,
    Login,
    password_login,
    read_login,
    read_mechanism,
)
from pytest_kafkaperf.clusters.access.oauth import OAUTH_SETTINGS, function_login
from pytest_kafkaperf.core.errors import UsageError, nearest, nearest_if_alike, shortened
from pytest_kafkaperf.core.text import printable

if TYPE_CHECKING:
    from javaproperties import PropertiesElement


def read_client_properties(path: Path, *, servers: str = "") -> Access:
    """Read a client properties file, such as the `--command-config` files for Kafka's own tools.

    Args:
        path: the file.
        servers: the cluster's `HOST:PORT[,HOST:PORT...]`; empty to use those in the file.

    Raises:
        UsageError: the file cannot be read or has invalid settings; the message lists all problems.

    """
    problem = ""
    try:
        return _read_file(path, servers)
    except UsageError as error:
        problem = str(error)
    raise UsageError(printable(problem))  # a new error: the first one's traceback would show the file's secrets


def _read_file(path: Path, servers: str) -> Access:
    import javaproperties  # noqa: PLC0415 - only for files

    try:
        text = content_of(path).decode("latin-1")  # Java's encoding of properties files; accepts any bytes
    except UsageError as error:
        raise UsageError(f"client properties {error}") from None
    if "\0" in text:
        raise UsageError(f"client properties {path}: not a text file; give a Java properties file, not a keystore")
    try:
        given = {
            entry.key: (entry.value, f"line {number}")
            for number, entry in _numbered(javaproperties.parse(text))
            if isinstance(entry, javaproperties.KeyValue)
        }
    except javaproperties.InvalidUEscapeError:
        raise UsageError(
            f"client properties {path}: \\u must be followed by four hexadecimal digits; write a backslash as \\\\"
        ) from None
    return read_settings(_at(servers, given), origin=f"client properties {path}", folder=path.parent)


def _at(servers: str, given: Mapping[str, tuple[str, str]]) -> Mapping[str, tuple[str, str]]:
    """Return the settings with the servers that are used; without any, return them unchanged."""
    return {**given, BOOTSTRAP_SERVERS: (servers, "")} if servers else given


def _numbered(elements: Iterator[PropertiesElement]) -> Iterator[tuple[int, PropertiesElement]]:
    """Yield a properties file's elements, each with the line on which it starts."""
    number = 1
    for element in elements:
        yield number, element
        number += len(re.findall(r"\r\n|\r|\n", element.source))


def read_access(
    given: Mapping[str, object], *, origin: str, folder: Path, token: TokenFrom | None = None, servers: str = ""
) -> Access:
    """Read access settings from a fixture, under aiokafka's argument names or Kafka's names with dots.

    Args:
        given: the names and values.
        origin: the source of the settings, for error messages.
        folder: the folder to which paths are relative.
        token: a function that returns access tokens; None if the settings describe the login.
        servers: the cluster's `HOST:PORT[,HOST:PORT...]`; empty to use those in the settings.

    Raises:
        UsageError: a setting is invalid; the message lists all problems.

    """
    problem = ""
    try:
        return _read_mapping(given, origin=origin, folder=folder, token=token, servers=servers)
    except UsageError as error:
        problem = str(error)
    del given
    raise UsageError(problem)  # a new error: the first one's traceback would show secrets


def _read_mapping(
    given: Mapping[str, object], *, origin: str, folder: Path, token: TokenFrom | None, servers: str
) -> Access:
    problems: list[str] = []
    named = {name: value for name, value in given.items() if value is not None}
    if named.pop("ssl_context", None) is not None:
        problems.append(
            "'ssl_context' cannot be sent to worker processes; give 'ssl.truststore.location' instead, and "
            f"'ssl.keystore.location' for the client's own certificate ('{HOSTNAME}': '' turns off host name checks)"
        )
    if named.pop("sasl_oauth_token_provider", None) is not None:
        problems.append(
            "'sasl_oauth_token_provider' cannot be sent to worker processes; give a function that returns a token "
            "instead: Cluster(token=...)"
        )
    texts: dict[str, str] = {}
    for name, value in named.items():
        text = _text(value)
        dotted_name = dotted(name)
        if text is None:
            problems.append(f"{shown(name)} is a {type(value).__name__}; give text or a whole number")
        elif dotted_name in texts:
            problems.append(f"{shown(dotted_name)} is given in two spellings; use only one of them")
        else:
            texts[dotted_name] = text
    problems += _fold_login(texts)
    settings = _at(servers, {name: (text, "") for name, text in texts.items()})
    return read_settings(settings, origin=origin, folder=folder, already=tuple(problems), token=token)


def _text(value: object) -> str | None:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Path):
        return str(value)
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else None


def _fold_login(texts: dict[str, str]) -> Iterator[str]:
    """Replace aiokafka's user name and password in `texts` with one `sasl.jaas.config`; yield any problems."""
    username, password = texts.pop("sasl_plain_username", None), texts.pop("sasl_plain_password", None)
    if username is None and password is None:
        return
    if not texts.get("security.protocol", "").upper().startswith("SASL_"):
        yield "'sasl_plain_username' and 'sasl_plain_password' require 'security_protocol' SASL_PLAINTEXT or SASL_SSL"
        return
    instead = _INSTEAD_OF_PASSWORDS.get(texts.get("sasl.mechanism", ""))
    if instead is not None:
        mechanism = texts["sasl.mechanism"]
        yield f"'sasl_plain_username' and 'sasl_plain_password' have no effect with {mechanism}; give {instead}"
        return
    if username is None or password is None:
        missing = "sasl_plain_username" if username is None else "sasl_plain_password"
        yield f"'{missing}' is missing; give both user name and password"
    elif "sasl.jaas.config" in texts:
        yield "'sasl_plain_username' and 'sasl.jaas.config' are both given; use only one of them"
    mechanism = texts.setdefault("sasl.mechanism", "PLAIN")  # aiokafka's default, not Kafka's
    # This is done even if a part is missing, which is already reported; an incomplete setting would be reported again.
    login = password_login(mechanism, username or "", password or "")
    texts.setdefault("sasl.jaas.config", login.jaas_line())


_INSTEAD_OF_PASSWORDS = {
    "OAUTHBEARER": "client credentials, or a function: Cluster(token=...)",
    "GSSAPI": "a keytab or a ticket cache in 'sasl.jaas.config'",
}
"""Mechanisms without a user name and a password, each with what its logins use."""

_T = TypeVar("_T")
_P = ParamSpec("_P")

_MAX_INT = (1 << 31) - 1

_NUMBERS = {"connections.max.idle.ms": 1, "metadata.max.age.ms": 1, "request.timeout.ms": 1, "retry.backoff.ms": 0}
"""Numeric settings that all of aiokafka's clients accept, each with its minimum."""

_OPTIONS = ("client.id", *_NUMBERS)

_LOGIN = ("sasl.jaas.config", "sasl.mechanism")

_STORES = (
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)

TokenFrom = Callable[[], object]
"""Function that returns an access token."""

_OF_ONE_MECHANISM = dict.fromkeys(OAUTH_SETTINGS, ("OAUTHBEARER", MSK_MECHANISM)) | dict.fromkeys(
    KERBEROS_SETTINGS, ("GSSAPI",)
)
"""Settings of some mechanisms only, each with these mechanisms."""

_NAMES = tuple(
    sorted(("security.protocol", HOSTNAME, BOOTSTRAP_SERVERS, *_LOGIN, *_OF_ONE_MECHANISM, *_STORES, *_OPTIONS))
)
"""All supported settings. Properties files often contain the servers, but those of `--kafka-cluster` are used."""

_MAX_NAMED = 20
"""Maximum number of unsupported settings to list in an error, because the file may not be a client file at all."""

_SHORT_NAMES = ("acks", "retries")
"""Kafka's setting names without a dot. Other words without a dot are hidden, because they may be part of a secret that
contains a line break."""


def read_settings(
    given: Mapping[str, tuple[str, str]],
    *,
    origin: str,
    folder: Path,
    already: tuple[str, ...] = (),
    token: TokenFrom | None = None,
) -> Access:
    """Validate settings.

    Args:
        given: for each name, the value and its position for error messages; the position may be empty.
        origin: the source of the settings, for error messages.
        folder: the folder to which paths are relative.
        already: problems found earlier.
        token: a function that returns access tokens; None if the settings describe the login.

    Raises:
        UsageError: a setting is invalid; the message lists all problems.

    """
    problems = _Problems([*already, *_unsupported({name: place for name, (_, place) in given.items()})])
    values = _usable({name: value for name, (value, _) in given.items() if name in _NAMES}, problems)
    protocol = problems.attempt(_protocol, values)
    if protocol is not None:
        problems.texts += _without_effect(values, protocol)
    if token is None:
        login = _login(values, protocol, folder, problems)
    else:
        login = _with_tokens(token, values, protocol, problems)
    checks_hostname = problems.attempt(_checks_hostname, values)
    uses_tls = protocol is None or protocol.endswith("SSL")
    tls = _tls(values, folder, problems) if uses_tls else _Tls()
    options = _options(values, problems.texts)
    if problems.texts:
        raise UsageError(f"{origin}: {'; '.join(problems.texts)}")
    return Access(
        protocol=cast("Protocol", protocol),
        login=login,
        trusted=tls.trusted,
        certificate=tls.certificate,
        key=tls.key,
        check_hostname=not uses_tls or checks_hostname is not False,
        options=options,
    )


class _Problems:
    """All problems with the settings, collected so a single error can list them."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = [*texts]

    def attempt(self, read: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T | None:
        """Return the result of `read`; if `read` fails, add its error to the problems and return None."""
        try:
            return read(*args, **kwargs)
        except UsageError as error:
            self.texts.append(str(error))
            return None


def _usable(given: Mapping[str, str], problems: _Problems) -> dict[str, str]:
    """Return the values that are text; empty values count as missing unless an empty value has a meaning."""
    values = {}
    for name, text in given.items():
        value = text.strip(JAVA_SPACE)
        if not _is_text(value):
            problems.texts.append(f"{name!r} contains a NUL or an unpaired surrogate; give valid text")
        elif value or name == HOSTNAME:
            values[name] = value
    return values


def _login(values: Mapping[str, str], protocol: Protocol | None, folder: Path, problems: _Problems) -> Login | None:
    """Read the login. If the protocol is invalid, any login setting is taken to mean that a login is intended."""
    given = any(name in values for name in (*_LOGIN, *OAUTH_SETTINGS, *KERBEROS_SETTINGS))
    if not (given if protocol is None else protocol.startswith("SASL_")):
        return None
    translated = problems.attempt(as_oauth, values)
    if translated is None:
        return None
    mechanism = problems.attempt(read_mechanism, translated)
    return problems.attempt(read_login, translated, mechanism, folder)


def _with_tokens(
    token: TokenFrom, values: Mapping[str, str], protocol: Protocol | None, problems: _Problems
) -> Login | None:
    if protocol is not None and not protocol.startswith("SASL_"):
        problems.texts.append("'token' requires 'security.protocol' SASL_SSL or SASL_PLAINTEXT")
    return problems.attempt(function_login, token, values)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tls:
    """Certificates and key, in PEM format."""

    trusted: str | None = None
    certificate: str | None = None
    key: SecretStr | None = None


def _tls(values: Mapping[str, str], folder: Path, problems: _Problems) -> _Tls:
    from pytest_kafkaperf.clusters.access.stores import read_own, read_trusted  # noqa: PLC0415 - cryptography

    trusted = problems.attempt(read_trusted, values, folder)
    own = problems.attempt(read_own, values, folder)
    if own is None:
        return _Tls(trusted=trusted)
    certificate, key = own
    return _Tls(trusted=trusted, certificate=certificate, key=SecretStr(key))


def _is_text(value: str) -> bool:
    return re.search("[\0\ud800-\udfff]", value) is None


def _protocol(values: Mapping[str, str]) -> Protocol:
    given = shortened(values.get("security.protocol", "PLAINTEXT"), MAX_SHOWN)
    if given.upper() not in get_args(Protocol):
        raise UsageError(f"'security.protocol' is {given!r}; {nearest(given.upper(), get_args(Protocol))}")
    return cast("Protocol", given.upper())


def _without_effect(values: Mapping[str, str], protocol: Protocol) -> Iterator[str]:
    """Yield problems for login or certificate settings that do not match the protocol, one of which is wrong."""
    for name, mechanisms in _OF_ONE_MECHANISM.items():
        given = values.get("sasl.mechanism", mechanisms[0])
        if name in values and protocol.startswith("SASL_") and given not in mechanisms:
            yield f"{name!r} has no effect with 'sasl.mechanism' {given}; use {mechanisms[0]}, or leave it out"
    for names, protocols, is_used in (
        ((*_LOGIN, *_OF_ONE_MECHANISM), "SASL_PLAINTEXT or SASL_SSL", protocol.startswith("SASL_")),
        (_STORES, "SSL or SASL_SSL", protocol.endswith("SSL")),
    ):
        unused = [repr(name) for name in names if name in values and not is_used]
        if unused:
            yield (
                f"{', '.join(unused)} {'has' if len(unused) == 1 else 'have'} no effect with 'security.protocol' "
                f"{protocol}; use {protocols}, or leave {'it' if len(unused) == 1 else 'them'} out"
            )


def _checks_hostname(values: Mapping[str, str]) -> bool:
    given = values.get(HOSTNAME, "https").lower()
    if given not in ("", "https"):
        raise UsageError(f"'{HOSTNAME}' must be 'https' or empty")
    return given == "https"


def _options(values: Mapping[str, str], problems: list[str]) -> dict[str, int | str]:
    options: dict[str, int | str] = {}
    for name in _OPTIONS:
        value = values.get(name)
        if value is None:
            continue
        minimum = _NUMBERS.get(name)
        if minimum is None:
            options[name.replace(".", "_")] = value
        elif re.fullmatch(r"[0-9]{1,10}", value) and minimum <= int(value) <= _MAX_INT:
            options[name.replace(".", "_")] = int(value)
        else:
            problems.append(f"{name!r} is not a whole number from {minimum} to {_MAX_INT}")
    return options


def dotted(name: str) -> str:
    """Return Kafka's name with dots for a parameter in aiokafka's spelling."""
    with_dots = name.replace("_", ".")
    return with_dots if with_dots in _NAMES else name


def _unsupported(places: Mapping[str, str]) -> Iterator[str]:
    """Yield problems for unsupported settings; `places` contains each name's position, which may be empty."""
    unknown = [name for name in places if name not in _NAMES]
    if not unknown:
        return
    for name in unknown[:_MAX_NAMED]:
        hint = nearest_if_alike(name, _NAMES) if _is_name(name) else None
        near = f": {hint}" if hint else ""
        yield f"{shown(name, places[name])} is not supported{near}"
    if len(unknown) > _MAX_NAMED:
        yield f"{len(unknown) - _MAX_NAMED} more are not supported"
    yield (
        f"valid names are {', '.join(map(repr, _NAMES))}: remove the others, and set producer and consumer options in "
        "the scenario, its producer_config or its consumer_config"
    )


def shown(name: str, place: str = "") -> str:
    """Return a name with its position for an error message; a name that may be part of a secret is replaced."""
    position = f" ({place})" if place else ""
    return f"{name!r}{position}" if _is_name(name) else f"a key that looks like part of a broken value{position}"


def _is_name(name: str) -> bool:
    return name in _SHORT_NAMES or re.fullmatch(r"[a-z]{1,24}([._][a-z0-9]{1,24}){1,8}", name) is not None
