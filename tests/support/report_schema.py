"""JSON reports validated against their schema, more strictly than by its readers: no field may be unknown."""

from __future__ import annotations

from typing import Any

import jsonschema

from pytest_kafkaperf.reports.json_report import json_schema


def validate_report(document: dict[str, Any]) -> None:
    """Raise jsonschema's error if a report does not match the schema, or has a field that the schema lacks."""
    jsonschema.Draft202012Validator(_strict(json_schema())).validate(document)


def _strict(schema: Any) -> Any:
    """Return a schema whose objects have no other fields than those it describes."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {name: _strict(each) for name, each in schema.items()}
    return {"additionalProperties": False, **strict} if isinstance(schema.get("properties"), dict) else strict
