"""Record contents: sizes, payloads from samples or functions, and keys.

A record's size is the size of its value in bytes, excluding its key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from pytest_kafkaperf.core.errors import UnitError, nearest
from pytest_kafkaperf.core.units import Unit, format_quantity, parse_exact, parse_whole
from pytest_kafkaperf.scenarios.identify import importable, name_of

Sizes = Mapping[int, float]
"""Distribution of record sizes: the share of records of each size (in bytes, ascending). The shares add up to 1."""

_MAX_SIZE = 1 << 30

_MAX_SIZES = 100

_MIN_SHARE = 1e-4
"""Minimum share per size: one in 10,000, because the generator draws from that many records."""

_EXAMPLE = "for example {'100 B': 0.9, '10 KiB': 0.1}"


def parse_sizes(given: Any) -> int | Sizes:
    """Parse a size, or a mapping of sizes to weights.

    Weights are normalized to shares. A distribution with only one size becomes that size.

    Raises:
        UnitError: a size or a weight is invalid, or a size is given twice.

    """
    if not isinstance(given, Mapping):
        return _parse_size(given)
    if not given:
        raise UnitError(f"must have at least one size, {_EXAMPLE}")
    if len(given) > _MAX_SIZES:
        raise UnitError(f"has {len(given)} sizes, must have at most {_MAX_SIZES}")
    weights: dict[int, Fraction] = {}
    for quantity, weight in given.items():
        try:
            size = _parse_size(quantity)
        except UnitError as error:
            text = str(error)
            raise UnitError(text if repr(quantity) in text else f"invalid size {quantity!r}: {text}") from None
        if size in weights:
            raise UnitError(f"size {_size_text(size)} is given twice; give each size once, {_EXAMPLE}")
        weights[size] = _parse_weight(weight, quantity)
    return _shares(weights) if len(weights) > 1 else next(iter(weights))


def mean_size(sizes: Sizes) -> float:
    """Return the mean record size in bytes."""
    return math.fsum(size * share for size, share in sizes.items())


def format_sizes(sizes: int | Sizes) -> str:
    """Format sizes for display: `1 KiB`, `100 B: 90%, 10 KiB: 10%`."""
    if isinstance(sizes, int):
        return _size_text(sizes)
    return ", ".join(f"{_size_text(size)}: {share * 100:.6g}%" for size, share in sizes.items())


def dump_sizes(sizes: Any) -> Any:
    """Convert sizes for reports and baselines: `{"100 B": 0.9, "10240 B": 0.1}`. A single size remains a number."""
    return {f"{size} B": share for size, share in sizes.items()} if isinstance(sizes, Mapping) else sizes


def _parse_size(quantity: Any) -> int:
    size = parse_whole(quantity, Unit.BYTES)
    if not 1 <= size <= _MAX_SIZE:
        raise UnitError("must be between 1 B and 1 GiB")
    return size


def _parse_weight(weight: Any, quantity: Any) -> Fraction:
    number = not isinstance(weight, bool) and isinstance(weight, int | float)
    if not number or not weight > 0 or weight == math.inf:
        raise UnitError(f"invalid weight {weight!r} of size {quantity!r}: must be a finite number above 0, {_EXAMPLE}")
    return Fraction(weight)


def _shares(weights: Mapping[int, Fraction]) -> Sizes:
    total = sum(weights.values(), Fraction(0))
    if abs(total - 1) * (1 << 53) <= len(weights):
        total = Fraction(1)  # the weights are already shares (except for rounding errors), so keep them unchanged
    shares = {size: float(weight / total) for size, weight in sorted(weights.items())}
    rare = [size for size, share in shares.items() if share < _MIN_SHARE]
    if rare:
        raise UnitError(f"the share of size {_size_text(rare[0])} is below 1 in 10,000; remove this size")
    return shares


def _size_text(size: int) -> str:
    return format_quantity(size, Unit.BYTES, digits=6)


def size_of_varint(length: int) -> int:
    """Return the number of bytes that a non-negative length takes as a zigzag varint, Kafka's encoding."""
    return max(1, ((2 * length).bit_length() + 6) // 7)


def size_of_headers(headers: Sequence[tuple[str, bytes]]) -> int:
    """Return the encoded size of a record's headers in bytes, including the header count."""
    parts = [part for name, value in headers for part in (name.encode(), value)]
    return size_of_varint(len(headers)) + sum(size_of_varint(len(part)) + len(part) for part in parts)


_PREFIX = "file:"

_DELIMITER = "\n"

_SAMPLE_FIELDS = ("file", "delimiter")


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """File with sample values and the delimiter between them. Its size and hash are None until a load needs it."""

    file: str
    """Path as the user wrote it, relative to the test file's folder."""
    delimiter: str = _DELIMITER
    size_bytes: int | None = None
    """File size in bytes."""
    sha256: str | None = None
    """SHA-256 hash of the file, in hexadecimal digits."""
    path: str | None = field(default=None, compare=False)
    """Resolved path; None until the plugin has looked for the file. The path differs between machines, so workload
    comparisons ignore it."""

    def __str__(self) -> str:
        delimiter = "" if self.delimiter == _DELIMITER else f", delimiter {self.delimiter!r}"
        return f"{_PREFIX}{self.file}{delimiter}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Record that a payload function returns."""

    value: bytes | str | Mapping[str, Any]
    """Value; text is encoded in UTF-8, and a mapping as JSON."""
    key: bytes | str | None = None
    headers: Mapping[str, bytes | str] = field(default_factory=dict)


_TEMPLATE = "template:"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateFile:
    """Template file for values."""

    file: str
    """Path as the user wrote it, relative to the test file's folder."""
    path: str | None = field(default=None, compare=False)
    """Resolved path; None until the plugin has looked for the file."""
    text: str | None = field(default=None, compare=False, repr=False)
    """Content of the file; None until a load needs it."""

    def __str__(self) -> str:
        return f"{_TEMPLATE}{self.file}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """Function `(index, random)` that returns a record's value, or a `Record`; or a template for values."""

    function: Callable[[int, Any], Any] | TemplateFile
    pool: int | None = None
    """Number of records that are generated in advance and sent repeatedly; None to generate each record."""
    sha256: str | None = None
    """Hash of the function's source and of what it imports from its folder, in hexadecimal digits; None until a load
    needs it."""
    mean_bytes: float | None = field(default=None, compare=False)
    """Mean size of the first values; None until a load needs it."""

    @property
    def name(self) -> str:
        """The function's module and name, or the template's file."""
        return str(self.function) if isinstance(self.function, TemplateFile) else name_of(self.function)

    def __str__(self) -> str:
        pool = "" if self.pool is None else f", pool {self.pool}"
        return f"{self.name}{pool}"


_GENERATED_FIELDS = ("function", "pool")
_MOST_POOL = 1_000_000
_PAYLOADS = (
    "must be 'random', 'zeros', 'file:PATH', {'file': PATH, 'delimiter': TEXT}, 'template:PATH', a function (index, "
    "random), or {'function': FUNCTION, 'pool': NUMBER}"
)


def parse_payload(given: Any) -> Literal["random", "zeros"] | Samples | Generated:
    """Parse `random`, `zeros`, `file:PATH`, a function, or a mapping for a file or a function.

    Raises:
        ValueError: the value has another form, or one of its parts is invalid.

    """
    if isinstance(given, str):
        given = _spelled_out(given)
    match given:
        case Samples() | Generated() | "random" | "zeros":
            return given
        case {"file": _}:
            return _parse_samples(given)
        case {"function": _}:
            return _parse_generated(given)
        case _ if callable(given):
            return _parse_generated({"function": given})
    raise ValueError(_PAYLOADS)


def _spelled_out(text: str) -> Any:
    """Return a payload that is given as text in its other form."""
    if text.startswith(_PREFIX):
        return {"file": text.removeprefix(_PREFIX)}
    if text.startswith(_TEMPLATE) and text != _TEMPLATE and is_utf8(text):
        return Generated(function=TemplateFile(file=text.removeprefix(_TEMPLATE)))
    return text


def _parse_generated(given: Mapping[Any, Any]) -> Generated:
    for name in given:
        if name not in _GENERATED_FIELDS:
            raise ValueError(f"unknown entry {name!r}: {nearest(str(name), _GENERATED_FIELDS)}")
    if not callable(given["function"]):
        raise ValueError(  # noqa: TRY004 - pydantic adds the field's name to a ValueError
            f"invalid function {given['function']!r}: must be a function (index, random)"
        )
    pool = given.get("pool")
    if pool is not None and (isinstance(pool, bool) or not isinstance(pool, int) or not 1 <= pool <= _MOST_POOL):
        raise ValueError(f"invalid pool {pool!r}: must be a whole number between 1 and {_MOST_POOL:,}, or None")
    return Generated(function=importable(given["function"]), pool=pool)


def _parse_samples(given: Mapping[Any, Any]) -> Samples:
    for name, value in given.items():
        if name not in _SAMPLE_FIELDS:
            raise ValueError(f"unknown entry {name!r}: {nearest(str(name), _SAMPLE_FIELDS)}")
        if not isinstance(value, str) or not value or not is_utf8(value):
            raise ValueError(f"invalid {name} {value!r}: must be non-empty text that can be encoded in UTF-8")
    return Samples(**given)


def is_utf8(text: str) -> bool:
    """Return True if the text can be encoded in UTF-8, that is, if it contains no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_CONTENT_FIELDS = ("size_bytes", "sha256")

_SHOWN_DIGITS = 12
"""Number of hash digits to display, as in Git for commits in a large repository."""


def dump_payload(payload: Any) -> Any:
    """Convert a payload for reports and baselines."""
    match payload:
        case Samples():
            return {name: getattr(payload, name) for name in (*_SAMPLE_FIELDS, *_CONTENT_FIELDS)}
        case Generated():
            return {"function": payload.name, "pool": payload.pool, "sha256": payload.sha256}
    return payload


def format_dumped_payload(dumped: Mapping[str, Any]) -> str:
    """Format a payload from a baseline file, including its hash: `file:orders (2 KiB, SHA-256 ...)`.

    Raises:
        ValueError: the mapping has another form because the file was edited by hand.

    """
    if "function" in dumped:
        return _format_dumped_function(dumped)
    samples = parse_payload({name: value for name, value in dumped.items() if name not in _CONTENT_FIELDS})
    size_bytes, sha256 = (dumped.get(name) for name in _CONTENT_FIELDS)
    if not isinstance(size_bytes, int) or not isinstance(sha256, str):
        return f"{samples} (content unknown)"
    return f"{samples} ({_size_text(size_bytes)}, SHA-256 {sha256[:_SHOWN_DIGITS]})"


def _format_dumped_function(dumped: Mapping[str, Any]) -> str:
    function, pool, sha256 = (dumped.get(name) for name in (*_GENERATED_FIELDS, "sha256"))
    shown = str(function) if pool is None else f"{function}, pool {pool}"
    return f"{shown} (SHA-256 {sha256[:_SHOWN_DIGITS]})" if isinstance(sha256, str) else f"{shown} (source unknown)"


_MAX_KEYS = {"uniform": 10**9, "zipf": 10**6}
"""Maximum number of keys for each distribution. A Zipf distribution needs a table of all keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Distribution of record keys.

    `uniform` and `zipf` draw from the keys 0 to `count - 1`; `sequential` uses the record's index in the load.
    """

    kind: Literal["uniform", "zipf", "sequential"]
    count: int | None = None
    """Number of keys; None for `sequential`."""
    exponent: float | None = None
    """Exponent for `zipf`: the frequency of key `k` is proportional to `1 / (k + 1) ** exponent`; None otherwise."""

    def __str__(self) -> str:
        exponent = None if self.exponent == 1 else self.exponent
        return ":".join(str(part) for part in (self.kind, self.count, exponent) if part is not None)


def parse_keys(given: Any) -> Keys:
    """Parse `uniform:N`, `zipf:N`, `zipf:N:EXPONENT` or `sequential`; N may have a multiplier (`10k`).

    Raises:
        ValueError: the value has another form, or a number is out of range.

    """
    if isinstance(given, Keys):
        return given
    match given.split(":") if isinstance(given, str) else None:
        case ["sequential"]:
            return Keys(kind="sequential")
        case ["uniform", count]:
            return Keys(kind="uniform", count=_key_count(count, "uniform"))
        case ["zipf", count, *exponents] if len(exponents) <= 1:
            return Keys(kind="zipf", count=_key_count(count, "zipf"), exponent=_exponent(*exponents))
    raise ValueError("must be 'uniform:N', 'zipf:N', 'zipf:N:EXPONENT' or 'sequential', for example 'uniform:10k'")


def _key_count(text: str, kind: Literal["uniform", "zipf"]) -> int:
    try:
        count = parse_exact(text, Unit.RECORDS)
    except UnitError:
        count = Fraction(0)
    if count.denominator != 1 or not 1 <= count <= _MAX_KEYS[kind]:
        raise ValueError(
            f"invalid key count {text!r}: must be a whole number between 1 and {_MAX_KEYS[kind]:,} for {kind}, "
            "for example '10k'"
        )
    return int(count)


def _exponent(text: str = "1") -> float:
    try:
        exponent = float(text)
    except ValueError:
        exponent = math.nan
    if not 0 < exponent < math.inf:
        raise ValueError(f"invalid exponent {text!r}: must be a finite number above 0, for example 'zipf:10k:1.1'")
    return exponent
