"""How fast the load is: one rate, or a shape of ramps and steps. Text to value, and back."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_kafkaperf.core.errors import UnitError
from pytest_kafkaperf.core.units import Unit, format_quantity, parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of a shape: the rate goes in a straight line from `start` to `end`, both in records a second."""

    start: float
    end: float
    seconds: float | None
    """How long it takes; None: it is the last, of one rate, and lasts."""


Rate = float | tuple[Segment, ...]
"""Records a second over all producers: one rate, or a shape. The rate in which a shape ends lasts."""

_MAX_RATE = 1e9
"""One record a nanosecond: the clock's step."""
_MIN_SHAPE_RATE = 1e-3
"""Far below it, due times would be off by more than the clock's step."""
_MIN_SECONDS = 1e-3
_MAX_SECONDS = 86_400
_MAX_SEGMENTS = 100
_MAX_LENGTH = 100
"""Characters of a segment; longer text is a mistake and only costs time to read."""
_EXAMPLES = "for example '1k -> 50k records/s over 30 s' or '1k records/s for 10 s, 5k records/s'"
_RAMP = re.compile(r"(?P<start>.+?)->(?P<end>.+?)\sover\s(?P<seconds>.+)", re.DOTALL)
_STEP = re.compile(r"(?P<rate>.+?)\sfor\s(?P<seconds>.+)", re.DOTALL)
_NUMBER = re.compile(r"\s*[+-]?[\d_.]+(?:[eE][+-]?\d+)?\s*(?:[kKMG](?=\s|$|record))?", re.ASCII)


def parse_rate(given: Any, *, record_bytes: float | None) -> Rate:
    """Read a rate: a number, text, or the segments of a shape as texts or as a scenario's dump has them.

    A rate in bytes is divided by `record_bytes`, the mean size of a record; None: sizes are not known, and such a
    rate is refused.

    Raises:
        UnitError: not a rate; the text names the segment.

    """
    parts = _parts(given)
    if not parts:
        raise UnitError(f"a shape has no segment; {_EXAMPLES}")
    if len(parts) > _MAX_SEGMENTS:
        raise UnitError(f"a shape of {len(parts)} segments; at most {_MAX_SEGMENTS} can be")
    if len(parts) == 1 and not _is_shape(parts[0]):
        return _single(parts[0], record_bytes)
    shape = tuple(
        _numbered(part, number, record_bytes, last=number == len(parts)) for number, part in enumerate(parts, start=1)
    )
    rates = {rate for segment in shape for rate in (segment.start, segment.end)}
    return rates.pop() if len(rates) == 1 else shape


def peak_rate(rate: Rate) -> float:
    """The highest rate, in records a second."""
    return max(max(segment.start, segment.end) for segment in rate) if isinstance(rate, tuple) else rate


def timed_s(rate: Rate | None) -> float:
    """How long a shape takes until its last rate lasts, in seconds; 0 for one rate."""
    return math.fsum(segment.seconds or 0 for segment in rate) if isinstance(rate, tuple) else 0.0


def format_rate(rate: Rate) -> str:
    """A rate for people: `5k records/s`, `1k -> 50k records/s over 30 s`, `1k records/s for 10 s, 5k records/s`."""
    return ", ".join(map(_written, rate)) if isinstance(rate, tuple) else _rate_text(rate)


def dump_rate(rate: Rate) -> float | list[dict[str, float | None]]:
    """What reports and baselines hold."""
    return [dataclasses.asdict(segment) for segment in rate] if isinstance(rate, tuple) else rate


def _parts(given: Any) -> list[Any]:
    """The segments of what was given, still to be read."""
    items = given if isinstance(given, list | tuple) else [given]
    return [part for item in items for part in (item.split(",") if isinstance(item, str) else [item])]


def _is_shape(part: Any) -> bool:
    if isinstance(part, str):
        return "->" in part or "→" in part or _STEP.fullmatch(part) is not None
    return isinstance(part, Segment | Mapping)


def _single(given: Any, record_bytes: float | None) -> float:
    rate = _rate(given, record_bytes)
    if not 0 < rate <= _MAX_RATE:
        raise UnitError("out of range; use more than 0 and at most 1G records/s")
    return rate


def _numbered(part: Any, number: int, record_bytes: float | None, *, last: bool) -> Segment:
    try:
        return _checked(_segment(part, record_bytes), last=last)
    except UnitError as error:
        shown = part.strip()[:_MAX_LENGTH] if isinstance(part, str) else part
        raise UnitError(f"segment {number}, {shown!r}: {error}") from None


def _checked(segment: Segment, *, last: bool) -> Segment:
    for rate in (segment.start, segment.end):
        if not _MIN_SHAPE_RATE <= rate <= _MAX_RATE:
            shown = _rate_text(rate)
            raise UnitError(f"{shown} is out of range; a shape goes from 0.001 to 1G records/s")
    if segment.seconds is None:
        if segment.start != segment.end:
            raise UnitError(f"a ramp needs its time, {_EXAMPLES}")
        if not last:
            raise UnitError(f"only the last segment may leave out its time, {_EXAMPLES}")
    elif not _MIN_SECONDS <= segment.seconds <= _MAX_SECONDS:
        shown = format_quantity(segment.seconds, Unit.SECONDS, digits=6)
        raise UnitError(f"{shown} is out of range; a segment takes from 1 ms to 24 h")
    return segment


def _segment(part: Any, record_bytes: float | None) -> Segment:
    match part:
        case Segment():
            return part
        case {"start": start, "end": end, "seconds": seconds, **more} if not more:
            return Segment(
                start=_rate(start, record_bytes),
                end=_rate(end, record_bytes),
                seconds=None if seconds is None else parse(seconds, Unit.SECONDS),
            )
        case str():
            return _read(part.replace("→", "->"), record_bytes)
        case _:
            rate = _rate(part, record_bytes)
            return Segment(start=rate, end=rate, seconds=None)


def _read(text: str, record_bytes: float | None) -> Segment:
    if len(text) > _MAX_LENGTH:
        raise UnitError(f"it has {len(text)} characters, at most {_MAX_LENGTH} are read; {_EXAMPLES}")
    if "->" in text:
        ramp = _RAMP.fullmatch(text)
        if ramp is None:
            raise UnitError("a ramp has two rates and its time, for example '1k -> 50k records/s over 30 s'")
        return Segment(
            start=_rate(_with_unit_of(ramp["end"], ramp["start"]), record_bytes),
            end=_rate(ramp["end"].strip(), record_bytes),
            seconds=parse(ramp["seconds"].strip(), Unit.SECONDS),
        )
    step = _STEP.fullmatch(text)
    rate = _rate((step["rate"] if step else text).strip(), record_bytes)
    return Segment(start=rate, end=rate, seconds=parse(step["seconds"].strip(), Unit.SECONDS) if step else None)


def _with_unit_of(whole: str, text: str) -> str:
    """`1k` beside `50k records/s` is `1k records/s`."""
    number, unit = text.strip(), _NUMBER.sub("", whole, count=1).strip()
    return f"{number} {unit}".strip() if _NUMBER.fullmatch(number) else number


def _rate(given: Any, record_bytes: float | None) -> float:
    if not isinstance(given, str) or not given.rstrip().endswith("B/s"):
        return parse(given, Unit.RECORD_RATE)
    rate = parse(given, Unit.BYTE_RATE)
    if record_bytes is None:
        raise UnitError(f"{given!r} in bytes cannot be with samples, whose sizes differ; use records/s")
    return rate / record_bytes


def _written(segment: Segment) -> str:
    time = "" if segment.seconds is None else format_quantity(segment.seconds, Unit.SECONDS, digits=6)
    end = _rate_text(segment.end)
    if segment.start == segment.end:
        return f"{end} for {time}" if time else end
    return f"{_rate_text(segment.start).removesuffix(f' {Unit.RECORD_RATE}')} -> {end} over {time}"


def _rate_text(rate: float) -> str:
    return format_quantity(rate, Unit.RECORD_RATE, digits=6)
