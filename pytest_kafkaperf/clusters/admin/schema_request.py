"""Requests in Kafka's own message schemas, which the package kio generates from Kafka's source.

aiokafka sends these requests like its own, although it does not know them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from types import ModuleType
from typing import Any

from aiokafka.errors import IncompatibleBrokerVersion
from aiokafka.protocol.api import RequestHeader_v1, RequestHeader_v2, ResponseHeader_v0, ResponseHeader_v1


class SchemaRequest:
    """A request, sent in the newest version that the broker supports. The response is kio's object of this version."""

    def __init__(self, name: str, versions: Sequence[int], fields: Callable[[ModuleType], Mapping[str, Any]]) -> None:
        """Take kio's name of the API, its versions, oldest first, and a function that returns the request's fields.

        The function receives kio's module for the chosen version. kio is imported only then, as that takes 0.1 s.
        """
        self._name = name
        self._versions = versions
        self._fields = fields

    def prepare(self, supported: Mapping[int, tuple[int, int]]) -> _Message:
        """Return the message to send, given the broker's range of versions for each API; called by aiokafka.

        Raises:
            IncompatibleBrokerVersion: the broker supports none of the versions.

        """
        from kio.index import load_entity_module  # noqa: PLC0415 - late, see above
        from kio.static.constants import EntityType  # noqa: PLC0415

        for version in reversed(self._versions):
            schema = load_entity_module(self._name, version, EntityType.request)
            body = getattr(schema, f"{self}Request")(**self._fields(schema))
            lowest, highest = supported.get(body.__api_key__, (0, -1))
            if lowest <= version <= highest:
                return _Message(body)
        raise IncompatibleBrokerVersion(f"the broker does not support {self}")

    def __str__(self) -> str:
        """Return Kafka's name for the request, such as `ConsumerGroupDescribe`."""
        return self._name.title().replace("_", "")


class _Message:
    """A request as aiokafka's connections expect it."""

    def __init__(self, body: Any) -> None:
        from kio.index import load_response_from_request  # noqa: PLC0415

        self._body = body
        self.API_KEY: int = body.__api_key__
        self.API_VERSION: int = body.__version__
        self.RESPONSE_TYPE = _Reader(load_response_from_request(type(body)))

    def build_request_header(self, correlation_id: int, client_id: str) -> RequestHeader_v1 | RequestHeader_v2:
        """Return the header; called by aiokafka."""
        header = RequestHeader_v2 if self._body.__flexible__ else RequestHeader_v1
        return header(self, correlation_id=correlation_id, client_id=client_id)

    def encode(self) -> bytes:
        """Return the body as bytes; called by aiokafka."""
        from kio.serial import entity_writer  # noqa: PLC0415

        buffer = BytesIO()
        entity_writer(type(self._body))(buffer, self._body)
        return buffer.getvalue()

    def parse_response_header(self, buffer: BytesIO) -> ResponseHeader_v0 | ResponseHeader_v1:
        """Read the response's header; called by aiokafka."""
        return (ResponseHeader_v1 if self._body.__flexible__ else ResponseHeader_v0).decode(buffer)


class _Reader:
    """Reads responses of one type."""

    def __init__(self, response: Any) -> None:
        self._response = response

    def decode(self, buffer: BytesIO) -> Any:
        """Read the response's body; called by aiokafka."""
        from kio.serial import entity_reader  # noqa: PLC0415

        body, _ = entity_reader(self._response)(buffer.read(), 0)
        return body
