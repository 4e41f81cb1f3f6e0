"""Creates SCRAM users with a request that aiokafka does not have, as `kafka-configs` does (KIP-554)."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

from aiokafka.protocol import api, types

from pytest_kafkaperf.clusters.access import Access
from pytest_kafkaperf.clusters.client.connection import call, connected
from pytest_kafkaperf.core.errors import ClusterError

_TIMEOUT_S = 20
_ITERATIONS = 4096
"""Kafka's minimum, also recommended by RFC 7677: each connection of a client computes that many."""
_SALT_BYTES = 16
_SCRAM_SHA_512 = 2


def create_scram_user(servers: str, access: Access, *, name: str, password: str) -> None:
    """Create a SCRAM-SHA-512 user or change its password.

    Raises:
        ClusterError: the cluster rejected it, or it took too long.

    """
    call(_create(servers, access, name, password), f"create the user {name!r}", servers, timeout_s=_TIMEOUT_S)


async def _create(servers: str, access: Access, name: str, password: str) -> None:
    salt = secrets.token_bytes(_SALT_BYTES)
    salted = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ITERATIONS)
    async with connected(servers, access) as client:
        node = next(iter(client.cluster.brokers())).nodeId  # any broker forwards it to the controller
        answer = await client.send(node, _AlterUser(name, salt, salted))
    for _, code, message, _ in answer.results:
        if code:
            raise ClusterError(f"{servers} rejected the creation of user {name!r}: {message or f'error {code}'}")


_TEXT = types.CompactString("utf-8")
_TAGS = ("tags", types.TaggedFields)
_RESULTS = types.CompactArray(("user", _TEXT), ("error_code", types.Int16), ("error_message", _TEXT), _TAGS)
_DELETIONS = types.CompactArray(("name", _TEXT), ("mechanism", types.Int8), _TAGS)
_UPSERTIONS = types.CompactArray(
    ("name", _TEXT),
    ("mechanism", types.Int8),
    ("iterations", types.Int32),
    ("salt", types.CompactBytes),
    ("salted_password", types.CompactBytes),
    _TAGS,
)


class _AlterUserResponse(api.Response):  # type: ignore[misc] # aiokafka ships no types
    API_KEY = 51
    API_VERSION = 0
    SCHEMA = types.Schema(("throttle_time_ms", types.Int32), ("results", _RESULTS), _TAGS)


class _AlterUserStruct(api.RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY = 51
    API_VERSION = 0
    RESPONSE_TYPE = _AlterUserResponse
    SCHEMA = types.Schema(("deletions", _DELETIONS), ("upsertions", _UPSERTIONS), _TAGS)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"  # aiokafka logs its requests, and these bytes allow a login


class _AlterUser(api.Request[_AlterUserStruct]):  # type: ignore[misc]
    API_KEY = 51

    def __init__(self, name: str, salt: bytes, salted: bytes) -> None:
        self._upsertion: tuple[Any, ...] = (name, _SCRAM_SHA_512, _ITERATIONS, salt, salted, {})

    def build(self, request_struct_class: type[_AlterUserStruct]) -> _AlterUserStruct:
        return request_struct_class([], [self._upsertion], {})
