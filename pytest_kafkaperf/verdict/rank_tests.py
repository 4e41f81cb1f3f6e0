"""Rank statistics: by how much one sample lies above another, or pairs above zero, and whether beyond noise. Exact.

Sources: H. B. Mann, D. R. Whitney, "On a test of whether one of two random variables is stochastically larger than
the other", Annals of Mathematical Statistics 18 (1947); F. Wilcoxon, "Individual comparisons by ranking methods",
Biometrics Bulletin 1 (1945); J. L. Hodges, E. L. Lehmann, "Estimates of location based on rank tests", Annals of
Mathematical Statistics 34 (1963).
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
"""Values on a log scale that are closer than this are equal: log() rounds, and a tie must stay one when a tolerance is
taken off."""


def hodges_lehmann(larger: Sequence[float], smaller: Sequence[float]) -> float:
    """By how much the first sample lies above the second: the median of all pairwise differences."""
    return statistics.median(above - below for above in larger for below in smaller)


def mann_whitney_p(larger: Sequence[float], smaller: Sequence[float]) -> Fraction:
    """The p of the one-sided test that the first sample lies above the second.

    That is the share of all ways to split the pooled values into samples of these sizes whose U is at least the one
    seen. A tie counts one half (midranks) and the values are pooled as they are, so p is exact with ties, too.
    """
    # Doubled, so that a tie is whole; counted from below, because the tail of interest is short there.
    defects = sum((below > above) * 2 + (below == above) for above in larger for below in smaller)
    counts = Counter(larger) + Counter(smaller)
    groups = [counts[value] for value in sorted(counts)]
    size = len(smaller)
    if len(larger) < size:  # the U of either sample is that of the other, read backwards
        groups, size = groups[::-1], len(larger)
    pairs = len(larger) * len(smaller)
    ways = math.comb(len(larger) + len(smaller), size)
    if defects > pairs:  # the other tail is the shorter one
        return 1 - Fraction(_count_subsets(groups[::-1], size, 2 * pairs - defects - 1), ways)
    return Fraction(_count_subsets(groups, size, defects), ways)


def ranked(*samples: Sequence[float]) -> list[list[int]]:
    """The order of all values, equal ones sharing a place."""
    places: dict[float, int] = {}
    before = -math.inf
    for value in sorted({value for sample in samples for value in sample}):
        places[value] = len(places) if value - before > SAME else places[before]
        before = value
    return [[places[value] for value in sample] for sample in samples]


def least_p(first: int, second: int) -> Fraction:
    """The p of complete separation: samples of these sizes cannot give a smaller one."""
    return Fraction(1, math.comb(first + second, first))


def pseudomedian(differences: Sequence[float]) -> float:
    """By how much paired differences lie above zero: the median of the means of all pairs of them, each with itself."""
    return statistics.median(
        (first + second) / 2 for first, second in itertools.combinations_with_replacement(differences, 2)
    )


def signed_rank_p(differences: Sequence[float]) -> Fraction:
    """The p of the one-sided test that paired differences lie above zero.

    That is the share of all ways to give the differences signs whose sum of positive ranks is at least the one seen.
    Those of equal size share a rank (midranks), and those that are zero say nothing and are left out: p is exact.
    """
    sized = [value for value in differences if abs(value) > SAME]
    (places,) = ranked([abs(value) for value in sized])
    counts = Counter(places)
    below = dict(
        zip(sorted(counts), itertools.accumulate((counts[place] for place in sorted(counts)), initial=0), strict=False)
    )
    # Doubled, so that a midrank is whole: of the places below + 1 to below + count.
    doubled = [2 * below[place] + counts[place] + 1 for place in places]
    seen = sum(rank for rank, value in zip(doubled, sized, strict=True) if value > 0)
    ways = [1] + [0] * sum(doubled)
    for rank in doubled:
        ways = [way + (ways[total - rank] if total >= rank else 0) for total, way in enumerate(ways)]
    return Fraction(sum(ways[seen:]), 2 ** len(sized))


def least_signed_p(pairs: int) -> Fraction:
    """The p where all differences lie on one side: that many pairs cannot give a smaller one."""
    return Fraction(1, 2**pairs)


@functools.cache
def critical_us(current: int, baseline: int, alpha: Fraction) -> int:
    """The size of the critical region: how many values of U, from the largest down, have an exact p below `alpha`.

    The counts of splits by U are the coefficients of the Gaussian binomial.
    """
    most = current * baseline // 2
    ways = [1] + [0] * most
    for size in range(1, current + 1):
        for place in range(most, baseline + size - 1, -1):
            ways[place] -= ways[place - baseline - size]
        for place in range(size, most + 1):
            ways[place] += ways[place - size]
    return _below(ways, alpha * math.comb(current + baseline, current))


@functools.cache
def critical_rank_sums(pairs: int, alpha: Fraction) -> int:
    """The same of the sum of positive ranks.

    The counts of signs by it are those of sets of ranks with that sum.
    """
    most = pairs * (pairs + 1) // 4
    ways = [1] + [0] * most
    for rank in range(1, pairs + 1):
        for place in range(most, rank - 1, -1):
            ways[place] += ways[place - rank]
    return _below(ways, alpha * 2**pairs)


_LEVEL = Fraction(95, 100)
"""How often an interval holds the true shift."""
_LEAST_LEVEL = Fraction(90, 100)
"""Of the widest interval that there is of few values: less says too little."""


def shift_interval(larger: Sequence[float], smaller: Sequence[float]) -> tuple[float, float] | None:
    """Between what the shift of the first sample over the second lies, whatever the noise is like.

    The two-sided confidence interval of the Hodges-Lehmann shift, from the order statistics of all pairwise
    differences: the narrowest whose level is 95 % or more, or else the widest that there is where its level is 90 %
    or more. None of so few values that it would be less: 3 against 3 have 90 %, 4 against 4 have 97.1 %.

    Source: M. Hollander, D. A. Wolfe, E. Chicken, "Nonparametric Statistical Methods", 3rd edition (2014), section 4.3.
    """
    if 2 * least_p(len(larger), len(smaller)) > 1 - _LEAST_LEVEL:
        return None
    left_out = max(1, critical_us(len(larger), len(smaller), (1 - _LEVEL) / 2))
    return _between(sorted(above - below for above in larger for below in smaller), left_out)


def pairs_interval(differences: Sequence[float]) -> tuple[float, float] | None:
    """The same of paired differences, from the order statistics of the means of all pairs of them (section 3.3 there).

    None of fewer than 5: those have 93.75 %, 6 have 96.9 %. Differences are taken to lie evenly around their middle.
    """
    if 2 * least_signed_p(len(differences)) > 1 - _LEAST_LEVEL:
        return None
    left_out = max(1, critical_rank_sums(len(differences), (1 - _LEVEL) / 2))
    means = sorted((first + second) / 2 for first, second in itertools.combinations_with_replacement(differences, 2))
    return _between(means, left_out)


def _between(ordered: Sequence[float], left_out: int) -> tuple[float, float]:
    """Leave out one value less than that at either end."""
    return ordered[left_out - 1], ordered[-left_out]


def _below(ways: Sequence[int], bound: Fraction) -> int:
    whole = math.ceil(bound)  # the same for whole numbers, and quick to compare with
    return sum(total < whole for total in itertools.accumulate(ways))


def _count_subsets(groups: Sequence[int], size: int, most: int) -> int:
    """How many subsets of `size` of the ordered values have a doubled U of at most `most`.

    `groups` are the sizes of the groups of tied values. Choosing `c` of `g` tied values, when `j` of the `n` values
    before them are chosen, adds `2 * c * (n - j)` for the unchosen ones below and `c * (g - c)` for the ties. The
    counts by U are one polynomial for each number chosen, kept as one integer (Kronecker substitution): exact, and
    a fraction of a second for 30 against 250 values.
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
    # The sum of the digits to base 2**width, which is below 2**width - 1: casting out.
    return by_chosen[size] % ((1 << width) - 1)
