"""A generator that was too slow hides nothing that it cannot explain."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.metrics import QUANTILES
from pytest_kafkaperf.core.problems import Problem, ProblemKind
from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.ledger import LATE_NS
from pytest_kafkaperf.load.recorder import Histogram
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.runner.evidence import Judging
from pytest_kafkaperf.runner.perftest import read_perftest
from pytest_kafkaperf.runner.result import Trial
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.runner.rounds.validity import least_latencies
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.outcome import Judgement, Verdict
from pytest_kafkaperf.verdict.slower_machine import BaselineBrokers
from tests.support.problems import problem_told
from tests.support.results import NO_FAULTS

P99, RATE = "produce.latency.p99", "produce.throughput"
SLOW = problem_told(ProblemKind.GENERATOR_TOO_SLOW, "generator too slow: 115 of 1500 records were sent late")
ENDED = problem_told(ProblemKind.CLUSTER_ERROR, "broker 1 was ended by SIGKILL")
SPREAD = (0.98, 0.99, 1.0, 1.01, 1.02)
BASELINE = BaselineRounds(trials=(tuple({P99: 0.005 * one} for one in SPREAD),) * 5)


def recorded(values_ns: np.ndarray[Any, np.dtype[np.int64]]) -> Histogram:
    histogram = Histogram()
    histogram.record(values_ns)
    return histogram


@given(
    st.lists(st.integers(0, 2 * NS_PER_S), min_size=1, max_size=60),
    st.integers(0, 30),
    st.integers(0, 10 * NS_PER_S),
    st.integers(0, NS_PER_S),
    st.integers(0, NS_PER_S),
)
def test_no_lateness_explains_more_than_is_taken_off(
    true_ns: list[int], late: int, delay_ns: int, latest_ns: int, little_ns: int
) -> None:
    """Late records may seem to take any time, and all others as much more as the generator was held up."""
    times = np.array(true_ns, dtype=np.int64)
    seen = times + min(little_ns, max(latest_ns, LATE_NS))
    seen[:late] += delay_ns
    least = least_latencies("produce.latency", recorded(seen), late=min(late, times.size), latest_ns=latest_ns)
    for part, quantile in {**{name: one for name, one in QUANTILES.items() if name != "p99.99"}, "max": 1.0}.items():
        bound = least.get(f"produce.latency.{part}", 0.0)
        assert bound <= recorded(times).quantile_s(quantile) * 1.001


@pytest.mark.parametrize(("late", "latest_ns", "bound_s"), [(50, 0, 0), (30, 0, 4.95), (30, 6 * NS_PER_S, 2)])
def test_late_records_count_as_none_and_others_without_the_time_of_the_pause(
    late: int, latest_ns: int, bound_s: float
) -> None:
    """And with half of the rest."""
    seen = np.array([1_000_000] * 950 + [10 * NS_PER_S] * 50)
    least = least_latencies("produce.latency", recorded(seen), late=late, latest_ns=latest_ns)
    assert least["produce.latency.p99"] == pytest.approx(bound_s, rel=1e-3)


def test_of_a_load_that_is_slow_throughout_most_remains() -> None:
    """115 of 1500 records were sent up to 200 ms late, and all took 79 times as long as usual."""
    seen = recorded(np.full(1500, 1_580_000_000))
    least = least_latencies("e2e.latency", seen, late=115, latest_ns=200_000_000)
    assert {name: round(value, 2) for name, value in least.items()} == {
        f"e2e.latency.{part}": 0.69 for part in ("p50", "p90", "p95", "p99", "p99.9", "max")
    }


def trial(
    *problems: Problem, p99: float = 0.395, least: float | None = 0.147, other_side: bool = False, **metrics: float
) -> Trial:
    bounds: Mapping[str, float] = {} if least is None else {P99: least}
    rounds = tuple(
        Round(metrics={**NO_FAULTS, RATE: 100.0, P99: p99 * one, **metrics}, problems=problems, least=bounds)
        for one in SPREAD
    )
    side_by_side = tuple(Round(metrics={P99: 0.005 * one}) for one in SPREAD) if other_side else None
    return Trial(created="2026-01-01T00:00:00+00:00", rounds=rounds, other_side=side_by_side, problems=problems)


def judge_of(*thresholds: str, baseline: BaselineRounds = BASELINE, confirm: bool = True) -> Judging:
    options = {} if confirm else {"no-confirm": True}
    settings = read_settings(options, {}, invocation_folder=Path(), root=Path())
    marks = [pytest.mark.kafka_threshold(each).mark for each in thresholds]
    marks.append(pytest.mark.kafka_scenario(rate="100/s").mark)
    return Judging(read_perftest("a.py::test", marks, {}, settings, folder=Path()), baseline, settings)


def judged(*thresholds: str, of: Trial) -> Judgement:
    return judge_of(*thresholds).judge([of])


def test_an_excess_that_lateness_cannot_explain_is_violated_and_the_doubt_is_a_warning() -> None:
    """A service that takes 79 times as long must not pass for a busy machine."""
    judgement = judged(f"{P99} <= 25 ms", f"{RATE} >= 200 records/s", of=trial(SLOW))
    assert (judgement.verdict, judgement.problems, judgement.doubts) == (Verdict.VIOLATED, (), (SLOW,))
    assert judgement.warnings == ()  # they are about a machine that is slower for both sides
    sure, unsure = judgement.checks
    assert sure.outcome is Verdict.VIOLATED
    assert sure.observed == pytest.approx(0.395)
    assert sure.reason == (
        "median of 5 rounds, each 147 ms, excluding everything that the slow generator may explain (see the warnings)"
    )
    assert (unsure.outcome, unsure.reason) == (
        Verdict.INVALID,
        "the run cannot be trusted for this: see the warnings",
    )


@pytest.mark.parametrize(
    ("limit", "least"),
    [(f"{P99} <= 150 ms", 0.147), (f"{P99} <= 25 ms", 0.0), (f"{P99} <= 25 ms", None), (f"{RATE} >= 200/s", 0.147)],
)
def test_what_lateness_may_explain_stays_invalid(limit: str, least: float | None) -> None:
    """A busy machine is no statement about Kafka."""
    judgement = judged(limit, of=trial(SLOW, least=least))
    assert (judgement.verdict, judgement.problems, judgement.unsettled) == (Verdict.INVALID, (SLOW,), False)


def test_another_problem_is_no_lateness() -> None:
    """Of a cluster that is going down, the latencies say nothing; lost records are lost."""
    assert judged(f"{P99} <= 25 ms", of=trial(SLOW, ENDED)).verdict is Verdict.INVALID
    for problem in (SLOW, ENDED):
        judgement = judged(f"{P99} <= 1 s", of=trial(problem, lost=3.0))
        assert (judgement.verdict, judgement.doubts) == (Verdict.VIOLATED, (problem,))
        assert [check.metric for check in judgement.checks if check.outcome is Verdict.VIOLATED] == ["lost"]


def test_a_suspected_regression_by_far_more_than_lateness_explains_is_confirmed() -> None:
    """The first trial alone never fails a test against the baseline; undecided, it stays INVALID."""
    judge = judge_of(f"{P99} <= baseline + 20%")
    first = trial(SLOW)
    judgement = judge.judge([first])
    assert (judgement.verdict, judgement.problems, judgement.unsettled) == (Verdict.INVALID, (SLOW,), True)
    slow, usual = trial(p99=0.3), trial(p99=0.005)
    confirmed = judge.judge([first, slow, slow, slow])
    assert (confirmed.verdict, confirmed.problems) == (Verdict.REGRESSED, ())
    assert SLOW in confirmed.doubts
    cleared = judge.judge([first, usual, usual, usual])
    assert (cleared.verdict, cleared.unsettled) == (Verdict.INVALID, False)
    assert judge.judge([first, trial(SLOW), trial(SLOW), trial(SLOW)]).unsettled is False
    assert judge.judge_clear([first]).verdict is Verdict.INVALID  # there is no time for more


def test_without_confirmation_the_first_trial_decides() -> None:
    """By the lower bound alone."""
    judge = judge_of(f"{P99} <= baseline + 20%", confirm=False)
    assert judge.judge([trial(SLOW)]).verdict is Verdict.REGRESSED
    assert judge.judge([trial(SLOW, least=0.005)]).verdict is Verdict.INVALID


def test_a_suspected_regression_that_is_worse_side_by_side_regresses() -> None:
    """They run at the same time, so what makes the machine busy affects both."""
    judge = judge_of(f"{P99} <= baseline + 20%")
    judge.alone = None
    trials = [trial(SLOW), *(trial(p99=0.3, other_side=True) for _ in range(6))]
    assert judge.judge(trials, brokers=BaselineBrokers()).verdict is Verdict.REGRESSED
