"""Verdicts against stored baselines, replayed: `python benchmarks/verdict/stored.py`, in four minutes.

The first trial of each run `unchanged` of `runs.py` is judged against each baseline that was measured on its kind of
machine. If that calls for a re-test, trials side by side with rebuilt brokers follow, as in a run: those that such runs
measured, from a random one on. Ten baselines and thirty trials therefore give three hundred verdicts of the plugin's
own rule on measured values. Those of one trial depend on each other, so the interval is that of as many verdicts as
there are trials (Wilson, 95%), and the range over the baselines is next to it.

A change makes the metric worse by a constant in the first trial and in the current side of the others.

A second table has the noise of each metric in the baselines: between rounds, between trials, and what the rule takes
for the noise of trials if it knows that of rounds alone.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from replay import share
from runs import BASELINES, RUNS
from whole_runs import recorded

from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.scenarios.threshold import Threshold, parse_threshold
from pytest_kafkaperf.verdict.baseline_file import BaselineRecord, BaselineRounds
from pytest_kafkaperf.verdict.baseline_store import read_baseline
from pytest_kafkaperf.verdict.days import median_variance_ratio
from pytest_kafkaperf.verdict.judge import judge
from pytest_kafkaperf.verdict.outcome import Verdict
from pytest_kafkaperf.verdict.regression import AgainstStored
from pytest_kafkaperf.verdict.scale import Measured, Rounds, flaw_of, logs
from pytest_kafkaperf.verdict.sequential import MOST_TRIALS
from pytest_kafkaperf.verdict.side_by_side import SideBySideWithStored
from pytest_kafkaperf.verdict.slower_machine import BaselineBrokers

THRESHOLDS = {
    "test_closed": parse_threshold("produce.throughput >= baseline - 10%"),
    "test_paced": parse_threshold("produce.latency.p50 <= baseline + 10%"),
}
PHASES = ("unchanged", "unchanged+neighbour")
CHANGES = (0.0, 0.1, 0.15, 0.25, 0.5)
OUTCOMES = (Verdict.PASSED, Verdict.INCONCLUSIVE, Verdict.REGRESSED)
_SEED = 20_261_125


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Trials of one test in a run of `runs.py`."""

    machine: str
    """The kind of machine, whose baselines the plugin keeps apart."""
    alone: list[Measured]
    side_by_side: list[Measured]
    """Those side by side with rebuilt brokers; empty if the first trial showed no suspected regression."""


def main() -> None:
    """Print the tables as Markdown."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    lines = recorded(RUNS)
    heads = (
        "worse by",
        "baselines",
        "trials",
        "suspected",
        *map(str.lower, OUTCOMES),
        "by baseline",
        "trials side by side",
    )
    print(f"| trials of | {' | '.join(heads)} |\n|---|{'--:|' * len(heads)}")
    for (test, threshold), phase in itertools.product(THRESHOLDS.items(), PHASES):
        baselines, runs = _runs(lines, "baseline", test), _runs(lines, phase, test)
        for change in CHANGES if runs else ():
            print(f"| {phase}, {test} | {change:+.0%} | {' | '.join(_row(threshold, baselines, runs, change))} |")
    print("\n| metric | baselines | SD of rounds | SD of trials | as the rounds say |\n|---|--:|--:|--:|--:|")
    for test in THRESHOLDS:
        for name, cells in _noises([read_baseline(path) for path in sorted(BASELINES.rglob(f"*{test}*.json"))]):
            print(f"| {test}, {name} | {' | '.join(cells)} |")


def _runs(lines: Sequence[dict[str, Any]], phase: str, test: str) -> list[Run]:
    machines = {folder.name.rpartition("-")[2]: next(folder.iterdir()).name for folder in BASELINES.iterdir()}
    found = []
    for line in lines:
        for one in line["tests"] if line["phase"] == phase else ():
            if one["name"] == test:
                trials = [
                    Measured(rounds=trial["rounds"], other_side=trial["other_side"] or None)
                    for trial in one["measured"]
                ]
                alone, side_by_side = (
                    [each for each in trials if bool(each.other_side) == paired] for paired in (False, True)
                )
                found.append(Run(machine=machines[line["boot"]], alone=alone, side_by_side=side_by_side))
    return found


def _row(threshold: Threshold, baselines: Sequence[Run], runs: Sequence[Run], change: float) -> Iterator[str]:
    """Yield the cells of a row."""
    draws = np.random.default_rng(_SEED)
    firsts = [(run.machine, _worse(threshold, run.alone[0], change)) for run in runs]
    side_by_side = [_worse(threshold, one, change) for run in runs for one in run.side_by_side]
    found: list[list[tuple[Verdict, int]]] = []
    for baseline in baselines:
        known = BaselineRounds(trials=tuple(tuple(one.rounds) for one in baseline.alone))
        verdicts = []
        for _, first in (each for each in firsts if each[0] == baseline.machine):
            begin = int(draws.integers(len(side_by_side)))
            verdicts.append(_judged(threshold, known, first, side_by_side[begin:] + side_by_side[:begin]))
        if verdicts:
            found.append(verdicts)
    every = [one for verdicts in found for one in verdicts]
    machines = {baseline.machine for baseline in baselines}
    independent = sum(machine in machines for machine, _ in firsts)
    shares = [sum(verdict is Verdict.REGRESSED for verdict, _ in verdicts) / len(verdicts) for verdicts in found]
    yield from (str(len(found)), str(independent))
    yield f"{sum(trials > 1 for _, trials in every) / len(every):.0%}"
    for outcome in OUTCOMES:
        yield share(sum(verdict is outcome for verdict, _ in every) / len(every), independent)
    yield f"{min(shares):.0%} to {max(shares):.0%}"
    yield f"{statistics.median([trials - 1 for _, trials in every if trials > 1] or [0]):.0f}"


def _noises(records: Sequence[BaselineRecord]) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each metric with its noise, as root mean squares over the baselines."""
    names = {name for record in records for trial in record.trials for one in trial.rounds for name in one}
    for subject in (CATALOGUE[name] for name in sorted(names & set(CATALOGUE))):
        found = []
        for record in records:
            if not any(flaw_of(subject, trial.rounds, ratio=True) for trial in record.trials):
                trials = [logs(subject, trial.rounds) for trial in record.trials]
                of_rounds = statistics.fmean(map(statistics.variance, trials))
                ratio = statistics.fmean(1 + median_variance_ratio(len(one)) for one in trials)
                found.append((of_rounds, statistics.variance(map(statistics.median, trials)), ratio * of_rounds))
        if found and not subject.can_be_zero:
            noises = (math.sqrt(statistics.fmean(each)) for each in zip(*found, strict=True))
            yield subject.name, [str(len(found)), *(f"{noise:.1%}" for noise in noises)]


def _judged(
    threshold: Threshold, known: BaselineRounds, first: Measured, side_by_side: Sequence[Measured]
) -> tuple[Verdict, int]:
    """Return the verdict, and the number of trials that it took."""
    for number in range(MOST_TRIALS + 1):
        further = [side_by_side[place % len(side_by_side)] for place in range(number)]
        found = judge(
            [threshold],
            [first, *further],
            SideBySideWithStored(
                first=AgainstStored(baseline=known, confirmation="side by side"), brokers=BaselineBrokers()
            ),
        )
        if not found.unsettled:
            break
    return found.verdict, number + 1


def _worse(threshold: Threshold, trial: Measured, change: float) -> Measured:
    """Return the trial with a metric that is worse by this share."""
    name, factor = threshold.metric.name, 1 - change if threshold.metric.better == "higher" else 1 + change
    rounds: Rounds = [{**one, name: one[name] * factor} for one in trial.rounds]
    return Measured(rounds=rounds, other_side=trial.other_side)


if __name__ == "__main__":
    main()
