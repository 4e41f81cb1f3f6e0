"""The speed at which consumers read a backlog.

Expected: one consumer is faster than one producer, and more consumers read proportionally more (sources A and B in the
README, with 6 partitions and 100 B: 640,000 and 3,060,000 records/s for one consumer). The fetch size hardly matters
(source C: 1 MiB; source E: 4.7 to 5 million records/s of 32 B with every size). For buffers, see
`test_socket_buffers.py`.
"""

import pytest

from pytest_kafkaperf import kafka_scenario

pytestmark = kafka_scenario(record_size="100 B", partitions=6, acks=1, consumers=1, consume="after")


@pytest.mark.parametrize("consumers", [1, 2, 3])
def test_consumers(kafka_perf, consumers):
    kafka_perf()


@pytest.mark.parametrize("fetch_bytes", [64 << 10, 1 << 20, 8 << 20])
def test_fetch_size(kafka_perf, fetch_bytes):
    """The maximum size of a partition's data in one response."""
    kafka_perf(consumer_config={"max.partition.fetch.bytes": fetch_bytes})
