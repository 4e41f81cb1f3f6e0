"""The names of settings: those of Kafka's own clients that have a part in how they get in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pytest_kafkaperf.errors import nearest

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
        hint = nearest(name, NAMES) if _is_name(name) else ""
        near = f": {hint}" if hint.startswith("did you mean") else ""
        yield f"{shown(name, places[name])} is not supported{near}"
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
