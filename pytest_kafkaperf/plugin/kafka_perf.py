"""The `kafka_perf` fixture, which runs a test's scenario and fails the test if the verdict is a failure."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import inspect
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, Unpack

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster, as_cluster
from pytest_kafkaperf.core.errors import KafkaPerfError, UsageError
from pytest_kafkaperf.core.metrics import Better, declare
from pytest_kafkaperf.core.text import printable
from pytest_kafkaperf.plugin.benchmarks import LoadClock, is_disabled, record_rounds
from pytest_kafkaperf.plugin.console import TrialLines, progress
from pytest_kafkaperf.plugin.decorators import ScenarioFields
from pytest_kafkaperf.plugin.items import PEER
from pytest_kafkaperf.reports.headline import failure_of, headline_of
from pytest_kafkaperf.reports.standing import describe_repeat
from pytest_kafkaperf.reports.writing import append_history, history_lines
from pytest_kafkaperf.runner.flow import Watch, run_test
from pytest_kafkaperf.runner.perf_run import PerfRun
from pytest_kafkaperf.runner.perftest import PerfTest
from pytest_kafkaperf.runner.result import Ending, Result
from pytest_kafkaperf.runner.rounds.actions import Action, planned
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.time_budget import as_run
from pytest_kafkaperf.verdict.outcome import Verdict

if TYPE_CHECKING:
    from pytest_kafkaperf.load.controller import Progress


class InconclusiveWarning(pytest.PytestWarning):
    """Warns that a test is INCONCLUSIVE; the message ends with the command that resolves this."""


class FailedByVerdict(pytest.fail.Exception):  # type: ignore[name-defined, misc]
    """Fails a test because of its verdict."""

    __module__, __qualname__ = "builtins", "Failed"  # as in pytest's own summary


_ONE_FUNCTION = (
    "add each metric once, before the load starts, as a number or as a function that returns the value and is called "
    "at the end of each round"
)
_STOP_TIMEOUT_S = 120
"""Maximum wait for an unfinished load to stop after the test; it is long because brokers may be restarting."""
_UNJUDGED = (
    "--kafka-strict: the thresholds of this test were not judged, because of --benchmark-disable; omit one of the two "
    "options (they may be in addopts)"
)
_TOO_LATE = (
    "kafka_perf() was called after the test had finished, when its verdict can no longer fail the test; call it in "
    "the test, or in a fixture before its yield"
)
_CAUGHT = "The test's code caught this failure. If you expect it, mark the test with pytest.mark.xfail."


class FixtureRun:
    """One use of the `kafka_perf` fixture from the plugin's perspective; tests see only `KafkaPerf`."""

    def __init__(
        self,
        request: pytest.FixtureRequest,
        perf: PerfRun,
        cluster: object,
        *,
        test: PerfTest,
        later: Sequence[PerfTest],
    ) -> None:
        """`later` contains the tests after this one."""
        self._node: pytest.Item = request.node
        self._test = test
        self._later = later
        self._perf = perf
        self._cluster = cluster
        marker = self._node.get_closest_marker("benchmark")
        clock = None if marker is None else marker.kwargs.get("timer")
        self._benchmark = (request.getfixturevalue("benchmark"), clock) if isinstance(clock, LoadClock) else None
        """pytest-benchmark's fixture and its timer; None if it does not record the test."""
        self._planned: list[tuple[object, Callable[[], object]]] = []
        self._recorded: dict[str, Action] = {}
        self._called = False
        self._finished = False
        self._failure: BaseException | None = None
        """The failure of the load, or the failure caused by its verdict; the test's code may have caught it."""
        self._lock = threading.Lock()
        """Held while the three flags below change; tests may call this object from any thread."""
        self._is_over = False
        """True once the test function has returned; from then on, no load may start."""
        self._idle = threading.Event()
        """Set while no load is running."""
        self._idle.set()
        self._stopping = threading.Event()
        """Set to stop the load."""

    @property
    def is_benchmark(self) -> bool:
        """True if pytest-benchmark records this test."""
        return self._benchmark is not None

    def stop(self) -> bool:
        """Stop any load that is still running when the test function returns; return False if it does not stop."""
        with self._lock:
            self._is_over = True
        self._stopping.set()
        return self._idle.wait(_STOP_TIMEOUT_S)

    def raise_swallowed(self, *, skipped: bool) -> None:
        """Fail a test that swallowed the failure caused by its verdict or returned without measuring anything."""
        if isinstance(self._failure, pytest.fail.Exception):
            raise type(self._failure)(f"{self._failure.msg}\n{_CAUGHT}", pytrace=False)
        if self._failure is not None:
            raise self._failure
        if not (self._finished or skipped):
            what = "await kafka_perf.run() until it finishes" if self._called else "call kafka_perf()"
            text = f"this test measured nothing: {what}, or call pytest.skip() if there is nothing to measure"
            pytest.fail(text, pytrace=False)

    def keep(self, ending: Ending | None) -> None:
        """Keep the measured values for the baseline unless the test's code or a fixture failed or skipped the test."""
        if self._finished and ending is not None and (ending.by_verdict or ending.outcome in ("passed", "xpassed")):
            with failing():
                self._perf.keep()

    def plan(
        self, time: object, action: Callable[..., object], arguments: tuple[object, ...], named: Mapping[str, object]
    ) -> None:
        """Schedule a call to `action` in every round.

        Raises:
            UsageError: the load has already started, or the action is async or not a function.

        """
        if self._called or not callable(action) or inspect.iscoroutinefunction(action):
            given = f"kafka_perf.at({time!r}, {printable(repr(action))})"
            raise UsageError(f"{given}: call it before the load starts, with a function that is not async")
        self._planned.append((time, functools.partial(action, *arguments, **named)))

    def record(self, name: str, value: Callable[[], float], *, unit: str, better: Better) -> None:
        """Record a custom metric in every round.

        Raises:
            ScenarioError: the name, the unit or the direction is invalid.
            UsageError: the load has already started, or the metric was already added.

        """
        if self._called or name in self._recorded:
            raise UsageError(f"kafka_perf.add_metric({name!r}, ...): {_ONE_FUNCTION}")
        declare(name, unit=unit, better=better)
        self._recorded[name] = Action(math.inf, value, metric=name)

    def searching(
        self, limits: Sequence[str], low: object, high: object, hold: object
    ) -> Callable[[PerfTest], PerfTest]:
        """Return a function that turns a test into a capacity search."""
        if self._planned:
            pytest.fail(
                "kafka_perf.at(...) cannot be combined with kafka_perf.capacity(); use only one of them", pytrace=False
            )
        return lambda test: test.with_search(limits, low=low, high=high, hold=hold)

    async def run_in_thread(self, configure: Callable[[PerfTest], PerfTest]) -> Result:
        """Call `run` in a thread so that the test's event loop keeps running."""
        thread = concurrent.futures.ThreadPoolExecutor(1, "kafkaperf-run")
        ended = asyncio.wrap_future(thread.submit(self.run, configure))
        thread.shutdown(wait=False)  # the thread ends after the load
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:  # the test was canceled, for example by Ctrl-C
            self._stopping.set()
            await asyncio.wait([ended], timeout=_STOP_TIMEOUT_S)
            if ended.done() and not ended.cancelled():
                ended.exception()  # otherwise, asyncio reports the exception as never retrieved
            raise

    def _actions(self, *, duration_s: float | None) -> list[Action]:
        return [*(planned(time, do, duration_s=duration_s) for time, do in self._planned), *self._recorded.values()]

    def run(self, configure: Callable[[PerfTest], PerfTest]) -> Result:
        """Run the configured test once, and fail it if the verdict is a failure."""
        with self._lock:
            if self._is_over:
                pytest.fail(_TOO_LATE, pytrace=False)
            if not self._idle.is_set():
                pytest.fail("kafka_perf() is already running in this test; wait until it finishes", pytrace=False)
            self._idle.clear()
            self._stopping.clear()
        try:
            result = self._measure(configure)
        except (Exception, pytest.fail.Exception) as failure:
            self._failure = self._failure or failure
            raise
        finally:
            self._idle.set()
        self._failure = None  # left over from an earlier call with invalid arguments
        return result

    def _measure(self, configure: Callable[[PerfTest], PerfTest]) -> Result:
        node, perf = self._node, self._perf
        self._called = True
        if self._finished:
            pytest.fail(
                "kafka_perf() can run only once per test; for several loads, use pytest.mark.parametrize", pytrace=False
            )
        with failing():
            cluster = as_cluster(self._cluster)
            self._serve_peer(cluster)
            declared = test = configure(self._test).with_recorded(self._recorded)
            if is_disabled(node.config):
                test = declared.as_smoke_test()
            own = perf.side(test, cluster, self._actions(duration_s=test.scenario.duration))
            with self._watching(test, own) as watch:
                result = run_test(test, own, perf, later=self._later, watch=watch)
            if not test.is_smoke_test:
                self._add_to_history(result)
        self._finished = True
        if self._benchmark is not None:
            record_rounds(result, *self._benchmark)
        if test.is_smoke_test and perf.settings.strict and declared.thresholds:
            pytest.fail(_UNJUDGED, pytrace=False)
        conclude(result, perf, node)
        return result

    def _serve_peer(self, cluster: Cluster) -> None:
        """In the other revision's pytest process, serve the measuring process; ends the test and never returns."""
        peer = self._node.config.pluginmanager.get_plugin(PEER)
        if peer is not None:
            self._perf.clusters.provide_topic(self._test.scenario, cluster)
            peer.serve(self._perf.side(self._test, cluster, self._actions(duration_s=None)))

    @contextlib.contextmanager
    def _watching(self, test: PerfTest, own: Side) -> Iterator[Watch]:
        """Show the progress in the terminal, and stop the load on request."""
        with progress(self._node, test if own.actions else as_run(test)) as (line, say):

            def on_progress(label: str, number: int, progress: Progress) -> None:
                if self._stopping.is_set():
                    raise KeyboardInterrupt  # stops the load in the same way as Ctrl-C
                if line:
                    line.update(label, number, progress)

            calibrate = None if test.is_smoke_test else self._perf.settings.calibrate
            yield Watch(
                progress=on_progress,
                trials=TrialLines(test, self._later, say, calibrate=calibrate),
                repeat=lambda judgement: say(describe_repeat(test, judgement)),
            )

    def _add_to_history(self, result: Result) -> None:
        """Append the result to the history file if the user requested one.

        Raises:
            UsageError: the file cannot be written; the message contains its path and the reason.

        """
        perf = self._perf
        path = perf.settings.reports.get("history")
        if path is None:
            return
        environment = perf.environment_key(result.cluster.provider)
        append_history(path, history_lines(result, plugin=perf.plugin, commit=perf.commit, environment=environment))


class KafkaPerf:
    """The value of the `kafka_perf` fixture. Call it to run the scenario."""

    def __init__(self, fixture: FixtureRun) -> None:
        self._fixture = fixture

    def at(
        self, time: str | timedelta | Literal[0], action: Callable[..., object], *arguments: object, **named: object
    ) -> None:
        """Call `action` in every round, `time` after its start: `kafka_perf.at("3 s", cluster.stop_broker, 2)`.

        The action runs in a separate thread. If it raises an exception, the round is INVALID.
        """
        with failing():
            self._fixture.plan(time, action, arguments, named)

    def add_metric(
        self, name: str, value: Callable[..., float] | float, *arguments: object, unit: str = "count", better: Better
    ) -> None:
        """Record a custom metric: `kafka_perf.add_metric("app.rows", sink.rows, unit="rows", better="higher")`.

        Add metrics before the load, because `kafka_perf()` measures all rounds and then judges the thresholds. A
        function is called with `arguments` at the end of each round, after the application has processed the load. A
        number applies to every round; with a live baseline, it applies only to the test's side.
        """
        function = functools.partial(value, *arguments) if callable(value) else lambda: value
        with failing():
            self._fixture.record(name, function, unit=unit, better=better)

    def __call__(self, **overrides: Unpack[ScenarioFields]) -> Result:
        """Run the scenario, and fail the test if a threshold is violated; `overrides` supersede marker fields."""
        _refuse_running_loop("kafka_perf()", "kafka_perf.run()")
        return self._fixture.run(_overriding(overrides))

    async def run(self, **overrides: Unpack[ScenarioFields]) -> Result:
        """Run the scenario in an `async def` test, while the test's event loop and any services in it keep running."""
        return await self._fixture.run_in_thread(_overriding(overrides))

    def capacity(
        self, *limits: str, low: object = "1k records/s", high: object = "2M records/s", hold: object = "10 s"
    ) -> Result:
        """Find the highest rate between `low` and `high` that meets these absolute limits; hold each rate for `hold`.

        For example: `kafka_perf.capacity("produce.latency.p99 <= 20 ms", "errors == 0")`. The result contains the
        metric `capacity`, in records per second, which you can compare with `kafka_threshold("capacity >= baseline -
        10%")`. Each round of the scenario is a complete search; if no threshold refers to a baseline, the default is a
        single round.
        """
        _refuse_running_loop("kafka_perf.capacity()", "kafka_perf.run_capacity()")
        return self._fixture.run(self._fixture.searching(limits, low, high, hold))

    async def run_capacity(
        self, *limits: str, low: object = "1k records/s", high: object = "2M records/s", hold: object = "10 s"
    ) -> Result:
        """Find the capacity in an `async def` test, while the test's event loop and any services in it keep running."""
        return await self._fixture.run_in_thread(self._fixture.searching(limits, low, high, hold))


def conclude(result: Result, perf: PerfRun, item: pytest.Item) -> None:
    """Fail or skip a test according to its verdict, or warn if the test is INCONCLUSIVE."""
    text = failure_of(result, strict=perf.settings.strict)
    if text is not None:
        raise FailedByVerdict(text, pytrace=False)
    headline = headline_of(result, strict=False)
    if result.verdict is Verdict.INCONCLUSIVE and headline is not None:
        with contextlib.suppress(InconclusiveWarning):  # this is an error only with --kafka-strict
            item.warn(InconclusiveWarning(printable(headline.in_one_line)))
    if not result.rounds:  # the time budget was used up; the rest of the test needs a result
        pytest.skip("; ".join(map(str, result.notes)))


@contextlib.contextmanager
def failing() -> Iterator[None]:
    """Fail the test with a plugin error's message, without a traceback."""
    try:
        yield
    except KafkaPerfError as error:
        raise pytest.fail.Exception(printable(str(error), keep="\t\n"), pytrace=False) from None


def _overriding(overrides: ScenarioFields) -> Callable[[PerfTest], PerfTest]:
    if not overrides:
        return PerfTest.without_search
    return lambda test: test.with_overrides(overrides, where="kafka_perf(): ").without_search()


def _refuse_running_loop(called: str, instead: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    text = f"{called} would block the test's event loop and all services in it; use `await {instead}`"
    pytest.fail(text, pytrace=False)
