"""The effect of batch size and linger.

Expected: larger batches raise throughput; at the same rate, they halve the brokers' CPU usage. Source D in the README,
with 1 KiB records at a target of 102,400/s: 37,697/s in batches of 1 KiB, 102,399/s in batches of 16 KiB with half the
CPU usage.

A batch of 1 KiB contains a single record, and a generator on two cores cannot send 102,400 requests per second. The
first test is therefore a closed loop, and the second test uses a rate that is possible even with such batches.
"""

import pytest

from pytest_kafkaperf import kafka_scenario

pytestmark = kafka_scenario(record_size="1 KiB", partitions=3, acks=1, warmup="3 s")
BATCHES = pytest.mark.parametrize("batch_size", ["1 KiB", "16 KiB"])
LINGER = pytest.mark.parametrize("linger", ["0 ms", "10 ms"])


@LINGER
@BATCHES
def test_batching(kafka_perf, batch_size, linger):
    """A closed loop."""
    kafka_perf()


@LINGER
@BATCHES
@kafka_scenario(rate="5k records/s")
def test_batching_at_a_rate(kafka_perf, batch_size, linger):
    """The same records in different numbers of requests: compare the brokers' CPU usage."""
    kafka_perf()
