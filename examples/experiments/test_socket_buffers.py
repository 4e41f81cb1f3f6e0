"""The cost of small socket buffers.

Expected: throughput falls, and more so with larger records. Source E in the README, with 10 partitions, for buffers of
100 KiB (Kafka's default) and 1 KiB: 2,573,208 and 2,206,629 records/s of 16 B, and 1,358,843 and 837,437 records/s of
64 B. On a network with high latency, the difference is far greater, because a buffer limits the bytes in flight.
"""

import pytest

from pytest_kafkaperf import kafka_scenario

SMALL = {"socket.send.buffer.bytes": 1024, "socket.receive.buffer.bytes": 1024}
"""Buffer sizes at the brokers' end of each connection."""


@pytest.mark.parametrize("config", [{}, SMALL], ids=["100 KiB", "1 KiB"])
@pytest.mark.parametrize("record_size", [16, 64])
@kafka_scenario(partitions=10, acks=1, warmup="5 s")
def test_socket_buffers(kafka_perf, record_size, config):
    kafka_perf()
