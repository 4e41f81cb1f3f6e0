"""What the client library decides about its parameters, and what the plugin decides instead."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import aiokafka
import pytest

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.admin.connection import Notes
from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.load.engines.aiokafka.client_config import problems
from pytest_kafkaperf.load.engines.aiokafka.worker import LoadWorker
from pytest_kafkaperf.load.messages import Assignment
from pytest_kafkaperf.load.shared_counters import SharedCounters
from pytest_kafkaperf.scenarios.scenario import Scenario

PRODUCER = {
    "client_id",
    "connections_max_idle_ms",
    "max_request_size",
    "metadata_max_age_ms",
    "request_timeout_ms",
    "retry_backoff_ms",
    "transaction_timeout_ms",
}
CONSUMER = {
    "client_id",
    "client_rack",
    "connections_max_idle_ms",
    "consumer_timeout_ms",
    "fetch_max_bytes",
    "fetch_max_wait_ms",
    "fetch_min_bytes",
    "heartbeat_interval_ms",
    "max_partition_fetch_bytes",
    "max_poll_interval_ms",
    "metadata_max_age_ms",
    "rebalance_timeout_ms",
    "request_timeout_ms",
    "retry_backoff_ms",
    "session_timeout_ms",
}


@pytest.mark.parametrize(
    ("client", "name", "free"),
    [(aiokafka.AIOKafkaProducer, "producer", PRODUCER), (aiokafka.AIOKafkaConsumer, "consumer", CONSUMER)],
)
def test_every_parameter_is_free_or_decided(client: type, name: Any, free: set[str]) -> None:
    """A new release that adds one must be looked at before users meet it."""
    parameters = inspect.signature(client).parameters
    assert {one for one in parameters if not list(problems(name, {one: 1 if _is_number(one) else "x"}))} == free


@pytest.mark.parametrize(
    ("client", "name", "free"),
    [(aiokafka.AIOKafkaProducer, "producer", PRODUCER), (aiokafka.AIOKafkaConsumer, "consumer", CONSUMER)],
)
def test_defaults_of_the_library_could_be_given(client: type, name: Any, free: set[str]) -> None:
    """A type that refuses the default is a wrong type; where it is None, the parameter is left out."""
    defaults = {one: inspect.signature(client).parameters[one].default for one in free}
    assert list(problems(name, {one: value for one, value in defaults.items() if value is not None})) == []


def _is_number(name: str) -> bool:
    return name.endswith(("_bytes", "_ms", "_size"))


@pytest.mark.parametrize(
    ("clients", "refused"),
    [({"producers": (0,)}, "producer_config"), ({"consumers": (0,)}, "consumer_config")],
)
def test_a_value_that_the_library_refuses_is_told_with_what_to_check(
    clients: dict[str, Any], refused: str, tmp_path: Path
) -> None:
    """One text instead of a traceback."""
    scenario = Scenario.of({"consumers": 1}).model_copy(update={refused: {"retry_backoff_ms": ""}})
    with Notes() as notes, SharedCounters.create(tmp_path / "counters", 1, groups=1) as counters:
        assignment = Assignment(
            worker=0,
            counters=counters.path,
            bootstrap_servers="127.0.0.1:9",
            access=Access(),
            topic="t",
            group="g",
            scenario=scenario,
            read_partitions=1,
            **clients,
        )
        with pytest.raises(LoadError) as raised:
            asyncio.run(LoadWorker(assignment, notes).run())
    assert str(raised.value) == (
        "aiokafka rejects the client configuration: TypeError: unsupported operand type(s) for /: 'str' and 'int'; "
        "check producer_config and consumer_config"
    )
