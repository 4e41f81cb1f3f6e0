"""Student's t distribution, without SciPy, whose import alone would take half a second."""

from __future__ import annotations

import functools
import math


def student_tail(t: float, freedom: int) -> float:
    """Return the probability that Student's t exceeds `t`.

    Source: M. Abramowitz, I. A. Stegun, "Handbook of Mathematical Functions" (1964), 26.7.3 and 26.7.4.
    """
    angle = math.atan2(t, math.sqrt(freedom))
    squared, odd = math.cos(angle) ** 2, freedom % 2
    term = total = 0.0 if freedom == 1 else math.cos(angle) if odd else 1.0
    for number in range(2 if odd else 1, freedom - 2, 2):
        term *= squared * number / (number + 1)
        total += term
    total *= math.sin(angle)
    within = (angle + total) * 2 / math.pi if odd else total
    return (1 - within) / 2


def student_quantile(p: float, freedom: float) -> float:
    """Return the value that Student's t exceeds with probability `p`, between 0 and 0.5.

    Between whole numbers of degrees of freedom, its logarithm is interpolated over their reciprocals.
    """
    below = max(1, math.floor(freedom))
    low, high = (_whole_quantile(p, each) for each in (below, below + 1))
    weight = (1 / below - 1 / max(freedom, below)) * below * (below + 1)
    return float(low ** (1 - weight) * high**weight)


@functools.cache
def _whole_quantile(p: float, freedom: int) -> float:
    low, high = 0.0, _MOST_T
    while high - low > _ACCURACY * high:
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, freedom) > p else (low, middle)
    return high


_MOST_T = 1e6
_ACCURACY = 1e-6
