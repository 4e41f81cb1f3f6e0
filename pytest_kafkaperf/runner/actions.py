"""Actions of a test while load runs: each at its time after the window opened, in every round."""

from __future__ import annotations

import dataclasses
import functools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kafkaperf.core.errors import ScenarioError, UnitError, UsageError
from pytest_kafkaperf.core.problems import Problem, ProblemKind
from pytest_kafkaperf.core.units import Unit, format_quantity, parse_time
from pytest_kafkaperf.load.messages import LoadReport
from pytest_kafkaperf.runner.observers import Observer

if TYPE_CHECKING:
    from pytest_kafkaperf.load.controller import Progress

_JOIN_TIMEOUT_S = 120
"""Maximum wait for an action that still runs when the round is over: it may be starting a broker."""


@dataclass(frozen=True, slots=True)
class Action:
    """One action and its time."""

    at_s: float
    """Seconds after the window opened."""
    do: Callable[[], object]

    def __str__(self) -> str:
        """Return the call as the test wrote it, for errors."""
        return f"kafka_perf.at({format_quantity(self.at_s, Unit.SECONDS)!r})"


def planned(at: object, do: Callable[[], object], *, duration_s: float | None) -> Action:
    """Return an action at the given time; `duration_s` is that of the window, None if it has no fixed end.

    Raises:
        ScenarioError: the time is not readable, or not within the window.

    """
    try:
        at_s = parse_time(at)
    except UnitError as error:
        raise ScenarioError(f"kafka_perf.at({at!r}): {error}") from None
    if duration_s is not None and at_s >= duration_s:
        raise ScenarioError(
            f"kafka_perf.at({at!r}): the window is over by then; give a time below its duration of "
            f"{format_quantity(duration_s, Unit.SECONDS)}"
        )
    return Action(at_s, do)


def moved(actions: Sequence[Action], pairs: Sequence[tuple[object, object]]) -> list[Action]:
    """Return the same actions, done to the second of a pair instead of its first: clusters, or applications.

    Raises:
        UsageError: an action is no method of the first of a pair.

    """
    found = []
    for action in actions:
        method = getattr(action.do, "func", None)
        now = next((now for before, now in pairs if before is getattr(method, "__self__", None)), None)
        if not isinstance(action.do, functools.partial) or now is None:
            raise UsageError(
                f"{action} with --kafka-reference: the action is not a method of the test's cluster or application, so "
                "it cannot be done to the reference as well; use a method such as kafka_cluster.stop_broker"
            )
        do = functools.partial(getattr(now, action.do.func.__name__), *action.do.args, **action.do.keywords)
        found.append(Action(action.at_s, do))
    return found


class ActionTimer(Observer):
    """Runs the actions of one round, each in its own thread."""

    def __init__(self, actions: Sequence[Action]) -> None:
        self._pending = [*actions]
        self._timers: list[threading.Timer] = []
        self.problems: list[Problem] = []
        """Actions that failed or did not run."""

    def __exit__(self, *_: object) -> None:
        """Cancel what is not due yet, and wait for actions that are under way."""
        for timer in self._timers:
            timer.cancel()
        deadline = time.monotonic() + _JOIN_TIMEOUT_S
        for timer in self._timers:
            timer.join(max(0.0, deadline - time.monotonic()))
        for action in self._pending:
            self._report(action, "it did not finish before the end of the round")

    def follow(self, progress: Progress) -> None:
        """Start the timers as soon as the start of the window is known."""
        if self._timers or progress.phase not in ("warm-up", "measuring"):
            return
        for action in [*self._pending]:
            timer = threading.Timer(max(0.0, action.at_s - progress.elapsed_s), self._do, [action])
            timer.daemon = True
            self._timers.append(timer)
            timer.start()

    def add_to(self, report: LoadReport) -> LoadReport:
        """Add the problems: actions that failed, or that did not run."""
        return dataclasses.replace(report, problems=(*report.problems, *self.problems))

    def _do(self, action: Action) -> None:
        try:
            action.do()
        except Exception as error:  # noqa: BLE001 - the report shows all errors of the test's own code
            self._report(action, f"{type(error).__name__}: {error}")
        self._pending.remove(action)

    def _report(self, action: Action, text: str) -> None:
        self.problems.append(Problem(ProblemKind.ACTION_FAILED, f"{action}: {text}"))
