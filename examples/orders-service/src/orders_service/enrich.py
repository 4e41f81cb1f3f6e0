"""The business rule: each order gets a priority and its number of pieces."""

from __future__ import annotations

import json

EXPRESS_FROM = 500
"""Amount from which an order is sent by express."""


def enriched(value: bytes) -> bytes:
    """Return an order with its priority and its number of pieces.

    Raises:
        ValueError: the value is not an order.

    """
    order = json.loads(value)
    try:
        priority = "express" if order["amount"] >= EXPRESS_FROM else "standard"
        pieces = sum(item["count"] for item in order["items"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"not an order: {error!r}") from None
    return json.dumps({**order, "priority": priority, "pieces": pieces}).encode()
