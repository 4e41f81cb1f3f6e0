"""The effect of more producers.

Expected: throughput rises with the number of producers, nearly in proportion, until the brokers (or this machine) run
out of CPU; the brokers' CPU and memory usage also rises. Sources A and B in the README used 6 partitions, 100 B and no
replication; B measured 1.28 million records/s with one producer and 3.5 million with three.
"""

import pytest

from pytest_kafkaperf import kafka_scenario


@pytest.mark.parametrize("producers", [1, 2, 3])
@kafka_scenario(record_size="100 B", partitions=6, acks=1)
def test_producers(kafka_perf, producers):
    kafka_perf()
