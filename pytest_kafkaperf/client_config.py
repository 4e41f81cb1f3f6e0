"""What `producer_config` and `consumer_config` may hold: the parameters of aiokafka's clients, and who decides each.

Each parameter stands in one of three groups: free, decided by a field of the scenario, or decided by the plugin or
the cluster. A test compares them with aiokafka's own signatures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pytest_kafkaperf.errors import nearest

Value = int | str | None
"""What a free parameter can be."""

_MAX_INT = (1 << 31) - 1
"""Kafka's protocol has 32 bits for times and sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """A parameter that may be set."""

    kind: Literal["number", "text"]
    least: int = 1
    """Of a number."""
    may_be_none: bool = False

    @property
    def expected(self) -> str:
        """What to give, for people."""
        text = f"a whole number from {self.least} to {_MAX_INT}" if self.kind == "number" else "text"
        return f"{text} or None" if self.may_be_none else text

    def takes(self, value: Any) -> bool:
        """Whether the value can be."""
        if value is None:
            return self.may_be_none
        if self.kind == "text":
            return isinstance(value, str) and value != ""
        return isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= _MAX_INT


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The parameters of one kind of client, in aiokafka's spelling."""

    client: Literal["producer", "consumer"]
    free: Mapping[str, Free]
    fields: Mapping[str, str]
    """Parameter, and the field of the scenario that decides it."""
    taken: Mapping[str, str]
    """Parameter, and who else decides it."""

    def problems(self, given: Mapping[str, Any]) -> Iterator[str]:
        """What is wrong: names that are unknown or decided elsewhere, values that cannot be."""
        names: dict[str, str] = {}
        for name, value in given.items():
            parameter = _spelt(name)
            problem = self._problem(name, parameter, value)
            if problem is None and parameter in names:
                problem = f"{name!r} and {names[parameter]!r} are one parameter; give one of them"
            if problem is not None:
                yield f"{self.client}_config: {problem}"
            names[parameter] = name

    def read(self, given: Mapping[str, Any]) -> dict[str, Value]:
        """Parameters without problems, in aiokafka's spelling and in alphabetical order."""
        return dict(sorted((_spelt(name), value) for name, value in given.items()))

    def _problem(self, name: str, parameter: str, value: Any) -> str | None:
        if parameter in self.fields:
            return f"{name!r} is decided by the field {self.fields[parameter]}; set that instead"
        if parameter in self.taken:
            return f"{name!r} is decided by {self.taken[parameter]}; leave it out"
        if parameter not in self.free:
            return f"unknown parameter {name!r} of aiokafka's {self.client}: {nearest(parameter, self.free)}"
        free = self.free[parameter]
        return None if free.takes(value) else f"{name!r} is {value!r}; use {free.expected}"


def _spelt(name: str) -> str:
    """Kafka's own dots become aiokafka's underscores."""
    return name.replace(".", "_")


_TIME = Free(kind="number")
_TIME_OR_NONE = Free(kind="number", may_be_none=True)
_PAUSE = Free(kind="number", least=0)
_SIZE = Free(kind="number")

_CONNECTION = dict.fromkeys(
    (
        "bootstrap_servers",
        "security_protocol",
        "ssl_context",
        "sasl_mechanism",
        "sasl_plain_username",
        "sasl_plain_password",
        "sasl_kerberos_service_name",
        "sasl_kerberos_domain_name",
        "sasl_oauth_token_provider",
    ),
    "the cluster",
)
_ANY_CLIENT = {
    "client_id": Free(kind="text"),
    "connections_max_idle_ms": _TIME_OR_NONE,
    "metadata_max_age_ms": _TIME,
    "request_timeout_ms": _TIME,
    "retry_backoff_ms": _PAUSE,
}

IN_FLIGHT = "max_in_flight_requests_per_connection"
"""Of Kafka's own producer, not of aiokafka's: the load engine has it."""

PRODUCER = Parameters(
    client="producer",
    free={
        **_ANY_CLIENT,
        IN_FLIGHT: Free(kind="number"),
        "max_request_size": _SIZE,
        "transaction_timeout_ms": _TIME,
    },
    fields={
        "acks": "acks",
        "batch_size": "batch_size",  # Kafka's name of it
        "compression_type": "compression",
        "enable_idempotence": "idempotence",
        "linger_ms": "linger",
        "max_batch_size": "batch_size",
        "transactional_id": "transaction_size",
    },
    taken={
        **_CONNECTION,
        **dict.fromkeys(("api_version", "key_serializer", "loop", "partitioner", "value_serializer"), "the plugin"),
    },
)

CONSUMER = Parameters(
    client="consumer",
    free={
        **_ANY_CLIENT,
        "client_rack": Free(kind="text", may_be_none=True),
        "consumer_timeout_ms": _TIME,
        "fetch_max_bytes": _SIZE,
        "fetch_max_wait_ms": _PAUSE,
        "fetch_min_bytes": Free(kind="number", least=0),
        "heartbeat_interval_ms": _TIME,
        "max_partition_fetch_bytes": _SIZE,
        "max_poll_interval_ms": _TIME,
        "rebalance_timeout_ms": _TIME_OR_NONE,
        "session_timeout_ms": _TIME,
    },
    fields={"isolation_level": "isolation_level"},
    taken={
        **_CONNECTION,
        **dict.fromkeys(
            (
                "api_version",
                "auto_commit_interval_ms",
                "auto_offset_reset",
                "check_crcs",
                "enable_auto_commit",
                "exclude_internal_topics",
                "group_id",
                "group_instance_id",
                "key_deserializer",
                "loop",
                "max_poll_records",
                "partition_assignment_strategy",
                "topics",
                "value_deserializer",
            ),
            "the plugin",
        ),
    },
)
