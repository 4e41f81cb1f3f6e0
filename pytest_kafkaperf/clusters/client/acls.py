"""What a cluster lets a client do: operations on topics, groups and transactional ids, and how to ask for more."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.access import Access

_NOT_TOLD = -(1 << 31)
"""Kafka's own value of a bit field that it leaves out."""


class Operation(enum.IntEnum):
    """By Kafka's own codes (`org.apache.kafka.common.acl.AclOperation`)."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    DESCRIBE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """What operations are on."""

    kind: Literal["topic", "group", "transactional-id"]
    name: str
    prefixed: bool = False
    """All that begin with the name."""

    def __str__(self) -> str:
        """For people."""
        word = self.kind.replace("-", " ")
        return f"{word}s that begin with {self.name!r}" if self.prefixed else f"{word} {self.name!r}"


def granted(field: int) -> frozenset[Operation] | None:
    """The operations of a bit field, each the bit of its code; None where the broker does not tell."""
    if field == _NOT_TOLD:
        return None
    return frozenset(operation for operation in Operation if field >> operation & 1)


def refusal(operations: Iterable[Operation], resource: Resource, access: Access, servers: str) -> str:
    """What is not granted, and how an administrator can grant it."""
    ordered = sorted(operations)
    names = " and ".join(filter(None, (", ".join(one.name for one in ordered[:-1]), ordered[-1].name)))
    whom, principal = _principal(access)
    options = " ".join(f"--operation {one.name.title()}" for one in ordered)
    pattern = " --resource-pattern-type prefixed" if resource.prefixed else ""
    return (
        f"the cluster does not grant {names} on {resource} to {whom}; an administrator can: kafka-acls "
        f"--bootstrap-server {servers} --add --allow-principal {principal} {options} --{resource.kind} "
        f"{resource.name}{pattern}"
    )


def _principal(access: Access) -> tuple[str, str]:
    if access.username is not None:
        return f"user {access.username!r}", f"User:{access.username}"
    if access.certificate is not None:
        return "the client's certificate", "'User:NAME-OF-THE-CERTIFICATE'"
    return "clients without a login", "User:ANONYMOUS"
