"""Parameters of clients: which may be set, and who decides the others."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, Literal

import pytest

from pytest_kafkaperf.scenario.client_config import FIELDS, problems
from pytest_kafkaperf.scenario.scenario import Scenario

_NEAR = "did you mean 'max_request_size'?"


@pytest.mark.parametrize(
    ("client", "given", "expected"),
    [
        ("producer", {"request.timeout.ms": 5000, "connections_max_idle_ms": 0, "client.id": "me"}, []),
        ("consumer", {"fetch.min.bytes": 0, "client.rack": "a", "session_timeout_ms": 6000}, []),
        ("producer", {"acks": 1}, ["producer_config: 'acks' is decided by the field acks; set that instead"]),
        (
            "producer",
            {"batch.size": 1, "linger.ms": 1},
            [
                "producer_config: 'batch.size' is decided by the field batch_size; set that instead",
                "producer_config: 'linger.ms' is decided by the field linger; set that instead",
            ],
        ),
        (
            "consumer",
            {"isolation.level": "read_committed", "group.id": "mine"},
            [
                "consumer_config: 'isolation.level' is decided by the field isolation_level; set that instead",
                "consumer_config: 'group.id' is decided by the plugin; leave it out",
            ],
        ),
        (
            "producer",
            {"max_request": 1},
            [f"producer_config: unknown parameter 'max_request' of aiokafka's producer: {_NEAR}"],
        ),
        (
            "consumer",
            {"fetch.min.bytes": "1 MiB"},
            ["consumer_config: 'fetch.min.bytes' is '1 MiB'; use a whole number from 0 to 2147483647"],
        ),
        (
            "consumer",
            {"rebalance_timeout_ms": True, "heartbeat_interval_ms": None},
            [
                "consumer_config: 'rebalance_timeout_ms' is True; use a whole number from 0 to 2147483647",
                "consumer_config: 'heartbeat_interval_ms' is None; use a whole number from 0 to 2147483647",
            ],
        ),
        ("producer", {"client_id": 5}, ["producer_config: 'client_id' is 5; use text"]),
        (
            "producer",
            {"max_in_flight_requests_per_connection": 0, "request_timeout_ms": 1 << 31},
            [
                "producer_config: 'max_in_flight_requests_per_connection' is 0; use a whole number from 1 to "
                "2147483647",
                "producer_config: 'request_timeout_ms' is 2147483648; use a whole number from 0 to 2147483647",
            ],
        ),
        (
            "producer",
            {"ssl.truststore.location": "x"},
            ["producer_config: 'ssl.truststore.location' is decided by the cluster; leave it out"],
        ),
        (
            "producer",
            {"max.request.size": 1, "max_request_size": 2},
            ["producer_config: 'max_request_size' and 'max.request.size' are one parameter; give one of them"],
        ),
    ],
)
def test_every_problem_of_a_configuration_is_named(
    client: Literal["producer", "consumer"], given: dict[str, Any], expected: list[str]
) -> None:
    """A parameter that changes nothing, or another thing than the scenario says, would make figures a riddle."""
    assert list(problems(client, given)) == expected


def test_a_secret_that_does_not_belong_there_is_not_repeated() -> None:
    """The text of a refusal goes into CI's log."""
    given = {"sasl_plain_password": "hunter2", "sasl.plain.username": "hunter2", "ssl_context": "hunter2"}
    told = list(problems("producer", given))
    assert told[0] == "producer_config: 'sasl_plain_password' is decided by the cluster; leave it out"
    assert "hunter2" not in "".join(told)
    with pytest.raises(Exception, match="sasl_plain_password") as caught:
        Scenario.of({"producer_config": given})
    assert "hunter2" not in str(caught.value)


def test_a_field_that_decides_a_parameter_is_one_of_the_scenario() -> None:
    """A refusal must not send anyone to a field that does not exist."""
    assert set(FIELDS.values()) <= set(Scenario.model_fields)


def test_a_scenario_without_parameters_of_clients_does_not_load_the_client_library() -> None:
    """Collection stays fast."""
    code = "import sys; from pytest_kafkaperf import Scenario; Scenario.of({}); assert 'aiokafka' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
