"""The connection to Kafka, from environment variables."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any


def connection(env: Mapping[str, str]) -> dict[str, Any]:
    """Return the connection arguments of aiokafka's clients."""
    protocol = env.get("KAFKA_SECURITY_PROTOCOL", "PLAINTEXT")
    arguments: dict[str, Any] = {
        "bootstrap_servers": env["KAFKA_BOOTSTRAP_SERVERS"],
        "security_protocol": protocol,
    }
    if protocol.startswith("SASL"):
        arguments |= {
            "sasl_mechanism": env["KAFKA_SASL_MECHANISM"],
            "sasl_plain_username": env["KAFKA_SASL_USERNAME"],
            "sasl_plain_password": env["KAFKA_SASL_PASSWORD"],
        }
    if protocol.endswith("SSL"):
        context = ssl.create_default_context(cafile=env.get("KAFKA_SSL_CA_FILE"))
        if "KAFKA_SSL_CERTIFICATE_FILE" in env:
            context.load_cert_chain(env["KAFKA_SSL_CERTIFICATE_FILE"], env.get("KAFKA_SSL_KEY_FILE"))
        arguments["ssl_context"] = context
    return arguments
