"""What runs on brokers that have just started."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kafkaperf.load.payload import Payload
from pytest_kafkaperf.runner.warmup import warm_up_load
from pytest_kafkaperf.scenarios.scenario import Scenario

THROUGH: dict[str, Any] = {"topic": "orders", "output_topic": "orders-enriched", "consumers": 1}


@pytest.mark.parametrize("fields", [{"record_size": 5}, {"payload": "file:short.txt"}, {"record_size": {5: 1, 99: 1}}])
def test_values_that_are_too_short_for_a_tag_are_replaced(fields: dict[str, Any]) -> None:
    """Through an application the tag is in a header; without one consumers would have nothing to find it in."""
    scenario = warm_up_load(Scenario.of({**THROUGH, **fields}), duration_s=3)
    assert (scenario.topic, scenario.output_topic, scenario.duration) == (None, None, 3)
    assert Payload(scenario, seed=0).tagged


def test_other_values_stay_as_they_are() -> None:
    """What a broker has to do depends on their size."""
    assert warm_up_load(Scenario.of({**THROUGH, "record_size": 16}), duration_s=3).record_size == 16
    assert warm_up_load(Scenario.of({"record_size": 5}), duration_s=3).record_size == 5
