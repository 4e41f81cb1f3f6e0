"""What is slowed down, with a tolerance of 5 %."""

import os

import pytest

# Quotas act within a second: Kafka's default averages over 11 windows of a second, and lets the first burst through.
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
    """One producer, as fast as the broker takes it."""
    kafka_perf()


@pytest.mark.kafka_scenario(record_size="1 KiB", rate="50 MiB/s")
@pytest.mark.kafka_threshold("produce.throughput >= baseline - 5%")
def test_paced(kafka_perf):
    """A rate that the broker takes easily: what is missing of it, a quota took."""
    kafka_perf()


@pytest.mark.kafka_scenario(record_size="1 KiB", producers=3)
@pytest.mark.kafka_threshold("produce.throughput >= baseline - 5%")
def test_three_producers(kafka_perf):
    """For settings that show under more connections than one."""
    kafka_perf()
