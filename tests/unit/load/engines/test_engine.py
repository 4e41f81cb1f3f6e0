"""What every client engine offers before a load."""

from __future__ import annotations

import pickle
from typing import get_args

import pytest

from pytest_kafkaperf.load.engines.engine import Engine, client_problems, engine_of, engines
from pytest_kafkaperf.scenarios.scenario import Scenario


def test_each_client_of_a_scenario_has_one_engine() -> None:
    """A client without one could be declared, and would fail in the middle of a run."""
    served = [client for engine in engines() for client in engine.clients]
    assert sorted(served) == sorted(get_args(Scenario.model_fields["client"].annotation))


@pytest.mark.parametrize("engine", engines(), ids=lambda engine: type(engine).__name__)
def test_an_engine_can_be_sent_to_a_worker_and_knows_its_version(engine: Engine) -> None:
    """Workers run on other machines, too; the version is one of the facts that results depend on."""
    engine.check()
    assert isinstance(pickle.loads(pickle.dumps(engine)), type(engine))  # noqa: S301 - our own
    assert all(name and text for name, text in engine.facts().items())
    assert engine.facts()


@pytest.mark.parametrize("engine", engines(), ids=lambda engine: type(engine).__name__)
def test_an_engine_refuses_parameters_that_its_client_lacks(engine: Engine) -> None:
    """A misspelled parameter would change nothing, and nobody would know."""
    for client in engine.clients:
        given = {"client": client, "consumers": 1, "producer_config": {"no.such": 1}, "consumer_config": {"none": 2}}
        problems = list(client_problems(Scenario.of(given)))
        assert [text.partition(":")[0] for text in problems] == ["producer_config", "consumer_config"]
        assert "no_such" in problems[0]
        assert "none" in problems[1]
        assert list(client_problems(Scenario.of({"client": client}))) == []


def test_the_engine_is_that_of_the_client() -> None:
    """Both ways of sending are aiokafka's."""
    assert {type(engine_of(client)).__name__ for client in ("batch", "record")} == {"AiokafkaEngine"}
