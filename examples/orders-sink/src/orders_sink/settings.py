"""The connection to Kafka, from environment variables."""

from __future__ import annotations

from collections.abc import Mapping

_PROPERTIES = {
    "KAFKA_BOOTSTRAP_SERVERS": "bootstrap.servers",
    "KAFKA_SECURITY_PROTOCOL": "security.protocol",
    "KAFKA_SASL_MECHANISM": "sasl.mechanism",
    "KAFKA_SASL_USERNAME": "sasl.username",
    "KAFKA_SASL_PASSWORD": "sasl.password",
    "KAFKA_SSL_CA_FILE": "ssl.ca.location",
    "KAFKA_SSL_CERTIFICATE_FILE": "ssl.certificate.location",
    "KAFKA_SSL_KEY_FILE": "ssl.key.location",
}


def connection(env: Mapping[str, str]) -> dict[str, str]:
    """Return the connection properties of confluent-kafka's clients."""
    if "KAFKA_BOOTSTRAP_SERVERS" not in env:
        raise KeyError("KAFKA_BOOTSTRAP_SERVERS")
    return {name: env[variable] for variable, name in _PROPERTIES.items() if variable in env}
