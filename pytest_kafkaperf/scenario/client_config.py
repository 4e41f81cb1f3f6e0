"""The parameters of aiokafka's clients that `producer_config` and `consumer_config` may set.

aiokafka's own signatures say which parameters there are. The tables here name those that something else decides.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pytest_kafkaperf.core.errors import nearest

IN_FLIGHT = "max_in_flight_requests_per_connection"
"""A parameter of Kafka's own producer, not of aiokafka's; the load engine applies it."""

FIELDS = {
    "acks": "acks",
    "batch_size": "batch_size",  # Kafka's name of it
    "compression_type": "compression",
    "enable_idempotence": "idempotence",
    "isolation_level": "isolation_level",
    "linger_ms": "linger",
    "max_batch_size": "batch_size",
    "transactional_id": "transaction_size",
}
"""Parameter, and the field of the scenario that decides it."""
_CONNECTING = ("bootstrap_servers", "sasl_", "security_", "ssl_")
_READING = ("auto_", "check_crcs", "enable_auto_commit", "group_", "max_poll_records", "partition", "topics")
_ENCODING = ("api_version", "exclude_internal_topics", "key_", "loop", "value_")
_DECIDERS = {"the cluster": _CONNECTING, "the plugin": (*_READING, *_ENCODING)}
"""Who else decides parameters, and how those begin."""
_NUMBERS = ("_bytes", "_ms", "_size", IN_FLIGHT)
"""Ends of parameters that are numbers; all others are text."""
_MAX_INT = (1 << 31) - 1
"""Kafka's protocol has 32 bits for times and sizes."""


def problems(client: Literal["producer", "consumer"], given: Mapping[str, Any]) -> Iterator[str]:
    """Name the parameters that are unknown, decided elsewhere or given twice, and the values that are invalid."""
    names: dict[str, str] = {}
    for name, value in given.items():
        problem = _problem(client, name, value)
        first = names.setdefault(_spelt(name), name)
        if problem is None and first != name:
            problem = f"{name!r} and {first!r} are one parameter; give one of them"
        if problem is not None:
            yield f"{client}_config: {problem}"


def read(given: Mapping[str, Any]) -> dict[str, int | str]:
    """Give parameters without problems, in aiokafka's spelling and in alphabetical order."""
    return dict(sorted((_spelt(name), value) for name, value in given.items()))


def _problem(client: str, name: str, value: Any) -> str | None:
    parameter = _spelt(name)
    if parameter in FIELDS:
        return f"{name!r} is decided by the field {FIELDS[parameter]}; set that instead"
    if decider := _decider(parameter):
        return f"{name!r} is decided by {decider}; leave it out"
    if parameter not in _parameters(client):
        return f"unknown parameter {name!r} of aiokafka's {client}: {nearest(parameter, _parameters(client))}"
    if not parameter.endswith(_NUMBERS):
        return None if value and isinstance(value, str) else f"{name!r} is {value!r}; use text"
    least = 1 if parameter == IN_FLIGHT else 0
    valid = isinstance(value, int) and not isinstance(value, bool) and least <= value <= _MAX_INT
    return None if valid else f"{name!r} is {value!r}; use a whole number from {least} to {_MAX_INT}"


def _decider(parameter: str) -> str | None:
    return next((decider for decider, starts in _DECIDERS.items() if parameter.startswith(starts)), None)


@functools.cache
def _parameters(client: str) -> frozenset[str]:
    """Give the parameters that a client has and that nothing else decides."""
    import aiokafka  # noqa: PLC0415 - only scenarios with such a config need it

    producer = client == "producer"
    named = inspect.signature(aiokafka.AIOKafkaProducer if producer else aiokafka.AIOKafkaConsumer).parameters
    free = {name for name in named if name not in FIELDS and _decider(name) is None}
    return frozenset(free | {IN_FLIGHT} if producer else free)


def _spelt(name: str) -> str:
    """Kafka's own dots become aiokafka's underscores."""
    return name.replace(".", "_")
