"""What a marker's keyword arguments are read with: pydantic, and its problems in our words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from pytest_kafkaperf.errors import ScenarioError, nearest, shortened
from pytest_kafkaperf.printable import printable, repr_of

_MAX_SHOWN = 100
"""Characters of a refused value that are shown."""


class MarkerFields(BaseModel):
    """The fields of one marker: frozen, and no others."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Validate the fields of a marker.

        Raises:
            ScenarioError: an unknown field or a value that cannot be; every problem in one text.

        """
        unknown = [name for name in fields if name not in cls.model_fields]
        if unknown:
            raise ScenarioError(
                "; ".join(f"unknown field {name!r}: {nearest(name, cls.model_fields)}" for name in unknown)
            )
        try:
            return cls.model_validate(dict(fields))
        except ValidationError as error:
            raise ScenarioError(explain(error)) from None


def explain(error: ValidationError) -> str:
    """Pydantic's problems as one line: field, what was given, what is wrong."""
    return "; ".join(_problem(dict(item)) for item in error.errors(include_url=False))


def _problem(item: dict[str, Any]) -> str:
    message = str(item["msg"]).removeprefix("Value error, ")
    field = shortened(printable(".".join(str(part) for part in item["loc"])), _MAX_SHOWN)
    if not field:
        return message
    given = repr_of(item["input"])
    if message.startswith(given) or (isinstance(item["input"], str) and given in message):
        return f"{field}: {message}"
    return f"{field}={shortened(given, _MAX_SHOWN)}: {message[:1].lower()}{message[1:]}"
