"""The typed decorators: they are the markers, and type checkers know their fields."""

from __future__ import annotations

import typing

import pytest

from pytest_kafkaperf import Scenario, kafka_cluster, kafka_scenario, kafka_threshold
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.plugin.decorators import ClusterFields, ScenarioFields


@pytest.mark.parametrize(("typed", "model"), [(ScenarioFields, Scenario), (ClusterFields, ClusterSpec)])
def test_the_decorators_have_every_field(typed: type, model: type[Scenario | ClusterSpec]) -> None:
    """An editor completes what it knows."""
    assert list(typing.get_type_hints(typed)) == list(model.model_fields)


def test_a_decorator_is_the_marker() -> None:
    """One test may use both."""
    marks = [kafka_scenario(rate="5k/s", acks=1), kafka_threshold("errors == 0", "p99 <= 1"), kafka_cluster(brokers=3)]
    assert [(one.name, one.args, one.kwargs) for one in marks] == [
        ("kafka_scenario", (), {"rate": "5k/s", "acks": 1}),
        ("kafka_threshold", ("errors == 0", "p99 <= 1"), {}),
        ("kafka_cluster", (), {"brokers": 3}),
    ]


def test_a_wrong_field_is_an_error_of_types() -> None:
    """mypy says so: without the comments, it reports these lines, and with them it reports comments without a use."""
    kafka_scenario(rat="5k/s")  # type: ignore[call-arg]
    kafka_scenario(linger=5)  # type: ignore[arg-type]
    kafka_scenario(acks="al")  # type: ignore[arg-type]
    kafka_threshold(25)  # type: ignore[arg-type]
    kafka_cluster(broker=3)  # type: ignore[call-arg]
