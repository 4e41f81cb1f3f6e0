"""Due times of records: conversion from index to instant and back, in integer nanoseconds, without a clock.

Producer `p` of `P` sends every P-th record of the load; its record `i` is record `i * P + p` of the load. At a constant
rate, that record is due at `start + (i * P + p) / rate`. Negative indexes belong to the warm-up, which is the same load
before the window opens.

A load's time limits are derived from its schedule.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.scenarios.rate import Rate, Segment
from pytest_kafkaperf.scenarios.scenario import RECORDS_TIMEOUT_S, Scenario

REQUEST_TIMEOUT_S = 30
"""Kafka's default for `request.timeout.ms`. A batch that is not acknowledged within this time has failed."""
DRAIN_TIMEOUT_S = 30
"""Time limit for reading the remaining records after production, and for sending the last records of the window."""
_SETTLE_MARGIN_S = 5
_INT64_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Due times for one producer's records."""

    start_ns: int
    """Instant at which the window opens, on the round's clock."""
    rate: Fraction | Curve
    """Records per second across all producers; a curve if the rate changes."""
    producer: int = 0
    producers: int = 1

    @classmethod
    def of(cls, rate: Rate, *, start_ns: int, producer: int = 0, producers: int = 1) -> Self:
        """Create the schedule for a scenario's rate."""
        pace = Curve.of(rate) if isinstance(rate, tuple) else exact_rate(rate)
        return cls(start_ns=start_ns, rate=pace, producer=producer, producers=producers)

    def due_ns(self, index: int) -> int:
        """Return the due time of record `index`; it never decreases with the index."""
        rate, position = self.rate, index * self.producers + self.producer
        if isinstance(rate, Curve):
            return self.start_ns + rate.due_ns(position)
        return self.start_ns + position * NS_PER_S * rate.denominator // rate.numerator

    def due_between(self, first: int, count: int, *, stride: int = 1) -> npt.NDArray[np.int64]:
        """Return the due times for `count` records: `first`, `first + stride`, ..., shape `(count,)`."""
        rate, position, step = self.rate, first * self.producers + self.producer, self.producers * stride
        if isinstance(rate, Curve):
            return rate.due_between(position, count, stride=step) + self.start_ns
        position, step = position * NS_PER_S * rate.denominator, step * NS_PER_S * rate.denominator
        if step * max(count, 1) + rate.numerator < _INT64_LIMIT:
            base, rest = divmod(position, rate.numerator)
            offsets = (np.arange(count, dtype=np.int64) * step + rest) // rate.numerator
            return offsets + (self.start_ns + base)
        return np.fromiter((self.due_ns(first + k * stride) for k in range(count)), dtype=np.int64, count=count)

    def first_after(self, instant_ns: int) -> int:
        """Return the index of the first record due after `instant_ns`; all earlier records are due by then."""
        if isinstance(self.rate, Curve):
            return self._searched(instant_ns, self.rate.due_by(instant_ns - self.start_ns))
        # due(i) <= t  <=>  (i * P + p) * 1e9 / rate < t - start + 1
        bound = (instant_ns - self.start_ns + 1) * self.rate.numerator
        unit = NS_PER_S * self.rate.denominator
        return -(-(bound - self.producer * unit) // (self.producers * unit))

    def _searched(self, instant_ns: int, position: int) -> int:
        """Return the exact result of `first_after`, in a few steps from a nearby position in the whole load."""
        index = (position - self.producer) // self.producers
        while self.due_ns(index) <= instant_ns:
            index += 1
        while self.due_ns(index - 1) > instant_ns:
            index -= 1
        return index


def window_s(scenario: Scenario) -> float | None:
    """Return the length of a round's window; None if it is unknown because the window ends with its last record."""
    if scenario.duration is not None or scenario.records is None or scenario.rate is None:
        return scenario.duration
    return Schedule.of(scenario.rate, start_ns=0).due_ns(scenario.records) / NS_PER_S


def exact_rate(records_per_s: float) -> Fraction:
    """Convert a rate to a short fraction, which keeps `due_between` fast and is off by at most one part in a million.

    A scenario's rate has already been validated to be above 0 and at most 1e9.
    """
    exact = Fraction(records_per_s)
    for limit in (1000, 10**6, 10**9):
        rounded = exact.limit_denominator(limit)
        if abs(rounded - exact) * 1_000_000 <= exact:
            return rounded
    return exact


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Due times for all records in the load, relative to the start of the window.

    The first rate applies before the window, and the last rate applies after the last segment.
    """

    pieces: tuple[_Piece, ...]
    """Pieces for the time before the window, for each segment, and for the time after the last segment."""
    firsts: tuple[int, ...]
    """Index of the first record in each piece, except for the piece before the window."""
    begins_ns: tuple[int, ...]
    """Start of each piece, except for the piece before the window."""

    @classmethod
    def of(cls, shape: Sequence[Segment]) -> Self:
        """Create the curve for a shape."""
        pieces, firsts, begins_ns = [_flat(shape[0].start, 0, Fraction(0))], [], []
        now_ns, due = 0, Fraction(0)
        last = Segment(start=shape[-1].end, end=shape[-1].end, seconds=None)
        for segment in (*shape, last):
            firsts.append(math.ceil(due))
            begins_ns.append(now_ns)
            if segment.seconds is None:
                pieces.append(_flat(segment.end, now_ns, due))
                break
            length_ns = round(segment.seconds * NS_PER_S)
            more = (Fraction(segment.start) + Fraction(segment.end)) / 2 * length_ns / NS_PER_S
            pieces.append(_line(segment, (now_ns, now_ns + length_ns), (due, due + more)))
            now_ns, due = now_ns + length_ns, due + more
        return cls(pieces=tuple(pieces), firsts=tuple(firsts), begins_ns=tuple(begins_ns))

    def due_ns(self, index: int) -> int:
        """Return the due time of record `index`; it never decreases with the index."""
        return self.pieces[bisect.bisect_right(self.firsts, index)].due_ns(index)

    def due_between(self, first: int, count: int, *, stride: int) -> npt.NDArray[np.int64]:
        """Return `due_ns` for `count` records: `first`, `first + stride`, ..., shape `(count,)`."""
        dues = np.empty(count, dtype=np.int64)
        done = 0
        while done < count:
            index = first + done * stride
            number = bisect.bisect_right(self.firsts, index)
            stop = count
            if number < len(self.firsts):
                stop = min(count, done - (index - self.firsts[number]) // stride)
            dues[done:stop] = self.pieces[number].due_between(index, stop - done, stride)
            done = stop
        return dues

    def due_by(self, offset_ns: int) -> int:
        """Return the number of records due by `offset_ns`. Because of rounding, it can be off by a few records."""
        return self.pieces[bisect.bisect_right(self.begins_ns, offset_ns)].due_by(offset_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Piece with a single slope, described relative to its slower end (the anchor)."""

    anchor_ns: int
    whole: int
    """Number of complete records due by the anchor."""
    part: float
    """Remaining fraction of a record due by the anchor."""
    rate: float
    """Rate at the anchor, in records per second."""
    slope: float
    """Rate increase per second of distance from the anchor; at least 0."""
    sign: int
    """+1 if the piece follows its anchor, -1 if it precedes it."""

    def due_ns(self, index: int) -> int:
        records = self.sign * (float(index - self.whole) - self.part)
        elapsed_ns: float = self._elapsed_ns(records, math.sqrt)
        return self.anchor_ns + self.sign * round(elapsed_ns)

    def due_between(self, first: int, count: int, stride: int) -> npt.NDArray[np.int64]:
        indexes = np.arange(count, dtype=np.int64) * stride + (first - self.whole)
        records = self.sign * (indexes.astype(np.float64) - self.part)
        elapsed_ns: npt.NDArray[np.float64] = self._elapsed_ns(records, np.sqrt)
        return self.anchor_ns + self.sign * np.rint(elapsed_ns).astype(np.int64)

    def due_by(self, offset_ns: int) -> int:
        elapsed_s = self.sign * (offset_ns - self.anchor_ns) / NS_PER_S
        records = elapsed_s * (self.rate + self.slope * elapsed_s / 2)
        return self.whole + math.floor(self.part + self.sign * records)

    def _elapsed_ns(self, records: Any, sqrt: Callable[[Any], Any]) -> Any:
        """Compute the time since the anchor for a number or an array, with identical rounding (IEEE 754)."""
        return 2e9 * records / (self.rate + sqrt(self.rate * self.rate + 2 * self.slope * records))


def _flat(rate: float, anchor_ns: int, due: Fraction) -> _Piece:
    return _anchored(anchor_ns, due, rate=rate, slope=0.0, sign=1)


def _line(segment: Segment, limits_ns: tuple[int, int], dues: tuple[Fraction, Fraction]) -> _Piece:
    slope = abs(segment.end - segment.start) * NS_PER_S / (limits_ns[1] - limits_ns[0])
    if segment.start <= segment.end:
        return _anchored(limits_ns[0], dues[0], rate=segment.start, slope=slope, sign=1)
    return _anchored(limits_ns[1], dues[1], rate=segment.end, slope=slope, sign=-1)


def _anchored(anchor_ns: int, due: Fraction, *, rate: float, slope: float, sign: int) -> _Piece:
    whole = math.floor(due)
    return _Piece(anchor_ns=anchor_ns, whole=whole, part=float(due - whole), rate=rate, slope=slope, sign=sign)


def settle_timeout_s(scenario: Scenario) -> float:
    """Return the time limit for waiting for outstanding records."""
    request_ms: int = scenario.producer_config.get("request_timeout_ms", REQUEST_TIMEOUT_S * 1000)
    return request_ms / 1000 + _SETTLE_MARGIN_S


def longest_s(scenario: Scenario) -> float:
    """Return the time limit for sending a window's records, from its start. Records not sent by then are missing."""
    length_s = window_s(scenario)
    return RECORDS_TIMEOUT_S if length_s is None else length_s + max(length_s, DRAIN_TIMEOUT_S / 2)


def group_drain_s(load_s: float) -> float:
    """Return the time limit for a watched group to commit the last record. Kafka Connect commits once a minute."""
    return max(2 * DRAIN_TIMEOUT_S, 2 * load_s)


def records_of_producer(records: int, number: int, producers: int) -> int:
    """Return how many of `records` records are sent by producer `number`."""
    return records // producers + (number < records % producers)
