"""The aiokafka clients of the load, made from a scenario."""

from __future__ import annotations

from typing import Any

import aiokafka

from pytest_kafkaperf.scenarios.client_config import IN_FLIGHT
from pytest_kafkaperf.scenarios.scenario import RECORDS_TIMEOUT_S, Scenario

REQUEST_TIMEOUT_S = 30
"""Kafka's default for `request.timeout.ms`; a batch that is not acknowledged by then has failed."""
_IN_FLIGHT = 5
"""Produce requests in flight per broker: the default of Kafka's own producer."""
_MAX_REQUEST_BYTES = 1 << 20
_FETCH_WAIT_MS = 100
"""A fetch that waits for new records holds up the next request on its connection, such as the one for end offsets after
the load. With Kafka's default of 500 ms each round with consumers took 0.4 s longer."""
_HEARTBEAT_MS = 300
"""Members learn of a rebalance by a heartbeat. With Kafka's default of 3 s each round would begin up to 3 s later."""


def make_producer(
    scenario: Scenario, bootstrap_servers: str, client_config: dict[str, Any], *, transactional_id: str, largest: int
) -> aiokafka.AIOKafkaProducer:
    """Create a producer for values of up to `largest` bytes, without starting it.

    With explicit batches, the schedule applies the linger time; the client gets closed batches and sends them at once.
    """
    batches = scenario.client == "batch"
    config = dict(scenario.producer_config)
    in_flight = config.pop(IN_FLIGHT, _IN_FLIGHT)
    request_bytes = max(_MAX_REQUEST_BYTES, 2 * (largest + scenario.batch_size))
    producer = aiokafka.AIOKafkaProducer(
        **{"request_timeout_ms": REQUEST_TIMEOUT_S * 1000, "max_request_size": request_bytes} | client_config | config,
        bootstrap_servers=bootstrap_servers,
        acks=scenario.acks,
        compression_type=scenario.compression,
        max_batch_size=scenario.batch_size,
        linger_ms=0 if batches else round(scenario.linger * 1000),
        enable_idempotence=scenario.idempotence,
        transactional_id=transactional_id if scenario.transaction_size else None,
    )
    if batches:
        producer._sender.allow(in_flight)  # noqa: SLF001 - it is `batch_sender.Sender`
    return producer


def make_consumer(
    scenario: Scenario, topic: str, group: str, bootstrap_servers: str, client_config: dict[str, Any]
) -> aiokafka.AIOKafkaConsumer:
    """Create a member of a consumer group that reads new records, or also those that are there; do not start it."""
    defaults = {
        "heartbeat_interval_ms": _HEARTBEAT_MS,
        "fetch_max_wait_ms": _FETCH_WAIT_MS,
        "request_timeout_ms": REQUEST_TIMEOUT_S * 1000,
        "max_poll_interval_ms": RECORDS_TIMEOUT_S * 1000,  # one that has read all its records waits for the others
    }
    return aiokafka.AIOKafkaConsumer(
        topic,
        **defaults | client_config | dict(scenario.consumer_config),
        bootstrap_servers=bootstrap_servers,
        group_id=group,
        auto_offset_reset="latest" if scenario.producers and not scenario.catches_up else "earliest",
        enable_auto_commit=False,
        isolation_level=scenario.isolation_level,
    )


def make_reader(bootstrap_servers: str, client_config: dict[str, Any]) -> aiokafka.AIOKafkaConsumer:
    """Create a consumer without a group that reads from given positions, without starting it."""
    return aiokafka.AIOKafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        auto_offset_reset="none",
        enable_auto_commit=False,
        **{"request_timeout_ms": REQUEST_TIMEOUT_S * 1000} | client_config,
    )


def batches_in_flight(scenario: Scenario) -> int:
    """Return the limit of batches in flight per partition."""
    in_flight: int = scenario.producer_config.get(IN_FLIGHT, _IN_FLIGHT)
    return 1 if scenario.idempotence else in_flight
