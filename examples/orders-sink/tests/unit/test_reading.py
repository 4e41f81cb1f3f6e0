import logging

import pytest
from confluent_kafka import KafkaError, KafkaException

from orders_sink.settings import connection
from orders_sink.sink import orders
from orders_sink.store import Order


class FakeMessage:
    def __init__(self, value, *, offset=0, error=None):
        self.value, self.offset, self.error = (lambda: value), (lambda: offset), (lambda: error)

    def partition(self):
        return 0


def test_values_that_are_not_orders_are_left_out(caplog):
    messages = [FakeMessage(b"?", offset=7), FakeMessage(b'{"id": "o-1", "amount": 1}', offset=8)]
    with caplog.at_level(logging.WARNING):
        assert list(orders(messages)) == [Order(0, 8, "o-1", 1)]
    assert "left out offset 7 of partition 0" in caplog.text


def test_an_error_of_kafka_ends_the_sink():
    with pytest.raises(KafkaException):
        list(orders([FakeMessage(None, error=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))]))


def test_the_connection_is_read_from_the_environment():
    env = {"KAFKA_BOOTSTRAP_SERVERS": "kafka:9092", "KAFKA_SASL_USERNAME": "orders", "HOME": "/root"}
    assert connection(env) == {"bootstrap.servers": "kafka:9092", "sasl.username": "orders"}


def test_without_a_server_the_sink_does_not_start():
    with pytest.raises(KeyError, match="KAFKA_BOOTSTRAP_SERVERS"):
        connection({})
