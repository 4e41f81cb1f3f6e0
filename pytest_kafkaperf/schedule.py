"""When records are due: index to instant and back, in integer nanoseconds. Pure arithmetic, no clock.

Producer `p` of `P` makes every P-th record of the whole load, so its record `i` is due at
`start + (i * P + p) / rate`. Indexes below zero are the warm-up's: the same load, before the window opens.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

NS_PER_S = 1_000_000_000
_INT64_ROOM = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The due times of one producer at a constant rate."""

    start_ns: int
    """The instant at which the window opens."""
    rate: Fraction
    """Records a second of the whole load, over all producers."""
    producer: int = 0
    producers: int = 1

    def due_ns(self, index: int) -> int:
        """When record `index` is due; never decreases with the index."""
        return self.start_ns + self._position(index) // self.rate.numerator

    def due_between(self, first: int, count: int, *, stride: int = 1) -> npt.NDArray[np.int64]:
        """Due times of the `count` records `first`, `first + stride`, ..., shape `(count,)`."""
        position, step = self._position(first), self._step() * stride
        if step * count + self.rate.numerator < _INT64_ROOM:
            base, rest = divmod(position, self.rate.numerator)
            offsets = (np.arange(count, dtype=np.int64) * step + rest) // self.rate.numerator
            return offsets + (self.start_ns + base)
        return np.fromiter((self.due_ns(first + k * stride) for k in range(count)), dtype=np.int64, count=count)

    def first_after(self, instant_ns: int) -> int:
        """Index of the first record that is due after `instant_ns`; all before it are due by then."""
        # due(i) <= t  <=>  position(i) < (t - start + 1) * numerator
        bound = (instant_ns - self.start_ns + 1) * self.rate.numerator
        return -(-(bound - self._position(0)) // self._step())

    def _step(self) -> int:
        return self.producers * NS_PER_S * self.rate.denominator

    def _position(self, index: int) -> int:
        return (index * self.producers + self.producer) * NS_PER_S * self.rate.denominator


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
