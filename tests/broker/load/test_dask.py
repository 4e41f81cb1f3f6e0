"""Load from several machines: a real Dask cluster, one of whose workers is on a machine with another clock.

Linux gives a process a monotonic clock of its own (time_namespaces(7)): to its worker everything else is elsewhere.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_kafkaperf.core.errors import ClusterError, LoadError
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.load.backends import dask_workers
from pytest_kafkaperf.load.backends.dask_sync import clock_name
from pytest_kafkaperf.load.backends.dask_workers import DaskWorkers
from pytest_kafkaperf.scenarios.payloads import Samples
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.audit_task import UNREADABLE
from tests.support.dask_faults import kill_a_worker
from tests.support.dask_workers import (
    AHEAD_S,
    Workers,
    can_be_elsewhere,
    dask,
    left_behind,
    load_processes,
    wait_for_load_processes,
)
from tests.support.patience import PATIENCE_S
from tests.support.rounds import faults, run_scenario, within
from tests.support.strangers import drop_topics_of_runs

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.cluster import Cluster
    from tests.support.rounds import Load


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="machines with clocks of their own are made by Linux")


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for answers of workers and schedulers, however slow the machine is that all of them share here."""
    monkeypatch.setattr(dask_workers, "_WORKER_S", PATIENCE_S)
    monkeypatch.setattr(dask_workers, "ANSWER_S", PATIENCE_S)


elsewhere = pytest.mark.skipif(not can_be_elsewhere(), reason="no right to give a process a clock of its own")


def test_the_clock_of_another_machine_is_known(three: Workers) -> None:
    """To a second even if this machine is busy; that of the machine itself exactly."""
    with DaskWorkers.connected(three.address) as workers:
        common, readings = workers.read_clocks()

    assert (common.offset_ns, common.uncertainty_ns) == (0, 0)
    here = [one for one in readings.values() if one.name == clock_name()]
    away = [one for one in readings.values() if one.name != clock_name()]
    assert [(one.offset_ns, one.uncertainty_ns) for one in here] == [(0, 0)] * (2 if can_be_elsewhere() else 3)
    for one in away:
        assert abs(one.offset_ns + AHEAD_S * 10**9) <= one.uncertainty_ns < 10**9


def test_an_audit_runs_here_and_says_why_it_cannot(three: Workers) -> None:
    """This machine reaches the brokers, too."""
    with (
        DaskWorkers.connected(three.address) as workers,
        pytest.raises(LoadError, match=r"back: KafkaConnectionError\("),
    ):
        workers.audit(UNREADABLE)
    assert left_behind(three) == ([], [], 0)


def test_without_a_scheduler_it_says_where_it_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the bound; Dask itself would try for 30 s."""
    monkeypatch.setattr(dask_workers, "_CONNECT_S", 1)
    with within(25), pytest.raises(ClusterError) as raised, DaskWorkers.connected("127.0.0.1:9"):
        pass
    assert str(raised.value) == (
        "--kafka-workers=dask://127.0.0.1:9: no Dask scheduler answers there within 1 s (OSError); start one with "
        "'dask scheduler', or use the address that it prints"
    )


def test_without_workers_it_says_how_to_start_some(tmp_path: Path) -> None:
    """At once, not after a wait for any; and nothing is left on the scheduler."""
    with dask(tmp_path) as nobody:
        with within(PATIENCE_S), pytest.raises(ClusterError) as raised, DaskWorkers.connected(nobody.address):
            pass
        assert left_behind(nobody) == ([], [], 0)
    assert str(raised.value) == (
        f"the Dask scheduler {nobody.address} has no workers: start one with 'dask worker {nobody.address}' on "
        "each machine that should generate load"
    )


def test_a_worker_with_another_version_is_refused_before_any_load(tmp_path: Path) -> None:
    """Its own metadata tell, before anything of ours is imported there."""
    info = tmp_path / "site" / "aiokafka-0.1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: aiokafka\nVersion: 0.1.2\n", encoding="utf-8")
    path = os.pathsep.join([str(info.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    with dask(tmp_path) as workers:
        workers.add(PYTHONPATH=path)
        with pytest.raises(
            ClusterError, match="the Dask worker tcp://127.0.0.1:[0-9]+ has aiokafka 0.1.2, but this machine has"
        ):
            DaskWorkers.connected(workers.address).__enter__()
        assert left_behind(workers) == ([], [], 0)


def test_a_round_from_three_workers_is_a_round(broker: Cluster, three: Workers) -> None:
    """The same results as from processes here, and nothing is left anywhere."""
    scenario = Scenario.of(
        {
            "rate": 2000,
            "producers": 2,
            "consumers": 1,
            "rounds": 2,
            "warmup": "500 ms",
            "duration": "2 s",
            "record_size": 100,
        }
    )
    seen: list[str] = []
    rounds = run_scenario(
        scenario, broker, allocation=three.allocation, on_progress=lambda _, progress: seen.append(progress.phase)
    )

    assert [faults(one) for one in rounds] == [[], []]
    for one in rounds:
        assert set(scenario.metrics()) - set(one.metrics) <= {"recovery"}
        longest_s = 2 + one.metrics["produce.latency.max"]
        assert 0.99 * 4000 / longest_s <= one.metrics["produce.throughput"] <= 1.01 * 2000
        assert (one.metrics["lost"], one.metrics["duplicated"], one.metrics["errors"]) == (0, 0, 0)
        assert 0 < one.metrics["e2e.latency.p50"] < 2
        longest_s = one.metrics["e2e.latency.max"] + (one.e2e_uncertainty_s or 0)
        assert one.metrics["lag.max"] <= 2000 * (longest_s + 0.5 + 0.3)  # the warm-up, and the age of copied counters
        assert [(share.producers, share.consumers, share.sent, share.received) for share in one.shares] == [
            (1, 0, 2000, 0),
            (1, 0, 2000, 0),
            (0, 1, 0, 4000),
        ]
    assert list(dict.fromkeys(seen))[:3] == ["connecting", "warm-up", "measuring"]
    assert left_behind(three) == ([], [], 0)
    assert load_processes(three) == []


@elsewhere
def test_machines_begin_together_and_time_by_one_clock(broker: Cluster, three: Workers, load: Load) -> None:
    """One clock is 1000 s ahead: without its offset nothing here could hold."""
    ran = load(broker, allocation=three.allocation, rate=1000, producers=2, consumers=1, duration="2 s")
    only, report = ran.round, ran.report

    assert ran.faults == []
    clocks = [worker.clock for worker in report.workers]
    offsets = {clock.offset_ns for clock in clocks if clock is not None}
    assert len(offsets) == 2
    assert min(offsets) < -999 * 10**9
    uncertainty_ns = max(clock.uncertainty_ns for clock in clocks if clock is not None)
    assert only.e2e_uncertainty_s is not None
    assert 0 < only.e2e_uncertainty_s == uncertainty_ns / 1e9 < 1
    # Each record was due by the common clock, sent by its machine's and acknowledged by it: all within the window.
    for part in ran.produced:
        assert part.first_due_ns is not None
        assert part.last_ack_ns is not None
        assert report.start_ns is not None
        assert 0 <= part.first_due_ns - report.start_ns <= 2_000_000
        assert part.delay.max_ns < 10**10
        assert 0 < part.last_ack_ns - report.start_ns < 10**10
        assert part.late + part.behind < part.sent / 2  # of a busy machine; by another clock it would be all
    # And it is the same instant of the real time: what one machine sends, the other receives just then.
    assert only.metrics["e2e.latency.p50"] < 10
    assert only.metrics["e2e.latency.p50"] >= only.metrics["produce.delay.p50"]


def test_a_file_of_samples_goes_along(broker: Cluster, three: Workers, tmp_path: Path) -> None:
    """On another machine there is no such file."""
    samples = tmp_path / "samples.txt"
    samples.write_text("\n".join("x" * size for size in range(40, 60)), encoding="utf-8")
    scenario = Scenario.of({"records": 500, "payload": f"file:{samples}", "rounds": 1, "warmup": 0, "consumers": 1})
    payload = scenario.payload
    assert isinstance(payload, Samples)
    found = scenario.model_copy(update={"payload": Samples(file=payload.file, path=str(samples))})
    (only,) = run_scenario(found, broker, allocation=three.allocation)

    assert faults(only) == []
    assert only.shares[0].sent == 500


def test_several_shares_go_to_one_worker_with_one_thread(broker: Cluster, tmp_path: Path) -> None:
    """They are ready together or never."""
    with dask(tmp_path) as workers:
        workers.add()
        allocation = WorkerAllocation(scheduler=workers.address, producing=2, consuming=2)
        scenario = Scenario.of(
            {"rate": 500, "producers": 2, "consumers": 2, "rounds": 1, "warmup": "300 ms", "duration": "1 s"}
        )
        (only,) = run_scenario(scenario, broker, allocation=allocation)
        assert left_behind(workers) == ([], [], 0)
    assert faults(only) == []
    assert len(only.shares) == 4


def test_a_worker_that_is_killed_makes_its_round_invalid(broker: Cluster, tmp_path: Path) -> None:
    """The round names the worker, nothing hangs, and no other worker takes over its load."""
    kill_a_worker(broker, tmp_path, nanny=False)


def test_load_ends_with_its_controller(broker: Cluster, tmp_path: Path) -> None:
    """However that ends: nobody is there to tell its workers."""
    with dask(tmp_path) as workers:
        workers.add()
        script = (
            "import sys\n"
            "from pytest_kafkaperf.clusters.cluster import Cluster\n"
            "from pytest_kafkaperf.load.allocation import WorkerAllocation\n"
            "from pytest_kafkaperf.runner.rounds.side import Side\n"
            "from pytest_kafkaperf.runner.rounds.side_rounds import SideRounds, running\n"
            "from pytest_kafkaperf.scenarios.scenario import Scenario\n"
            "cluster = Cluster(bootstrap_servers=sys.argv[1], brokers=1, provider='external', version='unknown')\n"
            "scenario = Scenario.of({'rate': 100, 'rounds': 1, 'warmup': 0, 'duration': '3600 s'})\n"
            "side = SideRounds(Side.of(cluster), scenario)\n"
            "with running([side], WorkerAllocation(scheduler=sys.argv[2])) as workers:\n"
            "    side.measure(workers)\n"
        )
        command = [sys.executable, "-c", script, broker.bootstrap_servers, workers.address]
        own = {**os.environ, "TMPDIR": str(tmp_path)}  # a killed controller leaves its counters there
        with subprocess.Popen(command, env=own) as controller:
            wait_for_load_processes(workers, some=True)
            controller.kill()
        wait_for_load_processes(workers, some=False)
        assert left_behind(workers) == ([], [], 0)
    drop_topics_of_runs(broker)
