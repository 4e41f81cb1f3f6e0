"""A client's permissions: operations on topics, groups and transactional ids, and commands that grant them."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pytest_kafkaperf.clusters.access.access import Access

_UNKNOWN = -(1 << 31)
"""Kafka's value for a response that does not include operations."""


class Operation(enum.IntEnum):
    """An operation, identified by Kafka's code (`org.apache.kafka.common.acl.AclOperation`)."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    DESCRIBE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource on which operations are granted."""

    kind: Literal["topic", "group", "transactional-id"]
    name: str
    prefixed: bool = False
    """True if `name` is a prefix and the resource includes all names that start with it."""

    def __str__(self) -> str:
        """Return the resource as text for users."""
        word = self.kind.replace("-", " ")
        return f"{word}s that start with {self.name!r}" if self.prefixed else f"{word} {self.name!r}"


def granted(field: int) -> frozenset[Operation] | None:
    """Return the operations in a bit field that has one bit per code; None if the broker does not report them."""
    if field == _UNKNOWN:
        return None
    return frozenset(operation for operation in Operation if field >> operation & 1)


def refusal(operations: Iterable[Operation], resource: Resource, access: Access, servers: str) -> str:
    """Format the error for operations that are not granted, with the command that grants them."""
    ordered = sorted(operations)
    names = " and ".join(filter(None, (", ".join(one.name for one in ordered[:-1]), ordered[-1].name)))
    client, principal = _principal(access)
    options = " ".join(f"--operation {one.name.title()}" for one in ordered)
    pattern = " --resource-pattern-type prefixed" if resource.prefixed else ""
    return (
        f"the cluster does not grant {names} on {resource} to {client}; an administrator can grant it: kafka-acls "
        f"--bootstrap-server {servers} --add --allow-principal {principal} {options} --{resource.kind} "
        f"{resource.name}{pattern}"
    )


def _principal(access: Access) -> tuple[str, str]:
    if access.login is not None:
        return f"user {access.login.principal!r}", f"User:{access.login.principal}"
    if access.certificate is not None:
        return "the client's certificate", "'User:NAME-OF-THE-CERTIFICATE'"
    return "clients without a login", "User:ANONYMOUS"
