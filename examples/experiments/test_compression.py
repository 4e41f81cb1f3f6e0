"""Which codec, if any?

Expected: on text (here zeros, the easiest) a codec brings throughput wherever network or disk are the limit, and
costs CPU of the clients; on random bytes it costs and brings nothing. No published figures are compared: they depend
on the data more than on anything else. Put your own samples there: `payload="file:orders.jsonl"`.
"""

import pytest


@pytest.mark.parametrize("payload", ["random", "zeros"])
@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.kafka_scenario(record_size="1 KiB", partitions=6, acks=1)
def test_compression(kafka_perf, compression, payload):
    kafka_perf()
