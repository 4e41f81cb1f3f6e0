"""The scenarios of examples/quickstart, shortened, with thresholds that no unchanged run should break."""

import pytest

pytestmark = pytest.mark.kafka_scenario(record_size="1 KiB", duration="1 s", warmup="500 ms")


@pytest.mark.kafka_scenario(rate="5k records/s", acks="all")
@pytest.mark.kafka_threshold("produce.throughput >= baseline - 10%", "produce.latency.p99 <= baseline + 20%")
def test_producer_sla(kafka_perf):
    """Produce at a rate, with acknowledgement of all replicas."""
    kafka_perf()


@pytest.mark.kafka_scenario(rate="2 MiB/s", consumers=1)
@pytest.mark.kafka_threshold("consume.throughput >= baseline - 10%", "e2e.latency.p99 <= baseline + 20%")
def test_end_to_end_sla(kafka_perf):
    """Produce at a rate, with a consumer."""
    kafka_perf()


@pytest.mark.kafka_scenario(record_size="100 B", acks=1)
@pytest.mark.kafka_threshold("produce.throughput >= baseline - 10%")
def test_throughput_guard(kafka_perf):
    """Produce in a closed loop: the noisiest of all."""
    kafka_perf()
