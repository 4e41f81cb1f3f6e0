"""The throughput of a topic that is written and read at the same time.

Expected: about the throughput of the slower side alone (source A in the README: 621,504 records/s for a pair, 640,000
for the consumer alone; source B: 1,215,613 for a pair, 1,280,000 for the producer alone). End-to-end latency and lag
show how far behind the consumer is: only milliseconds at a lower rate.
"""

from pytest_kafkaperf import kafka_scenario

pytestmark = kafka_scenario(record_size="100 B", partitions=6, acks=1, consumers=1)


def test_pair(kafka_perf):
    """A closed loop."""
    kafka_perf()


@kafka_scenario(rate="20k records/s")
def test_paced_pair(kafka_perf):
    """A rate that both sides can handle, to measure end-to-end latency."""
    kafka_perf()
