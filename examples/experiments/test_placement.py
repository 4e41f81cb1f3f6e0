"""The cost of clients in another zone.

Expected: with small batches, a few more milliseconds of network latency reduce throughput by more than half. Source D
in the README: 37,697 records/s from the same zone and 15,358 from another one, with batches of 1 KiB. Larger batches,
and more batches in flight, compensate for the latency.

A proxy in front of each broker simulates the distance: 0 ms, and 2 ms in each direction. The proxy requires brokers
without encryption on this machine, because it replaces the addresses that the brokers send to their clients.
"""

import dataclasses

import proxy
import pytest

from pytest_kafkaperf import kafka_scenario


@pytest.fixture
def kafka_cluster(kafka_cluster, way_ms):
    """The same brokers behind proxies with this delay."""
    if kafka_cluster.provider == "external":
        pytest.skip("the proxies need brokers on this machine")
    with proxy.far(kafka_cluster.bootstrap_servers, delay_s=way_ms / 1000) as servers:
        yield dataclasses.replace(kafka_cluster, bootstrap_servers=servers)


@pytest.mark.parametrize("batch_size", ["1 KiB", "16 KiB"])
@pytest.mark.parametrize("way_ms", [0, 2])
@kafka_scenario(record_size="1 KiB", partitions=3, acks=1, warmup="3 s")
def test_placement(kafka_perf, way_ms, batch_size):
    kafka_perf()
