"""A run's headline, such as `1 of 4 Kafka tests is slower than the base d0e1f3e`, and the order of the run's tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from pytest_kafkaperf.core.environment import SHORT_HASH
from pytest_kafkaperf.core.metrics import metric
from pytest_kafkaperf.core.text import listed
from pytest_kafkaperf.core.units import counted
from pytest_kafkaperf.reports.headline import is_undecided
from pytest_kafkaperf.reports.wording import failure_next_to, remark_of
from pytest_kafkaperf.runner.result import Ending, Result, RunResult, unmeasured
from pytest_kafkaperf.verdict.outcome import Check, Verdict


class State(Enum):
    """States of a test, worst first; each has one phrase for a single test and one for several tests."""

    UNMEASURED = "could not be measured", "could not be measured"
    VIOLATED = "broke its limit", "broke their limits"
    REGRESSED = "is {worse} than {base}", "are {worse} than {base}"
    FAILED = "failed", "failed"
    """The test's own code or a fixture failed."""
    UNDECIDED = "could not be decided", "could not be decided"
    STOPPED = "did not finish", "did not finish"
    SKIPPED = "was skipped", "were skipped"
    NOTHING = "measured nothing", "measured nothing"
    PASSED = "passed", "passed"
    MEASURED = "was only measured", "were only measured"

    def phrase(self, number: int) -> str:
        """Return the phrase that fits this number of tests."""
        one, several = self.value
        return one if number == 1 else several

    @property
    def is_good(self) -> bool:
        """True if reports do not have to explain the state."""
        return self in (State.PASSED, State.MEASURED)


_OF_VERDICT = {
    Verdict.PASSED: State.PASSED,
    Verdict.IMPROVED: State.PASSED,
    Verdict.MEASURED: State.MEASURED,
    Verdict.INCONCLUSIVE: State.UNDECIDED,
    Verdict.REGRESSED: State.REGRESSED,
    Verdict.VIOLATED: State.VIOLATED,
    Verdict.INVALID: State.UNMEASURED,
}
_OF_OUTCOME = {"skipped": State.SKIPPED, "not run": State.STOPPED}
"""States of tests without a result, by pytest outcome, unless the outcome fails the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A perf test and its outcome."""

    nodeid: str
    state: State
    fails: bool
    """True if the test fails the pytest run."""
    tolerated: str = ""
    """Reason why a test does not make the run fail despite its verdict, such as `accepted` or `xfailed`."""
    result: Result | None
    """The result; None if the test did not measure anything."""
    ending: Ending | None
    """The outcome; None if pytest did not report the end of the test."""

    @property
    def sign(self) -> str:
        """❌ if the test makes the run fail, ⚠️ if it needs attention, ✅ otherwise."""
        if self.fails:
            return "❌"
        return "✅" if self.state.is_good else "⚠️"


def outcomes_of(run: RunResult) -> list[Outcome]:
    """Return all perf tests in a run, starting with those that make the run fail, worst first."""
    outcomes = [_without_result(each) for each in unmeasured(run.results, run.endings)]
    outcomes += [_with_result(each, run.endings.get(each.nodeid), strict=run.settings.strict) for each in run.results]
    order = list(State)
    return sorted(outcomes, key=lambda each: (not each.fails, order.index(each.state)))


def base_of(run: RunResult) -> str:
    """Return the revision that tests were compared with, such as `the base d0e1f3e`; empty if there was none."""
    revision = next((each.revision for each in run.results if each.revision is not None), None)
    if revision is None:
        return ""
    return f"the base {revision.text if revision.commit is None else revision.commit[:SHORT_HASH]}"


def run_headline(outcomes: Sequence[Outcome], base: str) -> str:
    """Return how many tests did not pass and why or, if all passed, how many did, as in `4 Kafka tests passed`."""
    if not outcomes:
        return "No Kafka test ran"
    counts = Counter((each.state, each.tolerated) for each in outcomes)
    shown = {key: number for key, number in counts.items() if not key[0].is_good} or counts
    (first, number), *others = shown.items()
    is_part = number < len(outcomes) and not first[0].is_good
    tests = f"{number} of {len(outcomes)} Kafka tests" if is_part else counted(number, "Kafka test")
    worse = _worse(outcomes)
    parts = [f"{tests} {_phrase(*first, number, worse=worse, base=base)}"]
    parts += [f"{number} {_phrase(*key, number, worse=worse, base=base)}" for key, number in others]
    if base and State.REGRESSED not in {state for state, _ in shown}:
        parts.append(f"compared with {base}")
    all_good = all(state.is_good for state, _ in shown)
    return "; ".join(filter(None, (", ".join(parts), _within_limit(outcomes) if all_good else "")))


def _within_limit(outcomes: Sequence[Outcome]) -> str:
    """Return the metrics that have become worse within the limit, as in `e2e.latency.p50 is slower but within ...`."""
    allowed = [check for check in _checks_of(outcomes) if check.is_worse_within_limit]
    names = list(dict.fromkeys(check.metric for check in allowed))
    verb = "is" if len(names) == 1 else "are"
    return f"{listed(names)} {verb} {_word_for(allowed)}, but within the limit" if names else ""


def _phrase(state: State, tolerated: str, number: int, *, worse: str, base: str) -> str:
    """Return a phrase about this number of tests' outcome, such as `is slower than the base d0e1f3e (accepted)`."""
    own_baseline = "its baseline" if number == 1 else "their baselines"
    phrase = state.phrase(number).format(worse=worse, base=base or own_baseline)
    return f"{phrase} ({tolerated})" if tolerated else phrase


def _worse(outcomes: Sequence[Outcome]) -> str:
    """Return `slower` if all regressions concern durations or rates, otherwise `worse`."""
    regressed = [check for check in _checks_of(outcomes) if check.outcome is Verdict.REGRESSED]
    return _word_for(regressed)


def _checks_of(outcomes: Sequence[Outcome]) -> list[Check]:
    return [check for each in outcomes if each.result is not None for check in each.result.checks]


def _word_for(checks: Sequence[Check]) -> str:
    words = {metric(each.metric).worse for each in checks}
    return "worse" if "worse" in words else "slower"


def _without_result(ending: Ending) -> Outcome:
    state = State.UNMEASURED if ending.fails else _OF_OUTCOME.get(ending.outcome, State.NOTHING)
    return Outcome(nodeid=ending.nodeid, state=state, fails=ending.fails, result=None, ending=ending)


def _with_result(result: Result, ending: Ending | None, *, strict: bool) -> Outcome:
    fails = result.verdict.fails and not result.accepted if ending is None else ending.fails
    is_tolerated = result.verdict.fails and not fails
    return Outcome(
        nodeid=result.nodeid,
        state=_state_of(result, ending, strict=strict),
        fails=fails,
        tolerated=remark_of(result, ending) or "" if is_tolerated else "",
        result=result,
        ending=ending,
    )


def _state_of(result: Result, ending: Ending | None, *, strict: bool) -> State:
    if failure_next_to(result, ending):
        return State.FAILED
    if strict and is_undecided(result):
        return State.UNDECIDED
    state = _OF_VERDICT[result.verdict]
    return State.STOPPED if state.is_good and ending is not None and ending.outcome == "not run" else state
