"""What cold brokers mean for a verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from pytest_kafkaperf.clusters.monitoring.readings import ApplicationKey, Key
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.problems import Cause, ProblemKind
from pytest_kafkaperf.runner.cold_brokers import cold_judgement, cold_warnings, describe_warm_ups, warm_up_notes
from pytest_kafkaperf.runner.result import Trial
from pytest_kafkaperf.runner.result import judged as counting
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.runner.warmup import WarmUp, WarmUpEnd
from pytest_kafkaperf.verdict.outcome import Check, Judgement, Verdict
from pytest_kafkaperf.verdict.reasons import Reason

COLD: Mapping[Key, float | None] = {1: 0.8}
WARM: Mapping[Key, float | None] = {1: 0.03}
UNKNOWN: Mapping[Key, float | None] = {1: None}
SLA, GATE = "produce.latency.p99 <= 10 ms", "produce.throughput >= baseline - 10%"


def round_of(compiler: Mapping[Key, float | None], *, starts_program: bool = False) -> Round:
    return Round(metrics={}, compiler=compiler, starts_program=starts_program)


def trial_of(
    *own: Mapping[Key, float | None],
    other_side: list[Mapping[Key, float | None]] | None = None,
    end: WarmUpEnd = WarmUpEnd.IDLE,
    starts_program: bool = False,
) -> Trial:
    return Trial(
        created="",
        rounds=tuple(round_of(each, starts_program=starts_program) for each in own),
        other_side=None if other_side is None else tuple(map(round_of, other_side)),
        warm_ups=(WarmUp(end=end, took_s=2.1, shares=({1: 0.9}, {1: 0.4})),),
    )


def judgement_of(outcome: Verdict, expression: str = SLA, *, unsettled: bool = False) -> Judgement:
    metric = expression.split(maxsplit=1)[0]
    check = Check(
        expression=expression,
        metric=metric,
        observed=1.0,
        limit_value=2.0,
        outcome=outcome,
        reasons=(Reason("why"),),
        is_relative="baseline" in expression,
    )
    return Judgement(verdict=outcome, checks=(check,), problems=(), unsettled=unsettled)


def judged(trial: Trial, judgement: Judgement, *, kept: bool = False) -> Judgement:
    return cold_judgement(judgement, [trial], kept=kept)


LATE: Mapping[Key, float | None] = {1: 0.19}
"""A warm JVM that compiles a few methods again."""


@pytest.mark.parametrize(
    ("rounds", "end", "verdict"),
    [
        ([LATE, WARM, WARM, LATE, WARM], WarmUpEnd.IDLE, Verdict.PASSED),
        ([LATE, WARM, LATE, LATE, WARM], WarmUpEnd.IDLE, Verdict.INVALID),  # the median may be cold
        ([LATE, WARM, LATE, WARM], WarmUpEnd.IDLE, Verdict.INVALID),
        ([COLD, WARM, WARM, WARM, WARM], WarmUpEnd.IDLE, Verdict.INVALID),
        ([LATE, WARM, WARM, WARM, WARM], WarmUpEnd.SHORT, Verdict.INVALID),
    ],
)
def test_a_baseline_bears_a_few_methods_that_are_compiled_late(
    rounds: list[Mapping[Key, float | None]], end: WarmUpEnd, verdict: Verdict
) -> None:
    """Its values are medians of rounds, and a trial takes a minute."""
    trial = trial_of(*rounds, end=end)
    assert judged(trial, judgement_of(Verdict.PASSED), kept=True).verdict is verdict
    assert cold_warnings([trial]) or end is WarmUpEnd.SHORT


def test_a_limit_that_is_not_met_on_cold_brokers_is_invalid() -> None:
    """They are faster when warm."""
    found = judged(trial_of(WARM, COLD), judgement_of(Verdict.VIOLATED))
    assert found.verdict is Verdict.INVALID
    assert [problem.kind for problem in found.problems] == [ProblemKind.COLD_BROKER]
    assert [check.outcome for check in found.checks] == [Verdict.INVALID]


@pytest.mark.parametrize(
    ("trial", "judgement"),
    [
        (trial_of(COLD, COLD), judgement_of(Verdict.PASSED)),
        (trial_of(COLD), judgement_of(Verdict.VIOLATED, "lost == 0")),
        (trial_of(COLD), judgement_of(Verdict.PASSED, GATE)),  # the baseline was warm
        (trial_of(COLD), judgement_of(Verdict.INCONCLUSIVE, GATE, unsettled=True)),  # the re-test decides
        (trial_of(WARM, UNKNOWN, {}), judgement_of(Verdict.VIOLATED)),
        (trial_of(COLD, starts_program=True), judgement_of(Verdict.VIOLATED)),  # a failover test
        (trial_of(COLD, end=WarmUpEnd.OFF), judgement_of(Verdict.VIOLATED)),
        (trial_of(COLD, COLD, other_side=[COLD, {1: 0.7}]), judgement_of(Verdict.REGRESSED, GATE)),
    ],
)
def test_what_cold_brokers_cannot_have_caused_stays(trial: Trial, judgement: Judgement) -> None:
    """Cold is only slower, and the same on both sides is the same."""
    assert judged(trial, judgement) == judgement


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("end", [WarmUpEnd.SHORT, WarmUpEnd.LIMIT])
def test_faults_that_the_log_proves_take_precedence_over_cold_brokers(end: WarmUpEnd, *, kept: bool) -> None:
    """Another limit that is not met may be due to the cold brokers; the test fails without it."""
    slow, twice = judgement_of(Verdict.VIOLATED), judgement_of(Verdict.VIOLATED, "duplicated == 0")
    both = dataclasses.replace(slow, checks=(*slow.checks, *twice.checks))
    found = judged(trial_of(COLD, end=end), both, kept=kept)
    assert [check.outcome for check in found.checks] == [Verdict.INVALID, Verdict.VIOLATED]
    assert (found.verdict, found.problems) == (Verdict.VIOLATED, ())
    assert [problem.kind for problem in found.doubts] == [ProblemKind.COLD_BROKER]


@pytest.mark.parametrize(
    ("end", "verdict", "notes"),
    [
        (WarmUpEnd.SHORT, Verdict.PASSED, [Remark.SHORT_WARM_UP]),
        (WarmUpEnd.SHORT, Verdict.INVALID, []),
        (WarmUpEnd.SHORT, Verdict.VIOLATED, []),
        (WarmUpEnd.IDLE, Verdict.PASSED, []),
    ],
)
def test_only_a_test_that_does_not_fail_has_a_note_on_a_short_warm_up(
    end: WarmUpEnd, verdict: Verdict, notes: list[Remark]
) -> None:
    """The note claims that warm brokers would meet the limits as well."""
    assert warm_up_notes([trial_of(COLD, end=end)], verdict) == [Notice(each) for each in notes]


def test_a_regression_against_a_stored_baseline_is_inconclusive() -> None:
    """The baseline is of warm brokers."""
    found = judged(trial_of(COLD), judgement_of(Verdict.REGRESSED, GATE))
    assert (found.verdict, found.problems) == (Verdict.INCONCLUSIVE, ())


@pytest.mark.parametrize("outcome", [Verdict.PASSED, Verdict.IMPROVED, Verdict.REGRESSED])
@pytest.mark.parametrize("own", [WARM, COLD])
def test_sides_that_are_not_equally_warm_cannot_be_compared(own: Mapping[Key, float | None], outcome: Verdict) -> None:
    """A cold live baseline would let a slower version pass."""
    other = COLD if own is WARM else WARM
    found = judged(trial_of(WARM, own, other_side=[WARM, other]), judgement_of(outcome, GATE))
    assert found.verdict is Verdict.INVALID


def test_a_comparison_that_confirmed_a_regression_on_warm_brokers_counts() -> None:
    """The first trial only made it a suspected regression."""
    trials = [trial_of(COLD), trial_of(WARM, other_side=[WARM]), trial_of(WARM, other_side=[WARM])]
    judgement = judgement_of(Verdict.REGRESSED, GATE)
    assert cold_judgement(judgement, trials, kept=False) == judgement


def test_a_trial_with_one_cold_side_is_measured_again() -> None:
    """The next one may be even, and such trials are few."""
    uneven, even = trial_of(WARM, other_side=[COLD]), trial_of(COLD, other_side=[COLD])
    unwanted = trial_of(WARM, other_side=[COLD], end=WarmUpEnd.OFF)
    assert [one.is_invalidated for one in (uneven, even, unwanted)] == [True, False, False]


UNEVEN = trial_of(WARM, WARM, WARM, {1: 0.45}, other_side=[WARM] * 4)
"""Neither side is cold, but one has compiled more."""
EVEN = trial_of(WARM, other_side=[WARM])


@pytest.mark.parametrize(
    ("outcome", "expression", "found"),
    [
        (Verdict.PASSED, GATE, (Verdict.INCONCLUSIVE, True)),
        (Verdict.IMPROVED, GATE, (Verdict.INCONCLUSIVE, True)),
        (Verdict.INCONCLUSIVE, GATE, (Verdict.INCONCLUSIVE, False)),
        (Verdict.REGRESSED, GATE, (Verdict.REGRESSED, False)),  # a zero, which no compiler explains
        (Verdict.PASSED, SLA, (Verdict.PASSED, False)),
    ],
)
def test_one_trial_with_a_less_warm_side_clears_nothing(
    outcome: Verdict, expression: str, found: tuple[Verdict, bool]
) -> None:
    """There may be no time to repeat it, or it may be so twice."""
    assert UNEVEN.is_invalidated
    judgement = judged(UNEVEN, judgement_of(outcome, expression))
    assert (judgement.verdict, judgement.unsettled) == found
    assert cold_judgement(judgement, [UNEVEN, EVEN], kept=False) == judgement  # the second trial is even


def test_many_trials_with_a_less_warm_side_are_invalid() -> None:
    """A few are left out, and do not arrive here."""
    trials = [EVEN, UNEVEN, UNEVEN, UNEVEN]
    assert counting(trials) == trials
    found = cold_judgement(judgement_of(Verdict.PASSED, GATE), counting(trials), kept=False)
    assert (found.verdict, [problem.cause for problem in found.problems]) == (Verdict.INVALID, [Cause.UNEVEN_TRIALS])
    assert (
        cold_judgement(judgement_of(Verdict.PASSED, GATE), counting(trials[:-1]), kept=False).verdict is Verdict.PASSED
    )


def test_a_failure_after_a_short_warm_up_says_why_it_is_invalid() -> None:
    """A time budget may leave no time for the complete one."""
    trial = trial_of(COLD, end=WarmUpEnd.SHORT)
    found = judged(trial, judgement_of(Verdict.VIOLATED))
    assert (found.verdict, len(found.problems)) == (Verdict.INVALID, 1)
    assert cold_warnings([trial]) == []


@pytest.mark.parametrize("outcome", [Verdict.MEASURED, Verdict.PASSED])
def test_values_of_cold_brokers_are_not_kept(outcome: Verdict) -> None:
    """A half-warm baseline lets regressions pass for months."""
    assert judged(trial_of(COLD), judgement_of(outcome, GATE), kept=True).verdict is Verdict.INVALID
    assert judged(trial_of(WARM), judgement_of(outcome, GATE), kept=True).verdict is outcome


def test_warnings_name_what_was_cold_and_where_the_time_went() -> None:
    """An application is not a broker, and a limit of time can be raised."""
    trial = trial_of({1: 0.4, ApplicationKey("orders"): 0.9}, WARM, other_side=[COLD], end=WarmUpEnd.LIMIT)
    own, other = cold_warnings([trial])
    still = "broker 1, application orders still compiled code in 1 of 2 rounds, using up to 90% of a core"
    assert str(own).startswith(still)
    assert str(other).startswith("the baseline: broker 1 ")
    assert [notice.values["cause"] for notice in (own, other)] == [Cause.WARM_UP_TOO_SHORT] * 2
    assert cold_warnings([trial_of(WARM)]) == []


def test_the_warm_up_is_one_line() -> None:
    """It shows at a glance whether the rounds were warm."""
    (line,) = describe_warm_ups(trial_of(WARM, UNKNOWN))
    assert line == ("warm-up: idle, 2.1 s, cores used by the JVM's compiler: 2 slices from 0.90 to 0.40, rounds 0.03 -")


@pytest.mark.parametrize(("compiler", "found"), [(COLD, Verdict.INVALID), (WARM, Verdict.PASSED)])
def test_limits_that_cold_brokers_meet_more_easily_are_not_met_by_them(
    compiler: Mapping[Key, float | None], found: Verdict
) -> None:
    """A broker that warms up during the window hides a decline."""
    steady = "produce.throughput.steadiness >= 90%"
    trials = [trial_of(compiler, compiler)]
    assert cold_judgement(judgement_of(Verdict.PASSED, steady), trials, kept=False, unsafe={steady}).verdict is found
    assert cold_judgement(judgement_of(Verdict.PASSED), trials, kept=False, unsafe={steady}).verdict is Verdict.PASSED
