"""The cost of replication, and of waiting for replicas.

Expected: throughput falls with the replication factor, but less than proportionally (sources A and B in the README: 500
B and 100 B). Waiting for all replicas (`acks="all"`) costs about as much again on small brokers, but little on large
ones (source D).
"""

import pytest

from pytest_kafkaperf import kafka_cluster, kafka_scenario


@pytest.mark.parametrize("acks", [1, "all"])
@pytest.mark.parametrize("replication_factor", [1, 2, 3])
@kafka_cluster(brokers=3)
@kafka_scenario(record_size="500 B", partitions=6, producers=3, warmup="3 s")
def test_replication(kafka_perf, replication_factor, acks):
    kafka_perf()
