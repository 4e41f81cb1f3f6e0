"""SASL login: the mechanism, and the user name and password in Kafka's setting `sasl.jaas.config`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, cast, get_args

from pytest_kafkaperf.core.errors import UsageError, shortened

Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

_MODULES = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": ("PLAIN",),
    "org.apache.kafka.common.security.scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
}
"""Login modules and the mechanisms of each."""

_OPTION = re.compile(r"""\s*(\w++)\s*=\s*("(?:[^"\\]|\\["\\])*"|'[^'\\]*'|[^\W\d][\w.$-]*+)""")
"""An option and its value. Other escapes than `\\"` and `\\\\`, which Kafka reads as Java does, are refused."""

MAX_SHOWN = 60
"""Maximum number of characters of an invalid value in an error text."""

JAVA_SPACE = "".join(map(chr, range(33)))
"""Characters that Java's `String.trim()` removes; Kafka trims every value."""


def read_mechanism(values: Mapping[str, str]) -> Mechanism:
    """Return the mechanism in the settings; raise `UsageError` if it is missing or not supported."""
    given = values.get("sasl.mechanism")
    valid = ", ".join(get_args(Mechanism))
    if given is None:
        raise UsageError(f"'sasl.mechanism' is missing (Kafka's default, GSSAPI, is not supported); use {valid}")
    if given not in get_args(Mechanism):
        raise UsageError(f"'sasl.mechanism' is {shortened(given, MAX_SHOWN)!r}, which is not supported; use {valid}")
    return cast("Mechanism", given)


def read_login(values: Mapping[str, str], mechanism: Mechanism | None) -> tuple[str, str] | None:
    """Return the user name and password in `sasl.jaas.config`, as Kafka does; no error text quotes the setting.

    None if the mechanism is invalid, which is reported already: the expected login module is unknown then.
    """
    if "sasl.mechanism" in values and mechanism is None:
        return None
    given = values.get("sasl.jaas.config")
    if given is None:
        raise UsageError(f"'sasl.jaas.config' is missing; give {jaas_line(mechanism or 'PLAIN', '...', '...')}")
    module = next((each for each in _MODULES if given.startswith(each)), None)
    if module is None:
        raise UsageError(f"'sasl.jaas.config' names an unsupported login module; use {' or '.join(_MODULES)}")
    if mechanism is not None and mechanism not in _MODULES[module]:
        raise UsageError(f"'sasl.jaas.config' has {module}, which supports only {' and '.join(_MODULES[module])}")
    line = re.fullmatch(rf"\s+required((?:{_OPTION.pattern})*)\s*;", given.removeprefix(module), re.IGNORECASE)
    options = dict(_OPTION.findall("" if line is None else line[1]))
    if options.keys() != {"username", "password"}:
        raise UsageError(
            f"'sasl.jaas.config' cannot be read; write {jaas_line(_MODULES[module][0], '...', '...')} with \\\" and "
            '\\\\ for " and \\ in the values (a properties file takes each \\ twice)'
        )
    return _unquoted(options["username"]), _unquoted(options["password"])


def jaas_line(mechanism: str, username: str, password: str) -> str:
    """Return the `sasl.jaas.config` for a login."""
    module = next((module for module, mechanisms in _MODULES.items() if mechanism in mechanisms), next(iter(_MODULES)))
    return f'{module} required username="{escaped(username)}" password="{escaped(password)}";'


def escaped(text: str) -> str:
    """Escape a text for use between quotes in `sasl.jaas.config`."""
    return re.sub(r'["\\]', r"\\\g<0>", text)


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value[0] in "\"'" else value
