"""Limits that the first trial does not meet are judged by fresh trials alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.scenarios.threshold import parse_threshold
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.judge import judge
from pytest_kafkaperf.verdict.outcome import Judgement, Verdict
from pytest_kafkaperf.verdict.regression import AgainstStored, FreshTrials
from pytest_kafkaperf.verdict.scale import Measured
from pytest_kafkaperf.verdict.side_by_side import SideBySideWithStored
from pytest_kafkaperf.verdict.slower_machine import BaselineBrokers
from tests.support.problems import problem_told

P99 = "produce.latency.p99"
TEN_MS = (0.0098, 0.0099, 0.010, 0.0101, 0.0102)

Trial = Sequence[Mapping[str, float]]


def trial(factor: float = 1.0, *, name: str = P99) -> Trial:
    return [{name: value * factor} for value in TEN_MS]


def baseline(*factors: float) -> BaselineRounds:
    """One trial a day."""
    days = tuple(f"2026-01-{day}" for day in range(10, 10 + len(factors)))
    return BaselineRounds(trials=tuple(tuple(trial(factor)) for factor in factors), days=days)


BASELINE = baseline(*[0.98, 1.0, 1 / 0.98] * 3)


def judged(*fresh: float, first: float = 1.3, limit: str = f"{P99} <= baseline + 10%") -> Judgement:
    return judge(
        [parse_threshold(limit)],
        [Measured(rounds=trial(factor)) for factor in (first, *fresh)],
        FreshTrials(first=AgainstStored(baseline=BASELINE, confirmation="fresh")),
    )


def test_what_is_within_the_tolerance_needs_no_further_trial() -> None:
    """Most tests, most of the time."""
    judgement = judged(first=1.05)
    assert (judgement.verdict, judgement.unsettled) == (Verdict.PASSED, False)


def test_a_suspected_regression_is_not_yet_a_regression() -> None:
    """It decides nothing until fresh trials have run."""
    judgement = judged()
    assert (judgement.verdict, judgement.unsettled) == (Verdict.INCONCLUSIVE, True)
    assert judgement.checks[0].reason == (
        "+30.0% against the baseline; the threshold is +10.0%; suspected regression, not yet confirmed by fresh trials"
    )


@pytest.mark.parametrize(
    ("fresh", "verdict", "unsettled"),
    [
        ((1.3,), Verdict.INCONCLUSIVE, True),
        ((1.0,), Verdict.INCONCLUSIVE, True),
        ((1.0, 1.02), Verdict.PASSED, False),
        ((1.3, 1.3), Verdict.INCONCLUSIVE, True),
        ((1.3, 1.0, 1.0), Verdict.PASSED, False),
        ((1.3, 1.0, 1.3), Verdict.REGRESSED, False),  # the median decides
        ((1.3, 1.09, 1.3), Verdict.REGRESSED, False),
        ((1.3, 1.3, 1.3), Verdict.REGRESSED, False),
        ((0.5, 0.5), Verdict.PASSED, False),
    ],
)
def test_fresh_trials_alone_decide(fresh: tuple[float, ...], verdict: Verdict, *, unsettled: bool) -> None:
    """Whatever the first trial was like."""
    judgement = judged(*fresh)
    assert (judgement.verdict, judgement.unsettled) == (verdict, unsettled)


def test_a_confirmed_regression_shows_each_trial() -> None:
    """The reader sees what it rests on, and by how much."""
    (check,) = judged(1.3, 1.25, 1.35).checks
    assert check.reason == (
        "confirmed by 3 fresh trials: +30.0%, +25.0%, +35.0%; the threshold is +10.0%; noise can explain up to "
        "+9.0% (baseline of 9 days)"
    )
    assert check.change == pytest.approx(0.3, abs=0.01)
    assert check.observed == pytest.approx(0.013, rel=0.02)


def test_a_suspected_regression_that_is_cleared_says_so() -> None:
    """Somebody has seen the reruns and wonders."""
    (check,) = judged(1.02, 0.99).checks
    assert check.reason == (
        "suspected regression, not confirmed by 2 fresh trials: +2.0%, -1.0%; the threshold is +10.0%"
    )


def test_an_absolute_part_that_holds_needs_no_confirmation() -> None:
    """`max(baseline + 10%, 15 ms)`: 13 ms is fine, whatever the baseline was."""
    limit = f"{P99} <= max(baseline + 10%, 15 ms)"
    judgement = judged(limit=limit)
    assert (judgement.verdict, judgement.unsettled) == (Verdict.PASSED, False)
    assert judged(1.6, 1.6, 1.6, first=1.6, limit=limit).verdict is Verdict.REGRESSED
    assert judged(1.3, 1.3, 1.3, first=1.6, limit=limit).verdict is Verdict.PASSED


def test_one_fresh_trial_does_not_clear_the_absolute_part_either() -> None:
    """What is settled stays so, whatever other limits of the test make run besides."""
    limit = f"{P99} <= max(baseline + 10%, 15 ms)"
    one = judged(1.49, first=1.6, limit=limit)
    assert (one.verdict, one.unsettled) == (Verdict.INCONCLUSIVE, True)
    assert judged(1.49, 1.6, 1.6, first=1.6, limit=limit).verdict is Verdict.REGRESSED
    cleared = judged(1.05, 1.05, first=1.6, limit=limit)
    assert (cleared.verdict, cleared.unsettled) == (Verdict.PASSED, False)
    assert [check.rerun for check in (*one.checks, *cleared.checks, *judged(first=1.0).checks)] == [True, True, False]


def test_what_fails_already_runs_no_fresh_trial() -> None:
    """It would change nothing, and take minutes."""
    judgement = judge(
        [parse_threshold(f"{P99} <= 12 ms"), parse_threshold(f"{P99} <= baseline + 10%")],
        [Measured(rounds=trial(1.3))],
        FreshTrials(first=AgainstStored(baseline=BASELINE, confirmation="fresh")),
    )
    assert (judgement.verdict, judgement.unsettled) == (Verdict.VIOLATED, False)


def test_a_shift_of_just_the_tolerance_is_within_it() -> None:
    """log() rounds, and a tie stays a tie in fresh trials as well."""
    limit = f"{P99} <= baseline + 10%"
    for value in (0.1, 0.3, 1.7):
        known = BaselineRounds(trials=(({P99: value},) * 5,))
        found = judge(
            [parse_threshold(limit)],
            [Measured(rounds=[{P99: value * factor}] * 5) for factor in (2, 1.1, 1.1)],
            FreshTrials(first=AgainstStored(baseline=known, confirmation="fresh")),
        )
        assert (found.verdict, found.unsettled) == (Verdict.PASSED, False), value


def test_a_fresh_trial_that_cannot_be_compared_makes_the_test_invalid() -> None:
    """The others must not be judged as if they were all; a suspected regression without confirmation has not passed."""
    judgement = judge(
        [parse_threshold(f"{P99} <= baseline + 10%")],
        [Measured(rounds=rounds) for rounds in (trial(1.3), trial(1.3), [{}], trial(1.3))],
        FreshTrials(first=AgainstStored(baseline=BASELINE, confirmation="fresh")),
    )
    assert (judgement.verdict, judgement.unsettled) == (Verdict.INVALID, False)
    assert [problem.kind for problem in judgement.problems] == [ProblemKind.VALUE_MISSING]
    assert judgement.checks[0].reason.startswith(f"{P99} is missing in round ")


@pytest.mark.parametrize(
    ("factors", "verdict", "unsettled"),
    [
        ((0.0,), Verdict.INCONCLUSIVE, True),  # a suspected regression as any other
        ((0.0, 1.0, 1.0), Verdict.PASSED, False),
        ((0.7, 0.0), Verdict.REGRESSED, False),
        ((0.7, 1.0, 1.0, 0.0), Verdict.REGRESSED, False),  # another threshold may go on
    ],
)
def test_a_fresh_trial_without_anything_confirms_a_suspected_regression(
    factors: tuple[float, ...], verdict: Verdict, *, unsettled: bool
) -> None:
    """A sink that writes nothing in one of three trials is broken, and no median hides that."""
    rows = "produce.throughput"
    known = BaselineRounds(trials=tuple(tuple(trial(factor, name=rows)) for factor in (0.99, 1.0, 1.01)))
    judgement = judge(
        [parse_threshold(f"{rows} >= baseline - 10%")],
        [Measured(rounds=trial(factor, name=rows)) for factor in factors],
        FreshTrials(first=AgainstStored(baseline=known, confirmation="fresh")),
    )
    assert (judgement.verdict, judgement.unsettled) == (verdict, unsettled)


def test_of_a_run_that_cannot_be_trusted_fresh_trials_are_not_judged() -> None:
    """What the first one gave is shown, and decides nothing either."""
    judgement = judge(
        [parse_threshold(f"{P99} <= baseline + 10%")],
        [Measured(rounds=trial(factor)) for factor in (1.3, 1.0, 1.0, 1.0)],
        FreshTrials(first=AgainstStored(baseline=BASELINE, confirmation="fresh")),
        problems=[problem_told(ProblemKind.CLUSTER_ERROR, "broker lost")],
    )
    assert (judgement.verdict, judgement.unsettled) == (Verdict.INVALID, False)
    assert [(check.outcome, check.rerun) for check in judgement.checks] == [(Verdict.INCONCLUSIVE, False)]


def test_what_days_explain_is_no_regression_and_says_both_numbers() -> None:
    """Fresh trials share today's noise, so all of them may be slow."""
    judgement = judge(
        [parse_threshold(f"{P99} <= baseline + 10%")],
        [Measured(rounds=trial(factor)) for factor in (1.3, 1.3, 1.25, 1.35)],
        FreshTrials(first=AgainstStored(baseline=baseline(0.85, 1 / 0.85, 1.0), confirmation="fresh")),
    )
    assert (judgement.verdict, judgement.unsettled) == (Verdict.INCONCLUSIVE, False)
    assert judgement.checks[0].reason == (
        "worse in 3 fresh trials: +30.0%, +25.0%, +35.0%; the threshold is +10.0%; noise can explain up to +54.0% "
        "(baseline of 3 days): compare side by side with --kafka-compare, or measure the baseline on more days "
        "with --kafka-update-baselines=add"
    )


def test_more_gated_limits_ask_for_more() -> None:
    """Each limit that could fail by chance makes a failure by chance likelier."""
    other = "e2e.latency.p99"

    def measured(factor: float) -> Measured:
        return Measured(rounds=[{P99: value * factor, other: value} for value in TEN_MS])

    known = BaselineRounds(
        trials=tuple(tuple(measured(factor).rounds) for factor in (0.85, 1 / 0.85, 1.0, 1.0)),
        days=("2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"),
    )
    most = []
    for gated in (1, 2):
        judgement = judge(
            [parse_threshold(f"{name} <= baseline + 10%") for name in (P99, other)[:gated]],
            [measured(factor) for factor in (1.3, 2.0, 2.0, 2.0)],
            FreshTrials(first=AgainstStored(baseline=known, confirmation="fresh")),
        )
        most.append(judgement.checks[0].reason.rpartition("up to ")[2])
    assert most == ["+42.8% (baseline of 4 days)", "+52.2% (baseline of 4 days)"]


def test_without_reruns_the_one_trial_decides() -> None:
    """`--kafka-no-confirm`."""
    judgement = judge(
        [parse_threshold(f"{P99} <= baseline + 10%")], [Measured(rounds=trial(1.3))], AgainstStored(baseline=BASELINE)
    )
    assert (judgement.verdict, judgement.unsettled) == (Verdict.REGRESSED, False)


def _of(**values: float) -> Measured:
    """Five rounds with these values; p99 is the latency, rate the throughput."""
    names = {"p99": P99, "rate": "produce.throughput"}
    return Measured(rounds=[{names.get(name, name): value for name, value in values.items()}] * 5)


RATES = BaselineRounds(trials=tuple(tuple(trial(factor, name="produce.throughput")) for factor in (0.99, 1.0, 1.01)))
SLOWER, EQUAL = 0.007, 0.010
"""A suspected regression, and what clears it."""


@pytest.mark.parametrize(
    ("limit", "fresh", "verdict"),
    [
        (f"{P99} <= 25 ms", [{"p99": 10.0}, {"p99": 10.0}], Verdict.VIOLATED),
        (f"{P99} <= 25 ms", [{"p99": 0.02}, {"p99": 0.02}], Verdict.PASSED),
        (f"{P99} <= 25 ms", [{"p99": 0.02}, {"p99": 0.03}], Verdict.PASSED),  # the median of all is 20 ms
        (f"{P99} <= 25 ms", [{}, {}], Verdict.INVALID),
        (
            "error_ratio <= 0.1%",
            [{"p99": 0.02, "error_ratio": 0.0}, {"p99": 0.02, "error_ratio": 1.0}],
            Verdict.VIOLATED,
        ),
        ("error_ratio <= 0.1%", [{"p99": 0.02, "error_ratio": 0.0}] * 2, Verdict.PASSED),
        ("error_ratio <= 0.1%", [{"p99": 0.02}, {"p99": 0.02, "error_ratio": 1.0}], Verdict.VIOLATED),
    ],
)
def test_fresh_trials_meet_the_absolute_thresholds_as_well(
    limit: str, fresh: Sequence[Mapping[str, float]], verdict: Verdict
) -> None:
    """They are as good as the first one, so a failure in them is one of the test."""
    first = _of(rate=SLOWER, p99=0.02, error_ratio=0.0)
    judgement = judge(
        [parse_threshold(limit), parse_threshold("produce.throughput >= baseline - 10%")],
        [first, *(_of(rate=EQUAL, **values) for values in fresh)],
        FreshTrials(first=AgainstStored(baseline=RATES, confirmation="fresh")),
    )
    assert (judgement.verdict, judgement.unsettled) == (verdict, False)


@pytest.mark.parametrize(
    ("limit", "verdict"),
    [(f"{P99} <= 25 ms", Verdict.PASSED), ("error_ratio <= 0.1%", Verdict.VIOLATED)],
)
def test_short_rounds_side_by_side_with_rebuilt_brokers_meet_no_latency_but_lose_nothing(
    limit: str, verdict: Verdict
) -> None:
    """Two clusters share the cores there, which costs time and no records."""
    other_side = _of(rate=EQUAL).rounds
    side_by_side = Measured(rounds=_of(rate=EQUAL, p99=0.05, error_ratio=0.01).rounds, other_side=other_side)
    judgement = judge(
        [parse_threshold(limit), parse_threshold("produce.throughput >= baseline - 10%")],
        [_of(rate=SLOWER, p99=0.02, error_ratio=0.0), *[side_by_side] * 4],
        SideBySideWithStored(first=AgainstStored(baseline=RATES, confirmation="fresh"), brokers=BaselineBrokers()),
    )
    assert judgement.verdict is verdict
