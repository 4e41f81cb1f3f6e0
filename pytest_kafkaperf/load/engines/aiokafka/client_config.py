"""Validation of the client parameters in `producer_config` and `consumer_config`.

The signatures of aiokafka's clients define the valid parameters. The tables in this module list the parameters that are
set by scenario fields, the cluster or the plugin.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pytest_kafkaperf.core.errors import nearest

IN_FLIGHT = "max_in_flight_requests_per_connection"
"""Parameter of Kafka's Java producer that is missing from aiokafka. The load generator implements it."""

FIELDS = {
    "acks": "acks",
    "batch_size": "batch_size",  # the name in Kafka's Java producer
    "compression_type": "compression",
    "enable_idempotence": "idempotence",
    "isolation_level": "isolation_level",
    "linger_ms": "linger",
    "max_batch_size": "batch_size",
    "transactional_id": "transaction_size",
}
"""Parameters set by scenario fields, each with the field's name."""
_CONNECTING = ("bootstrap_servers", "sasl_", "security_", "ssl_")
_READING = ("auto_", "check_crcs", "enable_auto_commit", "group_", "max_poll_records", "partition", "topics")
_ENCODING = ("api_version", "exclude_internal_topics", "key_", "loop", "value_")
_OWNERS = {"the cluster": _CONNECTING, "the plugin": (*_READING, *_ENCODING)}
"""Prefixes of parameters that the cluster or the plugin sets."""
_NUMBERS = ("_bytes", "_ms", "_size", IN_FLIGHT)
"""Suffixes of numeric parameters. All other parameters are text."""
_MAX_INT = (1 << 31) - 1
"""Maximum value: Kafka's protocol encodes times and sizes as signed 32-bit integers."""


def problems(client: Literal["producer", "consumer"], given: Mapping[str, Any]) -> Iterator[str]:
    """Yield an error text for each parameter that is unknown, reserved or given twice, or has an invalid value."""
    names: dict[str, str] = {}
    for name, value in given.items():
        problem = _problem(client, name, value)
        first = names.setdefault(_normalized(name), name)
        if problem is None and first != name:
            problem = f"{name!r} and {first!r} are the same parameter; give only one of them"
        if problem is not None:
            yield f"{client}_config: {problem}"


def _problem(client: str, name: str, value: Any) -> str | None:
    parameter = _normalized(name)
    if parameter in FIELDS:
        return f"{name!r} is set by the field {FIELDS[parameter]}; use that field"
    if owner := _owner(parameter):
        return f"{name!r} is set by {owner}; remove it"
    if parameter not in _parameters(client):
        return f"unknown parameter {name!r} of aiokafka's {client}: {nearest(parameter, _parameters(client))}"
    valid = _valid_values(parameter, value)
    return None if valid is None else f"invalid value {value!r} of {name!r}: must be {valid}"


def _valid_values(parameter: str, value: Any) -> str | None:
    """Describe the valid values of a parameter; return None if the value is one of them."""
    if not parameter.endswith(_NUMBERS):
        return None if value and isinstance(value, str) else "text"
    least = 1 if parameter == IN_FLIGHT else 0
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= _MAX_INT:
        return None
    return f"a whole number between {least} and {_MAX_INT:,}"


def _owner(parameter: str) -> str | None:
    return next((owner for owner, prefixes in _OWNERS.items() if parameter.startswith(prefixes)), None)


@functools.cache
def _parameters(client: str) -> frozenset[str]:
    """Return the client parameters that a test can set."""
    import aiokafka  # noqa: PLC0415 - only scenarios with client parameters need it

    producer = client == "producer"
    named = inspect.signature(aiokafka.AIOKafkaProducer if producer else aiokafka.AIOKafkaConsumer).parameters
    free = {name for name in named if name not in FIELDS and _owner(name) is None}
    return frozenset(free | {IN_FLIGHT} if producer else free)


def _normalized(name: str) -> str:
    """Convert a Kafka parameter name to aiokafka's spelling, with underscores instead of dots."""
    return name.replace(".", "_")
