"""The fixture `kafka_perf`: it runs a test's scenario, and lets the test end as its verdict says."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kafkaperf.clusters.spec import as_cluster
from pytest_kafkaperf.core.errors import KafkaPerfError
from pytest_kafkaperf.core.text import printable
from pytest_kafkaperf.plugin.console import progress
from pytest_kafkaperf.reports.ci import junit_properties
from pytest_kafkaperf.reports.failure import failure_of
from pytest_kafkaperf.reports.pytest_benchmark import is_disabled, record_rounds
from pytest_kafkaperf.reports.writing import add_to_history
from pytest_kafkaperf.runner.actions import planned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kafkaperf.reports.pytest_benchmark import Fixture, LoadClock
    from pytest_kafkaperf.runner.case import Case
    from pytest_kafkaperf.runner.result import Ending, Result
    from pytest_kafkaperf.runner.session import Session

_PROPERTIES = pytest.StashKey[list[tuple[str, object]]]()
"""What the last run of a test has given it."""


class KafkaPerf:
    """What the `kafka_perf` fixture gives: call it to run the scenario."""

    def __init__(
        self,
        node: pytest.Item,
        session: Session,
        cluster: object,
        *,
        case: Case,
        later: Sequence[Case],
        benchmark: tuple[Fixture, LoadClock] | None,
    ) -> None:
        """`later` are the perf tests after this one, `benchmark` is pytest-benchmark's fixture with its timer."""
        self._node = node
        self._session = session
        self._cluster = cluster
        self._case = case
        self._later = later
        self._benchmark = benchmark
        self._planned: list[tuple[str | float, Callable[[], object]]] = []
        self._called = False
        self._finished = False

    def close(self, ending: Ending | None) -> None:
        """The test is over; one that passed has measured something."""
        if ending is not None and ending.outcome == "passed" and not self._called:
            raise failed(
                "nothing was measured, and no limit judged: call kafka_perf(), or pytest.skip() where nothing is to be "
                "measured"
            )

    def at(self, time: str | float, action: Callable[..., object], *arguments: object, **named: object) -> None:
        """Do something in every round, so long after its window opened: `kafka_perf.at("3 s", cluster.stop_broker, 2)`.

        It is done in a thread of its own. What it raises makes the round INVALID.
        """
        self._planned.append((time, functools.partial(action, *arguments, **named)))

    def __call__(self, **overrides: object) -> Result:
        """Run the scenario, with these fields instead of the markers', and fail the test on a broken limit."""

        def declared(case: Case) -> Case:
            return (case.with_overrides(overrides) if overrides else case).without_search()

        return self._run(declared)

    def capacity(
        self, *limits: str, low: object = "1k records/s", high: object = "2M records/s", hold: object = "10 s"
    ) -> Result:
        """Find the highest rate that holds these absolute limits, from `low` to `high`, each step held for so long.

        `kafka_perf.capacity("produce.latency.p99 <= 20 ms", "errors == 0")`. It gives the metric `capacity`, in records
        a second, which `kafka_threshold("capacity >= baseline - 10%")` can gate. Each round of the scenario is a
        search; where nobody says how many, and no limit speaks of a baseline, there is one.
        """
        if self._planned:
            pytest.fail(
                "kafka_perf.at(...) has no place in a search for the capacity: leave one of them out", pytrace=False
            )

        def searching(case: Case) -> Case:
            return case.with_search(limits, low=low, high=high, hold=hold)

        return self._run(searching)

    def _run(self, declared: Callable[[Case], Case]) -> Result:
        node, session = self._node, self._session
        self._called = True
        if self._finished:
            pytest.fail("kafka_perf() runs once a test; use pytest.mark.parametrize for more", pytrace=False)
        problem = None
        try:
            case = declared(self._case)
            if self._benchmark is not None and is_disabled(node.config):
                case = case.as_smoke_test()
            actions = [planned(time, do, duration_s=case.scenario.duration) for time, do in self._planned]
            with progress(node, case) as line:
                watch = line.update if line else _ignore
                result = session.run(case, as_cluster(self._cluster), watch, actions, later=self._later)
            if not case.is_smoke_test:
                add_to_history(session, result)
        except KafkaPerfError as error:
            problem = str(error)
        finally:  # what was measured stands in every report, also when its baseline could not be written
            add_properties(node, session.results)
        if problem is not None:
            raise failed(problem)
        self._finished = True
        if self._benchmark is not None:
            record_rounds(result, *self._benchmark)
        conclude(result, session)
        return result


def conclude(result: Result, session: Session) -> None:
    """Let a test end as its verdict says."""
    failure = failure_of(result, strict=session.settings.strict)
    if failure is not None:
        pytest.fail(failure, pytrace=False)
    if not result.rounds:  # no time was left, and the rest of the test has nothing to look at
        pytest.skip("; ".join(result.notes))


def add_properties(item: pytest.Item, results: Sequence[Result]) -> None:
    """For JUnit and other reporters: what was found, each metric in its base unit, and each limit by its number."""
    if not results or results[-1].nodeid != item.nodeid:
        return  # nothing was measured
    before = item.stash.get(_PROPERTIES, [])  # of a run of it that another plugin repeats
    item.stash[_PROPERTIES] = found = junit_properties(results[-1])
    item.user_properties[:] = [*(each for each in item.user_properties if each not in before), *found]


def failed(problem: str) -> BaseException:
    """What fails a test by an error's text; raised where the error is caught, pytest would show that before it, too."""
    return pytest.fail.Exception(printable(problem, keep="\t\n"), pytrace=False)


def _ignore(*_: Any) -> None:
    """Progress that nobody watches."""
