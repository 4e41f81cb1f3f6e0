"""What does batching bring?

Expected: larger batches bring throughput, and at one rate they cost the brokers half the CPU. Source D of the README,
with 1 KiB records at a target of 102,400/s: 37,697/s in batches of 1 KiB, 102,399/s in 16 KiB at half the broker CPU.

A batch of 1 KiB holds but one record, and 102,400 requests a second are more than a generator on two cores makes: the
first test is as fast as it goes, and the second at a rate that even such batches reach.
"""

import pytest

pytestmark = pytest.mark.kafka_scenario(record_size="1 KiB", partitions=3, acks=1, warmup="3 s")
BATCHES = pytest.mark.parametrize("batch_size", ["1 KiB", "16 KiB"])
LINGER = pytest.mark.parametrize("linger", ["0 ms", "10 ms"])


@LINGER
@BATCHES
def test_batching(kafka_perf, batch_size, linger):
    """As fast as it goes, up to what the brokers take."""
    kafka_perf()


@LINGER
@BATCHES
@pytest.mark.kafka_scenario(rate="5k records/s")
def test_batching_at_a_rate(kafka_perf, batch_size, linger):
    """The same work for the brokers, but for the number of requests: look at their CPU."""
    kafka_perf()
