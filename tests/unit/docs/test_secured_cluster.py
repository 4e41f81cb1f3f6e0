"""Samples of client properties for each provider: users paste them, so the plugin must accept each as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.client_properties import read_client_properties
from pytest_kafkaperf.clusters.access.oauth import OAuth
from pytest_kafkaperf.clusters.access.tokens import TokenFunction
from tests.support.client_files import CHAIN, KEY, written
from tests.unit.docs.pages import ROOT, Block, blocks

PAGE = ROOT / "docs" / "how-to" / "secured-cluster.md"
TEXT = PAGE.read_text(encoding="utf-8")
SERVERS = "b-1.shop.k8xyz1.c2.kafka.eu-central-1.amazonaws.com:9098"


def samples() -> list[Block]:
    """The samples of the section; other parts of the page have blocks that complete each other."""
    before, _, rest = TEXT.partition("\n## What to paste for each provider\n")
    first = before.count("\n") + 1
    last = first + rest[: rest.index("\n## ")].count("\n") + 1
    return [block for block in blocks("text") if block.page == PAGE and first < block.line <= last]


def heading(block: Block) -> str:
    above = TEXT.splitlines()[: block.line]
    return next(line.removeprefix("### ") for line in reversed(above) if line.startswith("### "))


def described(access: Access) -> str:
    login = access.login
    if not isinstance(login, OAuth):
        return f"{access.protocol} {'certificate' if login is None else login.mechanism}"
    source = login.source
    return f"{access.protocol} {source.function if isinstance(source, TokenFunction) else type(source).__name__}"


def test_each_sample_is_a_login(tmp_path: Path) -> None:
    """Whoever pastes one must not have to find out what to change."""
    authority = CHAIN[-1].public_bytes(serialization.Encoding.PEM)
    (tmp_path / "ca.crt").write_bytes(authority)
    store = pkcs12.serialize_key_and_certificates(
        b"perf",
        serialization.load_pem_private_key(KEY.encode(), None),  # type: ignore[arg-type]
        CHAIN[0],
        CHAIN[1:],
        serialization.BestAvailableEncryption(b"..."),
    )
    (tmp_path / "user.p12").write_bytes(store)
    found = [
        (heading(block), described(read_client_properties(written(tmp_path, block.text), servers=SERVERS)))
        for block in samples()
    ]
    aws = "SASL_SSL AwsToken(region='eu-central-1', "
    role = "role_arn='arn:aws:iam::123456789012:role/perf'"
    google = "Google Cloud Managed Service for Apache Kafka"
    assert found == [
        (
            "Amazon MSK",
            f"{aws}profile='perf', role_arn=None, role_session_name='pytest-kafkaperf', sts_region=None)",
        ),
        ("Amazon MSK", f"{aws}profile=None, {role}, role_session_name='perf', sts_region='eu-central-1')"),
        ("Amazon MSK", "SASL_SSL SCRAM-SHA-512"),
        ("Confluent Cloud", "SASL_SSL PLAIN"),
        ("Confluent Cloud", "SASL_SSL ClientCredentials"),
        ("Azure Event Hubs", "SASL_SSL PLAIN"),
        ("Azure Event Hubs", "SASL_SSL ClientCredentials"),
        (google, "SASL_SSL GoogleToken()"),
        ("Strimzi", "SASL_SSL SCRAM-SHA-512"),
        ("Strimzi", "SSL certificate"),
        ("Strimzi", "SASL_SSL ClientCredentials"),
    ]


@pytest.mark.parametrize("name", ["extension_logicalCluster", "extension_identityPoolId"])
def test_confluents_extensions_are_sent(tmp_path: Path, name: str) -> None:
    """Confluent Cloud rejects a token without them."""
    (block,) = [block for block in samples() if name in block.text]
    login = read_client_properties(written(tmp_path, block.text)).login
    assert isinstance(login, OAuth)
    value = re.findall(rf'{name}="([^"]+)"', block.text)
    assert [login.extensions[name.removeprefix("extension_")]] == value
