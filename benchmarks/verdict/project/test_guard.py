"""The tests that are slowed down, with a tolerance of 5 %."""

import os

import pytest

# Quotas act within a second here: Kafka's default averages over 11 windows of a second, and allows a first burst.
_CONFIG = {"quota.window.num": "2"}
if "KAFKAPERF_PROPERTY" in os.environ:
    _name, _, _value = os.environ["KAFKAPERF_PROPERTY"].partition("=")
    _CONFIG[_name] = _value

pytestmark = [
    pytest.mark.kafka_cluster(config=_CONFIG),
    pytest.mark.kafka_scenario(duration="2 s", warmup="1 s", acks=1),
]


@pytest.mark.kafka_scenario(record_size="1 KiB")
@pytest.mark.kafka_threshold("produce.throughput >= baseline - 5%")
def test_guard(kafka_perf):
    """Run one producer in a closed loop."""
    kafka_perf()


@pytest.mark.kafka_scenario(record_size="1 KiB", rate="50 MiB/s")
@pytest.mark.kafka_threshold("produce.throughput >= baseline - 5%")
def test_paced(kafka_perf):
    """Run at a rate that the broker takes easily, so that only a quota reduces the throughput."""
    kafka_perf()


@pytest.mark.kafka_scenario(record_size="1 KiB", producers=3)
@pytest.mark.kafka_threshold("produce.throughput >= baseline - 5%")
def test_three_producers(kafka_perf):
    """Run several connections, for settings that show only then."""
    kafka_perf()
