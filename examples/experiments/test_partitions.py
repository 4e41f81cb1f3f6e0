"""The effect of the number of partitions.

Expected: throughput rises up to the number of brokers, then remains constant or falls slightly, and is best at
multiples of that number (sources A and B in the README: 100 B, 3 producers, 3 brokers). With a large number of
partitions, it falls again on small brokers (source D: 3, 12, 30, 100 partitions).
"""

import pytest

from pytest_kafkaperf import kafka_cluster, kafka_scenario

pytestmark = [
    kafka_cluster(brokers=3),
    kafka_scenario(record_size="100 B", producers=3, acks=1, warmup="3 s"),
]


@pytest.mark.parametrize("partitions", [1, 2, 3, 4, 5, 6, 7, 8, 9])
def test_few_partitions(kafka_perf, partitions):
    kafka_perf()


@pytest.mark.parametrize("partitions", [3, 12, 30, 100])
def test_many_partitions(kafka_perf, partitions):
    kafka_perf()
