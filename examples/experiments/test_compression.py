"""The effect of each compression codec.

Expected: on text (here zeros, the easiest input), a codec raises throughput if the network or disk is the bottleneck,
and costs CPU on the clients. On random bytes, a codec only costs CPU. There are no published results for comparison,
because results depend mostly on the data. Use your own samples: `payload="file:orders.jsonl"`.
"""

import pytest

from pytest_kafkaperf import kafka_scenario


@pytest.mark.parametrize("payload", ["random", "zeros"])
@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
@kafka_scenario(record_size="1 KiB", partitions=6, acks=1)
def test_compression(kafka_perf, compression, payload):
    kafka_perf()
