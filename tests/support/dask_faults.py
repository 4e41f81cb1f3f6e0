"""Faults of Dask workers under load, and what comes of them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.dask_workers import dask, left_behind, load_processes
from tests.support.patience import PATIENCE_S
from tests.support.rounds import Once, faults, run_scenario

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.cluster import Cluster


def kill_a_worker(broker: Cluster, folder: Path, *, nanny: bool) -> None:
    """Kill a worker in the first of two rounds: that one is invalid and names it; the second one uses those left."""
    with dask(folder) as workers:
        for place in range(3):
            workers.add(nanny=nanny and place == 0)
        victim = workers.worker(0)
        if nanny:
            victim = max(victim.children(recursive=True), key=lambda child: child.memory_info().rss)
        kill = Once(lambda: os.kill(victim.pid, signal.SIGKILL), after_s=0.5)
        ended: list[float] = []
        scenario = Scenario.of(
            {"rate": 500, "producers": 3, "consumers": 0, "rounds": 2, "warmup": "300 ms", "duration": "3 s"}
        )

        def watch(number: int, progress: Any) -> None:
            kill(number, progress)
            if number == 2 and not ended:
                ended.append(time.monotonic())

        rounds = run_scenario(scenario, broker, allocation=workers.allocation, on_progress=watch)
        assert left_behind(workers) == ([], [], 0)

    assert len(rounds) == 2, [one.problems for one in rounds]
    first, second = rounds
    assert kill.done_s is not None
    assert ended[0] - kill.done_s < PATIENCE_S
    assert [problem.text.partition(" on ")[0].rpartition(":")[0] for problem in first.problems] == [
        "the Dask worker tcp://127.0.0.1"
    ]
    assert first.problems[0].text.endswith(" was lost: killed, out of memory, or cut off from the scheduler")
    assert faults(second) == []
    assert len(second.shares) == 3
    assert load_processes(workers) == []
