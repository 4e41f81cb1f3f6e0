"""Two SLAs for a Kafka topic, each checked by a test.

Run `pytest` in this folder: the plugin starts a broker.
"""

from pytest_kafkaperf import kafka_scenario, kafka_threshold

pytestmark = kafka_scenario(record_size="1 KiB", duration="2 s", warmup="500 ms", rounds=3)


@kafka_scenario(rate="5k records/s", acks="all")
@kafka_threshold("produce.latency.p99 <= 250 ms")
def test_producer_sla(kafka_perf):
    """A service writes 5,000 orders per second, and requires acknowledgements within a quarter of a second."""
    kafka_perf()


@kafka_scenario(rate="2 MiB/s", consumers=1)
@kafka_threshold("e2e.latency.p99 <= 500 ms", "lag.end <= 1000", "duplicated == 0")
def test_end_to_end_sla(kafka_perf):
    """At 2 MiB per second, consumers receive records within half a second."""
    kafka_perf()
