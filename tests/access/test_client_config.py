"""Parameters of clients: which may be set, and who decides the others."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kafkaperf.client_config import CONSUMER, PRODUCER, Parameters
from pytest_kafkaperf.scenario import Scenario

_NEAR = "did you mean 'max_request_size'?"


@pytest.mark.parametrize(
    ("parameters", "given", "problems"),
    [
        (PRODUCER, {"request.timeout.ms": 5000, "connections_max_idle_ms": None, "client.id": "me"}, []),
        (CONSUMER, {"fetch.min.bytes": 0, "client.rack": None, "session_timeout_ms": 6000}, []),
        (PRODUCER, {"acks": 1}, ["producer_config: 'acks' is decided by the field acks; set that instead"]),
        (
            PRODUCER,
            {"batch.size": 1, "linger.ms": 1},
            [
                "producer_config: 'batch.size' is decided by the field batch_size; set that instead",
                "producer_config: 'linger.ms' is decided by the field linger; set that instead",
            ],
        ),
        (
            CONSUMER,
            {"isolation.level": "read_committed", "group.id": "mine"},
            [
                "consumer_config: 'isolation.level' is decided by the field isolation_level; set that instead",
                "consumer_config: 'group.id' is decided by the plugin; leave it out",
            ],
        ),
        (
            PRODUCER,
            {"max_request": 1},
            [f"producer_config: unknown parameter 'max_request' of aiokafka's producer: {_NEAR}"],
        ),
        (
            CONSUMER,
            {"fetch.min.bytes": "1 MiB"},
            ["consumer_config: 'fetch.min.bytes' is '1 MiB'; use a whole number from 0 to 2147483647"],
        ),
        (
            CONSUMER,
            {"rebalance_timeout_ms": True, "heartbeat_interval_ms": None},
            [
                "consumer_config: 'rebalance_timeout_ms' is True; use a whole number from 1 to 2147483647 or None",
                "consumer_config: 'heartbeat_interval_ms' is None; use a whole number from 1 to 2147483647",
            ],
        ),
        (PRODUCER, {"client_id": 5}, ["producer_config: 'client_id' is 5; use text"]),
        (
            PRODUCER,
            {"max.request.size": 1, "max_request_size": 2},
            ["producer_config: 'max_request_size' and 'max.request.size' are one parameter; give one of them"],
        ),
    ],
)
def test_every_problem_of_a_configuration_is_named(
    parameters: Parameters, given: dict[str, Any], problems: list[str]
) -> None:
    """A parameter that changes nothing, or another thing than the scenario says, would make figures a riddle."""
    assert list(parameters.problems(given)) == problems


def test_a_secret_that_does_not_belong_there_is_not_repeated() -> None:
    """The text of a refusal goes into CI's log."""
    given = {"sasl_plain_password": "hunter2", "sasl.plain.username": "hunter2", "ssl_context": "hunter2"}
    problems = list(PRODUCER.problems(given))
    assert problems[0] == "producer_config: 'sasl_plain_password' is decided by the cluster; leave it out"
    assert "hunter2" not in "".join(problems)
    with pytest.raises(Exception, match="sasl_plain_password") as caught:
        Scenario.of({"producer_config": given})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("parameters", [PRODUCER, CONSUMER])
def test_a_field_that_decides_a_parameter_is_one_of_the_scenario(parameters: Parameters) -> None:
    """A refusal must not send anyone to a field that does not exist."""
    assert set(parameters.fields.values()) <= set(Scenario.model_fields)
