"""Parsing and formatting of rates: constant rates, and shapes of ramps and steps."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_kafkaperf.core.errors import UnitError
from pytest_kafkaperf.core.metrics import SHORTEST_STEADY_S
from pytest_kafkaperf.core.units import Unit, format_quantity, parse, parse_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Part of a shape during which the rate changes linearly from `start` to `end` (records/s)."""

    start: float
    end: float
    seconds: float | None
    """Duration in seconds; None for a final constant-rate segment that lasts until the end of the round."""


Rate = float | tuple[Segment, ...]
"""Records/s across all producers: a constant rate or a shape. After the last segment, its end rate continues."""

_MAX_RATE = 1e9
"""Maximum rate: one record per nanosecond, the clock's resolution."""
_MIN_SHAPE_RATE = 1e-3
"""Minimum rate in a shape. At much lower rates, due times would be less precise than the clock's resolution."""
_MIN_SECONDS = 1e-3
_MAX_SECONDS = 86_400
_MAX_SEGMENTS = 100
_MAX_LENGTH = 100
"""Maximum length of a segment, in characters."""
_EXAMPLES = "for example '1k -> 50k records/s over 30 s' or '1k records/s for 10 s, 5k records/s'"
_RAMP = re.compile(r"(?P<start>.+?)->(?P<end>.+?)\sover\s(?P<seconds>.+)", re.DOTALL)
_STEP = re.compile(r"(?P<rate>.+?)\sfor\s(?P<seconds>.+)", re.DOTALL)
_NUMBER = re.compile(r"\s*[+-]?[\d_.]+(?:[eE][+-]?\d+)?\s*(?:[kKMG](?![iB]))?", re.ASCII)


def parse_rate(given: Any, *, record_bytes: float | None) -> Rate:
    """Parse a rate: a number, text, or a list of segments (text, or mappings as in a dumped scenario).

    Byte rates are divided by `record_bytes`, the mean record size. If the size is unknown (None), byte rates are
    invalid.

    Raises:
        UnitError: the rate is invalid; the message shows the segment.

    """
    items = given if isinstance(given, list | tuple) else [given]
    parts = [part for item in items for part in (item.split(",") if isinstance(item, str) else [item])]
    if not parts:
        raise UnitError(f"must have at least one segment, {_EXAMPLES}")
    if len(parts) > _MAX_SEGMENTS:
        raise UnitError(f"has {len(parts)} segments, must have at most {_MAX_SEGMENTS}")
    if len(parts) == 1 and not _is_shape(parts[0]):
        rate = _rate(parts[0], record_bytes)
        if not 0 < rate <= _MAX_RATE:
            raise UnitError("must be above 0 and at most 1G records/s")
        return rate
    shape = tuple(
        _parse_segment(part, number, record_bytes, last=number == len(parts))
        for number, part in enumerate(parts, start=1)
    )
    rates = {rate for segment in shape for rate in (segment.start, segment.end)}
    return rates.pop() if len(rates) == 1 and not timed_s(shape) else shape


def peak_rate(rate: Rate) -> float:
    """Return the highest rate in records/s."""
    return max(max(segment.start, segment.end) for segment in rate) if isinstance(rate, tuple) else rate


def timed_s(rate: Rate | None) -> float:
    """Return the total duration of a shape's segments in seconds; 0 for a constant rate."""
    return math.fsum(segment.seconds or 0 for segment in rate) if isinstance(rate, tuple) else 0.0


def steady_s(rate: Rate | None, *, records: float | None, duration: float | None) -> float | None:
    """Return the length of a window in seconds; None if its rate changes, or if it is unknown when it ends."""
    if isinstance(rate, tuple):
        return None
    return duration if rate is None or records is None else records / rate


def is_steady(rate: Rate | None, *, records: float | None, duration: float | None) -> bool:
    """Return True if a window is known to be long enough, and its load constant, to compare its end with the whole."""
    length_s = steady_s(rate, records=records, duration=duration)
    return length_s is not None and length_s >= SHORTEST_STEADY_S


def format_rate(rate: Rate) -> str:
    """Format a rate for users, as `parse_rate` reads it: `5k records/s`, `1k -> 50k records/s over 30 s`."""
    return ", ".join(map(_segment_text, rate)) if isinstance(rate, tuple) else _rate_text(rate)


def dump_rate(rate: Rate) -> float | list[dict[str, float | None]]:
    """Convert a rate for reports and baselines."""
    return [dataclasses.asdict(segment) for segment in rate] if isinstance(rate, tuple) else rate


def _is_shape(part: Any) -> bool:
    if isinstance(part, str):
        return "->" in part or "→" in part or _STEP.fullmatch(part) is not None
    return isinstance(part, Segment | Mapping)


def _parse_segment(part: Any, number: int, record_bytes: float | None, *, last: bool) -> Segment:
    try:
        segment = _segment(part, record_bytes)
        _check(segment, last=last)
    except UnitError as error:
        shown = part.strip()[:_MAX_LENGTH] if isinstance(part, str) else part
        raise UnitError(f"segment {number}, {shown!r}: {error}") from None
    return segment


def _check(segment: Segment, *, last: bool) -> None:
    for rate in (segment.start, segment.end):
        if not _MIN_SHAPE_RATE <= rate <= _MAX_RATE:
            raise UnitError(f"invalid rate {_rate_text(rate)}: must be between 0.001 and 1G records/s")
    if segment.seconds is None:
        if segment.start != segment.end:
            raise UnitError(f"a ramp must have a duration, {_EXAMPLES}")
        if not last:
            raise UnitError(f"only the last segment may omit its duration, {_EXAMPLES}")
    elif not _MIN_SECONDS <= segment.seconds <= _MAX_SECONDS:
        shown = format_quantity(segment.seconds, Unit.SECONDS, digits=6)
        raise UnitError(f"invalid duration {shown}: must be between 1 ms and 24 h")


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
            return _parse_text(part.replace("→", "->"), record_bytes)
        case _:
            rate = _rate(part, record_bytes)
            return Segment(start=rate, end=rate, seconds=None)


def _parse_text(text: str, record_bytes: float | None) -> Segment:
    if len(text) > _MAX_LENGTH:
        raise UnitError(f"has {len(text)} characters, must have at most {_MAX_LENGTH}, {_EXAMPLES}")
    if "->" in text:
        ramp = _RAMP.fullmatch(text)
        if ramp is None:
            raise UnitError("a ramp must have two rates and a duration, for example '1k -> 50k records/s over 30 s'")
        return Segment(
            start=_rate(_with_unit_of(ramp["end"], ramp["start"]), record_bytes),
            end=_rate(ramp["end"].strip(), record_bytes),
            seconds=parse_time(ramp["seconds"].strip()),
        )
    step = _STEP.fullmatch(text)
    rate = _rate((step["rate"] if step else text).strip(), record_bytes)
    return Segment(start=rate, end=rate, seconds=parse_time(step["seconds"].strip()) if step else None)


def _with_unit_of(whole: str, text: str) -> str:
    """Return the start rate `text`, adding the end rate's unit from `whole` if it has none: `1k -> 50k records/s`."""
    number, unit = text.strip(), _NUMBER.sub("", whole, count=1).strip()
    return f"{number} {unit}".strip() if _NUMBER.fullmatch(number) else number


def _rate(given: Any, record_bytes: float | None) -> float:
    if not isinstance(given, str) or not given.rstrip().endswith("B/s"):
        return parse(given, Unit.RECORD_RATE)
    rate = parse(given, Unit.BYTE_RATE)
    if record_bytes is None:
        raise UnitError(f"invalid rate {given!r}: samples differ in size, so the rate must be in records/s")
    return rate / record_bytes


def _segment_text(segment: Segment) -> str:
    time = "" if segment.seconds is None else format_quantity(segment.seconds, Unit.SECONDS, digits=6)
    end = _rate_text(segment.end)
    if segment.start == segment.end:
        return f"{end} for {time}" if time else end
    return f"{_rate_text(segment.start).removesuffix(f' {Unit.RECORD_RATE}')} -> {end} over {time}"


def _rate_text(rate: float) -> str:
    return format_quantity(rate, Unit.RECORD_RATE, digits=6)
