"""The time budget: what is left out, in which order, and that the sum fits."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.problems import Problem, ProblemKind
from pytest_kafkaperf.core.units import Count
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.runner.flow import refused_for_time
from pytest_kafkaperf.runner.perf_run import PerfRun
from pytest_kafkaperf.runner.perftest import PerfTest, read_perftest
from pytest_kafkaperf.runner.result import Trial
from pytest_kafkaperf.runner.rounds.capacity import LIKELY_STEPS
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.runner.time_budget import PerfTestBudget, RunBudget, as_run, estimate, estimated_s, left_s
from tests.support.problems import problem_told

BROKER_WARMUP_S = 7.0
SETUP_S = 1.0 + BROKER_WARMUP_S
"""With a warm-up that takes as long as it may."""
ROUND_SETUP_S = 0.3
TRIAL_SIDE_BY_SIDE_S = SETUP_S + BROKER_WARMUP_S + 4 * 2 * (ROUND_SETUP_S + 1.3)
"""A warm-up and four short rounds on each side."""
SIDE_BY_SIDE_S = 2 * TRIAL_SIDE_BY_SIDE_S + 3
"""Two trials and a restart."""


class Clock:
    """Time that passes only where a test lets it."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


LIMIT = "produce.throughput >= baseline - 10%"


def perftest_of(
    *limits: str, compare: str | None = None, options: dict[str, str] | None = None, **fields: Any
) -> PerfTest:
    marks = [pytest.mark.kafka_scenario(**{"duration": "5 s", "warmup": "2 s", **fields}).mark]
    if limits:
        marks.append(pytest.mark.kafka_threshold(*limits).mark)
    given = {"cluster": "local", "broker-warmup": f"{BROKER_WARMUP_S} s", **(options or {})}
    if compare is not None:
        given["compare"] = compare
    settings = read_settings(given, {}, invocation_folder=Path(), root=Path())
    return read_perftest("test_perf.py::test_it", marks, {}, settings, folder=Path())


def trial_of(rounds: int, *problems: Problem) -> Trial:
    return Trial(created="2026-01-01T00:00:00+00:00", rounds=(Round(metrics={}),) * rounds, problems=problems)


def budget_of(perftest: PerfTest, *later: PerfTest, left_s: float, clock: Clock | None = None) -> PerfTestBudget:
    """The time budget of the first of these tests."""
    return PerfTestBudget(RunBudget([perftest, *later], left_s=left_s, clock=clock or Clock()), perftest, later)


def run(
    perftests: Sequence[PerfTest], *, left_s: float, round_s: Sequence[float], setup_s: float = 0.0
) -> tuple[list[int], float]:
    """Rounds that each test runs whose rounds take so long, and the seconds that all of it takes."""
    clock = Clock()
    whole = RunBudget(perftests, left_s=left_s, clock=clock)
    ran = []
    for number, perftest in enumerate(perftests):
        budget = PerfTestBudget(whole, perftest, perftests[number + 1 :])
        if budget.obstacle is not None:
            ran.append(0)
            continue
        clock.now_s += setup_s
        ran.append(first_trial(budget, clock, perftest, round_s=round_s[number]))
    return ran, clock.now_s - 1000.0


def first_trial(budget: PerfTestBudget, clock: Clock, perftest: PerfTest, *, round_s: float) -> int:
    """Rounds of the first trial if each takes so long."""
    return rounds_in(budget, clock, perftest.scenario.rounds, round_s=round_s)


def rounds_in(budget: PerfTestBudget, clock: Clock, turns: int, *, round_s: float = 0.0) -> int:
    """Rounds that the budget allows in a trial with so many turns."""
    ran: list[int] = []
    for turn in budget.limited(range(turns), ran.__len__):
        clock.now_s += round_s
        ran.append(turn)
    return len(ran)


TESTS = st.lists(
    st.builds(perftest_of, rounds=st.integers(1, 9), duration=st.floats(0.5, 30).map("{} s".format)),
    min_size=1,
    max_size=5,
)


@given(perftests=TESTS, left_s=st.floats(0, 1000), slower=st.floats(0.2, 5))
def test_no_round_begins_that_would_end_too_late(perftests: list[PerfTest], left_s: float, slower: float) -> None:
    """A budget that is overrun is none: the job is killed, and nothing is reported."""
    taken = [slower * ((perftest.scenario.duration or 0) + 2 + ROUND_SETUP_S) for perftest in perftests]
    _, seconds = run(perftests, left_s=left_s, round_s=taken)
    # Only running the first round of a test shows that it is longer than declared.
    assert seconds <= left_s + max(taken) * (slower > 1)


@given(perftests=TESTS, left_s=st.floats(0, 1000))
def test_every_test_runs_its_first_rounds_if_there_is_time_for_those_of_all(
    perftests: list[PerfTest], left_s: float
) -> None:
    """With a deadline alone, the last tests of a run would never run."""
    taken = [(perftest.scenario.duration or 0) + 2 + ROUND_SETUP_S for perftest in perftests]
    fewest = [min(3, perftest.scenario.rounds) for perftest in perftests]
    needed_s = sum(SETUP_S + number * round_s for number, round_s in zip(fewest, taken, strict=True))
    ran, _ = run(perftests, left_s=needed_s + left_s + 0.001, round_s=taken, setup_s=SETUP_S)
    assert all(number >= least for number, least in zip(ran, fewest, strict=True))


@given(perftests=TESTS)
def test_where_everything_fits_nothing_is_left_out(perftests: list[PerfTest]) -> None:
    """A generous budget changes no value."""
    declared = [perftest.scenario.rounds for perftest in perftests]
    assert run(perftests, left_s=3600, round_s=[10] * 5, setup_s=10)[0] == declared
    assert run(perftests, left_s=float("inf"), round_s=[1000] * 5)[0] == declared


def test_each_of_equal_tests_gets_the_same_rounds() -> None:
    """Whoever comes first takes nothing from the others."""
    left_s = 3 * (SETUP_S + 5 * 7.3) + 0.001
    assert run([perftest_of(rounds=9)] * 3, left_s=left_s, round_s=[7.3] * 3, setup_s=SETUP_S)[0] == [5, 5, 5]


def test_rounds_after_the_first_three_are_cut_in_one_proportion() -> None:
    """However long they are: half of five, and half of nine."""
    short, long = perftest_of(rounds=8, duration="3 s", warmup=0), perftest_of(rounds=12, duration="20 s", warmup=0)
    least_s = 2 * SETUP_S + 3 * 3.3 + 3 * 20.3
    left_s = least_s + (5 * 3.3 + 9 * 20.3) / 2
    assert run([short, long], left_s=left_s, round_s=[3.3, 20.3], setup_s=SETUP_S)[0] == [5, 7]


def test_the_time_that_fast_tests_leave_gives_later_tests_no_more_rounds() -> None:
    """It is for suspected regressions, and equal tests have equal rounds."""
    perftest = perftest_of(rounds=9)
    left_s = 3 * (SETUP_S + 5 * 7.3) + 0.001
    assert run([perftest] * 3, left_s=left_s, round_s=[1.0] * 3)[0] == [5, 5, 5]


def test_a_test_after_slow_ones_plans_the_rounds_for_which_there_is_time() -> None:
    """Otherwise it would leave the last test less than three, which decide nothing."""
    perftest = perftest_of(rounds=9)
    left_s = 3 * (SETUP_S + 5 * 7.3)
    ran, _ = run([perftest] * 3, left_s=left_s, round_s=[11, 7.3, 7.3], setup_s=SETUP_S)
    assert ran == [5, 4, 3]


def test_planned_rounds_that_are_longer_than_declared_run_until_the_deadline() -> None:
    """A closed loop of so many records: only running it tells. There is no time for the next test, which says so."""
    perftest = perftest_of(rounds=8, records=1000, duration=None)
    assert run([perftest, perftest], left_s=146, round_s=[40, 40])[0] == [3, 0]


LEAST_S = SETUP_S + 3 * 7.3


@pytest.mark.parametrize(("left_s", "rounds"), [(math.inf, 12), (LEAST_S + 8 * 7.3 + 0.001, 8), (2 * LEAST_S, 3)])
def test_rounds_beyond_the_declared_ones_leave_later_tests_their_time(left_s: float, rounds: int) -> None:
    """A noisy side-by-side trial asks for them. If not even the declared ones fit, there are none."""
    clock = Clock()
    budget = budget_of(perftest_of(rounds=4), perftest_of(rounds=4), left_s=left_s, clock=clock)
    assert rounds_in(budget, clock, 12, round_s=7.3) == rounds


def test_a_repeated_round_is_not_a_further_one() -> None:
    """A busy moment would otherwise leave too few rounds for a verdict, although there is time."""
    clock, perftest = Clock(), perftest_of(rounds=30)
    budget = budget_of(perftest, left_s=100, clock=clock)
    ran: list[int] = []
    for turn in budget.limited(range(30), ran.__len__):
        clock.now_s += 1
        if turn != 1:  # the second turn repeats the first round
            ran.append(turn)
    assert ran == [0, *range(2, 13)]


def test_what_does_not_fit_says_what_it_takes_and_what_was_left() -> None:
    """A test that cannot be decided starts no cluster."""
    refused = budget_of(perftest_of(), left_s=20).obstacle
    assert refused is not None
    assert refused.remark is Remark.NOT_RUN
    assert {name: str(value) for name, value in refused.values.items()} == {
        "rounds": "3 rounds",
        "needed": "29.9 s",
        "left": "20 s",
    }
    assert budget_of(perftest_of(rounds=1), left_s=20).obstacle is None
    assert "only 0 s of the time budget" in str(budget_of(perftest_of(), left_s=-3).obstacle)


@pytest.mark.parametrize(
    ("fields", "round_s"),
    [
        ({}, 7.3),
        ({"duration": "10 s", "rate": 100}, 12.3),
        ({"records": 1000, "duration": None}, 7.3),
        ({"records": 1000, "rate": 500, "duration": None}, 4.3),
        ({"records": 3000, "rate": "100 records/s for 10 s, 1k records/s", "duration": None}, 14.3),
    ],
)
def test_a_round_takes_what_its_scenario_declares(fields: dict[str, Any], round_s: float) -> None:
    """Otherwise the last rounds of a run would end after its budget."""
    perftest = perftest_of(rounds=3, **fields)
    assert budget_of(perftest, left_s=SETUP_S + 3 * round_s + 0.001).obstacle is None
    assert budget_of(perftest, left_s=SETUP_S + 3 * round_s - 0.001).obstacle is not None


def test_with_a_live_baseline_every_round_and_the_warm_up_count_twice() -> None:
    """One for each side."""
    perftest, needed_s = perftest_of(rounds=3, compare="local:4.0.0"), SETUP_S + BROKER_WARMUP_S + 3 * 14.6
    assert budget_of(perftest, left_s=needed_s + 0.001).obstacle is None
    assert budget_of(perftest, left_s=needed_s - 0.001).obstacle is not None


def test_a_test_with_limits_alone_has_a_short_warm_up() -> None:
    """Cold brokers are only slower: a limit that they meet is met."""
    gated, limited = perftest_of(LIMIT), perftest_of("produce.throughput >= 10 records/s")
    assert estimated_s(gated) - estimated_s(limited) == pytest.approx(BROKER_WARMUP_S - 5)


def test_a_search_takes_its_steps() -> None:
    """Each of them is a round of its own."""
    perftest = perftest_of().with_search(["errors == 0"], low="1k records/s", high="2k records/s", hold="5 s")
    needed_s = SETUP_S + LIKELY_STEPS * (ROUND_SETUP_S + 5 + 2)
    assert budget_of(perftest, left_s=needed_s + 0.001).obstacle is None
    assert budget_of(perftest, left_s=needed_s - 0.001).obstacle is not None


def _refusal(budget: PerfTestBudget, rounds: int) -> tuple[str, str]:
    """Return the time that a refused trial needs, and the time that is left."""
    refused = budget.refuses_trial(rounds)
    assert refused is not None
    assert refused.remark is Remark.NO_TIME_FOR_TRIAL
    return str(refused.values["needed"]), str(refused.values["left"])


def test_fresh_trials_take_what_later_tests_do_not_need() -> None:
    """A suspected regression comes first: as long as each later test keeps the time of its first three rounds."""
    clock = Clock()
    perftest = perftest_of(rounds=3)
    budget = budget_of(perftest, perftest_of(rounds=9), left_s=100, clock=clock)
    assert first_trial(budget, clock, perftest, round_s=8) == 3
    assert budget.refuses_trial(3) is None
    clock.now_s += 30
    assert _refusal(budget, 3) == ("35 s", "16.1 s")
    assert rounds_in(budget, clock, 3) == 3
    clock.now_s += 40
    assert rounds_in(budget, clock, 3) == 0


def test_what_was_left_out_is_told() -> None:
    """Values of fewer rounds than declared make no baseline."""
    budget = budget_of(perftest_of(rounds=5), left_s=60)
    cut = Notice(Remark.ROUNDS_CUT, {"ran": 4, "rounds": Count(5, "round")})
    assert [budget.cut(trial_of(rounds)) for rounds in (5, 4)] == [None, cut]
    assert budget.cut(trial_of(2, problem_told(ProblemKind.WORKER_FAILED, "round 2: no connection"))) is None
    assert [budget.undecided(trial_of(rounds)) for rounds in (3, 1)] == [
        None,
        "the time budget allowed 1 round, but a decision needs 3; increase --kafka-time-budget",
    ]


# Side by side with a live baseline


def test_a_later_test_with_a_live_baseline_keeps_the_time_of_its_usual_trials() -> None:
    """Two, of four short rounds on each side, whatever the rounds are declared as: here half of the time for both."""
    perftest, side_by_side = perftest_of(rounds=9), perftest_of(compare="local:4.0.0")
    least_s = SETUP_S + 3 * 7.3 + SETUP_S + BROKER_WARMUP_S + 3 * 2 * (ROUND_SETUP_S + 1.3)
    usual_s = SETUP_S + 9 * 7.3 + SIDE_BY_SIDE_S
    clock = Clock()
    budget = budget_of(perftest, side_by_side, left_s=(least_s + usual_s) / 2 + 0.001, clock=clock)
    assert first_trial(budget, clock, perftest, round_s=7.3) == 6


def test_rounds_with_a_live_baseline_are_not_cut() -> None:
    """Fewer of them would only take more trials."""
    perftest = as_run(perftest_of(compare="local:4.0.0"))
    clock = Clock()
    assert first_trial(budget_of(perftest, perftest, left_s=100, clock=clock), clock, perftest, round_s=3.2) == 4


def test_a_further_trial_needs_at_least_as_long_as_the_one_before() -> None:
    """Restarts and warm-ups take more than the rounds do, and only the clock tells how much."""
    clock, perftest = Clock(), as_run(perftest_of(compare="local:4.0.0"))
    budget = budget_of(perftest, left_s=112, clock=clock)
    first_trial(budget, clock, perftest, round_s=3)
    assert budget.refuses_trial(4) is None  # 100 s are left for 31 s
    clock.now_s += 25
    assert budget.refuses_trial(4) is None
    clock.now_s += 40
    assert _refusal(budget, 4) == ("40 s", "35 s")


def test_rounds_with_a_live_baseline_are_those_that_run() -> None:
    """Long declared rounds would refuse a test, and leave out others, for which there is time."""
    perftest = perftest_of(compare="local:4.0.0", duration="60 s")
    assert budget_of(perftest, left_s=60).obstacle is not None
    assert budget_of(as_run(perftest), left_s=60).obstacle is None
    assert as_run(perftest_of(duration="60 s")).scenario.duration == 60


RETEST_S = 2 * (2 * SETUP_S + 4 * 2 * (ROUND_SETUP_S + 1.3) + 3)
RETEST = f"about {math.ceil(RETEST_S / 60)} min"


@pytest.mark.parametrize(
    ("perftests", "text"),
    [
        ([perftest_of(records=1000, duration=None, rounds=1)], "1 perf test, about 30 s"),
        ([perftest_of()], "1 perf test, about 50 s"),  # 5 s to start, 8 s of setup and five rounds of 7.3 s
        ([perftest_of(LIMIT)], f"1 perf test, about 50 s, and {RETEST} more for each suspected regression"),
        ([perftest_of(LIMIT, options={"no-confirm": "true"})], "1 perf test, about 50 s"),
        ([perftest_of()] * 5, "5 perf tests, about 4 min"),
        ([perftest_of(options={"cluster": "10.0.0.1:9092"})], "1 perf test, about 40 s"),
        ([perftest_of(options={"calibrate": "5"})], f"1 perf test, about {math.ceil((5 * 44.5 + 4 * 3 + 5) / 60)} min"),
        (
            [perftest_of(options={"calibrate": "5", "trial-gap": "2m"})],
            f"1 perf test, about {math.ceil((5 * 44.5 + 4 * (3 + 120) + 5) / 60)} min",
        ),
        ([perftest_of(compare="local:4.0.0")], f"1 perf test, about {math.ceil((SIDE_BY_SIDE_S + 5) / 60)} min"),
    ],
)
def test_the_estimate_of_a_run_says_how_many_tests_take_how_long(perftests: list[PerfTest], text: str) -> None:
    """Who starts a run knows whether to wait for it."""
    assert estimate(perftests) == text


@pytest.mark.parametrize(
    ("fields", "options", "warm_up_s"),
    [
        ({}, {}, 10),
        ({"rate": "1k records/s"}, {}, 18),
        ({"topic": "orders", "watch_group": "billing"}, {}, 18),
        ({"rate": "1k records/s"}, {"quick-compiler": "true"}, 5.4),
        ({"rate": "1k records/s"}, {"cluster": "10.0.0.1:9092"}, 0),
    ],
)
def test_the_estimate_knows_what_has_to_warm_up(
    fields: dict[str, Any], options: dict[str, str], warm_up_s: float
) -> None:
    """A paced test warms up twice: at full speed, and at its rate. The JVM's quick compiler alone is done sooner."""
    off, on = (perftest_of(LIMIT, options={**options, "broker-warmup": most}, **fields) for most in ("0 s", "60 s"))
    assert estimated_s(on) - estimated_s(off) == pytest.approx(warm_up_s)


def test_the_time_left_follows_the_trials_so_far() -> None:
    """Two trials are usual; a machine on which one takes twice as long takes as long for the others."""
    live = as_run(perftest_of(compare="local:4.0.0"))
    assert left_s(live, [40.0]) == pytest.approx(40)
    assert left_s(live, [40.0, 80.0]) == pytest.approx(40)
    assert left_s(live, [40.0 * trials for trials in range(1, 8)]) == pytest.approx(40)


def test_the_time_left_of_a_retest_follows_its_own_trials() -> None:
    """Only the first line has to guess their length: two sides, in short rounds."""
    stored, usual_s = perftest_of(LIMIT, rounds=5), SETUP_S + 5 * 7.3
    assert left_s(stored, [usual_s]) == pytest.approx(RETEST_S)
    assert left_s(stored, [2 * usual_s]) == pytest.approx(2 * RETEST_S)
    assert left_s(stored, [50.0, 100.0]) == pytest.approx(50)


def test_a_watched_group_needs_time_for_its_last_commit() -> None:
    """Half of Kafka's default interval in each of five rounds."""
    plain, watched = perftest_of(topic="orders"), perftest_of(topic="orders", watch_group="billing")
    assert estimated_s(watched) - estimated_s(plain) == pytest.approx(5 * 2.5)


def test_short_trials_next_to_other_brokers_are_not_refused_for_the_length_of_the_first_one() -> None:
    """They have four rounds of a second on each side, whatever the first trial's rounds were."""
    clock = Clock()
    perftest = perftest_of(rounds=5, duration="60 s")
    budget = budget_of(perftest, left_s=600, clock=clock)
    assert first_trial(budget, clock, perftest, round_s=62) == 5
    refused = budget.refuses_trial(4)
    assert refused is None  # 290 s are left, and 4 rounds of 62 s fit
    clock.now_s += 100
    assert budget.refuses_trial(4) is not None
    budget.confirm(side_by_side=True)
    assert budget.refuses_trial(4) is None
    budget.confirm(side_by_side=False)  # the other brokers failed, so long rounds follow again
    assert budget.refuses_trial(4) is not None


def test_a_further_trial_needs_time_for_the_planned_rounds_only() -> None:
    """Otherwise a cut test could never be measured again on warm brokers."""
    clock, perftest = Clock(), perftest_of(rounds=30)
    budget = budget_of(perftest, left_s=100, clock=clock)
    assert first_trial(budget, clock, perftest, round_s=1) == 12
    clock.now_s -= 12
    assert budget.refuses_trial(30) is None
    assert rounds_in(budget, clock, 30) == 12


def test_fresh_trials_have_rounds_as_long_as_those_of_the_first_one() -> None:
    """A closed loop of so many records takes longer than assumed, and a trial that is broken off is for nothing."""
    clock, perftest = Clock(), perftest_of(rounds=3, records=1000, duration=None)
    budget = budget_of(perftest, left_s=200, clock=clock)
    assert first_trial(budget, clock, perftest, round_s=40) == 3
    for side_by_side in (False, True, False):
        budget.confirm(side_by_side=side_by_side)
        assert (budget.refuses_trial(3) is None) == side_by_side


def test_a_test_without_time_measured_less_than_declared(tmp_path: Path) -> None:
    """Nothing at all is less: no baseline may come of it."""
    options = {"time-budget": "1s", "cluster": "local"}
    settings = read_settings(options, {}, invocation_folder=tmp_path, root=tmp_path)
    perftest = read_perftest("test_perf.py::test_it", [], {}, settings, folder=tmp_path)
    result = refused_for_time(perftest, PerfRun(settings, began_s=time.monotonic() - 100), [])
    assert result is not None
    assert (result.rounds, result.partial) == ((), True)
