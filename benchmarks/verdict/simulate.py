"""Errors of the rules on simulated noise, and what they find: `python benchmarks/verdict/simulate.py`.

It writes the tables of `benchmarks/simulations.md` and their plot again, in about 5 minutes. The random draws
are the same in every run.

- Against a stored baseline: log-normal noise of days, trials and rounds, of which the trials of a day share the
  first; 5 rounds a trial and one threshold.
- Against a live baseline: the noise is that of the trials' differences, normal, heavy-tailed, or with disturbed trials;
  four pairs of rounds in each trial predict its variance.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import re
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np

from pytest_kafkaperf.runner.round_length import MOST_PAIRS
from pytest_kafkaperf.verdict.days import LEVEL
from pytest_kafkaperf.verdict.regression import ALPHA
from pytest_kafkaperf.verdict.scale import Difference, pseudomedian
from pytest_kafkaperf.verdict.sequential import is_precise, look

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.simulated_rounds import Setting, achieved_power, drawn, first_trials, judged_by_rule
from tests.support.simulated_trials import Noise, cleared_after, differences, judged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
PAGE, PLOT = ROOT / "benchmarks" / "simulations.md", ROOT / "docs" / "pictures" / "power.svg"
RUNS = 20_000
BASELINES, FUTURES = 300, 60
"""Simulated baselines for the power at the change that each says to detect, and tests against each of them."""

OF_DAYS = (0.0, 0.05, 0.08, 0.13)
DAYS = (1, 3, 5, 10)
NOISES = ((0.01, 0.01), (0.03, 0.05), (0.06, 0.065), (0.10, 0.10))
"""Standard deviations of rounds and of trials: a load at a rate on an idle machine, quiet, as measured for the
throughput of fresh brokers, noisy."""
STEADY = (0.003, 0.01, 0.02)
"""Standard deviations of rounds that agree better than trials do."""
TOLERANCES = (0.05, 0.10, 0.20)
WORSE = (0.25, 0.50)
CORRELATIONS = (0.9, 0.3)
"""Of trials one and ten minutes apart on a machine whose state changes within 8 minutes, as measured once."""

SIDE_BY_SIDE_TOLERANCES = (0.03, 0.10)
DEVIATIONS = (0.02, 0.04, 0.06, 0.08, 0.10)
CHANGES = (-0.10, -0.15, -0.20)
RESTARTS = (1, 1.5, 4, 9, 25)
"""Variance of trials, as a multiple of the one that their pairs of rounds predict."""

_PAIRS = 4
_TRIAL_S, _PAIR_S = 60.0, 2.6
"""Time for the restart and the warm-up of two brokers with all compilers, and for a pair of rounds of 1 s."""

Row = tuple[str, ...]


def main() -> int:
    """Write the tables and the plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS, help="simulated tests for each row")
    runs = parser.parse_args().runs
    page = PAGE.read_text(encoding="utf-8")
    powers: dict[int, list[float]] = {}
    coverages: dict[int, list[float]] = {}
    tables: dict[str, Callable[[], Iterator[Row]]] = {
        "days": lambda: _by_days(runs, coverages),
        "noise": lambda: _by_noise(runs),
        "steady": lambda: _steady_rounds(runs),
        "external": lambda: _external(runs),
        "first": lambda: _first_trials(runs),
        "power": lambda: _powers(powers),
        "side-by-side": lambda: _side_by_side(runs),
        "restarts": lambda: _restarts(runs),
        "pairs": lambda: _more_pairs(runs // 20),
        "slower": lambda: _known_slower(runs),
    }
    for name, rows in tables.items():
        head, *others = rows()
        lines = [head, ("---",) * len(head), *others]
        table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
        print(table, flush=True)
        page, found = re.subn(
            rf"(<!-- table: {name} -->\n).*?(?=<!-- end -->)", rf"\g<1>{table}", page, flags=re.DOTALL
        )
        if not found:
            raise SystemExit(f"{PAGE} has no table {name!r}")
    PAGE.write_text(page, encoding="utf-8")
    PLOT.write_text(_plot(powers, coverages), encoding="utf-8")
    return 0


_HEAD = ("fails", "undecided", "suspected", "fresh trials", "interval holds", "+25% found", "+50% found")


def _by_days(runs: int, coverages: dict[int, list[float]]) -> Iterator[Row]:
    yield "days", "SD of days", *_HEAD
    for days in DAYS:
        for of_days in OF_DAYS:
            setting = _setting(days=days, of_days=of_days)
            yield str(days), f"{100 * of_days:g}%", *_row(setting, runs)
            covered = judged_by_rule(drawn(setting, runs=runs), setting).covered
            coverages.setdefault(days, []).append(float(covered.mean()))


def _by_noise(runs: int) -> Iterator[Row]:
    yield "tolerance", "noise", *_HEAD
    for tolerance in TOLERANCES:
        for of_rounds, of_trials in NOISES:
            setting = _setting(days=5, of_rounds=of_rounds, of_trials=of_trials, tolerance=math.log1p(tolerance))
            yield f"{100 * tolerance:g}%", f"{100 * of_rounds:g} / {100 * of_trials:g}%", *_row(setting, runs)


def _steady_rounds(runs: int) -> Iterator[Row]:
    """The rule assumes that trials are as noisy as their rounds until it has seen several."""
    yield "days", "noise", *_HEAD
    for days in DAYS:
        for of_rounds in STEADY:
            setting = _setting(days=days, of_rounds=of_rounds, of_trials=0.05)
            yield str(days), f"{100 * of_rounds:g} / 5%", *_row(setting, runs)


def _external(runs: int) -> Iterator[Row]:
    """Nothing restarts, so trials that follow each other share part of their noise as well."""
    yield "days", "correlation of trials", *_HEAD
    for days in DAYS:
        for correlation in CORRELATIONS:
            shared, own = (0.065 * math.sqrt(ratio) for ratio in (correlation, 1 - correlation))
            setting = _setting(days=days, of_days=math.hypot(0.08, shared), of_trials=own)
            yield str(days), f"{correlation:g}", *_row(setting, runs)


def _first_trials(runs: int) -> Iterator[Row]:
    changes = (0.0, *WORSE, 1.0)
    yield "days", "rounds", *(f"clear at {'no change' if not worse else f'+{100 * worse:.0f}%'}" for worse in changes)
    for days in DAYS:
        setting = _setting(days=days)
        draws = [drawn(setting, runs=runs, worse=math.log1p(worse)) for worse in changes]
        rounds, _ = first_trials(draws[0], setting)
        clear = [first_trials(draw, setting)[1].mean() for draw in draws]
        yield (
            str(days),
            f"{rounds.mean():.1f}",
            f"{100 * clear[0]:.2f}%",
            *(f"{100 * share:.0f}%" for share in clear[1:]),
        )


def _powers(found: dict[int, list[float]]) -> Iterator[Row]:
    """Yield the power at the change that each baseline says to detect; the last column draws the SD from the prior."""
    yield "days", *(f"SD of days {100 * of_days:g}%" for of_days in OF_DAYS), "SD as assumed"
    assumed = 0.08 * np.sqrt(3 / np.random.default_rng(3).chisquare(3, BASELINES))
    for days in DAYS:
        settings = [_setting(days=days, of_days=of_days) for of_days in (*OF_DAYS, assumed)]
        found[days] = [achieved_power(setting, baselines=BASELINES, runs=FUTURES) for setting in settings]
        yield str(days), *(f"{100 * power:.0f}%" for power in found[days])


def _setting(**fields: object) -> Setting:
    usual = Setting(of_days=0.08, of_trials=0.065, of_rounds=0.06, tolerance=math.log1p(0.1), days=5)
    return dataclasses.replace(usual, **fields)  # type: ignore[arg-type]


def _row(setting: Setting, runs: int) -> Iterator[str]:
    unchanged = judged_by_rule(drawn(setting, runs=runs), setting)
    yield f"{100 * unchanged.failed.mean():.2f}%"
    yield f"{100 * unchanged.unexplained.mean():.0f}%"
    yield f"{100 * unchanged.suspected.mean():.0f}%"
    yield f"{unchanged.fresh.mean():.2f}"
    yield f"{100 * unchanged.covered.mean():.1f}%"
    for worse in WORSE:
        found = judged_by_rule(drawn(setting, runs=runs, worse=math.log1p(worse)), setting)
        yield f"{100 * found.failed.mean():.0f}%"


def _side_by_side(runs: int) -> Iterator[Row]:
    yield (
        "threshold",
        "noise",
        "no change fails",
        "the tolerance fails",
        *(f"{100 * change:g}% found" for change in CHANGES),
        "no change undecided",
        "trials at no change",
        f"at {100 * CHANGES[0]:g}%",
    )
    for tolerance in SIDE_BY_SIDE_TOLERANCES:
        for noise in get_args(Noise):
            for deviation in DEVIATIONS:
                unchanged = differences(runs=runs, deviation=deviation, noise=noise)
                found = [
                    judged(unchanged + -math.log1p(change), tolerance=-math.log1p(-tolerance), alpha=ALPHA)
                    for change in (0.0, -tolerance, *CHANGES)
                ]
                yield (
                    f"-{100 * tolerance:g}%",
                    f"{100 * deviation:g}%, {noise}",
                    f"{100 * found[0].share('regressed'):.2f}%",
                    f"{100 * found[1].share('regressed'):.2f}%",
                    *(f"{100 * each.share('regressed'):.1f}%" for each in found[2:]),
                    f"{100 * found[0].share('open'):.1f}%",
                    f"{found[0].trials.mean():.1f}",
                    f"{found[2].trials.mean():.1f}",
                )


def _restarts(runs: int) -> Iterator[Row]:
    """Yield the errors if restarts add another amount of noise than the rule expects."""
    yield (
        "variance",
        "noise",
        "no change fails",
        "the tolerance fails",
        "-10% found",
        "trials at no change",
        "at -10%",
    )
    for restarts in RESTARTS:
        for deviation in (0.02, 0.05, 0.08):
            unchanged = differences(runs=runs, deviation=deviation, restarts=restarts)
            same, tolerated, slower = (
                judged(unchanged + -math.log1p(change), tolerance=-math.log1p(-0.03), alpha=ALPHA)
                for change in (0.0, -0.03, -0.10)
            )
            yield (
                f"{restarts:g} times",
                f"{100 * deviation:g}%",
                f"{100 * same.share('regressed'):.2f}%",
                f"{100 * tolerated.share('regressed'):.2f}%",
                f"{100 * slower.share('regressed'):.1f}%",
                f"{same.trials.mean():.1f}",
                f"{slower.trials.mean():.1f}",
            )


def _more_pairs(runs: int) -> Iterator[Row]:
    """Yield the errors and the time if noisy trials get more than four pairs of rounds, after a long warm-up."""
    yield (
        "noise of a pair",
        "of restarts",
        "pairs",
        "no change fails",
        "the tolerance fails",
        "-10% found",
        "seconds at no change",
        "at -10%",
    )
    for noise in (0.03, 0.10, 0.15):
        for restarts in (0.0, noise / 3, noise):
            for most in (_PAIRS, MOST_PAIRS):
                random = np.random.default_rng(20_261_129)
                same, tolerated, slower = (
                    [_verdict(random, -math.log1p(change), noise, restarts, most) for _ in range(runs)]
                    for change in (0.0, -0.03, -0.10)
                )
                yield (
                    f"{100 * noise:g}%",
                    f"{100 * restarts:.2g}%",
                    f"{most}" if most == _PAIRS else f"{_PAIRS} to {most}",
                    *(f"{100 * _failed(each):.1f}%" for each in (same, tolerated, slower)),
                    *(f"{statistics.median(seconds for _, seconds in each):.0f}" for each in (same, slower)),
                )


def _failed(verdicts: Sequence[tuple[str, float]]) -> float:
    return statistics.mean(decision == "regressed" for decision, _ in verdicts)


def _verdict(random: np.random.Generator, worse: float, noise: float, restarts: float, most: int) -> tuple[str, float]:
    """Simulate one test, pair by pair; return its decision and its time in seconds."""
    tolerance, found, took_s = -math.log1p(-0.03), list[Difference](), 0.0
    while True:
        pairs = worse + restarts * random.standard_normal() + noise * random.standard_normal(most)
        for number in range(_PAIRS, most + 1, 2):
            some = pairs[:number].tolist()
            trial = Difference(pseudomedian(some), statistics.variance(some) / number, number - 1)
            if is_precise(trial, tolerance=tolerance, alpha=ALPHA):
                break
        found.append(trial)
        took_s += _TRIAL_S + number * _PAIR_S
        last = look(found, tolerance=tolerance, alpha=ALPHA)
        if last.settled:
            return last.decision, took_s


def _known_slower(runs: int) -> Iterator[Row]:
    """Yield what happens to suspected regressions when both sides are known to be slower: the mean clears them."""
    changes = (0.0, *CHANGES, -0.30)
    yield "noise", *(f"{100 * abs(change):g}% slower fails" for change in changes), "trials at no change"
    for deviation in (*DEVIATIONS, 0.2):
        unchanged, tolerance = differences(runs=runs, deviation=deviation), -math.log1p(-0.1)
        cells, trials = [], []
        for change in changes:
            drawn_now = unchanged + -math.log1p(change)
            found, cleared = judged(drawn_now, tolerance=tolerance, alpha=ALPHA), cleared_after(drawn_now, tolerance)
            fails = (found.decisions == "regressed") & (found.trials <= cleared)
            cells.append(f"{100 * fails.mean():.{2 if change == 0 else 0}f}%")
            trials.append(np.minimum(found.trials, cleared).mean())
        yield f"{100 * deviation:g}%", *cells, f"{trials[0]:.1f}"


_WIDTH, _HEIGHT = 300, 220
_COLOURS = ("#c0392b", "#e67e22", "#2980b9", "#27ae60")


def _plot(powers: dict[int, list[float]], coverages: dict[int, list[float]]) -> str:
    """Return an SVG of what was achieved over the standard deviation of days, with a line for each number of days."""
    panels = (
        _panel(powers, 0.8, "found at the detectable change"),
        _panel(coverages, LEVEL, "true change in the interval"),
    )
    body = "".join(
        f'<g transform="translate({50 + place * (_WIDTH + 50)} 30)">\n{panel}\n</g>\n'
        for place, panel in enumerate(panels)
    )
    for place, (colour, days) in enumerate(zip(_COLOURS, DAYS, strict=True)):
        body += f'<text x="{60 + 90 * place}" y="{_HEIGHT + 85}" fill="{colour}">days: {days}</text>\n'
    body += f'<text x="{60 + 90 * len(DAYS)}" y="{_HEIGHT + 85}">dashed: promised; below: SD of days</text>\n'
    size = f'viewBox="0 0 {2 * _WIDTH + 120} {_HEIGHT + 100}" font-family="sans-serif" font-size="12"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<rect width="100%" height="100%" fill="#fff"/>'
    return f"{head}\n{body}</svg>\n"


def _panel(found: dict[int, list[float]], promised: float, title: str) -> str:
    def point(of_days: float, share: float) -> tuple[float, float]:
        return of_days / OF_DAYS[-1] * _WIDTH, _HEIGHT * (1 - share) * 2

    parts = [f'<text y="-10">{title}</text>']
    for share in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
        _, y = point(0, share)
        parts.append(f'<line x2="{_WIDTH}" y1="{y:.0f}" y2="{y:.0f}" stroke="#ddd"/>')
        parts.append(f'<text x="-8" y="{y + 4:.0f}" text-anchor="end">{100 * share:.0f}%</text>')
    _, y = point(0, promised)
    parts.append(f'<line x2="{_WIDTH}" y1="{y:.0f}" y2="{y:.0f}" stroke="#333" stroke-dasharray="5 4"/>')
    for of_days in OF_DAYS:
        x, _ = point(of_days, 0)
        parts.append(f'<text x="{x:.0f}" y="{_HEIGHT + 20}" text-anchor="middle">{100 * of_days:g}%</text>')
    for colour, shares in zip(_COLOURS, found.values(), strict=True):
        # The last power is that of noise as assumed, which has no place on the axis.
        places = [point(of_days, share) for of_days, share in zip(OF_DAYS, shares, strict=False)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
    return "\n".join(parts)


if __name__ == "__main__":
    raise SystemExit(main())
