"""Lines about a test's trials so far, for users who are waiting for the result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pytest_kafkaperf.core.metrics import metric
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.core.text import printable, without_file
from pytest_kafkaperf.core.units import counted, format_percent, short_change
from pytest_kafkaperf.reports.wording import range_of, short
from pytest_kafkaperf.runner.perftest import PerfTest
from pytest_kafkaperf.runner.result import Trial
from pytest_kafkaperf.runner.time_budget import about
from pytest_kafkaperf.verdict.outcome import Check, Judgement
from pytest_kafkaperf.verdict.regression import alpha_of
from pytest_kafkaperf.verdict.scale import change_of
from pytest_kafkaperf.verdict.sequential import further_trials, passing_tolerance

_MANY_TRIALS = 4
"""Number of further trials from which on a single threshold is worth a warning."""


def describe_standing(test: PerfTest, trials: Sequence[Trial], judgement: Judgement, *, left_s: float) -> str:
    """Return the metrics that are still undecided after these trials, and the estimated time to a decision.

    `left_s` is that time in seconds. If nothing is undecided, the line shows the verdict instead.
    """
    number = f"{printable(without_file(test.nodeid))}: trial {len(trials)}"
    if not judgement.unsettled:
        return f"{number} decides: {judgement.verdict}"
    what = ", ".join(map(_open, _undecided(judgement))) or "the verdict"
    return f"{number}, {about(left_s)} left; undecided: {what}"


def further_by_check(test: PerfTest, judgement: Judgement) -> dict[Check, int]:
    """Return how many further trials each undecided threshold is expected to need, if its noise is known."""
    alpha = alpha_of(test.thresholds)
    looks = {check: check.trials[-1] for check in _undecided(judgement) if check.trials}
    return {check: further_trials(look, alpha=alpha) for check, look in looks.items() if look.deviation is not None}


def describe_slowest(further: Mapping[Check, int], left_s: float) -> str | None:
    """Return a warning if one threshold alone makes the test take several more trials, which take `left_s` seconds.

    It contains the tolerance with which the next trial would probably decide.
    """
    slowest = max(further, key=lambda check: further[check], default=None)
    if slowest is None or further[slowest] < _MANY_TRIALS:
        return None
    if any(2 * trials > further[slowest] for check, trials in further.items() if check is not slowest):
        return None
    look = slowest.trials[-1]
    change = abs(change_of(metric(slowest.metric), passing_tolerance(look)))
    noise = format_percent(look.deviation or 0.0)
    return (
        f"{slowest.expression}: needs about {counted(further[slowest], 'more trial')} ({about(left_s)}), because it "
        f"differs by {noise} between trials; with a tolerance of {math.ceil(100 * change)}%, one more would do"
    )


def _undecided(judgement: Judgement) -> list[Check]:
    return [check for check in judgement.checks if check.expression in judgement.undecided]


def describe_repeat(test: PerfTest, judgement: Judgement) -> str:
    """Return why the first trial is repeated: the limit that it violates, or its problem."""
    return f"{printable(without_file(test.nodeid))}: {_fault(judgement)}; measuring again"


def _fault(judgement: Judgement) -> str:
    only_cold = all(problem.kind is ProblemKind.COLD_BROKER for problem in judgement.problems)
    failing = [check for check in judgement.checks if check.outcome.fails and not check.is_relative]
    for check in failing if only_cold else ():
        if check.observed is not None:
            return f"{check.metric} {short(check.observed, metric(check.metric).unit)} breaks its limit"
    if judgement.problems:
        return judgement.problems[0].sentence
    return f"the first result is {judgement.verdict}"


def _open(check: Check) -> str:
    """Return a threshold's metric, its change so far and, if known, the range of the true change."""
    if check.change is None:
        return check.metric
    within = "" if check.interval is None else f" ({range_of(check.interval)})"
    return f"{check.metric} {short_change(check.change)}{within}"
