"""What does it cost to have clients in another zone?

Expected: with small batches throughput falls by more than half for some milliseconds more on the way. Source D of the
README: 37,697 and 15,358 records/s with batches of 1 KiB, in the same zone and from another one. Larger batches, and
more of them on their way at once, make up for it.

A proxy before each broker stands for the way: with 0 ms, and with 2 ms in each direction. It needs brokers without
encryption, on this machine: it reads where they tell their clients to go.
"""

import dataclasses

import proxy
import pytest


@pytest.fixture
def kafka_cluster(kafka_cluster, way_ms):
    """The same brokers, as far away as that."""
    if kafka_cluster.provider == "external":
        pytest.skip("the proxies are for brokers on this machine; others have a way of their own")
    with proxy.far(kafka_cluster.bootstrap_servers, delay_s=way_ms / 1000) as servers:
        yield dataclasses.replace(kafka_cluster, bootstrap_servers=servers)


@pytest.mark.parametrize("batch_size", ["1 KiB", "16 KiB"])
@pytest.mark.parametrize("way_ms", [0, 2])
@pytest.mark.kafka_scenario(record_size="1 KiB", partitions=3, acks=1, warmup="3 s")
def test_placement(kafka_perf, way_ms, batch_size):
    kafka_perf()
