"""Texts for `--kafka-calibrate`: the plan, a line for each trial, and each metric's noise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.core.text import listed, printable, without_file, without_folders
from pytest_kafkaperf.core.units import counted, format_percent
from pytest_kafkaperf.reports.wording import short
from pytest_kafkaperf.runner.perftest import PerfTest
from pytest_kafkaperf.runner.result import Result, Trial, judged
from pytest_kafkaperf.runner.time_budget import about, estimated_s
from pytest_kafkaperf.scenarios.threshold import count_gated
from pytest_kafkaperf.verdict.baseline_file import MAX_TRIALS
from pytest_kafkaperf.verdict.detectable import Calibrated
from pytest_kafkaperf.verdict.scale import change_of

NOTHING_TO_CALIBRATE = "--kafka-calibrate: no threshold on the baseline, so there is nothing to calibrate"
"""Reason for skipping a test."""
_EXAMPLE = "kafka_threshold('produce.throughput >= baseline - 20%')"
_LESS_RATIO = 0.8
"""More days are suggested if they reduce the detectable change to at most this fraction (on the log scale)."""
_WIDEST = 0.5
"""Largest tolerance to suggest; with a larger one, even halved throughput would go undetected."""


def describe_plan(tests: Sequence[PerfTest], trials: int) -> list[str]:
    """Return the number of tests and trials and the expected time, followed by the tests that will be skipped."""
    gated = [test for test in tests if count_gated(test.thresholds)]
    skipped = [without_folders(test.nodeid) for test in tests if test not in gated]
    if not gated:
        problem = "no perf test has a threshold on the baseline, so all are skipped"
        return [f"calibration: {problem}; add one, for example {_EXAMPLE}"]
    expected = about(math.fsum(map(estimated_s, gated)))
    lines = [f"calibration: {counted(len(gated), 'test')}, {counted(trials, 'trial')} each, {expected} in total"]
    if skipped:
        names = printable(listed(skipped))
        lines.append(f"calibration: tests without a threshold on the baseline are skipped: {names}")
    return lines


def describe_trial(test: PerfTest, measured: Sequence[Trial], trials: int, *, left_s: float) -> str:
    """Return a line about the trial that just finished (the last one in `measured`) and the remaining time."""
    name = printable(without_file(test.nodeid))
    last = measured[-1]
    if last.is_invalidated and last not in judged(measured):
        reason = last.problems[0].fact if last.problems else "one side was less warm than the other"
        return f"{name}: a trial is repeated: {reason}"
    left = f", {about(left_s)} left" if left_s > 0 else ""
    number = f"{name}: trial {len(judged(measured))} of {trials}"
    if last.problems:
        return f"{number}: INVALID: {last.problems[0]}"
    texts = []
    for metric in dict.fromkeys(one.metric for one in test.thresholds if one.relative is not None):
        values = [one.metrics[metric.name] for one in last.rounds if metric.name in one.metrics]
        if values:
            texts.append(f", {metric.name} {short(statistics.median(values), metric.unit)}")
    return f"{number}{''.join(texts)}{left}"


def calibration_cells(name: str, found: Calibrated) -> dict[str, str]:
    """Return a metric's noise and minimum detectable change, by column title.

    The text is empty if a value is unknown.
    """
    return {
        "within": format_percent(found.noise.within),
        "between": format_percent(found.noise.between) + ("?" if found.noise.assumed else ""),
        "tolerance": _change(name, found.tolerance),
        "suspected": f"{found.suspected} of {found.trials}",
        "can detect": _change(name, found.detectable_change),
    }


def calibration_remarks(name: str, found: Calibrated, result: Result) -> list[str]:
    """Return remarks on the detectable changes, on remedies if these changes are large, and on what limits throughput.

    If the brokers and the generator share all cores, throughput is the number of cores divided by their combined CPU
    time per record (utilization law; P. J. Denning, J. P. Buzen, "The Operational Analysis of Queueing Network Models"
    (1978)). If the brokers need 10% more CPU time, throughput therefore falls by 10% of the brokers' share, or by less
    if cores are idle.
    """
    remarks = [_can_catch(name, found)]
    if found.drowns(found.detectable_change):
        remarks.append(_cures(name, found, result))
    costs = [result.metrics.get(each) for each in ("broker.cpu_per_record", "client.cpu_per_record")]
    if name in result.lower_bounds and name.startswith("produce.") and None not in costs:
        brokers, clients = (each or 0.0 for each in costs)
        share = format_percent(brokers / (brokers + clients))
        cause = "the brokers' share of the CPU time of a record"
        remarks.append(f"the generator may be the limit: at most {share} of this value is about Kafka ({cause})")
    return remarks


def _can_catch(name: str, found: Calibrated) -> str:
    """Return the changes that are detected in four out of five cases, and whether they include the threshold."""
    direction = "drops" if CATALOGUE[name].better == "higher" else "rises"
    changes = f"{direction} of {_percent(name, found.detectable_change)} or more"
    if not math.isfinite(found.detectable_change):
        changes = f"no {direction} for certain"
    tolerance = _percent(name, found.tolerance)
    if found.drowns(found.detectable_change):
        return f"can catch {changes}; your tolerance ({tolerance}) is too small for this machine's noise"
    return f"can catch {changes} with your tolerance of {tolerance}"


def _cures(name: str, found: Calibrated, result: Result) -> str:
    """Return remedies for a tolerance that is too small; a wider one is suggested only if more days are not enough."""
    tolerance, best = (abs(change_of(CATALOGUE[name], each)) for each in (found.tolerance, found.detectable_over_days))
    cures = ["paced load"] if result.scenario.rate is None and result.plan is None else []
    if best <= _WIDEST and found.detectable_over_days < _LESS_RATIO * found.detectable_change:
        days = min(found.trials, MAX_TRIALS)
        change = _change(name, found.detectable_over_days)
        cures.append(f"a baseline of {days} days (at best {change})")
    else:
        cures.append("a quieter machine")
    wider = math.floor(100 * best / 5) * 5
    if found.drowns(found.detectable_over_days) and 100 * tolerance < wider <= 100 * _WIDEST:
        cures.append(f"a tolerance of {wider}%")
    *first, last = cures
    if not first:
        return f"try {last}"
    comma = "," if len(first) > 1 else ""
    return f"try {', '.join(first)}{comma} or {last}"


def remaining_s(test: PerfTest, later: Sequence[PerfTest], finished: int, trials: int, *, took_s: float) -> float:
    """Return the remaining time of a calibration.

    This test's trials (`finished` so far, which took `took_s`) show how much faster or slower the machine is than
    expected. `later` contains the tests after this one.
    """
    later_s = math.fsum(estimated_s(each) for each in later if count_gated(each.thresholds))
    left_s = max(0, 1 - finished / trials) * estimated_s(test) + later_s
    return left_s * took_s * trials / (finished * estimated_s(test))


def _change(name: str, log_change: float) -> str:
    """Format a change for the worse, given on the log scale, with its sign; return an empty text for infinity."""
    if not math.isfinite(log_change):
        return ""
    sign = "-" if change_of(CATALOGUE[name], log_change) < 0 else "+"
    return f"{sign}{_percent(name, log_change)}"


def _percent(name: str, log_change: float) -> str:
    """Format a change, given on the log scale, without its sign."""
    return format_percent(abs(change_of(CATALOGUE[name], log_change)))
