"""The fixture `kafka_perf`: runs a test's scenario and fails the test according to its verdict."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kafkaperf.clusters.spec import as_cluster
from pytest_kafkaperf.core.errors import KafkaPerfError
from pytest_kafkaperf.core.text import printable
from pytest_kafkaperf.plugin.console import progress
from pytest_kafkaperf.reports.failure import failure_of
from pytest_kafkaperf.reports.pytest_benchmark import LoadClock, is_disabled, record_rounds
from pytest_kafkaperf.reports.writing import add_to_history
from pytest_kafkaperf.runner.actions import planned
from pytest_kafkaperf.runner.case import Case
from pytest_kafkaperf.runner.result import Ending, Result
from pytest_kafkaperf.runner.session import Session

if TYPE_CHECKING:
    from pytest_kafkaperf.plugin.perf_plugin import PerfPlugin


class KafkaPerf:
    """The value of the `kafka_perf` fixture; call it to run the scenario."""

    def __init__(self, request: pytest.FixtureRequest, plugin: PerfPlugin, session: Session, cluster: object) -> None:
        self._node: pytest.Item = request.node
        self._plugin = plugin
        self._session = session
        self._cluster = cluster
        marker = self._node.get_closest_marker("benchmark")
        clock = None if marker is None else marker.kwargs.get("timer")
        self._benchmark = (request.getfixturevalue("benchmark"), clock) if isinstance(clock, LoadClock) else None
        """pytest-benchmark's fixture and its timer; None if the test is not in its table."""
        self._planned: list[tuple[str | float, Callable[[], object]]] = []
        self._called = False
        self._finished = False

    def close(self, ending: Ending | None) -> None:
        """Fail a test that passed but measured nothing."""
        if ending is not None and ending.outcome == "passed" and not self._called:
            text = "this test measured nothing: call kafka_perf(), or pytest.skip() if there is nothing to measure"
            pytest.fail(text, pytrace=False)

    def at(self, time: str | float, action: Callable[..., object], *arguments: object, **named: object) -> None:
        """Call `action` in every round, `time` after the start: `kafka_perf.at("3 s", cluster.stop_broker, 2)`.

        The action runs in its own thread. If it raises an exception, the round is INVALID.
        """
        self._planned.append((time, functools.partial(action, *arguments, **named)))

    def __call__(self, **overrides: object) -> Result:
        """Run the scenario, with these fields instead of the markers', and fail the test if a threshold is violated."""

        def configure(case: Case) -> Case:
            return (case.with_overrides(overrides) if overrides else case).without_search()

        return self._run(configure)

    def capacity(
        self, *limits: str, low: object = "1k records/s", high: object = "2M records/s", hold: object = "10 s"
    ) -> Result:
        """Find the highest rate, from `low` to `high`, that meets these absolute limits; hold each rate for `hold`.

        `kafka_perf.capacity("produce.latency.p99 <= 20 ms", "errors == 0")`. The result has the metric `capacity`, in
        records per second, which `kafka_threshold("capacity >= baseline - 10%")` can compare. Each round of the
        scenario is one search. The default is one round if no threshold refers to a baseline.
        """
        if self._planned:
            pytest.fail("kafka_perf.at(...) cannot be combined with kafka_perf.capacity(): use only one", pytrace=False)

        def configure(case: Case) -> Case:
            return case.with_search(limits, low=low, high=high, hold=hold)

        return self._run(configure)

    def _run(self, configure: Callable[[Case], Case]) -> Result:
        node, session = self._node, self._session
        self._called = True
        if self._finished:
            pytest.fail("kafka_perf() runs once per test; for more, use pytest.mark.parametrize", pytrace=False)
        try:
            case = configure(self._plugin.case(node))
            if self._benchmark is not None and is_disabled(node.config):
                case = case.as_smoke_test()
            actions = [planned(time, do, duration_s=case.scenario.duration) for time, do in self._planned]
            with progress(node, case) as line:
                on_progress = line.update if line else _ignore
                cluster = as_cluster(self._cluster)
                result = session.run(case, cluster, on_progress, actions, later=self._plugin.later(node))
            if not case.is_smoke_test:
                add_to_history(session, result)
        except KafkaPerfError as error:
            raise failure(error) from None
        finally:  # results are reported even if the baseline could not be written
            self._plugin.add_properties(node)
        self._finished = True
        if self._benchmark is not None:
            record_rounds(result, *self._benchmark)
        conclude(result, session)
        return result


def conclude(result: Result, session: Session) -> None:
    """Fail or skip a test according to its verdict."""
    text = failure_of(result, strict=session.settings.strict)
    if text is not None:
        pytest.fail(text, pytrace=False)
    if not result.rounds:  # the time budget was used up; the rest of the test needs a result
        pytest.skip("; ".join(result.notes))


def failure(error: KafkaPerfError) -> BaseException:
    """Return the exception that fails a test with the text of an error; raise it `from None`."""
    return pytest.fail.Exception(printable(str(error), keep="\t\n"), pytrace=False)


def _ignore(*_: Any) -> None:
    """Ignore progress."""
