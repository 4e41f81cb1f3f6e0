"""GSSAPI logins (Kerberos), and their conversion from Kafka's settings `sasl.kerberos.*` and `sasl.jaas.config`."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn

from pytest_kafkaperf.clusters.access.jaas import jaas_line, read_options
from pytest_kafkaperf.clusters.access.tickets import Tickets, bounded, from_cache, from_keytab, library, login_messages
from pytest_kafkaperf.core.errors import ClusterError, UsageError

SERVICE_NAME = "sasl.kerberos.service.name"
KERBEROS_SETTINGS = (SERVICE_NAME,)
"""Settings that only GSSAPI logins have."""

KERBEROS_VARIABLES = (
    "KAFKA_SASL_KERBEROS_SERVICE_NAME",
    "KAFKA_SASL_KERBEROS_PRINCIPAL",
    "KAFKA_SASL_KERBEROS_KEYTAB",
    "KAFKA_SASL_KERBEROS_TICKET_CACHE",
)

_NEEDED = ("keyTab", "principal", "serviceName", "ticketCache", "useKeyTab", "useTicketCache")
_WITHOUT_EFFECT = ("debug", "doNotPrompt", "isInitiator", "refreshKrb5Config", "renewTGT", "storeKey")
"""Options of Java's login module that do not change how this plugin logs in."""
_EXAMPLES = 'useKeyTab=true keyTab="/path/to/client.keytab" principal="client@REALM"; or useTicketCache=true;'


@dataclass(frozen=True, kw_only=True)
class Kerberos:
    """A GSSAPI login, which proves the client's identity with a ticket for the brokers' service.

    Only names and paths are sent to worker processes, which get their own tickets.
    """

    module: ClassVar[str] = "com.sun.security.auth.module.Krb5LoginModule"
    """Java's login module."""

    service: str
    """The first part of the brokers' principals, which is usually `kafka`; the second part is the host name."""
    client: str | None = None
    """The client's principal; None for that of the ticket cache."""
    keytab: str | None = None
    """Absolute path of a file with the client's keys; None to use a ticket cache."""
    ticket_cache: str | None = None
    """Name of the ticket cache, such as `FILE:/tmp/krb5cc_0`; None for the system's default."""
    mechanism: Literal["GSSAPI"] = "GSSAPI"

    def __post_init__(self) -> None:
        """Create the cache of tickets, which copies of this login in the same process do not share."""
        fetch = functools.partial(from_keytab, str(self.client), str(self.keytab))
        object.__setattr__(self, "tickets", Tickets(fetch))

    tickets: ClassVar[Tickets]
    """The current ticket from the keytab; each login has its own."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Send names and paths to another process, but no tickets."""
        return _restored, (self.service, self.client, self.keytab, self.ticket_cache)

    def log_in(self) -> None:
        """Get a ticket for the client, so that a problem with it is reported before connecting.

        Raises:
            ClusterError: there is no ticket; the message contains Kerberos' reason.

        """
        bounded(self._credentials)

    @property
    def principal(self) -> str:
        """The user name in Kafka's ACLs, which is the principal's first part by default."""
        name = self.client
        if name is None:
            try:
                name = str(bounded(self._credentials).name)
            except ClusterError:
                return "FIRST-PART-OF-THE-PRINCIPAL"
        return re.split("[/@]", name, maxsplit=1)[0]

    @property
    def to_check(self) -> str:
        """Settings to mention in the error message if the cluster rejects the login, because they may be wrong."""
        return (
            f"that brokers have the principal {self.service}/HOST for each HOST that clients connect to, krb5.conf, "
            f"the clocks of all machines, and {SERVICE_NAME!r} and 'sasl.jaas.config'"
        )

    def arguments(self) -> dict[str, Any]:
        """Return keyword arguments for aiokafka's clients.

        Raises:
            ClusterError: the package `gssapi` is not installed.

        """
        library()
        from pytest_kafkaperf.clusters.admin.relogin import use_relogin  # noqa: PLC0415 - aiokafka
        from pytest_kafkaperf.clusters.admin.ticket_provider import TicketProvider  # noqa: PLC0415 - aiokafka

        use_relogin()
        provider = TicketProvider(functools.partial(login_messages, self._credentials, self.service))
        # aiokafka passes the provider to connections whatever the mechanism, and has no such argument for GSSAPI.
        return {
            "sasl_mechanism": self.mechanism,
            "sasl_kerberos_service_name": self.service,
            "sasl_oauth_token_provider": provider,
        }

    def variables(self) -> dict[str, str | None]:
        """Return environment variables for applications."""
        values = (self.service, self.client, self.keytab, self.ticket_cache)
        return {"KAFKA_SASL_MECHANISM": self.mechanism, **dict(zip(KERBEROS_VARIABLES, values, strict=True))}

    def jaas_line(self) -> str:
        """Return the value of `sasl.jaas.config`."""
        kind = {"useTicketCache": "true"} if self.keytab is None else {"useKeyTab": "true", "storeKey": "true"}
        given = {"keyTab": self.keytab, "principal": self.client, "ticketCache": self.ticket_cache}
        return jaas_line(self.module, kind | {name: text for name, text in given.items() if text is not None})

    def secrets(self) -> set[str]:
        """Return nothing: names and paths are not secret."""
        return set()

    def _credentials(self) -> Any:
        return from_cache(self.client, self.ticket_cache) if self.keytab is None else self.tickets.current()


def _restored(service: str, client: str | None, keytab: str | None, ticket_cache: str | None) -> Kerberos:
    return Kerberos(service=service, client=client, keytab=keytab, ticket_cache=ticket_cache)


def read_kerberos(values: Mapping[str, str], folder: Path) -> Kerberos:
    """Return the login in the settings; relative paths start at `folder`.

    Raises:
        UsageError: a setting is missing or contradicts another one.

    """
    options = _options(values)
    service = options.get("serviceName") or values.get(SERVICE_NAME)
    if not service:
        raise UsageError(
            f"{SERVICE_NAME!r} is missing; give the first part of the brokers' principals, which is usually kafka"
        )
    if values.get(SERVICE_NAME, service) != service:
        raise UsageError(f"{SERVICE_NAME!r} and serviceName in 'sasl.jaas.config' differ; use only one of them")
    client = options.get("principal")
    if _is_true(options, "useTicketCache"):
        cache = options.get("ticketCache")
        if cache is not None and not re.match("[A-Za-z]{2,}:", cache):  # a path instead of a type and a name
            cache = f"FILE:{(folder / cache).absolute()}"
        return Kerberos(service=service, client=client, ticket_cache=cache)
    keytab = (folder / options["keyTab"].removeprefix("FILE:")).absolute()
    return Kerberos(service=service, client=client, keytab=str(keytab))


def _options(values: Mapping[str, str]) -> dict[str, str]:
    """Return the options in `sasl.jaas.config` that are not empty."""
    line = values.get("sasl.jaas.config")
    if line is None:
        raise UsageError(f"'sasl.jaas.config' is missing; give {Kerberos.module} required {_EXAMPLES}")
    given = read_options(line, Kerberos.module)
    if given is None:
        _refuse("cannot be read")
    options = {name: text for name, text in given.items() if text}
    if options.keys() - {*_NEEDED, *_WITHOUT_EFFECT}:
        valid = ", ".join(sorted((*_NEEDED, *_WITHOUT_EFFECT), key=str.lower))
        raise UsageError(f"'sasl.jaas.config' contains options that are not supported; use only {valid}")
    _check(options)
    return options


def _check(options: Mapping[str, str]) -> None:
    """Raise `UsageError` if an option is missing or has no effect."""
    if options.get("isInitiator", "true").lower() != "true":
        _refuse("contains isInitiator=false, which is for servers")
    has_keytab, has_cache = _is_true(options, "useKeyTab"), _is_true(options, "useTicketCache")
    if has_keytab == has_cache:
        _refuse(f"must contain {'only one' if has_keytab else 'one'} of useKeyTab=true and useTicketCache=true")
    if has_keytab and not {"keyTab", "principal"} <= options.keys():
        _refuse("must contain keyTab and principal with useKeyTab=true")
    for name, kind in {"keyTab": has_keytab, "ticketCache": has_cache}.items():
        if name in options and not kind:
            _refuse(f"contains {name}, which has no effect without use{name[0].upper()}{name[1:]}=true")


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"


def _refuse(problem: str) -> NoReturn:
    raise UsageError(f"'sasl.jaas.config' {problem}; write {Kerberos.module} required {_EXAMPLES}")
