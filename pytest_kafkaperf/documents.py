"""JSON that others may have written, or damaged."""

from __future__ import annotations

import json
from typing import Any

_MOST_LEVELS = 50
"""Of ours none has more than 10. Deeper ones can be read, and then neither shown nor written by what calls itself."""


def parse_document(content: bytes | str) -> Any:
    """Read JSON.

    Raises:
        ValueError: it is none, or nested too deeply; the text says which.

    """
    try:
        document = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        raise ValueError("a number in it has thousands of digits") from None
    level = [document]
    for _ in range(_MOST_LEVELS):
        level = [item for each in level for item in _items(each)]
        if not level:
            return document
    raise ValueError(f"it is nested more than {_MOST_LEVELS} levels deep")


def _items(each: Any) -> list[Any]:
    match each:
        case dict():
            return list(each.values())
        case list():
            return each
    return []
