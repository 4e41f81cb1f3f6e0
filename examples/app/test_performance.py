"""The promise of the service: every order comes out enriched within half a second, and none is lost.

Orders go into the input topic, and are timed when they come out of the other. The service copies headers, among them
the one with which the plugin matches the records of both topics.
"""

import pytest


@pytest.mark.kafka_scenario(
    topic="orders",
    output_topic="orders-enriched",
    payload="file:orders.jsonl",
    rate="500 records/s",
    duration="5 s",
    warmup="2 s",
    rounds=3,
    consumers=1,
)
@pytest.mark.kafka_threshold("e2e.latency.p50 <= 100 ms", "e2e.latency.p99 <= 500 ms", "lost == 0", "duplicated == 0")
def test_an_order_is_out_within_half_a_second(kafka_app, kafka_perf):
    """At 500 orders a second."""
    kafka_app(["python", "enricher.py"], ready="group:enricher", topics=("orders", "orders-enriched"))
    kafka_perf()
