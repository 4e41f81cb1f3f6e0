"""Identities of records in the input and output of an application, and functions that workers import."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.machinery import PathFinder
from typing import Any, Literal

from pytest_kafkaperf.core.errors import nearest

HEADER = "kafkaperf-tag"
"""Name of the header that carries a record's tag through an application."""

Identity = Callable[[Any], str | bytes | None]
"""Function that returns what identifies a record, or None if nothing does. The record has the attributes `key`, `value`
and `headers` (names and bytes)."""

_TAG_IN_VALUE = "value:16"
_JSON = "json:"
_SIDES = ("input", "output")
_FORMS = "'header', 'key', 'json:FIELD', 'value:16' or a function"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Part of a record that identifies it."""

    kind: Literal["header", "value", "key", "json", "function"]
    path: tuple[str, ...] = ()
    """Names of nested JSON fields, from the outermost to the innermost; empty for the other kinds."""
    function: Identity | None = None
    """The user's function; None for the other kinds."""

    @property
    def is_tag(self) -> bool:
        """True if the plugin writes the identity into the record; otherwise, the record already contains it."""
        return self.kind in ("header", "value")

    def __str__(self) -> str:
        match self.kind:
            case "value":
                return _TAG_IN_VALUE
            case "json":
                return f"{_JSON}{'.'.join(self.path)}"
            case "function":
                return name_of(self.function)
            case kind:
                return kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Identify:
    """Parts of a record that identify it before and after an application."""

    input: Selector
    output: Selector

    @property
    def by_tag(self) -> bool:
        """True if records carry a tag from the plugin; otherwise, input and output are joined by their identities."""
        return self.input.is_tag

    def __str__(self) -> str:
        if self.input == self.output:
            return str(self.input)
        return f"input {self.input}, output {self.output}"

    def dump(self) -> str | dict[str, str]:
        """Convert the value for reports and baselines."""
        if self.input == self.output:
            return str(self.input)
        return {"input": str(self.input), "output": str(self.output)}


BY_HEADER = Identify(input=Selector(kind="header"), output=Selector(kind="header"))


def parse_identify(given: Any) -> Identify:
    """Parse a selector for both sides, or a mapping with `input` and `output`.

    Raises:
        ValueError: the value has another form, or workers cannot import a function.

    """
    if isinstance(given, Identify):
        return given
    if not isinstance(given, Mapping):
        selector = _parse_selector(given)
        return Identify(input=selector, output=selector)
    return _parse_sides(given)


def _parse_sides(given: Mapping[Any, Any]) -> Identify:
    for name in given:
        if name not in _SIDES:
            raise ValueError(f"unknown entry {name!r}: {nearest(str(name), _SIDES)}")
    for name in _SIDES:
        if name not in given:
            raise ValueError(f"must have the entries 'input' and 'output', but {name!r} is missing")
    before, after = (_parse_selector(given[name]) for name in _SIDES)
    if after.is_tag and before != after:
        raise ValueError(f"output {after} requires the plugin's tag in the input; set input to {str(after)!r} as well")
    if before.is_tag and before != after and after.function is None:
        raise ValueError(
            f"input {before} is a tag of 16 bytes, so output must be {str(before)!r} as well, or a function that "
            "returns these bytes"
        )
    return Identify(input=before, output=after)


def _parse_selector(given: Any) -> Selector:
    match given:
        case "header" | "key":
            return Selector(kind=given)
        case str() if given == _TAG_IN_VALUE:
            return Selector(kind="value")
        case str() if given.startswith(_JSON) and all(path := tuple(given.removeprefix(_JSON).split("."))):
            return Selector(kind="json", path=path)
        case _ if callable(given):
            return Selector(kind="function", function=importable(given))
    raise ValueError(f"must be {_FORMS}, not {given!r}; for example 'json:order.id'")


def importable(given: Any) -> Any:
    """Return a function that worker processes will import by its name.

    Raises:
        ValueError: workers cannot import it.

    """
    name, module = getattr(given, "__qualname__", ""), getattr(given, "__module__", "")
    if not name.isidentifier() or getattr(sys.modules.get(module), name, None) is not given:
        raise ValueError(f"{name_of(given)} must be a module-level function, because workers import it by its name")
    if module == "__main__":
        raise ValueError(f"workers cannot import {name} from a script; move the function to a separate module")
    if PathFinder.find_spec(module.partition(".")[0]) is None:
        raise ValueError(
            f"workers cannot import {name} from {module}: the module is not on Python's path; move the function to a "
            "module that is, or run pytest with --import-mode=prepend"
        )
    return given


def name_of(function: Any) -> str:
    """Return a function's module and name, for display and for baselines."""
    name = getattr(function, "__qualname__", None) or repr(function)
    return f"{getattr(function, '__module__', '')}.{name}".lstrip(".")


@dataclass(frozen=True, slots=True)
class Expected:
    """Number of output records for each input record."""

    least: int
    most: int

    @property
    def is_exact(self) -> bool:
        """True if every input record has the same number of output records; otherwise, none can be lost."""
        return self.least == self.most

    def __str__(self) -> str:
        return str(self.most) if self.is_exact else f"{self.least}..{self.most}"


ONE = Expected(1, 1)
_MOST_OUTPUTS = 100
_DIGITS = re.compile(r"[0-9]{1,3}")


def parse_expect(given: Any) -> Expected:
    """Parse the number of output records: a number, or a range that starts with 0 (`0..3`).

    Raises:
        ValueError: the value has another form, or the number is out of range.

    """
    if isinstance(given, Expected):
        return given
    least, dots, most = str(given).partition("..")
    numbers = [least, most] if dots else [least, least]
    if isinstance(given, bool) or not all(_DIGITS.fullmatch(one) and int(one) <= _MOST_OUTPUTS for one in numbers):
        raise ValueError(f"must be a whole number from 0 to {_MOST_OUTPUTS}, or a range such as '0..3'")
    found = Expected(*map(int, numbers))
    if dots and (found.least or not found.most):
        raise ValueError("a range must start with 0 and end with 1 or more, for example '0..3'")
    return found
