"""SASL logins, and their conversion from Kafka's settings `sasl.mechanism` and `sasl.jaas.config`.

To add a login, write a class with the same members as `Plain` and add it to `Login`. Then add its mechanism to
`Mechanism` and its environment variables to `LOGIN_VARIABLES`, and read the login in `read_login`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, cast, get_args

from pydantic import SecretStr

from pytest_kafkaperf.clusters.access.cloud_logins import MSK_MECHANISM
from pytest_kafkaperf.clusters.access.jaas import escaped, jaas_line, read_options
from pytest_kafkaperf.clusters.access.kerberos import KERBEROS_SETTINGS, KERBEROS_VARIABLES, Kerberos, read_kerberos
from pytest_kafkaperf.clusters.access.oauth import OAUTH_SETTINGS, OAUTH_VARIABLES, Hidden, OAuth, read_oauth
from pytest_kafkaperf.core.errors import UsageError, shortened

ScramMechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
PasswordMechanism = Literal["PLAIN", ScramMechanism]
Mechanism = Literal[PasswordMechanism, "OAUTHBEARER", "GSSAPI"]

LOGIN_VARIABLES = (
    "KAFKA_SASL_MECHANISM",
    "KAFKA_SASL_USERNAME",
    "KAFKA_SASL_PASSWORD",
    *OAUTH_VARIABLES,
    *KERBEROS_VARIABLES,
)
"""Environment variables used by all logins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _UserAndPassword:
    """Base class of logins with a user name and a password."""

    module: ClassVar[str]
    """Kafka's login module."""
    to_check: ClassVar[str] = "the user name, the password and 'sasl.mechanism'"
    """Settings to mention in the error message if the cluster rejects the login, because they may be wrong."""

    mechanism: PasswordMechanism
    username: str
    password: SecretStr

    def log_in(self) -> None:
        """Do nothing: a password needs no preparation before connecting."""

    @property
    def principal(self) -> str:
        """The user name in Kafka's ACLs."""
        return self.username

    def arguments(self) -> dict[str, Any]:
        """Return keyword arguments for aiokafka's clients; their repr does not show secrets."""
        return {
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.username,
            "sasl_plain_password": Hidden(self.password.get_secret_value()),
        }

    def variables(self) -> dict[str, str | None]:
        """Return environment variables for applications; their repr does not show secrets."""
        return {
            "KAFKA_SASL_MECHANISM": self.mechanism,
            "KAFKA_SASL_USERNAME": self.username,
            "KAFKA_SASL_PASSWORD": Hidden(self.password.get_secret_value()),
        }

    def jaas_line(self) -> str:
        """Return the value of `sasl.jaas.config`."""
        return jaas_line(self.module, {"username": self.username, "password": self.password.get_secret_value()})

    def secrets(self) -> set[str]:
        """Return texts that must never be shown."""
        password = self.password.get_secret_value()
        return {password, escaped(password)} if password else set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain(_UserAndPassword):
    """A PLAIN login, which sends the password itself to the broker."""

    module: ClassVar[str] = "org.apache.kafka.common.security.plain.PlainLoginModule"

    mechanism: Literal["PLAIN"] = "PLAIN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scram(_UserAndPassword):
    """A SCRAM login, which proves to the broker that the client knows the password."""

    module: ClassVar[str] = "org.apache.kafka.common.security.scram.ScramLoginModule"

    mechanism: ScramMechanism


Login = Plain | Scram | OAuth | Kerberos

_MODULES = {
    Plain.module: ("PLAIN",),
    Scram.module: get_args(ScramMechanism),
    OAuth.module: ("OAUTHBEARER",),
    Kerberos.module: ("GSSAPI",),
}
"""Login modules, each with its mechanisms."""

MAX_SHOWN = 60
"""Maximum number of characters of an invalid value to show in an error message."""

JAVA_SPACE = "".join(map(chr, range(33)))
"""Characters that Java's `String.trim()` removes; Kafka trims every value."""


def read_mechanism(values: Mapping[str, str]) -> Mechanism:
    """Return the mechanism in the settings; raise `UsageError` if it is not supported.

    It may be missing only if the login is one with Kafka's default, GSSAPI.
    """
    given = values.get("sasl.mechanism")
    valid = ", ".join((*get_args(Mechanism), MSK_MECHANISM))
    is_kerberos = values.get("sasl.jaas.config", "").startswith(Kerberos.module)
    if given is None and (is_kerberos or any(name in values for name in KERBEROS_SETTINGS)):
        return "GSSAPI"
    if given is None:
        raise UsageError(f"'sasl.mechanism' is missing; use {valid}")
    if given not in get_args(Mechanism):
        raise UsageError(f"'sasl.mechanism' is {shortened(given, MAX_SHOWN)!r}, which is not supported; use {valid}")
    return cast("Mechanism", given)


def read_login(values: Mapping[str, str], mechanism: Mechanism | None, folder: Path) -> Login | None:
    """Return the login in `sasl.jaas.config`, parsed as Kafka does; error messages never quote the setting.

    Relative paths start at `folder`. Returns None if the mechanism is missing or invalid, which has already been
    reported. If the mechanism is invalid, the expected login module is unknown.
    """
    is_oauth = any(name in values for name in OAUTH_SETTINGS)
    if mechanism is None and ("sasl.mechanism" in values or is_oauth):
        return None
    given = values.get("sasl.jaas.config")
    if given is not None:
        _check_module(given, mechanism)
    if mechanism == "OAUTHBEARER":
        return read_oauth(values)
    if mechanism == "GSSAPI":
        return read_kerberos(values, folder)
    if given is None:
        raise UsageError(f"'sasl.jaas.config' is missing; give {_example(mechanism or 'PLAIN')}")
    module = next(each for each in _MODULES if given.startswith(each))
    options = read_options(given, module)
    if module != OAuth.module and (options is None or options.keys() != {"username", "password"}):
        raise UsageError(
            f"'sasl.jaas.config' cannot be read; write {_example(_MODULES[module][0])} with \\\" and "
            '\\\\ for " and \\ in the values (in a properties file, write each \\ twice)'
        )
    if mechanism is None or options is None:
        return None
    return password_login(mechanism, options["username"], options["password"])


def _check_module(given: str, mechanism: Mechanism | None) -> None:
    """Raise `UsageError` if the login module is not supported, or belongs to another mechanism."""
    module = next((each for each in _MODULES if given.startswith(each)), None)
    if module is None:
        *others, last = _MODULES
        raise UsageError(f"'sasl.jaas.config' contains an unsupported login module; use {', '.join(others)} or {last}")
    if mechanism is not None and mechanism not in _MODULES[module]:
        raise UsageError(f"'sasl.jaas.config' uses {module}, which supports only {' and '.join(_MODULES[module])}")


def password_login(mechanism: str, username: str, password: str) -> Login:
    """Return the login with this user name and password; `Plain` if the mechanism is not supported."""
    hidden = SecretStr(password)
    if mechanism in get_args(ScramMechanism):
        return Scram(mechanism=cast("ScramMechanism", mechanism), username=username, password=hidden)
    return Plain(username=username, password=hidden)


def _example(mechanism: str) -> str:
    return password_login(mechanism, "...", "...").jaas_line()
