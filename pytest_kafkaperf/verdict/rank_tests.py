"""Rank statistics for two samples: estimates, confidence intervals and exact p values.

Sources: H. B. Mann, D. R. Whitney, "On a test of whether one of two random variables is stochastically larger than
the other", Annals of Mathematical Statistics 18 (1947); J. L. Hodges, E. L. Lehmann, "Estimates of location based on
rank tests", Annals of Mathematical Statistics 34 (1963).
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

SAME = 1e-12
"""Values on a log scale that differ by less than this count as equal, so that rounding errors of log() and of the
subtraction of a tolerance do not break ties."""


def hodges_lehmann(larger: Sequence[float], smaller: Sequence[float]) -> float:
    """Return the Hodges-Lehmann estimate of the shift between samples: the median of all pairwise differences."""
    return statistics.median(above - below for above in larger for below in smaller)


def mann_whitney_p(larger: Sequence[float], smaller: Sequence[float]) -> Fraction:
    """Return the p of the exact one-sided Mann-Whitney test that the first sample lies above the second.

    This is the share of all splits of the pooled values into samples of these sizes whose U is at least the observed
    one. A tie counts one half (midranks) and the observed values are permuted, so p is exact with ties, too.
    """
    # Doubled, so that ties count as whole numbers; counted from below, because that tail is short for a small p.
    defects = sum((below > above) * 2 + (below == above) for above in larger for below in smaller)
    counts = Counter(larger) + Counter(smaller)
    groups = [counts[value] for value in sorted(counts)]
    size = len(smaller)
    if len(larger) < size:  # the distribution of U is the same for the other sample in reverse order
        groups, size = groups[::-1], len(larger)
    pairs = len(larger) * len(smaller)
    ways = math.comb(len(larger) + len(smaller), size)
    if defects > pairs:  # the other tail is the shorter one
        return 1 - Fraction(_count_subsets(groups[::-1], size, 2 * pairs - defects - 1), ways)
    return Fraction(_count_subsets(groups, size, defects), ways)


def ranked(*samples: Sequence[float]) -> list[list[int]]:
    """Replace the values of all samples by their position in the pooled order; equal values share a position."""
    places: dict[float, int] = {}
    before = -math.inf
    for value in sorted({value for sample in samples for value in sample}):
        places[value] = len(places) if value - before > SAME else places[before]
        before = value
    return [[places[value] for value in sample] for sample in samples]


def least_p(first: int, second: int) -> Fraction:
    """Return the smallest possible p of the Mann-Whitney test for these sample sizes: that of complete separation."""
    return Fraction(1, math.comb(first + second, first))


def pseudomedian(differences: Sequence[float]) -> float:
    """Return the one-sample Hodges-Lehmann estimate of paired differences.

    This is the median of the Walsh averages: the means of all pairs of differences, including each with itself.
    """
    return statistics.median((a + b) / 2 for a, b in itertools.combinations_with_replacement(differences, 2))


@functools.cache
def critical_us(current: int, baseline: int, alpha: Fraction) -> int:
    """Return the size of the critical region of U: the number of its largest values with an exact p below `alpha`.

    The numbers of splits by U are the coefficients of the Gaussian binomial coefficient.
    """
    most = current * baseline // 2
    ways = [1] + [0] * most
    for size in range(1, current + 1):
        for place in range(most, baseline + size - 1, -1):
            ways[place] -= ways[place - baseline - size]
        for place in range(size, most + 1):
            ways[place] += ways[place - size]
    return _count_below(ways, alpha * math.comb(current + baseline, current))


_LEVEL = Fraction(95, 100)
"""Confidence level of intervals."""
_LEAST_LEVEL = Fraction(90, 100)
"""Minimum confidence level; small samples with a lower level get no interval."""


def shift_interval(larger: Sequence[float], smaller: Sequence[float]) -> tuple[float, float] | None:
    """Return the distribution-free confidence interval of the Hodges-Lehmann estimate, or None for small samples.

    The bounds are order statistics of all pairwise differences. The result is the narrowest two-sided interval with a
    level of at least 95 %, or else the widest interval if its level is at least 90 %. The widest interval has a level
    of 90 % for 3 against 3 values and 97.1 % for 4 against 4.

    Source: M. Hollander, D. A. Wolfe, E. Chicken, "Nonparametric Statistical Methods", 3rd edition (2014), section 4.3.
    """
    if 2 * least_p(len(larger), len(smaller)) > 1 - _LEAST_LEVEL:
        return None
    position = max(1, critical_us(len(larger), len(smaller), (1 - _LEVEL) / 2))
    ordered = sorted(above - below for above in larger for below in smaller)
    return ordered[position - 1], ordered[-position]


def _count_below(ways: Sequence[int], bound: Fraction) -> int:
    whole = math.ceil(bound)  # equivalent for whole numbers, and faster to compare than a fraction
    return sum(total < whole for total in itertools.accumulate(ways))


def _count_subsets(groups: Sequence[int], size: int, most: int) -> int:
    """Return the number of subsets of `size` of the ordered values whose doubled U is at most `most`.

    `groups` holds the sizes of the groups of tied values. Choosing `c` of `g` tied values, if `j` of the `n` values
    below them are chosen, adds `2 * c * (n - j)` for the unchosen values below and `c * (g - c)` for the ties. The
    counts by U form one polynomial for each number of chosen values, stored as an integer (Kronecker substitution).
    This is exact and takes a fraction of a second for 30 against 250 values.
    """
    if most < 0:
        return 0
    step = 1 if max(groups) > 1 else 2  # without ties every doubled U is even
    most //= step
    width = math.comb(sum(groups), size).bit_length() + 1
    kept = (1 << width * (most + 1)) - 1
    by_chosen = [1] + [0] * size
    before = 0
    for group in groups:
        grown = [0] * (size + 1)
        for chosen, polynomial in enumerate(by_chosen[: before + 1]):
            for more in range(min(group, size - chosen) + 1):
                added = more * (2 * (before - chosen) + group - more) // step
                if polynomial and added <= most:
                    grown[chosen + more] += polynomial * math.comb(group, more) << width * added
        by_chosen = [polynomial & kept for polynomial in grown]
        before += group
    # Sum of the digits in base 2**width, which is below 2**width - 1 (casting out nines).
    return by_chosen[size] % ((1 << width) - 1)
