"""A cluster's capacity: the highest rate that meets given thresholds, and the largest drop that is allowed.

A search has at least 17 steps, each with a warm-up and `hold`, so it takes a few minutes. If a threshold is relative to
a baseline, there are five searches, and each one starts near the previous result.
"""

from pytest_kafkaperf import kafka_scenario, kafka_threshold


@kafka_scenario(record_size="1 KiB", acks="all", warmup="2 s")
@kafka_threshold("capacity >= 5k records/s")
def test_how_much_keeps_the_promise(kafka_perf):
    """The topic's SLA: 99 of 100 records within 20 ms, and no errors."""
    kafka_perf.capacity(
        "produce.latency.p99 <= 20 ms", "errors == 0", low="1k records/s", high="500k records/s", hold="5 s"
    )


@kafka_scenario(record_size="1 KiB", acks="all", consumers=1, warmup="2 s")
@kafka_threshold("capacity >= baseline - 10%")
def test_how_much_consumers_keep_up_with(kafka_perf):
    """A single consumer must be at most 1,000 records behind when the last record is due."""
    kafka_perf.capacity(
        "lag.end <= 1000", "e2e.latency.p99 <= 100 ms", low="1k records/s", high="500k records/s", hold="5 s"
    )
