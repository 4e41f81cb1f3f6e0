"""A gate on what a record costs, and on how long it takes."""

import pytest


@pytest.mark.kafka_scenario(rate="100 records/s", topic="orders", output_topic="orders-enriched", consumers=1)
@pytest.mark.kafka_threshold("app.cpu <= baseline + 5%", "e2e.latency.p50 <= baseline + 50%", "lost == 0")
def test_orders(kafka_app, kafka_perf):
    """Compare with the other revision."""
    kafka_app(
        ["python", "-m", "orders"],
        ready="group:orders-service",
        topics={"orders": 2, "orders-enriched": 2},
        name="orders",
    )
    kafka_perf()
