"""A file of samples: what the values of records are taken from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_kafkaperf.errors import nearest

_PREFIX = "file:"
_DELIMITER = "\n"
_FIELDS = ("file", "delimiter")
_VALID = "use 'random', 'zeros', 'file:PATH' or {'file': PATH, 'delimiter': TEXT}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Where the samples are, and what stands between two of them."""

    file: str
    """As it was given: relative to the folder of the test's file."""
    delimiter: str = _DELIMITER
    path: str | None = field(default=None, compare=False)
    """Where it was found; None before it is looked for. No part of the workload: each machine has another."""

    def __str__(self) -> str:
        between = "" if self.delimiter == _DELIMITER else f", delimiter {self.delimiter!r}"
        return f"{_PREFIX}{self.file}{between}"


def parse_samples(given: Any) -> Samples:
    """Read `file:PATH`, or a mapping of `file` and `delimiter`.

    Raises:
        ValueError: neither, or one of the two is not text or empty.

    """
    match given:
        case Samples():
            return given
        case str() if given.startswith(_PREFIX):
            given = {"file": given.removeprefix(_PREFIX)}
        case Mapping() if "file" in given:
            pass
        case _:
            raise ValueError(_VALID)
    for name, value in given.items():
        if name not in _FIELDS:
            raise ValueError(f"unknown {name!r}: {nearest(str(name), _FIELDS)}")
        if not isinstance(value, str) or not value or not is_utf8(value):
            raise ValueError(f"{name} is {value!r}; use text that is not empty, in UTF-8")
    return Samples(**given)


def is_utf8(text: str) -> bool:
    """Whether the text can be written as bytes: half a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def dump_samples(samples: Samples) -> dict[str, str]:
    """What reports and baselines hold."""
    return {"file": samples.file, "delimiter": samples.delimiter}
