"""A load that ends worse than it began: the steadiness metrics show it, and stay near 100% where nothing changes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.proxy import ProxiedBroker
from tests.support.rounds import Load, Once

THROUGHPUT, P99 = "produce.throughput.steadiness", "e2e.latency.p99.steadiness"
FIELDS: dict[str, Any] = {"duration": "27 s", "partitions": 1, "consumers": 1}
"""Each third has nine seconds, so that its median is the same if the machine stalls for up to three of them."""
PACED: dict[str, Any] = {**FIELDS, "rate": "1k records/s"}
LAST_THIRD_S = 18.0
DELAY_S = 0.5


@pytest.fixture
def broker(behind: ProxiedBroker) -> ProxiedBroker:
    """The shared broker, as fast as it is."""
    behind.proxy.delay(0)
    return behind


def test_a_broker_that_slows_down_at_the_end_makes_the_end_to_end_latency_unsteady(
    broker: ProxiedBroker, load: Load
) -> None:
    """The p99 of the whole window would be the same if the broker had been slow at any other time, or just once."""
    calm = load(broker.proxied, **PACED)
    assert calm.faults == []
    assert calm.metrics[THROUGHPUT] == pytest.approx(1, abs=0.05)

    slow = Once(lambda: broker.proxy.delay(DELAY_S), after_s=LAST_THIRD_S)
    ran = load(broker.proxied, **PACED, on_progress=slow)
    assert ran.faults == []
    assert slow.done_s is not None
    assert ran.metrics[P99] > 2 * calm.metrics[P99]
    assert ran.metrics[P99] > 2


def test_a_broker_that_slows_down_at_the_end_makes_a_closed_loop_unsteady(broker: ProxiedBroker, load: Load) -> None:
    """A producer that waits for each answer sends less, which the mean over the window shows only in part."""
    slow = Once(lambda: broker.proxy.delay(DELAY_S), after_s=LAST_THIRD_S)
    ran = load(broker.proxied, **FIELDS, on_progress=slow)
    assert ran.faults == []
    assert slow.done_s is not None
    assert ran.metrics[THROUGHPUT] < 0.5
