"""Reads access settings from a properties file (`--kafka-client-config`) or from a fixture's keyword arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from pytest_kafkaperf.clusters.access import Access
from pytest_kafkaperf.clusters.access.login import jaas_line
from pytest_kafkaperf.clusters.access.settings import dotted, read_settings, shown
from pytest_kafkaperf.clusters.access.tls import HOSTNAME, content_of
from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.core.text import printable

if TYPE_CHECKING:
    from javaproperties import PropertiesElement


def read_client_properties(path: Path) -> Access:
    """Read a client properties file, as Kafka's own tools take it by `--command-config`.

    Raises:
        UsageError: the file cannot be read or has invalid settings; the text lists every problem.

    """
    problem = ""
    try:
        return _read_file(path)
    except UsageError as error:
        problem = str(error)
    raise UsageError(printable(problem))  # a new error: the traceback of the first one would show the file's secrets


def _read_file(path: Path) -> Access:
    import javaproperties  # noqa: PLC0415 - only for files

    try:
        text = content_of(path).decode("latin-1")  # Java's encoding of properties files; accepts any bytes
    except UsageError as error:
        raise UsageError(f"client properties {error}") from None
    if "\0" in text:
        raise UsageError(f"client properties {path}: not a text file; name a Java properties file, not a store")
    try:
        given = {
            entry.key: (entry.value, f"line {number}")
            for number, entry in _numbered(javaproperties.parse(text))
            if isinstance(entry, javaproperties.KeyValue)
        }
    except javaproperties.InvalidUEscapeError:
        raise UsageError(
            f"client properties {path}: a \\u without four hexadecimal digits after it; write a backslash as \\\\"
        ) from None
    return read_settings(given, origin=f"client properties {path}", folder=path.parent)


def _numbered(elements: Iterator[PropertiesElement]) -> Iterator[tuple[int, PropertiesElement]]:
    """Yield the elements of a properties file, each with the line on which it begins."""
    number = 1
    for element in elements:
        yield number, element
        number += len(re.findall(r"\r\n|\r|\n", element.source))


def read_access(given: Mapping[str, object], *, origin: str, folder: Path) -> Access:
    """Read access settings from a fixture: aiokafka's keyword arguments, or Kafka's names with dots.

    Args:
        given: names and values.
        origin: the source of the settings, for error texts.
        folder: the folder of relative paths.

    Raises:
        UsageError: a setting is invalid; the text lists every problem.

    """
    problem = ""
    try:
        return _read_mapping(given, origin=origin, folder=folder)
    except UsageError as error:
        problem = str(error)
    del given
    raise UsageError(problem)  # a new error: the traceback of the first one would show secrets


def _read_mapping(given: Mapping[str, object], *, origin: str, folder: Path) -> Access:
    problems: list[str] = []
    named = {name: value for name, value in given.items() if value is not None}
    if named.pop("ssl_context", None) is not None:
        problems.append(
            "'ssl_context' cannot be sent to worker processes; give 'ssl.truststore.location' instead, and "
            f"'ssl.keystore.location' for the client's own certificate ('{HOSTNAME}': '' turns off host name checks)"
        )
    texts: dict[str, str] = {}
    for name, value in named.items():
        text = _text(value)
        dotted_name = dotted(name)
        if text is None:
            problems.append(f"{shown(name)} is a {type(value).__name__}; give a text or a whole number")
        elif dotted_name in texts:
            problems.append(f"{shown(dotted_name)} is given in two spellings; give one of them")
        else:
            texts[dotted_name] = text
    problems += _fold_login(texts)
    return read_settings(
        {name: (text, "") for name, text in texts.items()}, origin=origin, folder=folder, already=tuple(problems)
    )


def _text(value: object) -> str | None:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Path):
        return str(value)
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else None


def _fold_login(texts: dict[str, str]) -> Iterator[str]:
    """Replace aiokafka's user name and password in `texts` by one `sasl.jaas.config`; yield their problems."""
    username, password = texts.pop("sasl_plain_username", None), texts.pop("sasl_plain_password", None)
    if username is None and password is None:
        return
    if not texts.get("security.protocol", "").upper().startswith("SASL_"):
        yield "'sasl_plain_username' and 'sasl_plain_password' need 'security_protocol' SASL_PLAINTEXT or SASL_SSL"
        return
    if username is None or password is None:
        missing = "sasl_plain_username" if username is None else "sasl_plain_password"
        yield f"'{missing}' is missing; give both user name and password"
    elif "sasl.jaas.config" in texts:
        yield "'sasl_plain_username' and 'sasl.jaas.config' are both given; give one of them"
    mechanism = texts.setdefault("sasl.mechanism", "PLAIN")  # aiokafka's default, not Kafka's
    # Also with a part missing: that is reported already, and without a complete line it would be reported twice.
    texts.setdefault("sasl.jaas.config", jaas_line(mechanism, username or "", password or ""))
