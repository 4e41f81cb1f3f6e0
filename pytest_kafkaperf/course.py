"""The sessions that one test runs: the first, and those that follow from what it gave."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kafkaperf.budget import BROKEN_OFF_TEXT
from pytest_kafkaperf.confirmation import SESSIONS
from pytest_kafkaperf.errors import ClusterError
from pytest_kafkaperf.finding import Verdict
from pytest_kafkaperf.result import Trial, judged, problems_of
from pytest_kafkaperf.stand import now
from pytest_kafkaperf.verdict import Judgement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kafkaperf.pace import Overhead, Pace
    from pytest_kafkaperf.stand import Stand


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What a test has run, and what was found."""

    trials: tuple[Trial, ...]
    judgement: Judgement
    notes: tuple[str, ...] = ()
    """What the time budget took."""
    partial: bool = False
    """Whether for want of time this is less than what was to be measured: no baseline."""
    overhead: Overhead | None = None
    """What the first session took besides its load; None where that cannot be told."""


def run_course(
    stand: Stand,
    pace: Pace,
    judge: Callable[[Sequence[Trial]], Judgement],
    *,
    calibrate: int | None,
    confirm_gain: bool,
) -> Course:
    """Run the first session; then fresh ones: to calibrate, for suspects, or for a gain that is to be accepted."""
    further = _Further(stand, pace)
    trials = further.trials
    overhead = pace.overhead()
    while calibrate is not None and further.missing(calibrate):
        further.run("session")
    while (judgement := judge(trials)).unsettled and further.refusal is None:
        further.run("suspect, session")
    if confirm_gain and judgement.verdict is Verdict.IMPROVED:
        while further.missing(1 + SESSIONS):
            further.run("improved, session")
        judgement = judge(trials)
    undecided = pace.undecided(trials[0])
    if undecided is not None:
        judgement = _undecided(judgement, undecided)
    notes = (pace.cut(trials[0]), further.refusal)
    return Course(
        trials=tuple(trials),
        judgement=judgement,
        notes=tuple(note for note in notes if note),
        partial=pace.length_cut or undecided is not None or judgement.unsettled,
        overhead=overhead,
    )


def not_run(problem: str | None = None) -> Trial:
    """A session without a round, because of that problem or for want of time."""
    return Trial(created=now(), rounds=(), problems=() if problem is None else (problem,))


class _Further:
    """Runs one session after the other, each on fresh clusters but the first."""

    def __init__(self, stand: Stand, pace: Pace) -> None:
        self._stand = stand
        self._pace = pace
        self.trials = [stand.measure(pace.scenario, go_on=pace.goes_on)]
        self.refusal: str | None = None
        """Why there is no time for another."""

    def missing(self, sessions: int) -> bool:
        """Whether another one is to run, so that there are so many that count."""
        return len(judged(self.trials)) < sessions and not problems_of(self.trials) and self.refusal is None

    def run(self, what: str) -> None:
        """Run one, where there is time; one that the time ended early is left out, for it would count as a whole."""
        rounds = len(self.trials[0].rounds)
        self.refusal = self._pace.refuses_session(rounds)
        if self.refusal is not None:
            return
        trial = self._measured(f"{what} {len(self.trials) + 1}")
        if len(trial.rounds) < rounds and not trial.problems:
            self.refusal = BROKEN_OFF_TEXT
            return
        self.trials.append(trial)

    def _measured(self, label: str) -> Trial:
        try:
            self._stand.renew()
            self._stand.preheat(label)
        except ClusterError as error:
            return not_run(str(error))
        return self._stand.measure(self._pace.scenario, label, go_on=self._pace.has_time)


def _undecided(judgement: Judgement, reason: str) -> Judgement:
    """The same where so few rounds must not decide."""
    checks = tuple(
        dataclasses.replace(check, outcome=Verdict.INCONCLUSIVE, reason=reason) for check in judgement.checks
    )
    verdict = judgement.verdict if judgement.verdict is Verdict.INVALID else Verdict.INCONCLUSIVE
    return Judgement(verdict=verdict, checks=checks, problems=judgement.problems)
