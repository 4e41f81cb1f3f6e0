import pytest

from orders_service.settings import connection


def test_a_server_is_enough():
    assert connection({"KAFKA_BOOTSTRAP_SERVERS": "kafka:9092"}) == {
        "bootstrap_servers": "kafka:9092",
        "security_protocol": "PLAINTEXT",
    }


def test_a_login_over_tls_is_read():
    arguments = connection(
        {
            "KAFKA_BOOTSTRAP_SERVERS": "kafka:9092",
            "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
            "KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
            "KAFKA_SASL_USERNAME": "orders",
            "KAFKA_SASL_PASSWORD": "sesame",
        }
    )
    assert arguments["sasl_plain_username"] == "orders"
    assert arguments["ssl_context"].check_hostname


def test_without_a_server_the_service_does_not_start():
    with pytest.raises(KeyError, match="KAFKA_BOOTSTRAP_SERVERS"):
        connection({})
