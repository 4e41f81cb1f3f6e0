"""The search for the capacity, against clusters of which the capacity is known."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.core.units import Quantity, Unit
from pytest_kafkaperf.runner.result import Trial, at_least
from pytest_kafkaperf.runner.rounds.capacity import (
    MOST_STEPS,
    RESOLUTION,
    SETTLED_S,
    Found,
    Missed,
    Search,
    SearchPlan,
    Try,
    find_capacity,
)
from pytest_kafkaperf.runner.rounds.round import Round, StepOutcome
from pytest_kafkaperf.scenarios.rate import peak_rate
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.scenarios.threshold import parse_threshold
from tests.support.problems import BUSY, problem_told

LOW, HIGH = 1_000.0, 2_000_000.0
PLAN = SearchPlan(
    limits=(parse_threshold("produce.latency.p99 <= 20 ms"), parse_threshold("errors == 0")), low=LOW, high=HIGH
)
HOLD_S = 10.0


def given_round(rate: float, p99_s: float = 0.005, **more: float) -> Round:
    """A round at a rate that was taken."""
    named = {name.replace("__", "."): value for name, value in more.items()}
    return Round(metrics={"produce.throughput": rate, "produce.latency.p99": p99_s, "errors": 0.0, **named})


class Queue:
    """A cluster that takes so many records a second, and lets what is beyond wait.

    With a window it takes as many of that time at once, as a client quota does after a pause.
    """

    def __init__(self, capacity: float, *, window_s: float = 0.0) -> None:
        self.capacity = capacity
        self.asked: list[Scenario] = []
        self._window_s = window_s

    def __call__(self, scenario: Scenario, step: str) -> Round:
        """Hold a rate."""
        assert isinstance(scenario.rate, float)
        assert step.startswith(f"step {len(self.asked) + 1}, ")
        self.asked.append(scenario)
        factor = scenario.rate / self.capacity
        limited_s = max(0.0, scenario.warmup + HOLD_S - self._window_s / factor)
        backlog_s = max(0.0, (factor - 1) * limited_s)
        if backlog_s == 0:
            return given_round(scenario.rate)
        return given_round(scenario.rate * HOLD_S / (HOLD_S + backlog_s), 0.005 + backlog_s)


def searched(measure: Callable[[Scenario, str], Round], earlier: Sequence[Round] = (), **fields: Any) -> Round:
    """What a search gives."""
    return find_capacity(PLAN, Scenario(duration=f"{HOLD_S} s", warmup="2 s", **fields), measure, earlier)


@given(st.floats(LOW, HIGH / RESOLUTION))
def test_the_capacity_is_within_the_resolution_of_what_a_cluster_takes(capacity: float) -> None:
    found = searched(Queue(capacity)).metrics["capacity"]
    # A queue that is 20 ms too long is no sooner seen than that: 0.2% of a window of 10 s.
    assert capacity / RESOLUTION * 0.999 <= found <= capacity * 1.002


@given(st.floats(LOW, HIGH / RESOLUTION), st.floats(0.5, 2))
def test_the_next_search_begins_near_the_last_one_and_follows_a_capacity_that_has_moved(
    capacity: float, moved: float
) -> None:
    first, then = searched(Queue(capacity)), Queue(min(HIGH / RESOLUTION, max(LOW, capacity * moved)))
    second = searched(then, [first])
    assert then.capacity / RESOLUTION * 0.999 <= second.metrics["capacity"] <= then.capacity * 1.002
    if moved == 1:
        assert len(second.steps) <= 10


@given(st.integers(), st.floats(0, 0.5))
def test_a_search_ends_whatever_the_rates_do(seed: int, wrong_ratio: float) -> None:
    draw = random.Random(seed)
    search = Search(LOW, HIGH)
    for _ in range(MOST_STEPS):
        asked = search.next()
        if not isinstance(asked, Try):
            break
        assert LOW <= asked.rate <= HIGH
        right = StepOutcome.HELD if asked.rate <= 100_000 else StepOutcome.BROKEN
        search.tell(draw.choice(list(StepOutcome)) if draw.random() < wrong_ratio else right)
    assert isinstance(search.next(), Found | Missed)


@pytest.mark.parametrize("output_topic", [None, "out"])
def test_a_loss_of_acknowledged_records_ends_a_search(output_topic: str | None) -> None:
    """A cluster that loses records has no capacity. What an application drops is not in its output topic."""
    queue = Queue(100_000)

    def measure(scenario: Scenario, step: str) -> Round:
        one = queue(scenario, step)
        return dataclasses.replace(one, metrics={**one.metrics, "lost": 3.0 if len(queue.asked) == 2 else 0.0})

    fields: dict[str, Any] = {} if output_topic is None else {"topic": "in", "output_topic": output_topic}
    found = searched(measure, consumers=1, **fields)
    if output_topic is None:
        assert (len(queue.asked), "capacity" in found.metrics) == (2, False)
        assert [problem.kind for problem in found.problems] == [ProblemKind.CAPACITY_NOT_FOUND]
    else:
        assert len(queue.asked) > 2


def test_a_generator_that_is_too_slow_does_not_hide_a_loss() -> None:
    """Most searches end with rates that the generator cannot reach, so that both often meet."""
    queue = Queue(100_000)

    def measure(scenario: Scenario, step: str) -> Round:
        one = queue(scenario, step)
        if len(queue.asked) != 2:
            return one
        late = problem_told(ProblemKind.GENERATOR_TOO_SLOW, "too slow")
        return dataclasses.replace(one, metrics={**one.metrics, "lost": 3.0}, problems=(late,))

    found = searched(measure)
    assert (len(queue.asked), found.metrics["lost"], "capacity" in found.metrics) == (2, 3.0, False)


@pytest.mark.parametrize("limit", ["lost <= 5", "lost < 3"])
def test_a_search_may_allow_losses(limit: str) -> None:
    """Then each rate has to hold that limit, like any other."""
    queue = Queue(100_000)

    def measure(scenario: Scenario, step: str) -> Round:
        one = queue(scenario, step)
        lost = 3.0 if peak_rate(scenario.rate or 0.0) > 20_000 else 0.0
        return dataclasses.replace(one, metrics={**one.metrics, "lost": lost})

    plan = dataclasses.replace(PLAN, limits=(*PLAN.limits, parse_threshold(limit)))
    found = find_capacity(plan, Scenario(duration=f"{HOLD_S} s", warmup="2 s"), measure, [])
    assert found.problems == ()
    assert found.metrics["capacity"] == pytest.approx(100_000 if limit == "lost <= 5" else 20_000, rel=0.05)


@pytest.mark.parametrize(("implied", "capacity"), [((), 100_000), (("unsent == 0",), 50_000)])
def test_the_capacity_is_no_rate_at_which_an_implied_threshold_is_not_met(
    implied: tuple[str, ...], capacity: float
) -> None:
    """From 50k/s on the cluster leaves some records, and the search would end at a rate that fails the test."""
    queue = Queue(100_000)

    def measure(scenario: Scenario, step: str) -> Round:
        one = queue(scenario, step)
        unsent = 1.0 if peak_rate(scenario.rate or 0.0) > 50_000 else 0.0
        return dataclasses.replace(one, metrics={**one.metrics, "unsent": unsent})

    plan = dataclasses.replace(PLAN, implied=tuple(map(parse_threshold, implied)))
    found = find_capacity(plan, Scenario(duration=f"{HOLD_S} s", warmup="2 s"), measure, [])
    assert found.metrics["capacity"] == pytest.approx(capacity, rel=0.05)


def test_steps_that_fail_by_chance_do_not_end_a_search_too_low() -> None:
    """OpenMessaging Benchmark's search takes every step for true."""
    off = []
    for seed in range(300):
        draw, queue = random.Random(seed), Queue(100_000)

        def measure(scenario: Scenario, step: str, draw: random.Random = draw, queue: Queue = queue) -> Round:
            one = queue(scenario, step)
            return given_round(one.metrics["produce.throughput"], 0.5) if draw.random() < 0.05 else one

        off.append(searched(measure).metrics.get("capacity", 0.0) / queue.capacity)
    assert sum(one < 1 / 1.05 for one in off) <= 3, sorted(off)[:9]
    assert max(off) <= 1.002


def test_it_is_not_stuck_at_the_minimum_after_a_bad_start() -> None:
    """OpenMessaging Benchmark: a first second on a cold broker, and the rate never rises."""
    queue = Queue(80_000)

    def measure(scenario: Scenario, step: str) -> Round:
        one = queue(scenario, step)
        return given_round(scenario.rate or 0, 0.3) if len(queue.asked) == 1 else one  # type: ignore[arg-type]

    assert searched(measure).metrics["capacity"] == pytest.approx(80_000, rel=0.03)


def test_it_does_not_settle_above_what_can_be_had_for_long() -> None:
    """OpenMessaging Benchmark: what a buffer or a quota lets through for some seconds is taken for capacity."""
    queue = Queue(50_000, window_s=11.0)
    found = searched(queue)
    assert found.metrics["capacity"] == pytest.approx(50_000, rel=0.05)
    assert found.steps[-1].settled
    assert queue.asked[-1].warmup == SETTLED_S


def test_after_a_search_that_short_warm_ups_misled_the_next_one_takes_long_ones() -> None:
    first = searched(Queue(50_000, window_s=11.0))
    second = searched(Queue(50_000, window_s=11.0), [first])
    assert all(step.settled for step in second.steps)
    assert len(second.steps) <= 10
    assert second.metrics["capacity"] == pytest.approx(50_000, rel=0.05)


def test_no_rate_changes_while_it_is_measured_and_the_capacity_is_the_last_value_alone() -> None:
    """OpenMessaging Benchmark: the rate moves within the interval whose values decide."""
    queue = Queue(70_000)
    found = searched(queue)
    assert len(queue.asked) == len(found.steps)
    assert [step.rate for step in found.steps] == [scenario.rate for scenario in queue.asked]
    *others, last = found.steps
    assert found.metrics == {**last.metrics, "capacity": last.metrics["produce.throughput"]}
    assert last.rate in {step.rate for step in others}


@pytest.mark.parametrize(
    "stalled",
    [
        pytest.param({}, id="nothing received"),
        pytest.param({"consume__throughput": 40_000.0}, id="fewer than were sent"),
    ],
)
def test_consumers_that_stand_still_are_no_capacity(stalled: Mapping[str, float]) -> None:
    """OpenMessaging Benchmark: producers alone decide where no latency comes in from consumers."""

    def measure(scenario: Scenario, _: str) -> Round:
        assert isinstance(scenario.rate, float)
        kept_up = scenario.rate <= 40_000
        return given_round(scenario.rate, **({"consume__throughput": scenario.rate} if kept_up else stalled))

    assert searched(measure, consumers=1).metrics["capacity"] == pytest.approx(40_000, rel=0.065)


def test_each_group_has_to_receive_the_rate() -> None:
    """The throughput of consumers is the sum over groups."""

    def measure(scenario: Scenario, _: str) -> Round:
        assert isinstance(scenario.rate, float)
        return given_round(scenario.rate, consume__throughput=2 * min(scenario.rate, 40_000))

    found = searched(measure, consumers=1, consumer_groups=2)
    assert found.metrics["capacity"] == pytest.approx(40_000, rel=0.065)


def test_records_that_nobody_read_in_time_break_a_rate_and_not_the_search() -> None:
    unread = problem_told(ProblemKind.RECORDS_UNREAD, "17 records")

    def measure(scenario: Scenario, _: str) -> Round:
        assert isinstance(scenario.rate, float)
        one = given_round(scenario.rate, consume__throughput=scenario.rate)
        return one if scenario.rate <= 40_000 else Round(metrics=one.metrics, problems=(unread,))

    found = searched(measure, consumers=1)
    assert found.metrics["capacity"] == pytest.approx(40_000, rel=0.025)
    assert found.problems == ()
    assert {step.reason for step in found.steps if step.rate > 41_000} == {"17 records"}


SLOW = problem_told(ProblemKind.GENERATOR_TOO_SLOW, "5 of 9 records were sent late")


def test_what_the_generator_cannot_make_is_a_lower_bound() -> None:
    def measure(scenario: Scenario, _: str) -> Round:
        assert isinstance(scenario.rate, float)
        one = given_round(scenario.rate)
        return one if scenario.rate <= 300_000 else Round(metrics=one.metrics, problems=(SLOW,))

    found = searched(measure)
    assert found.at_least
    assert found.metrics["capacity"] == pytest.approx(300_000, rel=0.025)
    assert [notice.remark for notice in found.warnings] == [Remark.GENERATOR_ENDED_SEARCH]


def test_where_the_highest_rate_holds_the_capacity_is_at_least_that() -> None:
    found = searched(Queue(1e9))
    assert found.at_least
    assert found.metrics["capacity"] == HIGH
    assert found.warnings == (Notice(Remark.HIGHEST_RATE_HELD, {"capacity": Quantity(HIGH, Unit.RECORD_RATE)}),)


def test_where_the_lowest_rate_does_not_hold_the_round_says_why() -> None:
    found = searched(Queue(500))
    assert "capacity" not in found.metrics
    assert found.problems == (
        problem_told(
            ProblemKind.CAPACITY_NOT_FOUND,
            "no rate met the thresholds: at the lowest rate, 1k records/s, only 455 records/s of 1k records/s were "
            "acknowledged in time; pass a lower low= to kafka_perf.capacity(), or loosen the thresholds",
        ),
    )
    assert [step.rate for step in found.steps] == [LOW, LOW, LOW]


def test_where_the_generator_cannot_make_the_lowest_rate_it_says_so() -> None:
    found = searched(lambda *_: Round(metrics={}, problems=(SLOW,)))
    assert found.problems == (
        problem_told(SLOW.kind, f"{SLOW} (at the lowest rate, 1k records/s, so the capacity is unknown)"),
    )


def test_a_round_that_says_nothing_ends_the_search_with_its_problem() -> None:
    queue = Queue(70_000)
    gone = problem_told(ProblemKind.CLUSTER_ERROR, "broker 1 is gone")

    def measure(scenario: Scenario, step: str) -> Round:
        one = queue(scenario, step)
        return Round(metrics={}, problems=(gone,)) if len(queue.asked) == 3 else one

    found = searched(measure)
    assert found.problems == (gone,)
    assert len(found.steps) == 2
    assert len(queue.asked) == 3


def test_a_limit_whose_metric_is_missing_does_not_hold() -> None:
    found = searched(lambda scenario, _: Round(metrics={"produce.throughput": float(scenario.rate), "errors": 0.0}))  # type: ignore[arg-type]
    (problem,) = found.problems
    assert "produce.latency.p99 was not measured" in problem.text


@pytest.mark.parametrize(("growing", "holds"), [(False, True), (True, False)])
def test_a_delay_that_is_the_same_for_all_records_is_no_backlog(*, growing: bool, holds: bool) -> None:
    """A service that works in steps of two seconds keeps up; one that falls behind by two seconds does not."""

    def measure(scenario: Scenario, _: str) -> Round:
        assert isinstance(scenario.rate, float)
        seen = scenario.rate * HOLD_S / (HOLD_S + 2)
        p50_s = 1.0 if growing else 1.99
        return given_round(
            scenario.rate, consume__throughput=seen, e2e__latency__p50=p50_s, e2e__latency__p99=2.0, lost=0.0
        )

    found = searched(measure, consumers=1)
    assert ("capacity" in found.metrics) is holds


def test_aborted_transactions_are_no_backlog() -> None:
    def measure(scenario: Scenario, _: str) -> Round:
        assert isinstance(scenario.rate, float)
        return given_round(min(scenario.rate, 90_000) / 2)

    found = searched(measure, transaction_size=100, abort_ratio=0.5)
    assert found.metrics["capacity"] == pytest.approx(45_000, rel=0.06)


@pytest.mark.parametrize(("busy", "expected"), [(range(6, 14), 80_000), (range(100), 8_000)])
def test_a_step_that_other_programs_have_disturbed_counts_for_nothing_unless_it_is_always_so(
    busy: range, expected: float
) -> None:
    """A minute of other work is no property of the cluster."""
    queue = Queue(80_000)

    def measure(scenario: Scenario, step: str) -> Round:
        one = queue(scenario, step)
        if len(queue.asked) not in busy or one.metrics["produce.throughput"] < 8_100:
            return one
        return Round(metrics={**one.metrics, "produce.latency.p99": 0.4}, warnings=(BUSY,))

    found = searched(measure)
    assert found.metrics["capacity"] == pytest.approx(expected, rel=0.03)
    assert sum(step.outcome is StepOutcome.DISTURBED for step in found.steps) == 8


def test_a_lower_bound_of_the_live_baseline_is_none_of_the_test() -> None:
    """The live baseline held the highest rate, and the test did not: its own capacity is known."""
    bound = Round(metrics={"capacity": 2000.0}, at_least=("capacity",))
    exact = Round(metrics={"capacity": 1000.0})
    assert at_least([Trial(created="", rounds=(exact,), other_side=(bound,))]) == ()
    assert at_least([Trial(created="", rounds=(bound,), other_side=(exact,))]) == ("capacity",)
