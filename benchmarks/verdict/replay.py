"""Tables from the trials of `starts.py` and of the runs of `runs.py` against a live baseline: `python replay.py`.

- Noise: standard deviations of the log: of single pairs of rounds, of the differences of trials by which the rule
  decides, and of what the start of the brokers adds to the mean of the pairs; the ratio of the variance between trials
  to the one that their pairs predict; the mean difference with its 95% interval, also by the side that came first.
- Verdicts: the rule of `verdict.sequential` on the trials in their order, from each trial on, until it decides;
  blocks overlap, so the interval is that of as many independent blocks as fit into the trials.
- Power: the same with equal sides, if each trial were worse by a constant.
- Verdicts after one trial, over all trials with equal sides: how many would pass, and how many would also pass if they
  were worse by the target, so that a single trial would hide the change.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import statistics
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runs import RUNS
from starts import METRICS, STARTS
from whole_runs import recorded

from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.core.units import format_percent, format_ratio
from pytest_kafkaperf.verdict.scale import Difference, Measured, change_of, difference, logs
from pytest_kafkaperf.verdict.sequential import MARGIN, MOST_TRIALS, Look, look
from pytest_kafkaperf.verdict.student import student_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

TOLERANCE = -math.log(1 - 0.03)
ALPHA = 0.01
_CHANGES = (0.0, 0.05, 0.1, 0.15, 0.25)
_FEWEST = 3
"""Values below which their deviation says nothing."""
_Z = statistics.NormalDist().inv_cdf(0.975)


def main() -> None:
    """Print the tables as Markdown."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--starts", type=Path, default=STARTS, help="file of the trials")
    options.add_argument("--runs", type=Path, default=RUNS, help="file of the runs")
    options.add_argument("--since", default="", metavar="DATE", help="leave out earlier trials, for example 2026-11-29")
    given = options.parse_args()
    arms = _arms(given.starts, given.runs, since=given.since)
    print(
        "| trials of | metric | trials | pair | trial | start | ratio | mean | candidate first | live baseline first |"
    )
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for arm, trials in sorted(arms.items()):
        for metric in METRICS:
            if metric in trials[0]["rounds"][0]:
                print(f"| {arm} | {metric} | {' | '.join(_noise(metric, trials))} |")
    print("\n| trials of | metric | true change | blocks | regressed | equal | open | improved | trials | seconds |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for arm, trials in sorted(arms.items()):
        for metric in METRICS:
            if metric in trials[0]["rounds"][0] and len(trials) >= MOST_TRIALS // 2:
                print(f"| {arm} | {metric} | {' | '.join(_verdicts(metric, trials))} |")
    print(f"\n| trials of | metric | trials | {' | '.join(f'{ratio:+.0%}' for ratio in _CHANGES)} |")
    print(f"|---|---|--:|{'--:|' * len(_CHANGES)}")
    for arm, trials in sorted(arms.items()):
        for metric in METRICS:
            if _is_equal(arm) and metric in trials[0]["rounds"][0] and len(trials) >= MOST_TRIALS // 2:
                print(f"| {arm} | {metric} | {len(trials)} | {' | '.join(_power(metric, trials))} |")
    print("\n| metric | trials | a tolerance of 3% passes | a tolerance of 10% passes | a change is hidden |")
    print("|---|--:|--:|--:|--:|")
    for metric in METRICS:
        loads = [arm for arm in arms if _is_equal(arm) and not (metric == "produce.throughput" and "paced" in arm)]
        equal_sides = [trial for arm in loads for trial in arms[arm] if metric in trial["rounds"][0]]
        if found := _differences(metric, equal_sides):
            print(f"| {metric} | {len(found)} | {' | '.join(_after_one(found))} |")


def _is_equal(arm: str) -> bool:
    return "none" in arm or arm.startswith("equal")


def _arms(starts: Path, runs: Path, *, since: str) -> dict[str, list[dict[str, Any]]]:
    """Return the trials of each arm, and of each test of runs against a live baseline."""
    arms: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for trial in recorded(starts):
        if not trial["problems"] and trial["at"] >= since:
            arms[trial["arm"]].append(trial)
    for run in (each for each in recorded(runs) if each["at"] >= since):
        count = sum(test["trials"] for test in run["tests"])
        for test in run["tests"]:
            for number, trial in enumerate(one for one in test["measured"] if one["other_side"]):
                place = {"first": number % 2, "seconds": run["seconds"] / count}
                arms[f"{run['phase']}, {test['name']}"].append({**trial, **place})
    return arms


def _differences(metric: str, trials: Sequence[dict[str, Any]]) -> list[Difference]:
    found = [
        difference(CATALOGUE[metric], Measured(rounds=one["rounds"], other_side=one["other_side"])) for one in trials
    ]
    return [each for each in found if isinstance(each, Difference)]


def _noise(metric: str, trials: Sequence[dict[str, Any]]) -> list[str]:
    subject = CATALOGUE[metric]
    groups = [
        [
            ours - theirs
            for ours, theirs in zip(logs(subject, one["rounds"]), logs(subject, one["other_side"]), strict=True)
        ]
        for one in trials
    ]
    pair = math.sqrt(statistics.fmean(statistics.variance(group) for group in groups))
    means = [statistics.fmean(group) for group in groups]
    if len(means) < _FEWEST:
        return [str(len(trials)), format_percent(pair), *["-"] * 6]
    trial = statistics.stdev(one.value for one in _differences(metric, trials))
    predicted = pair**2 / statistics.fmean(map(len, groups))
    start = math.sqrt(max(0.0, statistics.variance(means) - predicted))
    halves = [[mean for mean, one in zip(means, trials, strict=True) if one["first"] == first] for first in (0, 1)]
    return [
        str(len(trials)),
        *map(format_percent, (pair, trial, start)),
        f"{trial**2 / predicted:.2f}",
        *(_mean(metric, values) for values in (means, *halves)),
    ]


def _mean(metric: str, values: Sequence[float]) -> str:
    """Return the mean as a change of the metric, with its 95% interval."""
    if len(values) < _FEWEST:
        return "-"
    half = student_quantile(0.025, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    subject, mean = CATALOGUE[metric], statistics.fmean(values)
    low, high = sorted(change_of(subject, end) for end in (mean - half, mean + half))
    return f"{format_ratio(change_of(subject, mean))} ({format_ratio(low)} to {format_ratio(high)})"


def _verdicts(metric: str, trials: Sequence[dict[str, Any]]) -> list[str]:
    found = _differences(metric, trials)
    looks = _replayed(found)
    decisions = Counter(one.decision for one in looks)
    independent = _independent(looks)
    return [
        _mean(metric, [one.value for one in found]),
        str(independent),
        *(share(decisions[name] / len(looks), independent) for name in ("regressed", "equal", "open", "improved")),
        f"{statistics.median(one.trials for one in looks):.0f}",
        f"{statistics.median(_seconds(looks, trials)):.0f}",
    ]


def _power(metric: str, trials: Sequence[dict[str, Any]]) -> list[str]:
    """Return the share of regressions if the metric of equal sides were worse by a constant, for each change."""
    unchanged = _differences(metric, trials)
    cells = []
    for ratio in _CHANGES:
        change = -math.log(1 - ratio) if CATALOGUE[metric].better == "higher" else math.log(1 + ratio)
        looks = _replayed([dataclasses.replace(one, value=one.value + change) for one in unchanged])
        found = sum(one.decision == "regressed" for one in looks) / len(looks)
        cells.append(f"{share(found, _independent(looks))}, {statistics.median(_seconds(looks, trials)):.0f} s")
    return cells


def _after_one(differences: Sequence[Difference]) -> list[str]:
    """Return the share that one trial clears, for both tolerances, and clears although it is worse by the target."""
    cells = []
    for tolerance, worse in ((TOLERANCE, 0.0), (-math.log(1 - 0.10), 0.0), (TOLERANCE, TOLERANCE + MARGIN)):
        moved = [dataclasses.replace(one, value=one.value + worse) for one in differences]
        passed = sum(look([one], tolerance=tolerance, alpha=ALPHA).decision == "equal" for one in moved)
        cells.append(share(passed / len(moved), len(moved)))
    return cells


def _replayed(differences: Sequence[Difference]) -> list[Look]:
    """Return the last look from each trial on; after the last trial comes the first."""
    found = []
    for begin in range(len(differences)):
        block = [differences[(begin + place) % len(differences)] for place in range(MOST_TRIALS)]
        looks = (look(block[:length], tolerance=TOLERANCE, alpha=ALPHA) for length in range(1, MOST_TRIALS + 1))
        found.append(next(one for one in looks if one.settled))
    return found


def _independent(looks: Sequence[Look]) -> int:
    return max(1, round(len(looks) / statistics.fmean(one.trials for one in looks)))


def _seconds(looks: Sequence[Look], trials: Sequence[dict[str, Any]]) -> list[float]:
    return [
        math.fsum(trials[(begin + place) % len(trials)]["seconds"] for place in range(found.trials))
        for begin, found in enumerate(looks)
    ]


def share(ratio: float, runs: int) -> str:
    """Return a share with its 95% interval (E. B. Wilson, 1927)."""
    centre = (ratio + _Z**2 / 2 / runs) / (1 + _Z**2 / runs)
    half = _Z * math.sqrt(ratio * (1 - ratio) / runs + _Z**2 / 4 / runs**2) / (1 + _Z**2 / runs)
    return f"{ratio:.0%} ({max(0.0, centre - half):.0%} to {min(1.0, centre + half):.0%})"


if __name__ == "__main__":
    main()
