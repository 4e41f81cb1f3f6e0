"""The effect on clients when a broker stops and comes back.

Expected: throughput drops and latency rises while the broker's partitions get new leaders, but no record is lost,
because brokers acknowledge a record only after it has a second copy. `recovery` is the time until latency is normal
again.
"""

import pytest

from pytest_kafkaperf import kafka_cluster, kafka_scenario, kafka_threshold


@kafka_cluster(brokers=3)
@kafka_scenario(
    record_size="1 KiB",
    partitions=6,
    replication_factor=3,
    topic_config={"min.insync.replicas": 2},
    acks="all",
    rate="2k records/s",
    duration="15 s",
    warmup="2 s",
    rounds=1,
)
@kafka_threshold("lost == 0")
def test_failover(kafka_perf, kafka_cluster):
    if kafka_cluster.provider == "external":
        pytest.skip("this test can stop only brokers that the plugin started")
    kafka_perf.at("3 s", kafka_cluster.stop_broker, 2)
    kafka_perf.at("8 s", kafka_cluster.start_broker, 2)
    kafka_perf()
