"""Parameters of clients: which may be set, and who decides the others."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, Literal

import pytest

from pytest_kafkaperf.core.errors import ScenarioError
from pytest_kafkaperf.load.engines.aiokafka.client_config import FIELDS, problems
from pytest_kafkaperf.load.engines.engine import client_problems
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.patience import PATIENCE_S

_NEAR = "did you mean 'max_request_size'?"


@pytest.mark.parametrize(
    ("client", "given", "expected"),
    [
        ("producer", {"request.timeout.ms": 5000, "connections_max_idle_ms": 0, "client.id": "me"}, []),
        ("consumer", {"fetch.min.bytes": 0, "client.rack": "a", "session_timeout_ms": 6000}, []),
        ("producer", {"acks": 1}, ["producer_config: 'acks' is set by the field acks; use that field"]),
        (
            "producer",
            {"batch.size": 1, "linger.ms": 1},
            [
                "producer_config: 'batch.size' is set by the field batch_size; use that field",
                "producer_config: 'linger.ms' is set by the field linger; use that field",
            ],
        ),
        (
            "consumer",
            {"isolation.level": "read_committed", "group.id": "mine"},
            [
                "consumer_config: 'isolation.level' is set by the field isolation_level; use that field",
                "consumer_config: 'group.id' is set by the plugin; remove it",
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
            [
                (
                    "consumer_config: invalid value '1 MiB' of 'fetch.min.bytes': must be a whole number between "
                    "0 and 2,147,483,647"
                )
            ],
        ),
        (
            "consumer",
            {"rebalance_timeout_ms": True, "heartbeat_interval_ms": None},
            [
                (
                    "consumer_config: invalid value True of 'rebalance_timeout_ms': must be a whole number "
                    "between 0 and 2,147,483,647"
                ),
                (
                    "consumer_config: invalid value None of 'heartbeat_interval_ms': must be a whole number "
                    "between 0 and 2,147,483,647"
                ),
            ],
        ),
        ("producer", {"client_id": 5}, ["producer_config: invalid value 5 of 'client_id': must be text"]),
        (
            "producer",
            {"max_in_flight_requests_per_connection": 0, "request_timeout_ms": 1 << 31},
            [
                (
                    "producer_config: invalid value 0 of 'max_in_flight_requests_per_connection': must be a "
                    "whole number between 1 and 2,147,483,647"
                ),
                (
                    "producer_config: invalid value 2147483648 of 'request_timeout_ms': must be a whole number "
                    "between 0 and 2,147,483,647"
                ),
            ],
        ),
        (
            "producer",
            {"ssl.truststore.location": "x"},
            ["producer_config: 'ssl.truststore.location' is set by the cluster; remove it"],
        ),
        (
            "producer",
            {"max.request.size": 1, "max_request_size": 2},
            [
                (
                    "producer_config: 'max_request_size' and 'max.request.size' are the same parameter; give "
                    "only one of them"
                )
            ],
        ),
    ],
)
def test_every_problem_of_a_configuration_is_named(
    client: Literal["producer", "consumer"], given: dict[str, Any], expected: list[str]
) -> None:
    """A parameter that changes nothing, or another thing than the scenario says, would make results a riddle."""
    assert list(problems(client, given)) == expected


def test_a_secret_that_does_not_belong_there_is_not_repeated() -> None:
    """The text of a refusal goes into CI's log."""
    given = {"sasl_plain_password": "hunter2", "sasl.plain.username": "hunter2", "ssl_context": "hunter2"}
    told = list(problems("producer", given))
    assert told[0] == "producer_config: 'sasl_plain_password' is set by the cluster; remove it"
    assert "hunter2" not in "".join(told)
    with pytest.raises(Exception, match="sasl_plain_password") as caught:
        Scenario.of({"producer_config": given}, further=client_problems)
    assert "hunter2" not in str(caught.value)


def test_problems_of_parameters_stand_behind_those_of_the_scenario() -> None:
    """The text is all that a user gets at collection; every problem is in it."""
    fields = {"producer_config": {"acks": 1}, "consumer_config": {"topics": "x"}}
    with pytest.raises(ScenarioError) as caught:
        Scenario.of({**fields, "consumers": 1}, further=client_problems)
    told = (
        "producer_config: 'acks' is set by the field acks; use that field; consumer_config: 'topics' is set by the "
        "plugin; remove it"
    )
    assert str(caught.value) == told
    with pytest.raises(ScenarioError) as caught:
        Scenario.of(fields, further=client_problems)
    needed = "consumer_config requires consumers; set consumers=1 or more, or remove consumer_config"
    assert str(caught.value) == f"{needed}; {told}"


def test_a_field_that_decides_a_parameter_is_one_of_the_scenario() -> None:
    """A refusal must not send anyone to a field that does not exist."""
    assert set(FIELDS.values()) <= set(Scenario.model_fields)


def test_a_scenario_without_parameters_of_clients_does_not_load_the_client_library() -> None:
    """Collection stays fast."""
    code = (
        "import sys; from pytest_kafkaperf import Scenario; "
        "from pytest_kafkaperf.load.engines.engine import client_problems; "
        "Scenario.of({}, further=client_problems); assert 'aiokafka' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_S)
