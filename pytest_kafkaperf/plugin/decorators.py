"""The markers as typed decorators.

Because the fields are typed, editors can complete them and type checkers can detect misspelled ones. The types match
what users may write for `Scenario` and `ClusterSpec`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

import pytest

Time = str | timedelta | Literal[0]
"""A time with a unit, such as `"5 ms"`."""
Quantity = str | float
"""A number in the base unit, or text such as `"16 KiB"`."""
Properties = Mapping[str, str | float | bool]


class ScenarioFields(TypedDict, total=False):
    """The fields of a scenario; `Scenario` describes them."""

    records: Quantity | None
    duration: Time | None
    record_size: Quantity | Mapping[Any, Any] | None
    payload: str | Mapping[str, Any] | Callable[[int, Any], Any]
    rate: Quantity | None
    backlog: Quantity
    key: str | None
    headers: Mapping[str, str]
    producers: int
    client: Literal["batch", "record"]
    acks: Literal[0, 1, "all"]
    batch_size: Quantity
    linger: Time
    compression: Literal["gzip", "snappy", "lz4", "zstd"] | None
    idempotence: bool
    transaction_size: Quantity | None
    abort_ratio: Quantity
    producer_config: Mapping[str, Any]
    consumers: int
    consumer_groups: int
    consume: Literal["live", "after"]
    isolation_level: Literal["read_uncommitted", "read_committed"]
    consumer_config: Mapping[str, Any]
    topic: str | None
    output_topic: str | None
    identify: str | Callable[[Any], str | bytes | None] | Mapping[str, str | Callable[[Any], str | bytes | None]]
    expect: int | str
    dead_letter_topic: str | None
    watch_group: str | Sequence[str]
    partitions: int
    replication_factor: int | None
    topic_config: Properties
    warmup: Time
    rounds: int


class ClusterFields(TypedDict, total=False):
    """The fields of a cluster; `ClusterSpec` describes them."""

    brokers: int
    version: str | None
    image: str | None
    config: Properties
    security: Literal["sasl_scram", "sasl_plain", "sasl_oauth", "tls", "sasl_scram+tls", "sasl_oauth+tls"] | None
    jmx: bool
    heap: str
    log_dirs: str | Path | None
    quick_compiler: bool
    logs_in_memory: bool


def kafka_scenario(**fields: Unpack[ScenarioFields]) -> pytest.MarkDecorator:
    """Declare a test's workload."""
    return pytest.mark.kafka_scenario(**fields)


def kafka_threshold(*expressions: str) -> pytest.MarkDecorator:
    """Declare thresholds, as in `@kafka_threshold("produce.latency.p99 <= 25 ms", "lost == 0")`."""
    return pytest.mark.kafka_threshold(*expressions)


def kafka_cluster(**fields: Unpack[ClusterFields]) -> pytest.MarkDecorator:
    """Declare a test's cluster."""
    return pytest.mark.kafka_cluster(**fields)
