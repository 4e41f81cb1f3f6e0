"""The business rule: adds a priority and the number of pieces to each order."""

from __future__ import annotations

import json

EXPRESS_FROM = 500
"""Minimum amount of an order that is sent by express."""


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
