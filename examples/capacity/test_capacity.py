"""How much can it take? The highest rate at which a promise is kept, and a limit on how far it may fall.

A search takes 17 steps or more, each a warm-up and `hold`: some minutes. Where a limit speaks of a baseline, there are
five, and each begins near the last one's result.
"""

import pytest


@pytest.mark.kafka_scenario(record_size="1 KiB", acks="all", warmup="2 s")
@pytest.mark.kafka_threshold("capacity >= 5k records/s")
def test_how_much_keeps_the_promise(kafka_perf):
    """The promise of the topic: 20 ms for all but one record in a hundred, and no error."""
    kafka_perf.capacity(
        "produce.latency.p99 <= 20 ms", "errors == 0", low="1k records/s", high="500k records/s", hold="5 s"
    )


@pytest.mark.kafka_scenario(record_size="1 KiB", acks="all", consumers=1, warmup="2 s")
@pytest.mark.kafka_threshold("capacity >= baseline - 10%")
def test_how_much_consumers_keep_up_with(kafka_perf):
    """One consumer, which is never farther behind than a thousand records when the last one is due."""
    kafka_perf.capacity(
        "lag.end <= 1000", "e2e.latency.p99 <= 100 ms", low="1k records/s", high="500k records/s", hold="5 s"
    )
