"""How fast is a topic drained?

Expected: one consumer outruns one producer, and more consumers read more, in proportion (A and B of the README: 6
partitions, 100 B; 640,000 and 3,060,000 records/s of one consumer). How much is fetched at once
hardly matters (C: 1 MiB; E: 4.7 to 5 million records/s of 32 B, whatever it is). For buffers see
`test_socket_buffers.py`.
"""

import pytest

pytestmark = pytest.mark.kafka_scenario(record_size="100 B", partitions=6, acks=1, consumers=1, consume="backlog")


@pytest.mark.parametrize("consumers", [1, 2, 3])
def test_consumers(kafka_perf, consumers):
    kafka_perf()


@pytest.mark.parametrize("fetch_bytes", [64 << 10, 1 << 20, 8 << 20])
def test_fetch_size(kafka_perf, fetch_bytes):
    """The most that a broker gives of one partition at once."""
    kafka_perf(consumer_config={"max.partition.fetch.bytes": fetch_bytes})
