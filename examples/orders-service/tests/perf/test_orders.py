"""The service's SLA: orders are written in time, and none is lost or written twice."""

import pytest

from pytest_kafkaperf import kafka_scenario, kafka_threshold

pytestmark = kafka_scenario(
    topic="orders",
    output_topic="orders-enriched",
    payload="file:orders.jsonl",
    rate="500 records/s",
    warmup="1 s",
    consumers=1,
)


@pytest.fixture
def service(kafka_app):
    return kafka_app(
        ["python", "-m", "orders_service"], ready="group:orders-service", topics=("orders", "orders-enriched")
    )


@kafka_scenario(duration="3 s", rounds=3)
@kafka_threshold(
    "e2e.latency.p50 <= 100 ms",
    "e2e.latency.p99 <= 500 ms",
    "lost == 0",
    "duplicated == 0",
    "app.cpu <= 1 core",
    "app.memory <= 200 MB",
)
def test_orders_are_out_within_half_a_second(service, kafka_perf):
    kafka_perf()


@kafka_scenario(watch_group="orders-service", duration="10 s", rounds=1)
@kafka_threshold("app.recovery <= 5 s", "lost == 0", "duplicated == 0")
def test_a_restart_loses_no_order(service, kafka_perf):
    kafka_perf.at("2 s", service.restart)
    kafka_perf()
