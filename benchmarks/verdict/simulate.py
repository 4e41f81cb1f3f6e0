"""Errors of the rule on simulated noise, and what it finds, as Markdown: `python benchmarks/verdict/simulate.py`.

The first table compares with a stored baseline: the noise is log-normal with a given standard deviation within and
between sessions; there are 5 rounds a session and one threshold. The second compares with a reference: its noise is the
standard deviation of the sessions' differences, normal or heavy-tailed, and *found* is the share of tests that fail
although, or because, the throughput changed by so much. It takes a minute; the random draws are the same in every run.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kafkaperf.verdict.power import Noise, detectable

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.simulated_rounds import ALPHA, Setting, rates
from tests.support.simulated_sessions import differences, judged

if TYPE_CHECKING:
    from collections.abc import Iterator

NOISES = ((0.03, 0.05), (0.06, 0.065), (0.10, 0.10))
"""Standard deviations within and between sessions: quiet, as measured for the throughput of fresh brokers, noisy."""
TOLERANCES = (0.05, 0.10, 0.20)
BASELINES = (1, 3, 5, 10)
ROUNDS = 5
RUNS = 20_000
WORSE = (0.25, 0.50)

COLUMNS = (
    "tolerance",
    "noise",
    "false alarms",
    "+25 % found",
    "+50 % found",
    "suspect",
    "fresh sessions",
    "detectable",
)

REFERENCE_TOLERANCES = (0.03, 0.10)
DEVIATIONS = (0.04, 0.06, 0.08, 0.10)
CHANGES = (-0.10, -0.15, -0.20)
REFERENCE_COLUMNS = (
    "threshold",
    "noise",
    "no change fails",
    "the tolerance fails",
    *(f"{100 * change:g} % found" for change in CHANGES),
    "no change undecided",
    "sessions at no change",
    f"at {100 * CHANGES[0]:g} %",
)


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS, help="simulated tests for each row")
    runs = parser.parse_args().runs
    print(_table(("sessions", *COLUMNS), _rows(runs)))
    print(_table(REFERENCE_COLUMNS, _reference_rows(runs)))
    return 0


def _rows(runs: int) -> Iterator[tuple[str, ...]]:
    for baseline in BASELINES:
        for tolerance in TOLERANCES:
            for within, between in NOISES:
                shown = f"{baseline}", f"{100 * tolerance:g} %", f"{100 * within:g} / {100 * between:g} %"
                yield *shown, *_row(baseline, tolerance, within, between, runs)


def _row(baseline: int, tolerance: float, within: float, between: float, runs: int) -> Iterator[str]:
    def rated(worse: float) -> Setting:
        return Setting(
            within=within,
            between=between,
            tolerance=math.log1p(tolerance),
            worse=math.log1p(worse),
            baseline=baseline,
            rounds=ROUNDS,
        )

    unchanged = rates(rated(0), runs=runs)
    yield f"{100 * unchanged.failed:.2f} %"
    yield from (f"{100 * rates(rated(worse), runs=runs).failed:.0f} %" for worse in WORSE)
    yield f"{100 * unchanged.suspect:.0f} %"
    yield f"{unchanged.fresh:.2f}"
    least = detectable(
        Noise(within=within, between=between, sessions=baseline, assumed=False),
        tolerance=math.log1p(tolerance),
        rounds=ROUNDS,
        baseline=[ROUNDS] * baseline,
        confirmed=True,
        alpha=ALPHA,
    )
    yield f"+{100 * math.expm1(least):.0f} %"


def _reference_rows(runs: int) -> Iterator[tuple[str, ...]]:
    for tolerance in REFERENCE_TOLERANCES:
        for noise in ("normal", "heavy-tailed"):
            for deviation in DEVIATIONS:
                unchanged = differences(runs=runs, deviation=deviation, noise=noise)
                found = [
                    judged(unchanged - math.log1p(change), tolerance=-math.log1p(-tolerance), alpha=float(ALPHA))
                    for change in (0.0, -tolerance, *CHANGES)
                ]
                yield (
                    f"-{100 * tolerance:g} %",
                    f"{100 * deviation:g} %, {noise}",
                    f"{100 * found[0].share('regressed'):.2f} %",
                    f"{100 * found[1].share('regressed'):.2f} %",
                    *(f"{100 * each.share('regressed'):.1f} %" for each in found[2:]),
                    f"{100 * found[0].share('open'):.1f} %",
                    f"{found[0].sessions.mean():.1f}",
                    f"{found[2].sessions.mean():.1f}",
                )


def _table(columns: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [columns, ("---",) * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    raise SystemExit(main())
