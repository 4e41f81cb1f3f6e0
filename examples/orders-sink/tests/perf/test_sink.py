"""The sink's SLA: it keeps up, stores orders in time, and does not lose any during a restart."""

import sqlite3

import pytest

from pytest_kafkaperf import kafka_scenario, kafka_threshold

pytestmark = kafka_scenario(
    topic="orders", watch_group="orders-sink", payload="file:orders.jsonl", rate="500 records/s", warmup="1 s"
)


@pytest.fixture
def sink(kafka_app, tmp_path):
    return kafka_app(
        ["python", "-m", "orders_sink"],
        ready="group:orders-sink",
        topics=["orders"],
        env={"ORDERS_DATABASE": str(tmp_path / "{side}.sqlite")},
    )


@kafka_scenario(duration="3 s", rounds=3)
@kafka_threshold(
    "app.delay.p99 <= 2 s",
    "app.lag.slope <= 50 records/s",
    "app.throughput >= 400 records/s",
    "app.drain <= 2 s",
    "app.cpu <= 1 core",
)
def test_orders_are_stored_within_two_seconds(sink, kafka_perf):
    kafka_perf()


@kafka_scenario(duration="10 s", rounds=1)
@kafka_threshold("app.recovery <= 5 s", "app.drain <= 5 s")
def test_a_restart_loses_no_order(sink, tmp_path, kafka_perf):
    kafka_perf.at("2 s", sink.restart)
    kafka_perf()
    gaps = "SELECT max(position) - min(position) + 1 - count(*) FROM orders GROUP BY partition"
    assert sqlite3.connect(tmp_path / "test.sqlite").execute(gaps).fetchall() == [(0,)] * 6
