"""What a broker's features tell: the version of a cluster that the session did not start."""

from __future__ import annotations

import struct
from io import BytesIO
from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaError

from pytest_kafkaperf.load.kafka import api, types

if TYPE_CHECKING:
    from collections.abc import Mapping

_METADATA_VERSIONS = {
    21: "3.9",
    25: "4.0",
    27: "4.1",
    29: "4.2",
    30: "4.3",
}
"""Highest `metadata.version` that a release supports, as 3.9.1, 4.0.0, 4.1.0, 4.2.1 and 4.3.1 answered."""


def version_of(features: Mapping[str, int]) -> str:
    """Kafka's version as far as its features tell: two numbers, or `unknown`."""
    return _METADATA_VERSIONS.get(features.get("metadata.version", -1), "unknown")


async def supported(client: Any, node: int) -> dict[str, int]:
    """The features that a broker supports, each with its highest level; empty where it does not tell.

    By ApiVersions v3 (KIP-511, KIP-584), which aiokafka does not speak by itself.
    """
    try:
        answer = await client.send(node, _Ask())
        encoded = answer.tags.get(_SUPPORTED_FEATURES, b"")
        features = _FEATURES.decode(BytesIO(encoded)) if encoded else []
    except (KafkaError, NotImplementedError, ValueError, struct.error):
        return {}  # an old broker, or one that is not Kafka's own: its version stays unknown
    return {name: highest for name, _, highest, _ in features}


_SUPPORTED_FEATURES = 0
"""Tag of the field in the answer."""
_FEATURES = types.CompactArray(
    ("name", types.CompactString("utf-8")),
    ("min_version", types.Int16),
    ("max_version", types.Int16),
    ("tags", types.TaggedFields),
)


class _Answer(api.Response):  # type: ignore[misc] # aiokafka ships no types
    API_KEY = 18
    API_VERSION = 3
    SCHEMA = types.Schema(
        ("error_code", types.Int16),
        (
            "api_versions",
            types.CompactArray(
                ("api_key", types.Int16),
                ("min_version", types.Int16),
                ("max_version", types.Int16),
                ("tags", types.TaggedFields),
            ),
        ),
        ("throttle_time_ms", types.Int32),
        ("tags", types.TaggedFields),
    )


class _AskStruct(api.RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY = 18
    API_VERSION = 3
    RESPONSE_TYPE = _Answer
    SCHEMA = types.Schema(
        ("client_software_name", types.CompactString("utf-8")),
        ("client_software_version", types.CompactString("utf-8")),
        ("tags", types.TaggedFields),
    )

    def parse_response_header(self, read_buffer: BytesIO | bytes) -> Any:
        """Of all flexible answers, this one keeps the old header, so that any client can read it."""
        return api.ResponseHeader_v0.decode(read_buffer)


class _Ask(api.Request[_AskStruct]):  # type: ignore[misc]
    API_KEY = 18

    def build(self, request_struct_class: type[_AskStruct]) -> _AskStruct:
        return request_struct_class("pytest-kafkaperf", "1", {})
