"""Arguments of clients, as an application's own fixture gives them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import SecretStr

from pytest_kafkaperf.access import Access
from pytest_kafkaperf.access.login import jaas_line
from pytest_kafkaperf.access.names import HOSTNAME, dotted, shown
from pytest_kafkaperf.access.settings import read_settings
from pytest_kafkaperf.errors import UsageError


def read_access(given: Mapping[str, object], *, origin: str, folder: Path) -> Access:
    """Read what an application's own fixture gives: aiokafka's keyword arguments, or Kafka's names with dots.

    Args:
        given: names and values.
        origin: who gives them, for errors.
        folder: where relative paths start.

    Raises:
        UsageError: what cannot be; every problem in one text.

    """
    problem = ""
    try:
        return _read_mapping(given, origin=origin, folder=folder)
    except UsageError as error:
        problem = str(error)
    del given
    raise UsageError(problem)  # anew: a traceback through the reading would show what was given


def _read_mapping(given: Mapping[str, object], *, origin: str, folder: Path) -> Access:
    problems: list[str] = []
    named = {name: value for name, value in given.items() if value is not None}
    if named.pop("ssl_context", None) is not None:
        problems.append(
            "'ssl_context' cannot be handed to worker processes; give 'ssl.truststore.location' instead, and "
            f"'ssl.keystore.location' for a certificate of the client's own ('{HOSTNAME}': '' checks no host names)"
        )
    texts: dict[str, str] = {}
    for name, value in named.items():
        text = _text(value)
        spelt = dotted(name)
        if text is None:
            problems.append(f"{shown(name)} is a {type(value).__name__}; give a text or a whole number")
        elif spelt in texts:
            problems.append(f"{shown(spelt)} is given in two spellings; give one of them")
        else:
            texts[spelt] = text
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
    """Put aiokafka's user name and password into one `sasl.jaas.config`; give the problems of them."""
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
        yield "'sasl_plain_username' and 'sasl.jaas.config' are one parameter; give one of them"
    mechanism = texts.setdefault("sasl.mechanism", "PLAIN")  # aiokafka's default, not Kafka's
    # with a part missing, which is told already, a whole line keeps the reader from telling it again
    texts.setdefault("sasl.jaas.config", jaas_line(mechanism, username or "", password or ""))
