"""The cost of flushing every record to disk before it is acknowledged.

Expected: throughput falls by an order of magnitude. Source D in the README: 30,000 to 40,000 records/s on brokers of
any size with a flush for each message, 280,000 to 1,000,000 without. Kafka itself relies on replication for durability;
see `test_replication.py`.
"""

import pytest

from pytest_kafkaperf import kafka_scenario


@pytest.mark.parametrize("topic_config", [{}, {"flush.messages": 1}], ids=["default", "flush-per-message"])
@kafka_scenario(record_size="1 KiB", partitions=6, acks=1, warmup="3 s")
def test_durability(kafka_perf, topic_config):
    kafka_perf()
