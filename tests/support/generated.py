"""Payload functions, which worker processes import by name."""

from __future__ import annotations

import json
import random
from typing import Any

from pytest_kafkaperf import Record

ITEMS = 500
NOTED = 100 - len(',"note":""')


def order(index: int, source: random.Random) -> dict[str, Any]:
    """Return an order with its own id."""
    return {"id": f"order-{index}", "item": source.randrange(ITEMS), "number": source.randint(1, 9)}


def noted_order(index: int, source: random.Random) -> dict[str, Any]:
    """Return the same with a note, so that the record is as large as those of the default scenario: 100 bytes."""
    found = order(index, source)
    return {**found, "note": "n" * (NOTED - len(json.dumps(found, separators=(",", ":"))))}


def keyed_order(index: int, source: random.Random) -> Record:
    """Return the same with its id as the key and a header."""
    return Record(key=f"order-{index}", value=order(index, source), headers={"source": "shop"})


def reference(record: Any) -> str | None:
    """Return what identifies an order, before and after an application has renamed the field."""
    found = json.loads(record.value)
    named: str | None = found.get("id") or found.get("ref")
    return named


def rarely_large(index: int, _: random.Random) -> bytes:
    """Return a value of 100 B or, for one record in a hundred, of 5 kB."""
    return bytes(5000 if index % 100 == 50 else 100)
