"""Load from several machines: a real Dask cluster, one of whose workers is on a machine with another clock.

Linux gives a process a monotonic clock of its own (time_namespaces(7)): to its worker everything else is elsewhere.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from distributed import Client

from pytest_kafkaperf.clusters.client.run_names import PREFIX
from pytest_kafkaperf.core.errors import ClusterError, LoadError
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.load.controller import WorkerPool
from pytest_kafkaperf.load.dask.clocks import Reading, clock_name
from pytest_kafkaperf.load.dask.workers import DaskWorkers, _difference, _refuse_loopback
from pytest_kafkaperf.runner.rounds import run_scenario
from pytest_kafkaperf.scenario.scenario import Scenario
from tests.support.rounds import Once, faults, within
from tests.support.strangers import drop_topic, topics

from .test_pool import TASK

if TYPE_CHECKING:
    from distributed.scheduler import Scheduler

    from pytest_kafkaperf.clusters.spec import Cluster
    from tests.support.rounds import Load

AHEAD_S = 1000
"""By how much the other clock is ahead."""
_START_S = 30

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="machines with clocks of their own are made by Linux")


@dataclass(slots=True)
class Workers:
    """A Dask cluster of processes: a scheduler and its workers."""

    port: int
    scheduler: subprocess.Popen[bytes]
    log: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def allocation(self) -> WorkerAllocation:
        return WorkerAllocation(scheduler=self.address)

    def client(self) -> Client:
        return Client(self.address, set_as_default=False)

    def add(self, *, elsewhere: bool = False, nanny: bool = False, threads: int = 1, **environment: str) -> None:
        """Start a worker, perhaps on a machine with another clock, and wait until it is known."""
        with self.client() as client:
            before = len(client.nthreads())
            own = ["unshare", "--time", f"--monotonic={AHEAD_S}", "--fork", "--kill-child"] if elsewhere else []
            self.workers.append(
                subprocess.Popen(
                    [
                        *(*own, sys.executable, "-m", "distributed.cli.dask_worker", self.address, "--no-dashboard"),
                        *("--host", "127.0.0.1", "--nthreads", str(threads), "--nanny" if nanny else "--no-nanny"),
                    ],
                    stderr=self.log.open("ab"),
                    env={**os.environ, **environment},
                )
            )
            client.wait_for_workers(before + 1, timeout=_START_S)

    def worker(self, place: int) -> psutil.Process:
        """A worker's process itself."""
        process = psutil.Process(self.workers[place].pid)
        return process if "unshare" not in process.name() else process.children()[0]


@contextlib.contextmanager
def dask(folder: Path) -> Iterator[Workers]:
    """A scheduler without workers."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    log = folder / "dask.log"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
    with log.open("ab") as words:
        scheduler = subprocess.Popen([*command, "--no-dashboard"], stderr=words)
    running = Workers(port=port, scheduler=scheduler, log=log)
    try:
        with Client(running.address, timeout=_START_S, set_as_default=False):
            pass
        yield running
    finally:
        for together in (running.workers, [scheduler]):  # a worker without a scheduler takes its time
            for process in together:
                process.terminate()
            for process in together:
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait(5)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """Three workers, the last of them on a machine with another clock; nobody may end them."""
    with dask(tmp_path_factory.mktemp("dask")) as workers:
        workers.add()
        workers.add(nanny=True)
        workers.add(elsewhere=can_be_elsewhere())
        yield workers


@functools.cache
def can_be_elsewhere() -> bool:
    """Whether a process here may have a clock of its own."""
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(["unshare", "--time", "--monotonic=1", "--fork", "true"], capture_output=True, check=False)
    return tried.returncode == 0


elsewhere = pytest.mark.skipif(not can_be_elsewhere(), reason="no right to give a process a clock of its own")


def left_behind(workers: Workers) -> tuple[list[str], list[str], int]:
    """Of ours, on the scheduler: plugins, handlers and tasks."""

    def look(dask_scheduler: Scheduler) -> tuple[list[str], list[str], int]:
        plugins = [name for name in dask_scheduler.plugins if name.startswith("kafkaperf")]
        handlers = [name for name in dask_scheduler.handlers if name.startswith("kafkaperf")]
        return plugins, handlers, len(dask_scheduler.tasks)

    with workers.client() as client:
        deadline = time.monotonic() + 5
        while (found := client.run_on_scheduler(look))[2] and time.monotonic() < deadline:
            time.sleep(0.1)
    seen: tuple[list[str], list[str], int] = found
    return seen


def load_processes() -> list[psutil.Process]:
    """Worker processes on the machines of a Dask cluster, which are all here."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if "pytest_kafkaperf.load.dask.hosted" in " ".join(process.info["cmdline"] or [])
        and process.status() != psutil.STATUS_ZOMBIE
    ]


def wait_for_load_processes(*, some: bool) -> None:
    """Until there are some, or none."""
    deadline = time.monotonic() + _START_S
    while bool(load_processes()) != some:
        assert time.monotonic() < deadline, load_processes()
        time.sleep(0.1)


# What needs no broker


def test_the_clock_of_another_machine_is_known(three: Workers) -> None:
    """To a hundredth of a second on this machine; that of the machine itself exactly."""
    with DaskWorkers(three.address) as workers:
        common, readings = workers._readings()

    assert (common.offset_ns, common.uncertainty_ns) == (0, 0)
    here = [one for one in readings.values() if one.name == clock_name()]
    away = [one for one in readings.values() if one.name != clock_name()]
    assert [(one.offset_ns, one.uncertainty_ns) for one in here] == [(0, 0)] * (2 if can_be_elsewhere() else 3)
    for one in away:
        assert abs(one.offset_ns + AHEAD_S * 10**9) <= one.uncertainty_ns < 10**7


def test_an_audit_runs_there_and_says_why_it_cannot(three: Workers) -> None:
    """The reason comes from the other machine, which it names."""
    with DaskWorkers(three.address) as workers, WorkerPool(1, workers.place) as pool:
        reason = pool.audit(TASK)
    assert isinstance(reason, str)
    assert reason.startswith("the log could not be read: KafkaConnectionError(")
    assert "(on the Dask worker tcp://127.0.0.1:" in reason
    assert left_behind(three) == ([], [], 0)


def test_without_a_scheduler_it_says_where_it_looked() -> None:
    """Within the bound."""
    with within(15), pytest.raises(ClusterError) as raised, DaskWorkers("127.0.0.1:9"):
        pass
    assert str(raised.value) == (
        "--kafka-workers=dask://127.0.0.1:9: no Dask scheduler answers there within 10 s (OSError); start one with "
        "'dask scheduler', or use the address that it prints"
    )


def test_without_workers_it_says_how_to_start_some(tmp_path: Path) -> None:
    """At once, not after a wait for any; and nothing is left on the scheduler."""
    with dask(tmp_path) as nobody:
        with within(10), pytest.raises(ClusterError) as raised, DaskWorkers(nobody.address):
            pass
        assert left_behind(nobody) == ([], [], 0)
    assert str(raised.value) == (
        f"the Dask scheduler {nobody.address} has no workers: start one with 'dask worker {nobody.address}' on "
        "each machine that is to generate load"
    )


@pytest.mark.parametrize(
    ("name", "version", "problem"),
    [
        ("Python", sysconfig.get_python_version(), None),
        (
            "Python",
            "3.9",
            f"X has Python 3.9, this machine has {sysconfig.get_python_version()}: install the same version on both",
        ),
        ("aiokafka", version("aiokafka"), None),
        (
            "aiokafka",
            "0.1.2",
            f"X has aiokafka 0.1.2, this machine has {version('aiokafka')}: install the same version on both",
        ),
        (
            "pytest-kafkaperf",
            None,
            "X has no pytest-kafkaperf: install it there with "
            f"'pip install pytest-kafkaperf[dask]=={version('pytest-kafkaperf')}'",
        ),
    ],
)
def test_versions_that_differ_are_named(name: str, version: str | None, problem: str | None) -> None:
    """Figures of two programs are no measurement; corrections of Python make no difference."""
    assert _difference("X", name, version) == problem


def test_a_worker_with_another_version_is_refused_before_any_load(tmp_path: Path) -> None:
    """Its own metadata tell, before anything of ours is imported there."""
    info = tmp_path / "site" / "aiokafka-0.1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: aiokafka\nVersion: 0.1.2\n", encoding="utf-8")
    path = os.pathsep.join([str(info.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    with dask(tmp_path) as workers:
        workers.add(PYTHONPATH=path)
        with pytest.raises(ClusterError, match="the Dask worker tcp://127.0.0.1:[0-9]+ has aiokafka 0.1.2, this"):
            DaskWorkers(workers.address).__enter__()
        assert left_behind(workers) == ([], [], 0)


@pytest.mark.parametrize(
    ("servers", "refused"),
    [
        ("127.0.0.1:9092", True),
        ("localhost:9092,[::1]:9093", True),
        ("127.0.0.1:9092,broker:9092", False),
        ("broker:9092", False),
        ("10.0.0.1:9092", False),
    ],
)
def test_brokers_on_loopback_are_no_use_to_other_machines(servers: str, *, refused: bool) -> None:
    """A timeout after 20 s would not say why."""
    away = [Reading(name="x", host="another-machine", offset_ns=0, uncertainty_ns=0)]
    here = [Reading(name="x", host=socket.gethostname(), offset_ns=0, uncertainty_ns=0)]
    _refuse_loopback(servers, here)
    with pytest.raises(LoadError, match="another-machine") if refused else contextlib.nullcontext():
        _refuse_loopback(servers, [*here, *away])


# What needs one


@pytest.mark.broker
def test_a_round_from_three_workers_is_a_round(broker: Cluster, three: Workers) -> None:
    """The same figures as from processes here, and nothing is left anywhere."""
    scenario = Scenario.of(
        {"rate": 2000, "producers": 2, "consumers": 1, "rounds": 2, "warmup": 0.5, "duration": 2, "record_size": 100}
    )
    seen: list[str] = []
    rounds = run_scenario(
        scenario, broker, allocation=three.allocation, on_progress=lambda _, progress: seen.append(progress.phase)
    )

    assert [faults(one) for one in rounds] == [[], []]
    for one in rounds:
        assert set(scenario.metrics()) - set(one.metrics) <= {"recovery"}
        assert one.metrics["produce.throughput"] == pytest.approx(2000, rel=0.3)
        assert (one.metrics["lost"], one.metrics["duplicated"], one.metrics["errors"]) == (0, 0, 0)
        assert 0 < one.metrics["e2e.latency.p50"] < 2
        assert one.metrics["lag.max"] < 1000
        assert [(share.producers, share.consumers, share.sent, share.received) for share in one.shares] == [
            (1, 0, 2000, 0),
            (1, 0, 2000, 0),
            (0, 1, 0, 4000),
        ]
    assert list(dict.fromkeys(seen))[:3] == ["connecting", "warm-up", "measuring"]
    assert left_behind(three) == ([], [], 0)
    assert load_processes() == []


@elsewhere
@pytest.mark.broker
def test_machines_begin_together_and_time_by_one_clock(broker: Cluster, three: Workers, load: Load) -> None:
    """One clock is 1000 s ahead: without its offset nothing here could hold."""
    ran = load(broker, allocation=three.allocation, rate=1000, producers=2, consumers=1, duration=2)
    only, report = ran.round, ran.report

    assert ran.faults == []
    clocks = [worker.clock for worker in report.workers]
    offsets = {clock.offset_ns for clock in clocks if clock is not None}
    assert len(offsets) == 2
    assert min(offsets) < -999 * 10**9
    uncertainty_ns = max(clock.uncertainty_ns for clock in clocks if clock is not None)
    assert only.e2e_uncertainty_s is not None
    assert 0 < only.e2e_uncertainty_s == uncertainty_ns / 1e9 < 0.01
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


@pytest.mark.broker
def test_a_file_of_samples_goes_along(broker: Cluster, three: Workers, tmp_path: Path) -> None:
    """On another machine there is no such file."""
    samples = tmp_path / "samples.txt"
    samples.write_text("\n".join("x" * size for size in range(40, 60)), encoding="utf-8")
    scenario = Scenario.of({"records": 500, "payload": f"file:{samples}", "rounds": 1, "warmup": 0, "consumers": 1})
    payload = scenario.payload
    assert not isinstance(payload, str)
    found = scenario.model_copy(update={"payload": type(payload)(file=payload.file, path=str(samples))})
    (only,) = run_scenario(found, broker, allocation=three.allocation)

    assert faults(only) == []
    assert only.shares[0].sent == 500


@pytest.mark.broker
def test_several_shares_go_to_one_worker_with_one_thread(broker: Cluster, tmp_path: Path) -> None:
    """They are ready together or never."""
    with dask(tmp_path) as workers:
        workers.add()
        allocation = WorkerAllocation(scheduler=workers.address, producing=2, consuming=2)
        scenario = Scenario.of({"rate": 500, "producers": 2, "consumers": 2, "rounds": 1, "warmup": 0.3, "duration": 1})
        (only,) = run_scenario(scenario, broker, allocation=allocation)
        assert left_behind(workers) == ([], [], 0)
    assert faults(only) == []
    assert len(only.shares) == 4


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.parametrize(
    "nanny", [pytest.param(False, id="no-nanny"), pytest.param(True, id="nanny", marks=pytest.mark.extended)]
)
def test_a_worker_that_is_killed_makes_its_round_invalid(broker: Cluster, tmp_path: Path, *, nanny: bool) -> None:
    """It is named, nothing hangs, its load ends with it and is run nowhere else; the next round has those left."""
    with dask(tmp_path) as workers:
        for place in range(3):
            workers.add(nanny=nanny and place == 0)
        victim = workers.worker(0)
        if nanny:
            victim = max(victim.children(recursive=True), key=lambda child: child.memory_info().rss)
        kill = Once(lambda: os.kill(victim.pid, signal.SIGKILL), after_s=0.5)
        ended: list[float] = []
        scenario = Scenario.of({"rate": 500, "producers": 3, "consumers": 0, "rounds": 2, "warmup": 0.3, "duration": 3})

        def watch(number: int, progress: Any) -> None:
            kill(number, progress)
            if number == 2 and not ended:
                ended.append(time.monotonic())

        first, second = run_scenario(scenario, broker, allocation=workers.allocation, on_progress=watch)
        assert left_behind(workers) == ([], [], 0)

    assert kill.done_s is not None
    assert ended[0] - kill.done_s < 20
    assert [problem.partition(" on ")[0].rpartition(":")[0] for problem in first.problems] == [
        "the Dask worker tcp://127.0.0.1"
    ]
    assert first.problems[0].endswith(" was lost: killed, out of memory, or cut off from the scheduler")
    assert faults(second) == []
    assert len(second.shares) == 3
    assert load_processes() == []


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.extended
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

        scenario = Scenario.of({"rate": 500, "producers": 2, "rounds": 2, "warmup": 0.3, "duration": 10})
        first, second = run_scenario(scenario, broker, allocation=workers.allocation, on_progress=watch)
        victim.resume()

    assert stop.done_s is not None
    assert ended[0] - stop.done_s < 30
    (problem,) = first.problems
    assert problem.endswith(" did not answer for 8 s: its machine or the network is down")
    assert faults(second) == []


@pytest.mark.broker
def test_load_ends_with_its_controller(broker: Cluster, tmp_path: Path) -> None:
    """However that ends: nobody is there to tell its workers."""
    with dask(tmp_path) as workers:
        workers.add()
        script = (
            "import sys\n"
            "from pytest_kafkaperf.clusters.spec import Cluster\n"
            "from pytest_kafkaperf.load.allocation import WorkerAllocation\n"
            "from pytest_kafkaperf.runner.rounds import run_scenario\n"
            "from pytest_kafkaperf.scenario.scenario import Scenario\n"
            "cluster = Cluster(bootstrap_servers=sys.argv[1], brokers=1, provider='external', version='unknown')\n"
            "scenario = Scenario.of({'rate': 100, 'rounds': 1, 'warmup': 0, 'duration': 60})\n"
            "run_scenario(scenario, cluster, allocation=WorkerAllocation(scheduler=sys.argv[2]))\n"
        )
        command = [sys.executable, "-c", script, broker.bootstrap_servers, workers.address]
        own = {**os.environ, "TMPDIR": str(tmp_path)}  # a killed controller leaves its counters there
        with subprocess.Popen(command, env=own) as controller:
            wait_for_load_processes(some=True)
            controller.kill()
        wait_for_load_processes(some=False)
        assert left_behind(workers) == ([], [], 0)
    for name in topics(broker):  # a killed controller leaves its topic, too, until a later run sweeps it
        if name.startswith(PREFIX):
            drop_topic(broker, name)


@pytest.mark.broker
@pytest.mark.slow
def test_a_scheduler_that_is_killed_makes_the_round_invalid(broker: Cluster, tmp_path: Path) -> None:
    """Within a bound, and no load goes on."""
    with dask(tmp_path) as workers:
        workers.add()
        kill = Once(workers.scheduler.kill, after_s=0.3)
        scenario = Scenario.of({"rate": 500, "rounds": 1, "warmup": 0, "duration": 20})
        (only,) = run_scenario(scenario, broker, allocation=workers.allocation, on_progress=kill)
        assert kill.done_s is not None
        assert time.monotonic() - kill.done_s < 40
        wait_for_load_processes(some=False)
    assert any("the Dask scheduler" in problem for problem in only.problems)
