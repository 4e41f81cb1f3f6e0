"""Judges one test: its thresholds, changes in other metrics, and the noise that a calibration measured."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence

from pytest_kafkaperf.clusters.target import External
from pytest_kafkaperf.core.metrics import CATALOGUE, FINAL_METRICS
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.problems import Problem, only_late
from pytest_kafkaperf.core.spans import Span, Stopwatch
from pytest_kafkaperf.core.text import listed
from pytest_kafkaperf.core.units import Quantity, Unit
from pytest_kafkaperf.runner.cold_brokers import cold_judgement, is_cold
from pytest_kafkaperf.runner.perftest import PerfTest, is_met_if_warm
from pytest_kafkaperf.runner.quick_brokers import starts_quick
from pytest_kafkaperf.runner.result import Result, Trial, at_least, judged, problems_of
from pytest_kafkaperf.runner.rounds.actions import Action
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.runner.rounds.validity import resolution_problems, skew_problems
from pytest_kafkaperf.runner.settings import Settings
from pytest_kafkaperf.runner.warmup import WarmUpEnd
from pytest_kafkaperf.scenarios.threshold import Extreme, Threshold, holds
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.days import FEWEST_DAYS
from pytest_kafkaperf.verdict.detectable import Calibrated, Confirmation, calibrated
from pytest_kafkaperf.verdict.judge import Comparison, NotCompared, judge
from pytest_kafkaperf.verdict.other_changes import OtherChange, other_changes
from pytest_kafkaperf.verdict.outcome import Check, Judgement, Ungated, Verdict
from pytest_kafkaperf.verdict.reasons import Reason
from pytest_kafkaperf.verdict.regression import AgainstStored, FreshTrials, alpha_of, is_clear
from pytest_kafkaperf.verdict.scale import Measured, logs, no_ratio
from pytest_kafkaperf.verdict.side_by_side import SideBySide, SideBySideWithStored, is_precise
from pytest_kafkaperf.verdict.slower_machine import BaselineBrokers
from pytest_kafkaperf.verdict.unchanged_brokers import UnchangedBrokers

_NOISY = 0.05
"""Trial-to-trial noise, on a log scale, above which a comparison needs more than the minimum number of trials."""
_IMPLIED = {
    "lost": "Kafka acknowledged these records, but they are not in the log",
    "errors": "these records could not be sent, after all retries",
    "unsent": "the cluster did not accept the declared rate",
}
"""Meaning of an unmet implied threshold, by metric."""
_NO_OUTPUT = "these acknowledged records did not come out of the application's output topic in time"
_UNTRUSTED = "the run cannot be trusted for this: see the warnings"
_AT_LEAST = "excluding everything that the slow generator may explain (see the warnings)"
_VIOLATED, _REGRESSED = Verdict.VIOLATED, Verdict.REGRESSED
_CLEAR = (
    "there is no time to confirm it, but it is clear: each round is worse than twice the tolerance and the noise, and "
    "no other program was seen to use much of this machine"
)


class Judging:
    """Judges a test's trials based on its thresholds, its baseline and the options."""

    def __init__(
        self,
        test: PerfTest,
        baseline: BaselineRounds,
        settings: Settings,
        *,
        alone: str | None = "no load has run",
        actions: Sequence[Action] = (),
        stopwatch: Stopwatch | None = None,
    ) -> None:
        """`alone` is the reason why no side-by-side comparison can confirm a suspected regression; None if one can.

        `actions` are those that run in every round; they may explain why an implied threshold is not met.
        """
        self.baseline = baseline
        self.alone = alone
        self.test = test
        self._settings = settings
        self._stopwatch = stopwatch or Stopwatch()
        self._actions = [str(one) for one in actions if one.metric is None]

    @property
    def is_compared(self) -> bool:
        """True if the test is compared with its baseline."""
        return self.baseline.obstacle is None and self._settings.calibrate is None

    def judge(
        self, trials: Sequence[Trial], *, brokers: BaselineBrokers | None = None, final: bool = False
    ) -> Judgement:
        """Judge the thresholds based on the first trial, or on further trials that re-test a suspected regression.

        The verdict is INVALID if a threshold is smaller than the clock uncertainty or a group's commit interval.
        `brokers` run the stored baseline's software in the further trials; None if there are none. `final` is True if
        there is no time for another trial.
        """
        with self._stopwatch.measure(Span.JUDGE):
            judgement = self._judge_thresholds(trials, self._comparison(trials, brokers, final=final))
        kept = self._settings.update is not None or self._settings.calibrate is not None
        judgement = cold_judgement(judgement, judged(trials), kept=kept, unsafe=self._unsafe)
        rounds = [one for trial in trials for one in trial.all_rounds]
        declared = [threshold for threshold in self.test.thresholds if not threshold.implied]
        values = [check.limit_value for check in judgement.checks if not check.implied]
        if uncertain := resolution_problems(declared, values, rounds):
            problems = (*judgement.problems, *uncertain)
            judgement = dataclasses.replace(judgement, verdict=Verdict.INVALID, problems=problems, unsettled=False)
        return dataclasses.replace(judgement, checks=tuple(map(self._explained, judgement.checks)))

    @property
    def _unsafe(self) -> frozenset[str]:
        """The absolute thresholds that cold brokers or applications may meet more easily than warm ones."""
        absolute = (one for one in self.test.thresholds if one.relative is None)
        return frozenset(one.expression for one in absolute if not is_met_if_warm(one, self.test.scenario))

    def _explained(self, check: Check) -> Check:
        """Add an explanation of an unmet implied threshold and how to replace it; return other checks unchanged."""
        if not check.implied or check.outcome is not Verdict.VIOLATED:
            return check
        actions = f", in rounds with {listed(self._actions)}" if self._actions else ""
        others = " or ".join(f"`{name}`" for name in self.test.replacing(check.metric))
        replaced = f"this threshold is implied; declare a threshold on {others} to replace it"
        is_output = check.metric == "lost" and self.test.scenario.output_topic is not None
        meaning = _NO_OUTPUT if is_output else _IMPLIED[check.metric]
        return dataclasses.replace(check, reasons=(Reason(f"{meaning}{actions}"), Reason(replaced)))

    def suffices(self, rounds: Sequence[Round]) -> bool:
        """Return True if the first trial can stop after these rounds because no further round could make the test fail.

        This requires that the rounds pass and that a majority of the declared rounds individually meet each threshold.
        The median of all rounds then meets the threshold regardless of the remaining rounds. This method is known as
        curtailed sampling (Dodge and Romig 1929). It does not apply to sums such as `errors`, which can grow with each
        round. If the test declares the number of rounds, or if values are kept in a baseline, all rounds run.
        """
        test, most = self.test, self.test.scenario.rounds // 2 + 1
        if len(rounds) < most or self._needs_all_rounds or any(one.problems for one in rounds):
            return False
        judgement = self.judge([Trial(created="", rounds=tuple(rounds))])
        return judgement.verdict is Verdict.PASSED and all(
            sum(_meets(threshold, check.limit_value, one) for one in rounds) >= most
            for threshold, check in zip(test.thresholds, judgement.checks, strict=True)
        )

    def is_precise(self, trial: Trial) -> bool:
        """Return True if a side-by-side trial has enough pairs of rounds for its noise, or more cannot be measured.

        A number of rounds from the command line is kept, and so are rounds that are searches for the capacity.
        """
        is_fixed = self.test.sources.get("rounds") == "command line" or self.test.plan is not None
        if is_fixed or problems_of([trial]):
            return True
        return is_precise(self.test.thresholds, trial.measured, alpha_of(self.test.thresholds))

    @property
    def _needs_all_rounds(self) -> bool:
        """True if the outcome always depends on all rounds, or if the values are kept."""
        test, settings = self.test, self._settings
        are_values_kept = settings.update is not None or settings.calibrate is not None
        are_rounds_declared = "rounds" in test.sources
        if are_values_kept or are_rounds_declared or test.live_baseline is not None or test.plan is not None:
            return True
        are_medians = all(threshold.metric.over_rounds == "median" for threshold in test.thresholds)
        return not test.thresholds or not are_medians

    def judge_clear(self, trials: Sequence[Trial], *, brokers: BaselineBrokers | None = None) -> Judgement:
        """Judge suspected regressions when there is no time to confirm them; clear ones fail (see `is_clear`).

        If Kafka is unchanged, if other programs used this machine, or if the machine is known to be slower today, even
        a clear difference may not be a regression. A side-by-side comparison has already ruled out these causes, and
        its last look is final (see `verdict.sequential`).
        """
        judgement = self.judge(trials, brokers=brokers, final=True)
        not_kafka = brokers is not None and (brokers.are_own or brokers.slower_machine is not None)
        if not_kafka or self._may_be_disturbed(trials) or judgement.problems or not judgement.unsettled:
            return judgement
        thresholds, measured = self.test.thresholds, [trial.measured for trial in judged(trials)]
        alpha = alpha_of(thresholds)
        checks = []
        for threshold, check in zip(thresholds, judgement.checks, strict=True):
            is_open = check.outcome is Verdict.INCONCLUSIVE
            clear = is_open and is_clear(threshold, measured, self.baseline, alpha=alpha)
            checks.append(_regressed(check) if clear else check)
        if tuple(checks) == judgement.checks:
            return judgement
        return dataclasses.replace(judgement, verdict=Verdict.REGRESSED, checks=tuple(checks), unsettled=False)

    def _may_be_disturbed(self, trials: Sequence[Trial]) -> bool:
        """Return True if even a clear difference from the baseline may not be a regression."""
        busy = any(one.busy for trial in trials for one in trial.all_rounds)
        side_by_side = any(trial.other_side is not None for trial in trials)
        cold = any(is_cold(trial) for trial in judged(trials) if trial.warm_up_end is not WarmUpEnd.OFF)
        return busy or side_by_side or cold or bool(self.baseline.imported) or self.baseline.obstacle is not None

    def other_changes(self, trials: Sequence[Trial]) -> tuple[OtherChange, ...]:
        """Return significant changes in metrics without a threshold, from the trials that the verdict is based on."""
        gated = {one.metric.name for one in self.test.thresholds if one.relative is not None}
        measured = [one.measured for one in judged(trials)]
        fresh = measured[1:] if measured[0].other_side is None else []
        return other_changes(fresh or measured, self.baseline, gated=gated)

    def calibrate(self, trials: Sequence[Trial]) -> tuple[dict[str, Calibrated], list[Notice]]:
        """Return the noise for metrics with relative thresholds, and notes about metrics whose noise is unknown."""
        test = self.test
        if self._settings.calibrate is None or test.is_smoke_test or problems_of(trials):
            return {}, []
        tolerances: dict[str, float] = {}
        notes = []
        for threshold in test.thresholds:
            if threshold.relative is not None:
                name, tolerance = threshold.metric.name, threshold.relative.log_tolerance
                tolerances[name] = min(tolerance, tolerances.get(name, tolerance))
            if isinstance(threshold.limit, Extreme):
                notes.append(Notice(Remark.PARTLY_CALIBRATED, {"expression": threshold.expression}))
        measured = [trial.measured.rounds for trial in judged(trials)]
        alpha = alpha_of(test.thresholds)
        way: Confirmation = "side by side" if self.alone is None else "fresh"
        found: dict[str, Calibrated] = {}
        for name, tolerance in tolerances.items():
            if flaw := no_ratio(CATALOGUE[name], measured, of=""):
                notes.append(Notice(Remark.NOT_CALIBRATED, {"reason": flaw}))
                continue
            values, least = [logs(CATALOGUE[name], rounds) for rounds in measured], CATALOGUE[name].trial_noise
            one = calibrated(values, tolerance=tolerance, alpha=alpha, confirmation=way, least=least)
            if one is None:
                unknown = f"{name} has only one round per trial, so its noise is unknown"
                notes.append(Notice(Remark.NOT_CALIBRATED, {"reason": unknown}))
            else:
                found[name] = one
        return found, notes

    def _comparison(self, trials: Sequence[Trial], brokers: BaselineBrokers | None, *, final: bool) -> Comparison:
        """Return the method for comparing the test with its baseline."""
        if trials[0].other_side is not None:
            return SideBySide(final=final)
        if not self._settings.confirm:
            return AgainstStored(baseline=self.baseline)
        first = AgainstStored(baseline=self.baseline, confirmation="side by side" if self.alone is None else "fresh")
        if brokers is None:
            return FreshTrials(first=first)
        if brokers.are_own:
            return UnchangedBrokers(first=first, brokers=brokers)
        return SideBySideWithStored(first=first, brokers=brokers, final=final)

    def _judge_thresholds(self, trials: Sequence[Trial], comparison: Comparison) -> Judgement:
        update = self._settings.update
        if self.baseline.ungated is not None:
            return self._judged(trials, NotCompared(shown=comparison, reason=self.baseline.ungated))
        if self._settings.calibrate is not None:
            return self._judged(trials, NotCompared(shown=comparison, reason=Ungated.CALIBRATION))
        accepted = NotCompared(shown=comparison, reason=Ungated.ACCEPTED)
        if update == "replace" or (update == "new" and not self.baseline.stored):
            judgement = self._judged(trials, accepted)
            if not judgement.verdict.fails:
                return judgement
            # A run that violates an absolute threshold never becomes the baseline, so the old baseline judges the
            # others.
        judgement = self._judged(trials, comparison)
        undecided = [one for one in judgement.checks if one.outcome is Verdict.INCONCLUSIVE]
        are_suspected = judgement.unsettled or any(one.rerun for one in undecided)
        if update == "add" and judgement.verdict is Verdict.INCONCLUSIVE and not are_suspected:
            doubts = [
                Notice(Remark.UNDECIDED, {"reason": one.reason, "expression": one.expression}) for one in undecided
            ]
            later = self._judged(
                trials, accepted
            )  # the trials that are added to the baseline help later runs reach a verdict
            return dataclasses.replace(later, warnings=(*judgement.warnings, *doubts))
        return judgement

    def faults(self, rounds: Sequence[Round]) -> list[str]:
        """Return the metrics among `FINAL_METRICS` whose limits these rounds of one trial violate.

        Neither this machine nor cold brokers can be the reason, so such a trial always counts.
        """
        limits = [one for one in self.test.limits if one.metric.name in FINAL_METRICS]
        return [one.metric.name for one in limits if one.allows_better and self._violates(rounds, one)]

    def _violates(self, rounds: Sequence[Round], limit: Threshold) -> bool:
        known = [one.metrics for one in rounds if limit.metric.name in one.metrics]
        if not known:
            return False
        found = judge([limit], [Measured(rounds=known)], AgainstStored(baseline=self.baseline))
        return found.verdict is Verdict.VIOLATED

    def _judged(self, trials: Sequence[Trial], comparison: Comparison) -> Judgement:
        """Judge the thresholds using the trials that count; if these have problems, use only what is still certain."""
        counted, bounds = judged(trials), frozenset(at_least(trials))
        problems = (*problems_of(trials), *self._skew_problems(trials))
        thresholds = self.test.limits
        measured = [trial.measured for trial in counted]
        judgement = judge(thresholds, measured, comparison, problems=problems, bounds=bounds)
        if not judgement.problems:
            return judgement
        is_late = only_late(judgement.problems)
        sure = [trial.certain(latencies=is_late) for trial in counted]
        rounds = [one for trial in sure for one in trial.rounds]
        known = [one for one in thresholds if _is_known(one.metric.name, rounds)]
        certain = judge(known, sure, comparison, bounds=bounds)
        if _fails(certain):
            return _led(judgement, certain)
        # Further trials can confirm a regression if the first one was far slower than the generator can explain.
        goes_on = is_late and certain.unsettled and not any(trial.problems for trial in counted[1:])
        return dataclasses.replace(judgement, unsettled=goes_on)

    def _skew_problems(self, trials: Sequence[Trial]) -> list[Problem]:
        rounds = [one for trial in judged(trials) for one in trial.all_rounds]
        return skew_problems(self.test.thresholds, rounds)


def _is_known(name: str, rounds: Sequence[Mapping[str, float]]) -> bool:
    """Return True if the rounds have enough values for a metric: all of them or, as a fault counts anyway, any."""
    return (any if name in FINAL_METRICS else all)(name in one for one in rounds)


def _regressed(check: Check) -> Check:
    """Return the check for a suspected regression as REGRESSED, because it does not have to be confirmed."""
    reasons = (*check.reasons, Reason(_CLEAR))
    return dataclasses.replace(check, outcome=Verdict.REGRESSED, reasons=reasons, rerun=False)


def _fails(judgement: Judgement) -> bool:
    return judgement.verdict in (Verdict.VIOLATED, Verdict.REGRESSED)


def _led(judgement: Judgement, certain: Judgement) -> Judgement:
    """Return an INVALID judgment with the failures that are certain regardless; its problems become doubts.

    Checks that fail only because of untrustworthy values are INVALID.
    """
    failing = {check.expression: check for check in certain.checks if check.outcome in (_VIOLATED, _REGRESSED)}
    checks = [_led_check(check, failing.get(check.expression)) for check in judgement.checks]
    return Judgement(
        verdict=certain.verdict,
        checks=tuple(checks),
        problems=(),
        warnings=certain.warnings,
        doubts=judgement.problems,
    )


def _led_check(check: Check, sure: Check | None) -> Check:
    """Return a check with its certain outcome; `sure` is the check if it fails even on certain values, or else None."""
    if sure is not None:
        is_less = sure.observed != check.observed and check.metric not in FINAL_METRICS
        reasons = (Reason(f"{sure.reason}, {_AT_LEAST}"),) if is_less else sure.reasons
        return dataclasses.replace(check, outcome=sure.outcome, reasons=reasons, rerun=sure.rerun)
    if check.outcome.fails:
        return dataclasses.replace(check, outcome=Verdict.INVALID, reasons=(Reason(_UNTRUSTED),))
    return check


def is_acceptable(verdict: Verdict, judgement: Judgement) -> bool:
    """Return True if a test failed only because it is undoubtedly slower.

    `--kafka-accept=regressed` does not accept VIOLATED or INVALID thresholds, or doubtful runs.
    """
    failing = {check.outcome for check in judgement.checks if check.outcome.fails}
    return verdict is Verdict.REGRESSED and failing == {Verdict.REGRESSED} and not judgement.doubts


def _meets(threshold: Threshold, limit: float | None, one: Round) -> bool:
    """Return True if this round meets the threshold on its own."""
    value = one.metrics.get(threshold.metric.name)
    return limit is not None and value is not None and holds(value, threshold.operator, limit)


def stale_notes(result: Result) -> list[Notice]:
    """Return a note if a test has improved so much that its baseline can no longer reveal regressions."""
    relative = [check for check in result.checks if check.is_relative]
    is_stale = relative and all(check.outcome is Verdict.IMPROVED for check in relative)
    return [Notice(Remark.STALE)] if is_stale else []


def baseline_doubts(result: Result) -> list[Notice]:
    """Return reasons to place less trust in the baseline that was used for comparison or written by this run."""
    days = result.baseline.days if result.baseline_trials is not None else ()
    doubts, written = [], result.days_written
    known = result.baseline.trials if written is None else [one.rounds for one in result.trials]
    if (days or written) and min(map(len, known)) == 1:
        doubts.append(Notice(Remark.ONE_ROUND))
    if 0 < (written or len({*days})) < FEWEST_DAYS:
        doubts.append(Notice(Remark.WEAK, {"fewest": FEWEST_DAYS}))
    if days and written is None:
        today = datetime.date.fromisoformat(result.trials[0].created[:10])
        age = (today - datetime.date.fromisoformat(max(days))).days
        if age > _MOST_DAYS:
            doubts.append(Notice(Remark.OLD, {"most": _MOST_DAYS, "day": max(days)}))
        if age < 0:
            doubts.append(Notice(Remark.LATER, {"day": max(days)}))
        moved = [each for each in result.changed if each.fact in _MACHINE]
        if moved:
            doubts.append(Notice(Remark.OTHER_MACHINE, {"changes": "; ".join(map(str, moved))}))
    return doubts


_MOST_DAYS = 14
_MACHINE = ("java", "kernel", "cpu", "cpu family")


def quieter_notes(test: PerfTest, checks: Sequence[Check]) -> list[Notice]:
    """Return a note if a comparison on the plugin's brokers was so noisy that less noise would save trials."""
    deviations = [each.trials[-1].deviation or 0.0 for each in checks if each.trials]
    started = test.live_baseline is not None and not isinstance(test.settings.compare, External)
    if not started or starts_quick(test) or max(deviations, default=0.0) < _NOISY:
        return []
    return [Notice(Remark.NOISY_TRIALS, {"noise": Quantity(max(deviations), Unit.RATIO, digits=2)})]
