"""What does a topic take while it is read?

Expected: about what the slower side does alone, and most of it at once (A of the README: 621,504 records/s of a pair
beside 640,000 of the consumer alone; B: 1,215,613 beside 1,280,000 of the producer alone). End-to-end latency and lag
say how far behind the reader is: at a rate below that, milliseconds.
"""

import pytest

pytestmark = pytest.mark.kafka_scenario(record_size="100 B", partitions=6, acks=1, consumers=1)


def test_pair(kafka_perf):
    """As fast as it goes."""
    kafka_perf()


@pytest.mark.kafka_scenario(rate="20k records/s")
def test_paced_pair(kafka_perf):
    """At a rate that both can take: what is measured is the time on the way."""
    kafka_perf()
