"""Files of clients, with secrets in them that no error may show."""

from __future__ import annotations

import os
from pathlib import Path

import javaproperties
import pytest
from cryptography import x509
from hypothesis import strategies as st

from pytest_kafkaperf.clusters.access.client_properties import read_client_properties
from pytest_kafkaperf.clusters.brokers.certificates import certificates
from pytest_kafkaperf.core.errors import UsageError
from tests.support.patience import PATIENCE_S

SECRET = "hunter2-zq"  # noqa: S105 - looked for in every error
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
MADE = certificates(["localhost"])
CHAIN = x509.load_pem_x509_certificates(MADE.certificate.encode())
KEY = MADE.key.get_secret_value()
TIMEOUT_S = PATIENCE_S

SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
LOGIN = SASL | {"sasl.jaas.config": f'{PLAIN} required username="alice" password="{SECRET}";'}
TLS = {"security.protocol": "SSL"}

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)


def written(folder: Path, properties: dict[str, str] | str) -> Path:
    file = folder / "client.properties"
    text = properties if isinstance(properties, str) else javaproperties.dumps(properties)
    file.write_bytes(text.encode("latin-1"))
    return file


def refused(folder: Path, properties: dict[str, str] | str) -> str:
    """The text of the error, without the name of the file."""
    file = written(folder, properties)
    with pytest.raises(UsageError) as caught:
        read_client_properties(file)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert SECRET not in str(caught.value)
    return str(caught.value).removeprefix(f"client properties {file}: ").replace(f"{folder}{os.sep}", "")
