"""What a test does while load runs."""

from __future__ import annotations

import functools
import threading
import time
from datetime import timedelta

import pytest

from pytest_kafkaperf.core.errors import ApplicationError, ScenarioError, UsageError
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.load.controller import Progress
from pytest_kafkaperf.load.messages import LoadReport
from pytest_kafkaperf.runner.rounds.actions import Action, ActionTimer, moved, planned
from tests.support.orphans import becomes
from tests.support.patience import PATIENCE_S
from tests.support.problems import problem_told


def progress(phase: str, elapsed_s: float) -> Progress:
    return Progress(phase=phase, elapsed_s=elapsed_s, acknowledged=0)


def test_an_action_is_done_at_its_time_after_the_window_opened() -> None:
    """Not when the workers began to connect, and not at the next look of the controller."""
    done = threading.Event()
    with ActionTimer([Action(0.2, done.set)]) as acting:
        acting.follow(progress("connecting", 0.0))
        begin_s = time.monotonic()
        acting.follow(progress("warm-up", -0.1))
        assert done.wait(PATIENCE_S)
        assert time.monotonic() - begin_s >= 0.3
    assert acting.problems == []


def test_the_first_action_of_the_test_is_on_record() -> None:
    """What happens to brokers after it may be its effect; what the plugin does by itself excuses nothing."""
    done = threading.Event()
    before_ns = time.monotonic_ns()
    with ActionTimer([Action(0.0, done.set)]) as acting:
        acting.follow(progress("measuring", 0.1))
        assert done.wait(PATIENCE_S)
    acted_ns = acting.acted_ns
    assert acted_ns is not None
    assert acted_ns >= before_ns

    done.clear()
    own = Action(0.0, done.set, text="the start of orders")
    with ActionTimer([own, Action(0.0, float, metric="app.rows")]) as other:
        other.follow(progress("measuring", 0.1))
        assert done.wait(PATIENCE_S)
        other.settle(LoadReport(workers=(), start_ns=1))
    assert (other.recorded, other.acted_ns, other.problems) == ({"app.rows": 0.0}, None, [])


def test_what_an_action_raises_is_a_problem_of_the_round() -> None:
    """A failover that did not happen is no failover that went well."""

    def fail() -> None:
        raise RuntimeError("no such broker")

    with ActionTimer([Action(0.0, fail)]) as acting:
        acting.follow(progress("measuring", 0.1))
        assert becomes(lambda: acting.problems != [])
    assert acting.problems == [
        problem_told(ProblemKind.ACTION_FAILED, "kafka_perf.at('0 s'): RuntimeError: no such broker")
    ]


def test_the_log_of_an_application_that_an_action_could_not_start_is_apart_from_the_reason() -> None:
    """A summary in one line must not end with the introduction of the log."""

    def fail() -> None:
        raise ApplicationError("it exited with status 1", log="Traceback", program="application shop")

    with ActionTimer([Action(0.0, fail)]) as acting:
        acting.follow(progress("measuring", 0.1))
        assert becomes(lambda: acting.problems != [])
    (problem,) = acting.problems
    assert problem.sentence == "kafka_perf.at('0 s'): ApplicationError: it exited with status 1"
    assert problem.details == ("the end of its log:", "Traceback")


def test_an_action_that_returns_a_coroutine_is_a_problem_of_the_round() -> None:
    """Nothing would run it."""

    async def restart() -> None:
        raise AssertionError

    with ActionTimer([Action(0.0, restart)]) as acting:
        acting.follow(progress("measuring", 0.1))
    assert [one.text for one in acting.problems] == [
        "kafka_perf.at('0 s'): TypeError: the function is async, so it would not run; pass a function that is not async"
    ]


def test_an_action_that_was_not_done_is_a_problem_of_the_round() -> None:
    """The round ended early."""
    with ActionTimer([Action(60.0, print)]) as acting:
        acting.follow(progress("measuring", 0.0))
    assert acting.problems == [
        problem_told(ProblemKind.ACTION_FAILED, "kafka_perf.at('60 s'): it did not finish before the end of the round")
    ]


def test_an_action_after_the_end_is_refused_before_the_load() -> None:
    """It would never be done."""
    with pytest.raises(ScenarioError) as caught:
        planned("10 s", print, duration_s=5.0)
    assert (
        str(caught.value) == "kafka_perf.at('10 s'): must be within the round's window, less than its duration of 5 s"
    )


def test_the_time_of_an_action_has_a_unit() -> None:
    """A broker that stops after 3 ms instead of 3 s stops in another phase of the load."""
    assert planned(timedelta(seconds=3), print, duration_s=5.0).at_s == 3.0
    assert planned(0, print, duration_s=5.0).at_s == 0.0
    with pytest.raises(ScenarioError) as caught:
        planned(3, print, duration_s=5.0)
    assert str(caught.value) == "kafka_perf.at(3): a time needs a unit: '3 ms' or '3 s'"


class Thing:
    def stop(self, broker: int, *, kill: bool) -> tuple[Thing, int, bool]:
        return self, broker, kill


def test_what_is_done_to_one_cluster_can_be_done_to_another() -> None:
    """A live baseline goes through the same as the test's own."""
    one, other = Thing(), Thing()
    (action,) = moved([Action(1.0, functools.partial(one.stop, 2, kill=True))], [(one, other)])
    assert (action.at_s, action.do()) == (1.0, (other, 2, True))


def test_what_takes_one_application_can_take_another() -> None:
    """A function of the test's, for example one that reads a counter of the application."""
    one, other = Thing(), Thing()
    action = Action(1.0, functools.partial(lambda *given: given, "rows", one), metric="app.rows")
    (moved_action,) = moved([action], [(one, other)])
    assert (moved_action.metric, moved_action.do()) == ("app.rows", ("rows", other))


def test_a_recorded_number_is_of_one_side() -> None:
    """As a value of both, it would show no change, whatever changed."""
    assert moved([Action(1.0, lambda: 3.5, metric="app.size")], [(Thing(), Thing())]) == []


def test_an_action_on_anything_else_is_not_moved() -> None:
    """Nobody knows what it would be for another cluster."""
    one, other = Thing(), Thing()
    for do in (functools.partial(print, "now"), lambda: one.stop(2, kill=True)):
        with pytest.raises(UsageError) as caught:
            moved([Action(1.0, do)], [(one, other)])
        assert str(caught.value) == (
            "kafka_perf.at('1 s') with --kafka-compare: the function is not a method of the test's cluster or "
            "application and takes neither as an argument, so it cannot be called on the live baseline as well; use "
            "a method such as kafka_cluster.stop_broker, or pass the cluster or the application as an argument"
        )
    assert moved([], [(one, other)]) == []


def test_what_the_plugin_does_by_itself_has_a_name() -> None:
    """An error would name a call that the test never made."""
    assert str(Action(0.0, print, text="the start of orders")) == "the start of orders"
    assert str(Action(0.5, print)) == "kafka_perf.at('500 ms')"
