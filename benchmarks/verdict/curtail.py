"""Errors of a first session that ends early, and of one that fails alone: `python benchmarks/verdict/curtail.py`.

A session of five rounds ends after the third or fourth one if three of them alone are within the tolerance, and the
rounds so far pass. The table compares that with five rounds each time: log-normal noise with the given standard
deviations within and between sessions, as in `simulate.py`.

*Clear* sessions fail without confirmation if the time budget is over: each round is worse than twice the tolerance and
the noise.
"""

from __future__ import annotations

import argparse
import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

ROUNDS, MOST = 5, 3
_TOLERANCE = 0.10
_NOISES = ((0.03, 0.05), (0.06, 0.065), (0.10, 0.10))
_SLOWDOWNS = (0.0, 0.10, 0.25, 0.50)


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=20_000)
    runs = options.parse_args().runs
    print("| sessions | noise | slowdown | suspect by 5 rounds | suspect | missed (95 %) | mean rounds | clear |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for sessions in (1, 3, 5):
        for within, between in _NOISES:
            for slowdown in _SLOWDOWNS:
                full, curtailed, rounds, clear = _simulated(runs, sessions, within, between, slowdown)
                low, high = _wilson(int((full & ~curtailed).sum()), runs)
                print(
                    f"| {sessions} | {within:.0%} / {between:.1%} | {slowdown:.0%} | {full.mean():.2%} | "
                    f"{curtailed.mean():.2%} | {low:.2%} to {high:.2%} | {rounds.mean():.2f} | {clear.mean():.3%} |"
                )


def _simulated(
    runs: int, sessions: int, within: float, between: float, slowdown: float
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return, for each run: suspect by all rounds; suspect if it may end early; its number of rounds; clear.

    A baseline of one session ends no session early.
    """
    source = np.random.default_rng(20_261_123)
    noise = source.normal(0, between, (runs, sessions, 1)) + source.normal(0, within, (runs, sessions, ROUNDS))
    baseline = noise.reshape(runs, -1)
    current = math.log1p(slowdown) + source.normal(0, between, (runs, 1)) + source.normal(0, within, (runs, ROUNDS))
    tolerance = -math.log1p(-_TOLERANCE)
    inside = current - np.median(baseline, axis=1, keepdims=True) <= tolerance
    full, ended = _shift(current, baseline) > tolerance, np.zeros(runs, dtype=bool)
    rounds = np.full(runs, float(ROUNDS))
    for number in range(MOST, ROUNDS) if sessions > 1 else ():
        ends = inside[:, :number].sum(axis=1) >= MOST
        ends &= (_shift(current[:, :number], baseline) <= tolerance) & ~ended
        rounds[ends] = number
        ended |= ends
    spread = np.maximum(
        current.std(axis=1, ddof=1), np.median(noise, axis=2).std(axis=1, ddof=1) if sessions > 1 else 0
    )
    clear = current.min(axis=1) > np.median(baseline, axis=1) + 2 * tolerance + spread
    return full, full & ~ended, rounds, clear


def _shift(current: npt.NDArray[np.float64], baseline: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the Hodges-Lehmann shift of each run."""
    differences = current[:, :, None] - baseline[:, None, :]
    return np.asarray(np.median(differences.reshape(len(current), -1), axis=1))


def _wilson(hits: int, runs: int) -> tuple[float, float]:
    """Return the interval of a share (E. B. Wilson, 1927)."""
    z, share = NormalDist().inv_cdf(0.975), hits / runs
    middle, width = share + z * z / (2 * runs), z * math.sqrt(share * (1 - share) / runs + (z / (2 * runs)) ** 2)
    return (middle - width) / (1 + z * z / runs), (middle + width) / (1 + z * z / runs)


if __name__ == "__main__":
    main()
