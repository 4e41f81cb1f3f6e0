"""Lines about a test's trials so far, for users who are waiting for the result."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_kafkaperf.core.metrics import metric
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.core.text import printable, without_file
from pytest_kafkaperf.core.units import short_change
from pytest_kafkaperf.reports.wording import range_of, short
from pytest_kafkaperf.runner.perftest import PerfTest
from pytest_kafkaperf.runner.result import Trial
from pytest_kafkaperf.runner.time_budget import LIKELY_TRIALS, about
from pytest_kafkaperf.verdict.outcome import Check, Judgement


def describe_standing(test: PerfTest, trials: Sequence[Trial], judgement: Judgement, *, left_s: float) -> str:
    """Return the metrics that are still undecided after these trials, and the usual time to a decision.

    `left_s` is that time in seconds. If the test has already taken more trials than usual, the number of remaining
    trials is unknown, so `left_s` is then the time for one more. If nothing is undecided, the line shows the verdict
    instead.
    """
    number = f"{printable(without_file(test.nodeid))}: trial {len(trials)}"
    if not judgement.unsettled:
        return f"{number} decides: {judgement.verdict}"
    undecided = [check for check in judgement.checks if check.expression in judgement.undecided]
    what = ", ".join(map(_open, undecided)) or "the verdict"
    compared = len(trials) if test.live_baseline is not None else len(trials) - 1
    if compared >= LIKELY_TRIALS:
        return f"{number}, {about(left_s)} for each further trial, because the trials differ; undecided: {what}"
    return f"{number}, {about(left_s)} left; undecided: {what}"


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
