"""Errors of the rule on simulated noise, and what it finds, as Markdown: `python benchmarks/verdict/simulate.py`.

The noise is log-normal with a given standard deviation within and between sessions; there are 5 rounds a session and
one threshold. The first table compares with a stored baseline. The second pairs each round with one on a reference
cluster that has its own noise of the same size. Disturbances that affect both clusters are in neither table, because
they cancel out. It takes half a minute; the random draws are the same in every run.
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


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS, help="simulated tests for each row")
    runs = parser.parse_args().runs
    print(_table(("sessions", *COLUMNS), _rows(BASELINES, runs)))
    print(_table(COLUMNS, (row[1:] for row in _rows((None,), runs))))
    return 0


def _rows(baselines: tuple[int | None, ...], runs: int) -> Iterator[tuple[str, ...]]:
    for baseline in baselines:
        for tolerance in TOLERANCES:
            for within, between in NOISES:
                shown = f"{baseline}", f"{100 * tolerance:g} %", f"{100 * within:g} / {100 * between:g} %"
                yield *shown, *_row(baseline, tolerance, within, between, runs)


def _row(baseline: int | None, tolerance: float, within: float, between: float, runs: int) -> Iterator[str]:
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
    both = math.sqrt(2) if baseline is None else 1.0
    least = detectable(
        Noise(within=both * within, between=both * between, sessions=baseline or 1, assumed=False),
        tolerance=math.log1p(tolerance),
        rounds=ROUNDS,
        baseline=None if baseline is None else [ROUNDS] * baseline,
        confirmed=True,
        alpha=ALPHA,
    )
    yield f"+{100 * math.expm1(least):.0f} %"


def _table(columns: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [columns, ("---",) * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    raise SystemExit(main())
