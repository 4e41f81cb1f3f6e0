"""What a cluster grants, and how to ask an administrator for more."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.logins import Plain
from pytest_kafkaperf.clusters.admin.acls import Operation, Resource, granted, refusal

ALICE = Access(protocol="SASL_PLAINTEXT", login=Plain(username="alice", password=SecretStr("secret")))
CERTIFIED = Access(protocol="SSL", certificate="PEM", key=SecretStr("PEM"))


@pytest.mark.parametrize(
    ("field", "operations"),
    [
        (0, set()),
        (1 << 3, {Operation.READ}),
        (1 << 4 | 1 << 8, {Operation.WRITE, Operation.DESCRIBE}),
        (0b1_1101_1111_1000, set(Operation)),  # as a broker without an authorizer answers for a topic
        (1 << 10 | 1 << 11 | 1 << 30, set()),  # operations that no load needs
    ],
)
def test_operations_are_the_bits_of_their_codes(field: int, operations: set[Operation]) -> None:
    """As KIP-430 has them."""
    assert granted(field) == frozenset(operations)


def test_operations_that_are_not_told_are_not_taken_for_refused() -> None:
    """An old broker, or one whose authorizer does not say."""
    assert granted(-(1 << 31)) is None


@pytest.mark.parametrize(
    ("operations", "resource", "access", "expected"),
    [
        (
            [Operation.WRITE],
            Resource(kind="topic", name="orders"),
            ALICE,
            "the cluster does not grant WRITE on topic 'orders' to user 'alice'; an administrator can grant it: "
            "kafka-acls --bootstrap-server broker:9092 --add --allow-principal User:alice --operation Write "
            "--topic orders",
        ),
        (
            [Operation.DESCRIBE, Operation.READ, Operation.CREATE],
            Resource(kind="topic", name="kafkaperf-", prefixed=True),
            Access(),
            "the cluster does not grant READ, CREATE and DESCRIBE on topics that start with 'kafkaperf-' to clients "
            "without a login; an administrator can grant it: kafka-acls --bootstrap-server broker:9092 --add "
            "--allow-principal User:ANONYMOUS --operation Read --operation Create --operation Describe "
            "--topic kafkaperf- --resource-pattern-type prefixed",
        ),
        (
            [Operation.WRITE, Operation.DESCRIBE],
            Resource(kind="transactional-id", name="kafkaperf-", prefixed=True),
            CERTIFIED,
            "the cluster does not grant WRITE and DESCRIBE on transactional ids that start with 'kafkaperf-' to the "
            "client's certificate; an administrator can grant it: kafka-acls --bootstrap-server broker:9092 --add "
            "--allow-principal 'User:NAME-OF-THE-CERTIFICATE' --operation Write --operation Describe "
            "--transactional-id kafkaperf- --resource-pattern-type prefixed",
        ),
    ],
)
def test_a_refusal_says_what_is_needed_and_how_to_grant_it(
    operations: list[Operation], resource: Resource, access: Access, expected: str
) -> None:
    """Whoever reads it may have to ask somebody else: the command is there to be sent on."""
    assert refusal(operations, resource, access, "broker:9092") == expected
