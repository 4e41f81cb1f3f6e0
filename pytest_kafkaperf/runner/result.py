"""What a perf test gets back, and what the reports are made of."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_kafkaperf.clusters.spec import Cluster
from pytest_kafkaperf.core.metrics import CATALOGUE, SEARCH_METRICS
from pytest_kafkaperf.core.problems import Problem, ProblemKind
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.runner.capacity import SearchPlan
from pytest_kafkaperf.runner.round import Round
from pytest_kafkaperf.runner.validity import describe_uncertainty, uncertainty_s
from pytest_kafkaperf.scenario.scenario import Scenario
from pytest_kafkaperf.verdict.advice import Advice
from pytest_kafkaperf.verdict.baselines.record import BaselineRounds
from pytest_kafkaperf.verdict.calibration import Calibrated
from pytest_kafkaperf.verdict.comparison import Measured
from pytest_kafkaperf.verdict.outcome import Verdict
from pytest_kafkaperf.verdict.verdict import Check


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSession:
    """What a test measured on one fresh cluster."""

    created: str
    """ISO 8601."""
    rounds: tuple[Round, ...]
    reference: tuple[Round, ...] | None = None
    """Of the reference, each in turn with the round at its place; None without one."""
    problems: tuple[Problem, ...] = ()
    """Why it cannot be trusted."""

    @property
    def measured(self) -> Measured:
        """The figures alone."""
        other = None if self.reference is None else [one.metrics for one in self.reference]
        return Measured(rounds=[one.metrics for one in self.rounds], reference=other)

    @property
    def all_rounds(self) -> tuple[Round, ...]:
        """Those of the reference, too."""
        return (*self.rounds, *(self.reference or ()))

    @property
    def is_spoilt(self) -> bool:
        """Whether the machine alone is why it cannot be trusted: the generator had no time."""
        return bool(self.problems) and all(problem.kind is ProblemKind.GENERATOR_TOO_SLOW for problem in self.problems)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Of all its rounds."""
        sides = (("", self.rounds), ("the reference: ", self.reference or ()))
        return tuple(f"{side}{text}" for side, rounds in sides for one in rounds for text in one.warnings)


MOST_SPOILT = 2
"""Further sessions of a test that are measured again because of the machine; one more, and the run is INVALID."""


def judged(sessions: Sequence[MeasuredSession]) -> list[MeasuredSession]:
    """The first, and those further ones that count: one that the machine has spoilt was measured again."""
    first, *further = sessions
    counting = [session for session in further if not session.is_spoilt]
    return [first, *counting] if len(further) - len(counting) <= MOST_SPOILT else [*sessions]


def _counts(session: MeasuredSession, sessions: Sequence[MeasuredSession]) -> bool:
    return any(session is each for each in judged(sessions))


def problems_of(sessions: Sequence[MeasuredSession]) -> tuple[Problem, ...]:
    """Why a run cannot be trusted, of those that count."""
    return tuple(
        problem.within(f"session {number}") if number > 1 else problem
        for number, session in enumerate(sessions, 1)
        for problem in session.problems
        if _counts(session, sessions)
    )


def warnings_of(sessions: Sequence[MeasuredSession]) -> tuple[str, ...]:
    """Each once, and why sessions were measured again."""
    again = [
        f"session {number} was measured again: {problem}"
        for number, session in enumerate(sessions, 1)
        for problem in session.problems
        if not _counts(session, sessions)
    ]
    blur_s = uncertainty_s(one for session in sessions for one in session.all_rounds)
    clocks = [] if blur_s is None else [describe_uncertainty(blur_s)]
    return tuple(dict.fromkeys([*clocks, *(text for session in sessions for text in session.warnings), *again]))


def at_least(sessions: Sequence[MeasuredSession]) -> tuple[str, ...]:
    """Metrics of which some round tells no more than a lower bound."""
    bounded = any(one.at_least for session in judged(sessions) for one in session.all_rounds)
    return SEARCH_METRICS if bounded else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One perf test that has run: what was measured and what was found."""

    nodeid: str
    scenario: Scenario
    plan: SearchPlan | None = None
    """Of the search for the capacity, which each round was; it has chosen the rate."""
    sources: Mapping[str, str]
    """Where each field of the scenario that is not the default was set: `marker`, `command line`..."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """What the test was parametrised with besides fields of the scenario."""
    cluster: Cluster
    sessions: tuple[MeasuredSession, ...]
    """The first, and those that were to confirm what it made suspect or to show how much they differ."""
    reference: Cluster | None
    """The cluster that stood for the baseline."""
    baseline_sessions: int | None
    """That the limits are judged by; None where there is no baseline, or a reference."""
    baseline: BaselineRounds = field(default_factory=BaselineRounds)
    """What was stored of earlier sessions, also where it does not count."""
    changed: tuple[str, ...]
    """What differs between where the baseline and where this test ran: `kafka: 4.0.0 -> 4.1.1`."""
    advice: tuple[Advice, ...]
    """What moved beyond noise without a limit on it."""
    calibration: Mapping[str, Calibrated]
    """How much sessions differ, by metric; empty where tests are judged."""
    verdict: Verdict
    checks: tuple[Check, ...]
    warnings: tuple[str, ...]
    """Each once, over all rounds."""
    problems: tuple[Problem, ...]
    """Why the verdict is INVALID; empty otherwise."""
    notes: tuple[str, ...] = ()
    """What is to know of the baseline, or of what the time budget took."""
    allocation: WorkerAllocation = field(default_factory=WorkerAllocation)
    """The worker processes that made the load."""
    partial: bool = False
    """Whether rounds were shorter than the scenario says, or a suspect was not settled, for want of time."""

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Of the first session."""
        return self.sessions[0].rounds

    @property
    def metrics(self) -> Mapping[str, float]:
        """Each metric over the rounds, in base units: the median, or the sum of counts such as `errors`."""
        return {name: summary(name, values) for name, values in self.values().items()}

    def values(self) -> dict[str, list[float]]:
        """Each metric's value in every round that has it, in the catalogue's order."""
        return {
            name: values
            for name in CATALOGUE
            if (values := [one.metrics[name] for one in self.rounds if name in one.metrics])
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a perf test ended for pytest: its own code may fail after a good verdict, a fixture before any."""

    nodeid: str
    outcome: Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed"]
    """`failed` in its own code, `error` in what was set up for it or taken down after it."""
    reason: str | None
    """Of what did not pass."""
    file: str
    """Relative to pytest's root folder, or absolute."""
    line: int | None
    """From 1."""

    @property
    def fails(self) -> bool:
        """Whether it makes the exit status one of failure."""
        return self.outcome in ("failed", "error")


def standard_of(result: Result) -> Literal["baseline", "reference"]:
    """What a test is compared with."""
    return "baseline" if result.reference is None else "reference"


def summary(name: str, values: list[float]) -> float:
    """One figure for all rounds of a metric: the sum of counts, else the median."""
    return sum(values) if CATALOGUE[name].summed else statistics.median(values)
