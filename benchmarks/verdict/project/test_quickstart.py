"""The scenarios of examples/quickstart, shorter, with limits on what changes by itself: nothing may."""

import pytest

pytestmark = pytest.mark.kafka_scenario(record_size="1 KiB", duration="1 s", warmup="500 ms")


@pytest.mark.kafka_scenario(rate="5k records/s", acks="all")
@pytest.mark.kafka_threshold("produce.throughput >= baseline - 10%", "produce.latency.p99 <= baseline + 20%")
def test_producer_sla(kafka_perf):
    """Paced, durable."""
    kafka_perf()


@pytest.mark.kafka_scenario(rate="2 MiB/s", consumers=1)
@pytest.mark.kafka_threshold("consume.throughput >= baseline - 10%", "e2e.latency.p99 <= baseline + 20%")
def test_end_to_end_sla(kafka_perf):
    """Paced, with a consumer."""
    kafka_perf()


@pytest.mark.kafka_scenario(record_size="100 B", acks=1)
@pytest.mark.kafka_threshold("produce.throughput >= baseline - 10%")
def test_throughput_guard(kafka_perf):
    """As fast as the broker takes it: the noisiest of all."""
    kafka_perf()
