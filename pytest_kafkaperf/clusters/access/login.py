"""A login: mechanism, user name and password, the last two in the line `sasl.jaas.config` as Kafka reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal, cast, get_args

from pytest_kafkaperf.core.errors import UsageError, shortened, suggestion

Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

_MODULES = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": ("PLAIN",),
    "org.apache.kafka.common.security.scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
}
"""Login module, and the mechanisms that it is for."""

_CONTROL_FLAGS = ("required", "requisite", "sufficient", "optional")

JAVA_SPACE = "".join(map(chr, range(33)))
"""What Java's trim() takes off; Kafka trims every value."""


def read_mechanism(values: Mapping[str, str]) -> Mechanism:
    """The mechanism that the settings name."""
    given = values.get("sasl.mechanism")
    valid = ", ".join(get_args(Mechanism))
    if given is None:
        raise UsageError(f"'sasl.mechanism' is missing (Kafka's default, GSSAPI, is not supported); use {valid}")
    if given not in get_args(Mechanism):
        raise UsageError(f"'sasl.mechanism' is {shortened(given, MAX_SHOWN)!r}, which is not supported; use {valid}")
    return cast("Mechanism", given)


def read_login(values: Mapping[str, str], mechanism: Mechanism | None) -> tuple[str, str] | None:
    """User name and password of `sasl.jaas.config`, read as Kafka does; no text of it is ever shown.

    None where the mechanism, whose problem is told already, leaves open what to expect.
    """
    if "sasl.mechanism" in values and mechanism is None:
        return None
    given = values.get("sasl.jaas.config")
    if given is None:
        raise UsageError(f"'sasl.jaas.config' is missing; give {jaas_line(mechanism or 'PLAIN', '...', '...')}")
    module, flag, *pairs = (*_jaas_tokens(given), None, None)
    if module not in _MODULES:
        raise UsageError(f"'sasl.jaas.config' names another login module than {' or '.join(_MODULES)}")
    if mechanism is not None and mechanism not in _MODULES[module]:
        raise UsageError(f"'sasl.jaas.config' has {module}, which is for {' and '.join(_MODULES[module])} only")
    if flag is None or flag.lower() not in _CONTROL_FLAGS:
        raise UsageError(f"'sasl.jaas.config' lacks the word 'required' after {module}")
    del pairs[-2:]
    names, equals, texts = pairs[::3], pairs[1::3], pairs[2::3]
    options = {name: text for name, text in zip(names, texts, strict=False) if name is not None and text is not None}
    if len(pairs) % 3 or None in (*names, *texts) or any(sign is not None for sign in equals):
        raise UsageError("'sasl.jaas.config': after the word 'required' write username=\"...\" password=\"...\";")
    if options.keys() != {"username", "password"}:
        raise UsageError("'sasl.jaas.config' needs the options username and password, and no others are supported")
    return options["username"], options["password"]


def jaas_line(mechanism: str, username: str, password: str) -> str:
    """The `sasl.jaas.config` of a login."""
    module = next((module for module, suited in _MODULES.items() if mechanism in suited), next(iter(_MODULES)))
    return f'{module} required username="{escaped(username)}" password="{escaped(password)}";'


def escaped(text: str) -> str:
    """The text as it stands between quotes in a `sasl.jaas.config`."""
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
"""As Java's StreamTokenizer, which Kafka reads the line with."""

_JAAS_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)

_JAAS_CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _jaas_tokens(line: str) -> list[str | None]:
    """Words and texts without their quotes, up to the semicolon; an equals sign is None."""
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
        raise UsageError("'sasl.jaas.config' goes on after its semicolon; give one login module")
    return tokens


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _JAAS_CONTROLS.get(code, code)


NUMBERS = {
    "connections.max.idle.ms": 1,
    "metadata.max.age.ms": 1,
    "request.timeout.ms": 1,
    "retry.backoff.ms": 0,
}
"""Further settings that all of aiokafka's clients have, and the least that each can be."""

OPTIONS = ("client.id", *NUMBERS)

LOGIN = ("sasl.jaas.config", "sasl.mechanism")

STORES = (
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

HOSTNAME = "ssl.endpoint.identification.algorithm"

_SERVERS = "bootstrap.servers"
"""Accepted, as files name them, and unused: the servers are those of --kafka-cluster."""

NAMES = tuple(sorted(("security.protocol", HOSTNAME, _SERVERS, *LOGIN, *STORES, *OPTIONS)))
"""All that are known."""

MAX_SHOWN = 60
"""Characters of a refused value that are shown."""

_MOST_NAMED = 20
"""Names that are not known and are told one by one: the file may be another one."""

_SHORT_NAMES = ("acks", "retries")
"""Names of Kafka's without a dot: other words may be part of a secret whose line was broken."""


def dotted(name: str) -> str:
    """The name with dots of a parameter in aiokafka's spelling."""
    spelt = name.replace("_", ".")
    return spelt if spelt in NAMES else name


def unsupported(places: Mapping[str, str]) -> Iterator[str]:
    """What to say of names that are not among them, each with the place that it stands at, which may be empty."""
    unknown = [name for name in places if name not in NAMES]
    if not unknown:
        return
    for name in unknown[:_MOST_NAMED]:
        hint = suggestion(name, NAMES) if _is_name(name) else None
        yield f"{shown(name, places[name])} is not supported{f': {hint}' if hint else ''}"
    if len(unknown) > _MOST_NAMED:
        yield f"{len(unknown) - _MOST_NAMED} more are not supported"
    yield (
        f"valid are {', '.join(map(repr, NAMES))}: leave the others out, and set what is not about access in the "
        "scenario, its producer_config or its consumer_config"
    )


def shown(name: str, place: str = "") -> str:
    """A name in an error; what may be a piece of a broken secret is named by its place only."""
    at = f" ({place})" if place else ""
    return f"{name!r}{at}" if _is_name(name) else f"a key that looks like a part of a broken value{at}"


def _is_name(name: str) -> bool:
    return name in _SHORT_NAMES or re.fullmatch(r"[a-z]{1,24}([._][a-z0-9]{1,24}){1,8}", name) is not None
