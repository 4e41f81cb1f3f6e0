"""When records are due: index to instant and back, in integer nanoseconds. Pure arithmetic, no clock.

Producer `p` of `P` makes every P-th record of the whole load, so its record `i` is record `i * P + p` of that: at a
constant rate due at `start + (i * P + p) / rate`. Indexes below zero are the warm-up's: the same load, before the
window opens.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.curve import Curve
from pytest_kafkaperf.rate import Rate
from pytest_kafkaperf.units import NS_PER_S

if TYPE_CHECKING:
    from pytest_kafkaperf.scenario import Scenario

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
