"""How a record that comes out of an application is known for the one that went in.

Each record that goes in has a tag: 16 bytes that name it (see `load.payload`). Where nothing else is said it travels
in a header, which the application passes on as it passes on those of tracing. Where a function is given, the tag is the
head of the value instead, and the function finds these 16 bytes in what came out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import Any

HEADER = "kafkaperf-tag"
"""The header that carries a record's tag into an application, and out of it again."""

Correlate = Callable[[Any], bytes | None]
"""Takes a record that came out, with `key`, `value`, `headers` (names and bytes); returns the tag, None without one."""


def tag_in_header(record: Any) -> bytes | None:
    """The tag that an application has passed on."""
    value: bytes
    for name, value in record.headers:
        if name == HEADER:
            return value
    return None


def parse_correlate(given: Any) -> Correlate:
    """A function that worker processes can import.

    Raises:
        ValueError: it is none.

    """
    correlate: Correlate = given
    if not callable(given):
        raise ValueError(  # noqa: TRY004 - pydantic names the field of a ValueError
            "give a function that takes a record and returns the 16 bytes with which the value of the record that went "
            "in begins, or None"
        )
    name, module = getattr(given, "__qualname__", ""), getattr(given, "__module__", "")
    if not name.isidentifier() or getattr(sys.modules.get(module), name, None) is not given:
        raise ValueError(f"{described(given)} must be a function at the top of a module: workers import it by its name")
    if PathFinder.find_spec(module.partition(".")[0]) is None:
        raise ValueError(
            f"workers cannot import {module}, where {name} is: it is not on Python's path; put the function into a "
            "module that is, or run pytest with --import-mode=prepend"
        )
    return correlate


def described(correlate: Any) -> str:
    """Module and name, for people and for baselines."""
    name = getattr(correlate, "__qualname__", None) or repr(correlate)
    return f"{getattr(correlate, '__module__', '')}.{name}".lstrip(".")
