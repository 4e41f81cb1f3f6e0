"""Client properties as the owner of a cluster hands them over."""

from __future__ import annotations

from pytest_kafkaperf.clusters.access.access import HOSTNAME, Access


def properties_of(access: Access) -> dict[str, str]:
    """The properties with which Kafka's own tools get the same access."""
    result: dict[str, str] = {} if access.protocol == "PLAINTEXT" else {"security.protocol": access.protocol}
    if access.protocol.endswith("SSL"):
        result[HOSTNAME] = "https" if access.check_hostname else ""
        if access.trusted is not None:
            result |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": access.trusted}
        if access.certificate is not None and access.key is not None:
            result |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": access.certificate,
                "ssl.keystore.key": access.key.get_secret_value(),
            }
    if access.login is not None:
        result |= {"sasl.mechanism": access.login.mechanism, "sasl.jaas.config": access.login.jaas_line()}
    return result | {name.replace("_", "."): str(value) for name, value in access.options.items()}
