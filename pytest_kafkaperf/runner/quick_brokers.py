"""Decides which tests run on brokers that use only the JVM's quick compiler (C1).

Such brokers are warm within seconds, whereas the optimizing compiler (C2) needs about 20 s of full load in each trial.
They reach only about half the throughput. If two revisions of the code are compared on the same Kafka and at a declared
rate, a relative limit can be judged on slow brokers as well. A test that meets an absolute limit on slow brokers meets
it on fast ones; only if it does not, it is measured again with all compilers.

The side that measures decides for both sides, so that they never differ.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pytest_kafkaperf.core.metrics import FINAL_METRICS, metric
from pytest_kafkaperf.core.problems import MADE_BY_SLOW_BROKERS
from pytest_kafkaperf.core.units import format_quantity
from pytest_kafkaperf.runner.perftest import PerfTest, is_met_if_faster
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.scenarios.threshold import Extreme, Threshold
from pytest_kafkaperf.verdict.outcome import Judgement, Verdict
from pytest_kafkaperf.verdict.reasons import Reason


def starts_quick(test: PerfTest) -> bool:
    """Return True if the test's trials start on brokers with only the quick compiler."""
    declared = test.spec.quick_compiler
    return _allows_quick(test) if declared is None else declared


def compilers(test: PerfTest, sides: Sequence[Side], *, same_kafka: bool) -> bool | None:
    """Return True if the sides' brokers should use only the quick compiler, and None to leave them as they are.

    `same_kafka` is False if the revisions declare different brokers, whose difference may depend on the compiler.
    """
    known = [side.quick for side in sides if side.brokers is not None]
    if not test.settings.compares_code or all(quick is None for quick in known):
        return None
    return same_kafka and None not in known and len(known) == len(sides) and starts_quick(test)


def _allows_quick(test: PerfTest) -> bool:
    """Return True if this test compares two revisions, and if none of its limits depends on the compiler.

    Without a rate, slow brokers could be the limit on both sides, and hide that the application became slower.
    """
    if not test.settings.compares_code or test.live_baseline is None or test.plan is not None or test.is_smoke_test:
        return False
    return test.scenario.rate is not None and all(map(_is_safe, test.thresholds))


def _is_safe(threshold: Threshold) -> bool:
    """Return True if a threshold that is met on slow brokers is met on fast ones, with the same load."""
    if threshold.metric.name.startswith("broker.") or isinstance(threshold.limit, Extreme):
        return False
    return threshold.relative is not None or is_met_if_faster(threshold)


def reasons_to_repeat(judgement: Judgement) -> str | None:
    """Return why a test on brokers with the quick compiler must be measured again; None if it does not have to be.

    Faults in the log, such as lost records, and problems that slow brokers cannot cause are final.
    """
    kinds = {problem.kind for problem in judgement.problems}
    failed = [check for check in judgement.checks if check.outcome is Verdict.VIOLATED and not check.is_relative]
    if any(check.metric in FINAL_METRICS for check in failed) or not kinds <= MADE_BY_SLOW_BROKERS:
        return None
    values = {check.metric: check.observed for check in failed if check.observed is not None}
    texts = [f"{name} was {format_quantity(value, metric(name).unit)}" for name, value in values.items()]
    return "; ".join([*texts, *map(str, judgement.problems)]) or None


def without_repeat(judgement: Judgement) -> Judgement:
    """Return the judgment if there is no time to measure again; the reasons for violations mention it."""
    checks = [
        dataclasses.replace(check, reasons=(*check.reasons, _NO_TIME)) if check.outcome is Verdict.VIOLATED else check
        for check in judgement.checks
    ]
    return dataclasses.replace(judgement, checks=tuple(checks))


_NO_TIME = Reason(
    "measured with the JVM's quick compiler alone, and there is no time to measure again with all compilers: increase "
    "--kafka-time-budget"
)
