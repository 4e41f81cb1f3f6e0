"""The service's SLA with Avro and Protobuf orders, and a check that others can read its topics."""

import independent
import payloads
import shop

from pytest_kafkaperf import kafka_scenario, kafka_threshold

pytestmark = [
    kafka_scenario(output_topic=shop.ACCEPTED, rate="500 records/s", duration="3 s", rounds=3, consumers=1),
    kafka_threshold("e2e.latency.p50 <= 100 ms", "e2e.latency.p99 <= 500 ms", "lost == 0", "duplicated == 0"),
]


@kafka_scenario(
    topic=shop.AVRO_ORDERS,
    payload=payloads.make_avro_order,
    identify={"input": payloads.id_of_avro_order, "output": payloads.id_of_accepted_order},
)
def test_avro_orders(start_service, kafka_perf, kafka_cluster, registry_url):
    """Avro orders are accepted within half a second, and none is lost or written twice."""
    start_service("avro", shop.AVRO_ORDERS)
    kafka_perf()
    check_topics(kafka_cluster.bootstrap_servers, shop.AVRO_ORDERS, registry_url)


@kafka_scenario(
    topic=shop.PROTOBUF_ORDERS,
    payload=payloads.make_protobuf_order,
    identify={"input": payloads.id_of_protobuf_order, "output": payloads.id_of_accepted_order},
)
def test_protobuf_orders(start_service, kafka_perf, kafka_cluster, registry_url):
    """The same for Protobuf orders."""
    start_service("protobuf", shop.PROTOBUF_ORDERS)
    kafka_perf()
    check_topics(kafka_cluster.bootstrap_servers, shop.PROTOBUF_ORDERS, registry_url)


def check_topics(bootstrap_servers, topic, registry_url):
    """Check that an independent reader can read every record, and finds each order in both topics."""
    orders = independent.read_topic(bootstrap_servers, topic, registry_url)
    accepted = independent.read_topic(bootstrap_servers, shop.ACCEPTED, registry_url)
    assert orders
    assert sorted(order["id"] for order in orders) == sorted(each["order_id"] for each in accepted)
    totals = {order["id"]: order["quantity"] * order["price_cents"] for order in orders}
    assert {each["order_id"]: each["total_cents"] for each in accepted} == totals
