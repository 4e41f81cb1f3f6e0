"""What is found of one test: its limits judged, and what else its rounds say beside the baseline."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from pytest_kafkaperf.core.metrics import CATALOGUE, HEADLINES
from pytest_kafkaperf.core.problems import Problem
from pytest_kafkaperf.runner.case import Case
from pytest_kafkaperf.runner.result import MeasuredSession, Result, at_least, judged, problems_of
from pytest_kafkaperf.runner.settings import Settings
from pytest_kafkaperf.runner.validity import clock_problems, uncertainty_s
from pytest_kafkaperf.scenario.threshold import count_gated
from pytest_kafkaperf.verdict.advice import Advice, advice
from pytest_kafkaperf.verdict.baselines.record import BaselineRounds
from pytest_kafkaperf.verdict.calibration import Calibrated, calibrated
from pytest_kafkaperf.verdict.comparison import Measured, logs, no_ratio
from pytest_kafkaperf.verdict.outcome import Verdict
from pytest_kafkaperf.verdict.regression import ALPHA
from pytest_kafkaperf.verdict.verdict import Judgement, judge

_STALE = (
    "the baseline is stale: all is better than it, by more than the tolerance, and a regression could hide there; "
    "accept what was gained with --kafka-update-baselines=improved"
)
_NOT_GATED = 0.1
"""The tolerance that calibration takes for metrics that no limit gates."""


class CaseJudge:
    """Looks at what a test has measured, as its limits, its baseline and the options say."""

    def __init__(self, case: Case, baseline: BaselineRounds, settings: Settings) -> None:
        self.baseline = baseline
        self._case = case
        self._settings = settings

    @property
    def is_compared(self) -> bool:
        """Whether the baseline counts."""
        return self.baseline.obstacle is None and self._settings.calibrate is None

    def judge(self, sessions: Sequence[MeasuredSession]) -> Judgement:
        """Judge the thresholds, with the sessions that were to confirm what the first made suspect.

        INVALID where thresholds are finer than the clocks that they would be judged by.
        """
        judgement = self._judge_thresholds(sessions)
        finer = _finer(self._case, sessions, judgement)
        if not finer:
            return judgement
        problems = (*judgement.problems, *finer)
        return dataclasses.replace(judgement, verdict=Verdict.INVALID, problems=problems, unsettled=False)

    def advise(self, sessions: Sequence[MeasuredSession]) -> tuple[Advice, ...]:
        """What moved without a limit on it."""
        gated = {threshold.metric.name for threshold in self._case.thresholds if threshold.needs_baseline}
        return advice(sessions[0].measured, self.baseline.sessions, gated=gated)

    def calibrate(self, sessions: Sequence[MeasuredSession]) -> tuple[dict[str, Calibrated], list[str]]:
        """How much the sessions differ, by metric: those with a limit, or else those that people look at first.

        And why that cannot be told of some.
        """
        case = self._case
        if self._settings.calibrate is None or case.is_smoke_test or problems_of(sessions):
            return {}, []
        limits: dict[str, float] = {}
        for threshold in case.thresholds:
            if threshold.relative is not None:
                name, tolerance = threshold.metric.name, threshold.relative.log_tolerance
                limits[name] = min(tolerance, limits.get(name, tolerance))
        measured = [session.measured.rounds for session in judged(sessions)]
        found: dict[str, Calibrated] = {}
        notes = []
        for name, tolerance in (limits or dict.fromkeys(HEADLINES, math.log1p(_NOT_GATED))).items():
            flaw = no_ratio(CATALOGUE[name], measured)
            one = None
            if flaw is None:
                values = [logs(CATALOGUE[name], rounds) for rounds in measured]
                one = calibrated(values, tolerance=tolerance, alpha=ALPHA / max(1, count_gated(case.thresholds)))
                flaw = f"{name} has one round a session, and no noise can be seen in it"
            if one is not None:
                found[name] = one
            elif limits:
                notes.append(f"not calibrated: {flaw}")
        return found, notes

    def _judge_thresholds(self, sessions: Sequence[MeasuredSession]) -> Judgement:
        if self._settings.calibrate is not None:
            return self._judged(sessions, "not judged: sessions are compared with each other", None)
        fresh = [session.measured for session in judged(sessions)[1:]] if self._settings.confirm else None
        if self._settings.update == "all":
            judgement = self._judged(sessions, "accepted as the new baseline", fresh)
            if not judgement.verdict.fails:
                return judgement
            # What breaks an absolute limit never becomes the baseline: the rest is judged against the old one.
        return self._judged(sessions, None, fresh)

    def _judged(
        self, sessions: Sequence[MeasuredSession], ungated: str | None, fresh: Sequence[Measured] | None
    ) -> Judgement:
        return judge(
            thresholds=self._case.thresholds,
            session=sessions[0].measured,
            baseline=self.baseline,
            fresh=fresh,
            problems=problems_of(sessions),
            at_least=at_least(sessions),
            ungated=ungated,
        )


def stale_notes(result: Result) -> list[str]:
    """Whether the baseline is so far behind that a regression could hide in what has been gained."""
    relative = [check for check in result.checks if check.is_relative]
    if not relative or any(check.outcome is not Verdict.IMPROVED for check in relative):
        return []
    return [_STALE]


def _finer(case: Case, sessions: Sequence[MeasuredSession], judgement: Judgement) -> list[Problem]:
    """Limits that are finer than the clocks of the machines between which they are to hold."""
    blur_s = uncertainty_s(one for session in sessions for one in session.all_rounds)
    return clock_problems(case.thresholds, [check.limit_value for check in judgement.checks], blur_s)
