"""Dask workers that go missing in further ways, and a scheduler that does."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.dask_faults import kill_a_worker
from tests.support.dask_workers import dask, wait_for_load_processes
from tests.support.patience import ENDLESS_S, PATIENCE_S
from tests.support.rounds import Once, faults, run_scenario

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.cluster import Cluster


def test_a_machine_that_hangs_makes_its_round_invalid(broker: Cluster, tmp_path: Path) -> None:
    """Its connection stays; the next round has those that answer."""
    with dask(tmp_path) as workers:
        workers.add()
        workers.add()
        victim = workers.worker(0)
        stop = Once(victim.suspend, after_s=0.5)
        ended: list[float] = []

        def watch(number: int, progress: Any) -> None:
            stop(number, progress)
            if number == 2 and not ended:
                ended.append(time.monotonic())

        scenario = Scenario.of({"rate": 500, "producers": 2, "rounds": 2, "warmup": "300 ms", "duration": "10 s"})
        first, second = run_scenario(scenario, broker, allocation=workers.allocation, on_progress=watch)
        victim.resume()

    assert stop.done_s is not None
    assert ended[0] - stop.done_s < 30
    (problem,) = first.problems
    assert problem.text.endswith(" did not answer for 8 s: its machine or the network is down")
    assert faults(second) == []


def test_a_worker_under_a_nanny_that_is_killed_makes_its_round_invalid(broker: Cluster, tmp_path: Path) -> None:
    """The nanny starts the worker again, but its load is not run again."""
    kill_a_worker(broker, tmp_path, nanny=True)


def test_a_scheduler_that_is_killed_makes_the_round_invalid(broker: Cluster, tmp_path: Path) -> None:
    """Within a bound, and no load goes on."""
    with dask(tmp_path) as workers:
        workers.add()
        kill = Once(workers.scheduler.kill, after_s=0.3)
        scenario = Scenario.of({"rate": 500, "rounds": 1, "warmup": 0, "duration": f"{ENDLESS_S} s"})
        (only,) = run_scenario(scenario, broker, allocation=workers.allocation, on_progress=kill)
        assert kill.done_s is not None
        assert time.monotonic() - kill.done_s < PATIENCE_S
        wait_for_load_processes(workers, some=False)
    assert any("the Dask scheduler" in problem.text for problem in only.problems)
