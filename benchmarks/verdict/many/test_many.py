"""Thirty tests with a threshold on their baselines, of default length; `runs.py` runs them as `many`."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kafkaperf import KafkaPerf

_THROUGHPUT = "produce.throughput >= baseline - 25%"
_PRODUCE = "produce.latency.p50 <= baseline + 25%"
_END_TO_END = "e2e.latency.p50 <= baseline + 25%"
_RATES = (1, 2, 5, 10, 20)


def _load(threshold: str, **fields: Any) -> Any:
    name = "-".join(f"{key}={value}" for key, value in fields.items()).replace(" records/s", "")
    return pytest.param(id=name, marks=[pytest.mark.kafka_scenario(**fields), pytest.mark.kafka_threshold(threshold)])


_CLOSED = [
    _load(_THROUGHPUT, record_size=size, acks=acks) for size in (100, 300, 1000, 3000, 10_000) for acks in (1, "all")
]
_PACED = [_load(_PRODUCE, rate=f"{rate}k records/s", record_size=size) for rate in _RATES for size in (100, 1000)]
_CONSUMED = [
    _load(_END_TO_END, rate=f"{rate}k records/s", record_size=100, partitions=number, consumers=1)
    for rate in _RATES
    for number in (1, 6)
]


@pytest.mark.parametrize((), [*_CLOSED, *_PACED, *_CONSUMED])
def test_load(kafka_perf: KafkaPerf) -> None:
    """Run the load of the marks."""
    kafka_perf()
