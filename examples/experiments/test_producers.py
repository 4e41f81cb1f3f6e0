"""How much do more producers bring?

Expected: throughput rises with the producers, nearly in proportion, until the brokers (or this machine) have no CPU
left; what brokers use of CPU and memory rises alongside. Sources A and B of the README: 6 partitions, 100 B, no
replication; B has 1.28 million records/s of one producer and 3.5 million of three.
"""

import pytest


@pytest.mark.parametrize("producers", [1, 2, 3])
@pytest.mark.kafka_scenario(record_size="100 B", partitions=6, acks=1)
def test_producers(kafka_perf, producers):
    kafka_perf()
