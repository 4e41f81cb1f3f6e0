"""Settings by Kafka's names, read into an `Access`: every problem in one text, and no secret in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar, cast, get_args

from pydantic import SecretStr

from pytest_kafkaperf.clusters.access import Access, Protocol
from pytest_kafkaperf.clusters.access.login import (
    HOSTNAME,
    JAVA_SPACE,
    LOGIN,
    MAX_SHOWN,
    NAMES,
    NUMBERS,
    OPTIONS,
    STORES,
    Mechanism,
    read_login,
    read_mechanism,
    unsupported,
)
from pytest_kafkaperf.clusters.access.stores import read_own, read_trusted
from pytest_kafkaperf.core.errors import UsageError, nearest, shortened

_T = TypeVar("_T")

_MAX_INT = (1 << 31) - 1


def read_settings(
    given: Mapping[str, tuple[str, str]], *, origin: str, folder: Path, already: tuple[str, ...] = ()
) -> Access:
    """Read names and values; each value with the place that it stands at, which may be empty."""
    values = {name: value.strip(JAVA_SPACE) for name, (value, _) in given.items() if name in NAMES}
    problems = [*already, *unsupported({name: place for name, (_, place) in given.items()}), *_unreadable(values)]
    # an empty text is none, but for the one setting that means something by it
    values = {name: value for name, value in values.items() if (value or name == HOSTNAME) and _is_text(value)}

    def part(read: Callable[[], _T]) -> _T | None:
        try:
            return read()
        except UsageError as error:
            problems.append(str(error))
            return None

    protocol = part(lambda: _protocol(values))
    if protocol is not None:
        problems += _without_effect(values, protocol)
    login = tls = None
    if protocol.startswith("SASL_") if protocol else any(name in values for name in LOGIN):
        login = part(lambda: read_login(values, part(lambda: read_mechanism(values))))
    hostname = part(lambda: _checks_hostname(values))
    if protocol is None or protocol.endswith("SSL"):
        tls = part(lambda: read_trusted(values, folder)), part(lambda: read_own(values, folder))
    options = _options(values, problems)
    if problems:
        raise UsageError(f"{origin}: {'; '.join(problems)}")
    trusted, own = tls or (None, None)
    return Access(
        protocol=cast("Protocol", protocol),
        mechanism=cast("Mechanism", values["sasl.mechanism"]) if login else None,
        username=login[0] if login else None,
        password=SecretStr(login[1]) if login else None,
        trusted=trusted,
        certificate=own[0] if own else None,
        key=SecretStr(own[1]) if own else None,
        check_hostname=tls is None or hostname is not False,
        options=options,
    )


def _unreadable(values: Mapping[str, str]) -> Iterator[str]:
    for name, value in values.items():
        if not _is_text(value):
            yield f"{name!r} has a NUL or half a surrogate pair in it, which is no text"


def _is_text(value: str) -> bool:
    return re.search("[\0\ud800-\udfff]", value) is None


def _protocol(values: Mapping[str, str]) -> Protocol:
    given = shortened(values.get("security.protocol", "PLAINTEXT"), MAX_SHOWN)
    if given.upper() not in get_args(Protocol):
        raise UsageError(f"'security.protocol' is {given!r}; {nearest(given.upper(), get_args(Protocol))}")
    return cast("Protocol", given.upper())


def _without_effect(values: Mapping[str, str], protocol: Protocol) -> Iterator[str]:
    """Settings of a login or of certificates that the protocol does not use: one of the two is not meant."""
    for names, suited, mark in (
        (LOGIN, "SASL_PLAINTEXT or SASL_SSL", protocol.startswith("SASL_")),
        (STORES, "SSL or SASL_SSL", protocol.endswith("SSL")),
    ):
        idle = [repr(name) for name in names if name in values and not mark]
        if idle:
            yield (
                f"{', '.join(idle)} {'has' if len(idle) == 1 else 'have'} no effect with 'security.protocol' "
                f"{protocol}; use {suited}, or leave {'it' if len(idle) == 1 else 'them'} out"
            )


def _checks_hostname(values: Mapping[str, str]) -> bool:
    given = values.get(HOSTNAME, "https").lower()
    if given not in ("", "https"):
        raise UsageError(f"'{HOSTNAME}' is neither https nor empty; use one of them")
    return given == "https"


def _options(values: Mapping[str, str], problems: list[str]) -> dict[str, int | str]:
    options: dict[str, int | str] = {}
    for name in OPTIONS:
        value = values.get(name)
        if value is None:
            continue
        least = NUMBERS.get(name)
        if least is None:
            options[name.replace(".", "_")] = value
        elif re.fullmatch(r"[0-9]{1,10}", value) and least <= int(value) <= _MAX_INT:
            options[name.replace(".", "_")] = int(value)
        else:
            problems.append(f"{name!r} is not a whole number from {least} to {_MAX_INT}")
    return options
