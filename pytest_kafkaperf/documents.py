"""JSON that others may have written, or damaged."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from pytest_kafkaperf.printable import printable

MAX_PROBLEM = 300
"""Characters of what is wrong with one that are shown: it may be wrong in every line."""
MAX_SCHEMA = 20
"""Digits of its version that are shown."""
_MOST_LEVELS = 50
"""Of ours none has more than 10. Deeper ones can be read, and then neither shown nor written by what calls itself."""


def parse_document(content: bytes | str) -> Any:
    """Read JSON.

    Raises:
        ValueError: it is none, nested too deeply, or has numbers that are none; the text says which.

    """
    try:
        document = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        raise ValueError("a number in it has thousands of digits") from None
    level: list[tuple[str, Any]] = [("", document)]
    for _ in range(_MOST_LEVELS):
        for place, each in level:
            if isinstance(each, float) and not math.isfinite(each):
                shown = printable(place.removeprefix(".")) or "it"
                raise ValueError(f"{shown}={each}: input should be a finite number")
        level = [(f"{place}.{name}", item) for place, each in level for name, item in _items(each)]
        if not level:
            return document
    raise ValueError(f"it is nested more than {_MOST_LEVELS} levels deep")


def _items(each: Any) -> Iterable[tuple[object, Any]]:
    match each:
        case dict():
            return each.items()
        case list():
            return enumerate(each)
    return ()
