"""Rounds that meet trouble: nothing is omitted, nothing hangs, the reason is told, and nothing is left."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pytest_kafkaperf.clusters.admin.admin import Admin
from pytest_kafkaperf.clusters.admin.run_names import PREFIX
from pytest_kafkaperf.clusters.admin.wire import read_identity
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.problems import Cause, Problem, ProblemKind
from pytest_kafkaperf.load import controller
from pytest_kafkaperf.load.messages import Assignment
from pytest_kafkaperf.load.recorder import merged
from pytest_kafkaperf.runner.rounds.load_run import LoadRun
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.patience import ENDLESS_S, PATIENCE_S
from tests.support.rounds import Once, Stall, run_scenario, within, workers
from tests.support.silent import silent_server
from tests.support.strangers import topics_of_runs

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.rounds import Load


def kill(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def test_a_stalled_broker_shows_in_full(own_broker: Cluster, load: Load) -> None:
    """The records that were due meanwhile waited; a closed loop would have sent, and timed, almost none."""
    stall = Stall(own_broker.pids, 1.0)
    ran = load(own_broker, rate=500, duration="6 s", consumers=1, on_progress=Once(stall.begin))
    stall.join()

    assert ran.faults == []
    for family, parts in (("produce.latency", ran.produced), ("e2e.latency", ran.consumed)):
        assert 0.9 <= ran.metrics[f"{family}.p99.9"] <= ran.metrics[f"{family}.max"] <= stall.lasted_s + 4
        latency = merged([part.latency for part in parts])
        assert latency.total == 3000
        assert latency.quantile_s(1 - 250 / 3000) >= 0.4  # 300 records were due in the first 0.6 s of the stall


@pytest.mark.parametrize("rate", [None, 500])
def test_a_killed_broker_of_our_own_ends_the_round_with_the_reason(
    own_broker: Cluster, load: Load, capfd: pytest.CaptureFixture[str], rate: int | None
) -> None:
    """No hang, no traceback, no noise."""
    killer = Once(lambda: kill(*own_broker.pids))
    with within(PATIENCE_S):
        ran = load(own_broker, rate=rate, duration=f"{ENDLESS_S} s", consumers=1, producers=2, on_progress=killer)

    assert killer.done_s is not None
    (problem,) = ran.round.problems
    assert problem.kind is ProblemKind.CLUSTER_ERROR
    assert "broker" in problem.text
    assert "Traceback" not in problem.text
    assert workers() == []
    assert capfd.readouterr().err == ""


def test_a_killed_broker_of_somebody_else_ends_the_rounds_with_the_reason(
    own_broker: Cluster, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can look at its process: the silence tells."""
    monkeypatch.setattr(controller, "SILENCE_TIMEOUT_S", 5)
    cluster = Cluster(bootstrap_servers=own_broker.bootstrap_servers, brokers=1, provider="external", version="4.3")
    killer = Once(lambda: kill(*own_broker.pids))
    with within(PATIENCE_S):
        ran = load(cluster, rate=500, duration=f"{ENDLESS_S} s", consumers=1, rounds=1, on_progress=killer)

    (problem,) = ran.round.problems
    assert problem.kind is ProblemKind.CLUSTER_ERROR
    assert problem.text.startswith("no record was acknowledged for 5 s while ")
    assert problem.text.endswith(" were outstanding: the cluster is down or much too slow for this load")
    assert ran.seen.broken
    assert ran.metrics["errors"] > 0


def test_a_server_that_does_not_answer_is_left_out(broker: Cluster, load: Load) -> None:
    """A machine that is switched off refuses no connection, and any client may choose it first."""
    with silent_server() as silent:
        servers = f"{silent},{broker.bootstrap_servers}"
        cluster = Cluster(bootstrap_servers=servers, brokers=1, provider="external", version="4.3")
        for _ in range(3):
            assert read_identity(servers, cluster.access, timeout_s=PATIENCE_S)[1] == 1
        ran = load(cluster, rate=500, duration="1 s", producers=3, consumers=2, partitions=2, rounds=1)
    assert ran.faults == []


DIED = Problem(Cause.WORKER_LOST, {"reason": "a worker process died: killed, out of memory, or crashed"})


@pytest.mark.story
def test_a_killed_worker_ends_the_round_with_the_reason(broker: Cluster, load: Load) -> None:
    """The kernel takes memory back by SIGKILL."""
    killer = Once(lambda: kill(workers()[0].pid))
    with within(PATIENCE_S):
        ran = load(broker, rate=500, duration=f"{ENDLESS_S} s", producers=2, on_progress=killer)

    assert ran.round.problems == (DIED,)
    assert workers() == []


def test_a_worker_killed_between_two_rounds_is_told_too(broker: Cluster) -> None:
    """It was idle, and nobody waited for it."""
    scenario = Scenario.of({"records": 100, "rounds": 3, "warmup": 0})
    seen: set[int] = set()

    def kill_idle(number: int, _: object) -> None:
        if number == 2 and number not in seen:
            kill(*[worker.pid for worker in workers()])
        seen.add(number)

    rounds = run_scenario(scenario, broker, on_progress=kill_idle)
    assert [one.problems for one in rounds] == [(), (DIED,)]


def break_last_worker(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Give the last worker of the first round an assignment that no scenario makes."""
    assignments = LoadRun.assignments

    def changed(self: LoadRun, *arguments: Any) -> list[Assignment]:
        *others, last = assignments(self, *arguments)
        return [*others, dataclasses.replace(last, **changes) if self.number == 1 else last]

    monkeypatch.setattr(LoadRun, "assignments", changed)


def test_a_worker_that_raises_while_it_connects_ends_the_round_with_its_traceback(
    broker: Cluster, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug, or a client library that has changed: whoever is told must be able to find it."""
    break_last_worker(monkeypatch, counters="/no/such/counters")
    with within(PATIENCE_S):
        ran = load(broker, rate=500, duration=f"{ENDLESS_S} s", producers=2)

    (problem,) = ran.round.problems
    assert problem.kind is ProblemKind.WORKER_FAILED
    assert problem.text.startswith("worker 1 failed: FileNotFoundError: ")
    assert problem.text.count("Traceback (most recent call last):") == 1
    assert "shared_counters.py" in problem.text
    assert workers() == []


def test_a_worker_that_raises_under_load_ends_its_round_and_no_other(
    broker: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others stop at once, their process and topic are sound: the next round is a valid one."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    scenario = Scenario.of({"rate": 500, "duration": "1 s", "warmup": "200 ms", "rounds": 2, "producers": 2})
    break_last_worker(monkeypatch, scenario=scenario.model_copy(update={"rate": "fast"}))
    with within(PATIENCE_S):
        first, second = run_scenario(scenario, broker)

    (problem,) = first.problems
    assert problem.kind is ProblemKind.WORKER_FAILED
    assert problem.text.startswith("worker 1 failed: ValueError: Invalid literal for Fraction: 'fast'\n")
    assert problem.text.count("Traceback (most recent call last):") == 1
    assert "producers.py" in problem.text
    assert second.problems == ()
    assert workers() == []


@pytest.mark.story
def test_nothing_is_left_after_success(broker: Cluster, load: Load, leftovers: Callable[[], list[str]]) -> None:
    """Neither a process nor a topic nor a file."""
    load(broker, records=1000, warmup=0, consumers=1)

    assert (workers(), topics_of_runs(broker), leftovers()) == ([], [], [])


@pytest.mark.story
@pytest.mark.parametrize("phase", ["connecting", "measuring"])
def test_nothing_is_left_after_ctrl_c(
    broker: Cluster, load: Load, leftovers: Callable[[], list[str]], capfd: pytest.CaptureFixture[str], phase: str
) -> None:
    """A user who stops a test wants it stopped now, and the cluster as it was."""
    once = Once(lambda: signal.raise_signal(signal.SIGINT))
    if phase == "connecting":
        once = Once(once.action, phase=phase, after_s=0)
    with within(PATIENCE_S), pytest.raises(KeyboardInterrupt):
        load(broker, rate=500, duration=f"{ENDLESS_S} s", producers=2, consumers=2, on_progress=once)

    assert (workers(), topics_of_runs(broker), leftovers()) == ([], [], [])
    assert capfd.readouterr().err == ""


_PROGRAM = """
import sys
import psutil
from pytest_kafkaperf.clusters.admin.run_names import PREFIX
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.runner.rounds.load_run import LoadRun
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.rounds.side_rounds import SideRounds, running
from pytest_kafkaperf.scenarios.scenario import Scenario

def tell(label, number, progress):
    if progress.phase == "measuring":
        print(*[child.pid for child in psutil.Process().children()], flush=True)

cluster = Cluster(bootstrap_servers=sys.argv[1], brokers=1, provider="external", version="unknown")
scenario = Scenario.of({"rate": 100, "duration": "3600 s", "warmup": 0, "consumers": 1})
side = SideRounds(Side.of(cluster), scenario, on_progress=tell)
with running([side], WorkerAllocation()) as workers:
    side.measure(workers)
"""


def test_workers_of_a_killed_run_end_by_themselves(own_broker: Cluster, tmp_path: Path) -> None:
    """Load that nobody asks for any more would disturb the next run."""
    command = [sys.executable, "-c", _PROGRAM, own_broker.bootstrap_servers]
    folder = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=folder) as process:
        assert process.stdout is not None
        children = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
        assert len(children) >= 2
        process.kill()
    gone, alive = psutil.wait_procs(children, timeout=PATIENCE_S)

    assert (len(gone), alive) == (len(children), [])
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_that_is_lost_after_a_round_ends_the_run(own_broker: Cluster) -> None:
    """The rounds before it are kept, and nothing is tried on a cluster that is gone."""
    killed: list[int] = []

    def kill_broker(number: int, _: object) -> None:
        if number == 2 and not killed:
            killed.append(number)
            own_broker.stop_broker(1, kill=True)

    first, second = run_scenario(
        Scenario.of({"rate": 200, "duration": "1 s", "warmup": "200 ms", "rounds": 3}),
        own_broker,
        on_progress=kill_broker,
    )
    assert (first.problems, killed) == ((), [2])
    assert second.problems


def test_deleting_a_topic_that_is_not_there_is_fine(broker: Cluster) -> None:
    """A run that was refused its topic cleans up all the same."""
    Admin(broker.bootstrap_servers, broker.access).delete_topic(f"{PREFIX}never-made")
