"""When records are due: index to instant and back, in integer nanoseconds. Pure arithmetic, no clock.

Producer `p` of `P` makes every P-th record of the whole load, so its record `i` is record `i * P + p` of that: at a
constant rate due at `start + (i * P + p) / rate`. Indexes below zero are the warm-up's: the same load, before the
window opens.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.scenario.rate import Rate, Segment

if TYPE_CHECKING:
    from pytest_kafkaperf.scenario.scenario import Scenario


_INT64_ROOM = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The due times of one producer."""

    start_ns: int
    """The instant at which the window opens."""
    rate: Fraction | Curve
    """Records a second of the whole load, over all producers; or when each of them is due."""
    producer: int = 0
    producers: int = 1

    @classmethod
    def of(cls, rate: Rate, *, start_ns: int, producer: int = 0, producers: int = 1) -> Self:
        """The schedule of a scenario's rate."""
        pace = Curve.of(rate) if isinstance(rate, tuple) else exact_rate(rate)
        return cls(start_ns=start_ns, rate=pace, producer=producer, producers=producers)

    def due_ns(self, index: int) -> int:
        """When record `index` is due; never decreases with the index."""
        rate, position = self.rate, index * self.producers + self.producer
        if isinstance(rate, Curve):
            return self.start_ns + rate.due_ns(position)
        return self.start_ns + position * NS_PER_S * rate.denominator // rate.numerator

    def due_between(self, first: int, count: int, *, stride: int = 1) -> npt.NDArray[np.int64]:
        """Due times of the `count` records `first`, `first + stride`, ..., shape `(count,)`."""
        rate, position, step = self.rate, first * self.producers + self.producer, self.producers * stride
        if isinstance(rate, Curve):
            return rate.due_between(position, count, stride=step) + self.start_ns
        position, step = position * NS_PER_S * rate.denominator, step * NS_PER_S * rate.denominator
        if step * max(count, 1) + rate.numerator < _INT64_ROOM:
            base, rest = divmod(position, rate.numerator)
            offsets = (np.arange(count, dtype=np.int64) * step + rest) // rate.numerator
            return offsets + (self.start_ns + base)
        return np.fromiter((self.due_ns(first + k * stride) for k in range(count)), dtype=np.int64, count=count)

    def first_after(self, instant_ns: int) -> int:
        """Index of the first record that is due after `instant_ns`; all before it are due by then."""
        if isinstance(self.rate, Curve):
            return self._searched(instant_ns, self.rate.due_by(instant_ns - self.start_ns))
        # due(i) <= t  <=>  (i * P + p) * 1e9 / rate < t - start + 1
        bound = (instant_ns - self.start_ns + 1) * self.rate.numerator
        unit = NS_PER_S * self.rate.denominator
        return -(-(bound - self.producer * unit) // (self.producers * unit))

    def _searched(self, instant_ns: int, position: int) -> int:
        """As `first_after`, from a position of the whole load that is near: a few steps, and exact."""
        index = (position - self.producer) // self.producers
        while self.due_ns(index) <= instant_ns:
            index += 1
        while self.due_ns(index - 1) > instant_ns:
            index -= 1
        return index


def window_s(scenario: Scenario) -> float | None:
    """Length of a round's window; None where it ends with its last record, whenever that is."""
    if scenario.duration is not None or scenario.records is None or scenario.rate is None:
        return scenario.duration
    return Schedule.of(scenario.rate, start_ns=0).due_ns(scenario.records) / NS_PER_S


def exact_rate(records_per_s: float) -> Fraction:
    """A rate as a short fraction, off by at most one part in a million: the shorter, the faster `due_between`.

    The rate of a scenario has been validated: above 0, at most 1e9.
    """
    exact = Fraction(records_per_s)
    for limit in (1000, 10**6, 10**9):
        rounded = exact.limit_denominator(limit)
        if abs(rounded - exact) * 1_000_000 <= exact:
            return rounded
    return exact


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """When each record of the whole load is due, counted from the instant at which the window opens.

    Before it the first rate holds, and after the last segment the rate in which that ends.
    """

    pieces: tuple[_Piece, ...]
    """The time before the window, each segment, and the time after them."""
    firsts: tuple[int, ...]
    """Index of the first record of each piece but the one before the window."""
    begins_ns: tuple[int, ...]
    """When each of these pieces begins."""

    @classmethod
    def of(cls, shape: Sequence[Segment]) -> Self:
        """The curve of a shape."""
        pieces, firsts, begins_ns = [_flat(shape[0].start, 0, Fraction(0))], [], []
        now_ns, due = 0, Fraction(0)
        for segment in shape:
            firsts.append(math.ceil(due))
            begins_ns.append(now_ns)
            if segment.seconds is None:
                pieces.append(_flat(segment.end, now_ns, due))
                break
            length_ns = round(segment.seconds * NS_PER_S)
            more = (Fraction(segment.start) + Fraction(segment.end)) / 2 * length_ns / NS_PER_S
            pieces.append(_line(segment, (now_ns, now_ns + length_ns), (due, due + more)))
            now_ns, due = now_ns + length_ns, due + more
        else:
            firsts.append(math.ceil(due))
            begins_ns.append(now_ns)
            pieces.append(_flat(shape[-1].end, now_ns, due))
        return cls(pieces=tuple(pieces), firsts=tuple(firsts), begins_ns=tuple(begins_ns))

    def due_ns(self, index: int) -> int:
        """When record `index` is due; never decreases with the index."""
        return self.pieces[bisect.bisect_right(self.firsts, index)].due_ns(index)

    def due_between(self, first: int, count: int, *, stride: int) -> npt.NDArray[np.int64]:
        """Due times of the `count` records `first`, `first + stride`, ..., shape `(count,)`: those of `due_ns`."""
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
        """How many records are due by then, but for rounding: a few records more or less."""
        return self.pieces[bisect.bisect_right(self.begins_ns, offset_ns)].due_by(offset_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A stretch of one slope, described from its slower end, the anchor."""

    anchor_ns: int
    whole: int
    """Records due by the anchor: whole ones..."""
    part: float
    """...and what remains of one."""
    rate: float
    """At the anchor, in records a second."""
    slope: float
    """What the rate gains by each second away from the anchor; at least 0."""
    sign: int
    """+1: the piece stands after its anchor; -1: before it."""

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
        """One formula for a number and for an array: each step is rounded the same way (IEEE 754)."""
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
