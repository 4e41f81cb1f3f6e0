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

_CONTROL_FLAGS = ("required", "requisite", "sufficient", "optional")

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
    """Return the user name and password in `sasl.jaas.config`, parsed as Kafka does; no error text quotes the setting.

    None if the mechanism is invalid, which is reported already: the expected login module is unknown then.
    """
    if "sasl.mechanism" in values and mechanism is None:
        return None
    given = values.get("sasl.jaas.config")
    if given is None:
        raise UsageError(f"'sasl.jaas.config' is missing; give {jaas_line(mechanism or 'PLAIN', '...', '...')}")
    module, flag, *pairs = (*_jaas_tokens(given), None, None)
    if module not in _MODULES:
        raise UsageError(f"'sasl.jaas.config' names an unsupported login module; use {' or '.join(_MODULES)}")
    if mechanism is not None and mechanism not in _MODULES[module]:
        raise UsageError(f"'sasl.jaas.config' has {module}, which supports only {' and '.join(_MODULES[module])}")
    if flag is None or flag.lower() not in _CONTROL_FLAGS:
        raise UsageError(f"'sasl.jaas.config' lacks the word 'required' after {module}")
    del pairs[-2:]
    names, equals, texts = pairs[::3], pairs[1::3], pairs[2::3]
    options = {name: text for name, text in zip(names, texts, strict=False) if name is not None and text is not None}
    if len(pairs) % 3 or None in (*names, *texts) or any(sign is not None for sign in equals):
        raise UsageError("'sasl.jaas.config': after the word 'required' write username=\"...\" password=\"...\";")
    if options.keys() != {"username", "password"}:
        raise UsageError("'sasl.jaas.config' must have the options username and password, and no others")
    return options["username"], options["password"]


def jaas_line(mechanism: str, username: str, password: str) -> str:
    """Return the `sasl.jaas.config` for a login."""
    module = next((module for module, mechanisms in _MODULES.items() if mechanism in mechanisms), next(iter(_MODULES)))
    return f'{module} required username="{escaped(username)}" password="{escaped(password)}";'


def escaped(text: str) -> str:
    """Escape a text for use between quotes in `sasl.jaas.config`."""
    return re.sub(
        r'[\0-\x1f"\\]', lambda match: f"\\{match[0]}" if match[0] in '"\\' else f"\\{ord(match[0]):03o}", text
    )


_JAAS_TOKEN = re.compile(
    r"""
    [\0-\ ]*
    (?: (?P<quoted> "(?:[^"\\\r\n]|\\[^\r\n])*" | '(?:[^'\\\r\n]|\\[^\r\n])*' )
      | (?P<word> (?:[^\W\d]|\$) [\w.$-]* )
      | (?P<mark> [=;] ) )
    """,
    re.VERBOSE,
)
"""A token of Java's `StreamTokenizer`, with which Kafka parses the line."""

_JAAS_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)

_JAAS_CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _jaas_tokens(line: str) -> list[str | None]:
    """Return words and quoted texts up to the semicolon, without quotes; an equals sign is None."""
    tokens: list[str | None] = []
    at = 0
    while match := _JAAS_TOKEN.match(line, at):
        at = match.end()
        if match["mark"] == ";":
            break
        quoted = match["quoted"]
        tokens.append(match["word"] if quoted is None else _JAAS_ESCAPE.sub(_unescaped, quoted[1:-1]))
    else:
        if line[at:].strip(JAVA_SPACE):
            raise UsageError(
                f"'sasl.jaas.config' cannot be read from character {at + 1} on; put values in double quotes, "
                'and write \\" and \\\\ in them for " and \\ (a properties file takes each \\ twice)'
            )
        raise UsageError("'sasl.jaas.config' does not end with a semicolon; add one")
    if line[at:].strip(JAVA_SPACE):
        raise UsageError("'sasl.jaas.config' has text after its semicolon; give one login module")
    return tokens


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _JAAS_CONTROLS.get(code, code)
