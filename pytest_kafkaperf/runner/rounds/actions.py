"""A test's actions in every round, either at a given time after the window opens or at the end to measure a metric."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Self

from pytest_kafkaperf.core.errors import KafkaPerfError, ScenarioError, UnitError, UsageError
from pytest_kafkaperf.core.problems import Cause, Problem
from pytest_kafkaperf.core.text import repr_of
from pytest_kafkaperf.core.units import Unit, format_quantity, parse_time
from pytest_kafkaperf.load.messages import LoadReport

if TYPE_CHECKING:
    from pytest_kafkaperf.load.controller import Progress


_JOIN_TIMEOUT_S = 120
"""Maximum wait for an action, such as a broker start, that is still running at the end of a round."""


@dataclass(frozen=True, slots=True)
class Action:
    """An action and its time."""

    at_s: float
    """Seconds after the window opens."""
    do: Callable[[], object]
    metric: str | None = None
    """Metric whose value the action returns at the end of the round; None if it runs at `at_s`."""
    text: str | None = None
    """Description of one of the plugin's own actions; None for the test's actions."""

    def __str__(self) -> str:
        """Return the test's call or the action's description, for error messages."""
        if self.metric is not None:
            return f"kafka_perf.add_metric({self.metric!r})"
        return self.text or f"kafka_perf.at({format_quantity(self.at_s, Unit.SECONDS)!r})"


def planned(at: object, do: Callable[[], object], *, duration_s: float | None) -> Action:
    """Return an action at the given time; `duration_s` is the window's duration, or None if it is not fixed.

    Raises:
        ScenarioError: the time is invalid or not within the window.

    """
    try:
        at_s = parse_time(at)
    except UnitError as error:
        raise ScenarioError(f"kafka_perf.at({at!r}): {error}") from None
    if duration_s is not None and at_s >= duration_s:
        raise ScenarioError(
            f"kafka_perf.at({at!r}): must be within the round's window, less than its duration of "
            f"{format_quantity(duration_s, Unit.SECONDS)}"
        )
    return Action(at_s, do)


def moved(actions: Sequence[Action], pairs: Sequence[tuple[object, object]]) -> list[Action]:
    """Return the same actions for another side; `pairs` are clusters or applications here and on that side.

    A plain number that the test adds as a metric belongs to the test's own side; the other side does not get a value
    for it.

    Raises:
        UsageError: an action is not a method of one of this side's objects and does not take one as an argument.

    """

    def twin(given: object) -> object:
        return next((now for before, now in pairs if before is given), given)

    found = []
    for action in actions:
        do = action.do
        if action.metric is not None and not isinstance(do, functools.partial):
            continue
        own = getattr(getattr(do, "func", None), "__self__", None)
        if not isinstance(do, functools.partial) or all(twin(each) is each for each in (own, *do.args)):
            raise UsageError(
                f"{action} with --kafka-compare: the function is not a method of the test's cluster or application and "
                "takes neither as an argument, so it cannot be called on the live baseline as well; use a method such "
                "as kafka_cluster.stop_broker, or pass the cluster or the application as an argument"
            )
        method = do.func if twin(own) is own else getattr(twin(own), do.func.__name__)
        moved_call = functools.partial(method, *map(twin, do.args), **do.keywords)
        found.append(dataclasses.replace(action, do=moved_call))
    return found


class ActionTimer:
    """Runs one round's actions, each in a separate thread; must be the last observer to settle."""

    def __init__(self, actions: Sequence[Action]) -> None:
        self._pending = [action for action in actions if action.metric is None]
        self._recording = [action for action in actions if action.metric is not None]
        self.recorded: dict[str, float] = {}
        """Values of custom metrics, by name."""
        self._timers: list[threading.Timer] = []
        self._acted_ns: list[int] = []
        """Start times of the test's actions."""
        self.problems: list[Problem] = []
        """Actions that failed or did not run."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Cancel actions that are not due yet, and wait for running ones."""
        for timer in self._timers:
            timer.cancel()
        deadline = time.monotonic() + _JOIN_TIMEOUT_S
        for timer in self._timers:
            timer.join(max(0.0, deadline - time.monotonic()))
        for action in self._pending:
            self._report(action, "it did not finish before the end of the round")

    def follow(self, progress: Progress) -> None:
        """Start the timers once the start of the window is known."""
        if self._timers or progress.phase not in ("warm-up", "measuring"):
            return
        for action in [*self._pending]:
            timer = threading.Timer(max(0.0, action.at_s - progress.elapsed_s), self._do, [action])
            timer.daemon = True
            self._timers.append(timer)
            timer.start()

    def settle(self, report: LoadReport) -> None:
        """Measure the custom metrics, one after another, unless the load failed."""
        for action in self._recording if report.start_ns is not None and not report.problems else ():
            self._pending.append(action)
            thread = threading.Thread(target=self._do, args=[action], daemon=True)
            thread.start()
            thread.join(_JOIN_TIMEOUT_S)

    @property
    def acted_ns(self) -> int | None:
        """Time of the test's first action; None if there was none."""
        return min(self._acted_ns, default=None)

    def _do(self, action: Action) -> None:
        if action.metric is None and action.text is None:
            self._acted_ns.append(time.monotonic_ns())
        try:
            value = action.do()
            if inspect.iscoroutine(value):
                value.close()
                raise TypeError("the function is async, so it would not run; pass a function that is not async")  # noqa: TRY301
            if action.metric is not None:
                self.recorded[action.metric] = _value(value)
        except KafkaPerfError as error:
            self._report(action, f"{type(error).__name__}: {error.reason}", **error.facts)
        except BaseException as error:  # noqa: BLE001 - the report shows every error of the test's code, even pytest.fail()
            self._report(action, f"{type(error).__name__}: {error}")
        self._pending.remove(action)

    def _report(self, action: Action, text: str, **facts: str) -> None:
        self.problems.append(Problem(Cause.ACTION_FAILED, {"action": str(action), "reason": text, **facts}))


def _value(value: object) -> float:
    """Return the metric's value; raise ValueError if a baseline cannot contain it."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < math.inf:
        raise ValueError(f"the function returned {repr_of(value)}; it must return a finite number of at least 0")
    return float(value)
