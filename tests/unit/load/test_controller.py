"""The controller's side: how workers are started, and how long they may take."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.core.signals import interrupt_blocked
from pytest_kafkaperf.load.backends.processes import Processes, without_main
from pytest_kafkaperf.load.controller import Progress, WorkerPool
from pytest_kafkaperf.load.messages import Assignment, Unaudited, WorkerReport
from pytest_kafkaperf.load.schedule import longest_s, records_of_producer, settle_timeout_s, window_s
from pytest_kafkaperf.load.shared_counters import Counter, SharedCounters, WorkerState
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.audit_task import UNREADABLE
from tests.support.orphans import becomes, ended
from tests.support.patience import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pytest_kafkaperf.load.audit import AuditTask
    from pytest_kafkaperf.load.messages import Audit


def test_the_main_module_is_back_afterwards() -> None:
    """Pickle and pytest look things up in it."""
    main = sys.modules["__main__"]
    with without_main():
        assert sys.modules["__main__"] is not main
        assert not hasattr(sys.modules["__main__"], "__file__")
    assert sys.modules["__main__"] is main


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no signal masks on Windows")
def test_ctrl_c_while_workers_are_spawned_comes_a_moment_later() -> None:
    """It is held back, not lost."""
    reached = []

    def interrupted() -> None:
        with interrupt_blocked():
            signal.raise_signal(signal.SIGINT)
            reached.append(True)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert reached
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_an_audit_that_cannot_read_the_log_says_why(capfd: pytest.CaptureFixture[str]) -> None:
    """The round goes on without it: counts are known all the same. Nothing else is said."""
    with WorkerPool(1, Processes) as pool:
        reason = pool.audit(UNREADABLE)

    assert isinstance(reason, Unaudited)
    assert "back: KafkaConnectionError(" in reason.reason
    assert capfd.readouterr() == ("", "")


def test_a_pool_has_one_file_of_counters_per_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of the last round may still write on theirs; none is left behind."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with WorkerPool(2, Processes) as pool:
        first, second = pool.counters(groups=3), pool.counters(groups=3)
        assert first.path != second.path
        with first, second:
            first.write(1, Counter.RECEIVED + 2, 5)
            assert (first.received(), second.received()) == ([0, 0, 5], [0, 0, 0])
    assert list(tmp_path.iterdir()) == []


_KILLED = """
import os, psutil, signal
from pytest_kafkaperf.load.backends.processes import Processes
from pytest_kafkaperf.load.controller import WorkerPool
from tests.support.audit_task import UNREADABLE

with WorkerPool(1, Processes) as pool:
    pool.counters(groups=1)
    {more}
    os.kill(os.getpid(), signal.SIGKILL)
"""
"""A run that is killed while its counters exist."""
_STOPPED_WORKER = """
    pool.audit(UNREADABLE)
    (worker,) = (each for each in psutil.Process().children() if "spawn_main" in " ".join(each.cmdline()))
    print(worker.pid, flush=True)
    worker.suspend()
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL and SIGSTOP are POSIX")
@pytest.mark.parametrize("more", ["", _STOPPED_WORKER], ids=["no worker yet", "stopped worker"])
def test_a_killed_run_leaves_neither_counters_nor_workers(tmp_path: Path, more: str) -> None:
    """No worker can remove them before the first one runs, nor one that is stopped."""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _KILLED.format(more=more)]
    killed = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, env=environment, timeout=PATIENCE_S, check=False
    )
    workers = [int(pid) for pid in killed.stdout.split()]

    assert (killed.returncode, len(workers)) == (-signal.SIGKILL, bool(more))
    assert becomes(lambda: list(tmp_path.iterdir()) == [] and all(map(ended, workers)))


_HUNG_UP = """
import os, pathlib, signal
from pytest_kafkaperf.load.backends.processes import Processes
from pytest_kafkaperf.load.controller import WorkerPool

with WorkerPool(1, Processes):
    mapped = pathlib.Path("/proc/self/maps").read_text().splitlines()
    print(*(line.split()[4] for line in mapped if "/sem." in line), flush=True)
    os.killpg(0, signal.SIGHUP)
    signal.pause()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows semaphores as files")
def test_a_terminal_that_is_closed_leaves_no_semaphores() -> None:
    """Its SIGHUP reaches Python's resource tracker, too, which is to remove them."""
    command = [sys.executable, "-c", _HUNG_UP]
    hung_up = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False, start_new_session=True
    )
    assert hung_up.returncode == -signal.SIGHUP
    inodes = set(map(int, hung_up.stdout.split()))
    assert inodes
    assert becomes(lambda: not inodes & {each.inode() for each in os.scandir("/dev/shm")})  # noqa: S108 - no folder of ours


@pytest.mark.parametrize(
    ("fields", "bound_s"),
    [
        ({"duration": "5 s"}, 20),
        ({"duration": "600 s"}, 1200),
        ({"records": 100_000, "rate": 100}, 2000),
        ({"records": 100_000}, 3600),
        ({"rate": "100 -> 900 records/s over 30 s"}, 60),
        ({"rate": "100 -> 900 records/s over 30 s", "records": 24_000}, 80),
    ],
)
def test_sending_is_bounded_by_what_was_asked_for(fields: dict[str, Any], bound_s: float) -> None:
    """A slow cluster gets time to catch up; a long round is not cut off."""
    assert longest_s(Scenario.of(fields)) == bound_s


@pytest.mark.parametrize(
    ("fields", "bound_s"), [({}, 35), ({"producer_config": {"request_timeout_ms": 2000}}, 7)], ids=str
)
def test_settling_takes_no_longer_than_a_request_may(fields: dict[str, Any], bound_s: float) -> None:
    """After that no answer will come: the client itself has given up."""
    assert settle_timeout_s(Scenario.of(fields)) == bound_s


@pytest.mark.parametrize(
    ("fields", "length_s"),
    [({"duration": "5 s"}, 5), ({"records": 900, "rate": 100}, 9), ({"records": 900}, None), ({}, 5)],
    ids=str,
)
def test_the_window_is_as_long_as_was_asked_for(fields: dict[str, Any], length_s: float | None) -> None:
    """A closed loop of so many records ends with the last of them, whenever that is."""
    assert window_s(Scenario.of(fields)) == length_s


@given(records=st.integers(1, 10**12), producers=st.integers(1, 1000))
def test_records_are_shared_out_to_the_last(records: int, producers: int) -> None:
    """The first producers make one more where they do not divide."""
    shares = [records_of_producer(records, number, producers) for number in range(producers)]

    assert sum(shares) == records
    assert shares == sorted(shares, reverse=True)
    assert shares[0] - shares[-1] <= 1


def test_an_audit_that_ends_by_any_error_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a lack of memory: the round's metrics are complete anyway."""

    def audit(_: Processes, task: AuditTask) -> Audit:
        raise MemoryError(*task.failed)

    monkeypatch.setattr(Processes, "audit", audit)
    with WorkerPool(1, Processes) as pool:
        assert pool.audit(UNREADABLE) == Unaudited("the audit did not finish (MemoryError)")


class _Finished:
    """A backend whose worker has sent all records before the controller looks; it reports once the load drains."""

    margin_ns = 0

    def __init__(self) -> None:
        self.worker: Future[WorkerReport] = Future()

    @contextlib.contextmanager
    def load(self, assignments: Sequence[Assignment], counters: SharedCounters) -> Iterator[list[Future[WorkerReport]]]:
        values = {Counter.ASSIGNED: assignments[0].read_partitions, Counter.VISIBLE: 10, Counter.RECEIVED: 3}
        for cell, value in {**values, Counter.STATE: WorkerState.PRODUCED}.items():
            counters.write(0, cell, value)
        yield [self.worker]

    def audit(self, task: AuditTask) -> Audit:
        raise NotImplementedError

    def follow(self, progress: Progress) -> None:
        if progress.phase == "draining":
            self.worker.set_result(WorkerReport(produced=[]))


def test_the_lag_of_a_window_that_is_over_at_once_is_read_when_production_ends() -> None:
    """A lag of 0 that nobody has read would pass each threshold."""
    backend = _Finished()
    scenario = Scenario.of({"records": 10, "consumers": 1, "warmup": "0 s"})
    assignment = Assignment(
        worker=0,
        counters="",
        bootstrap_servers="127.0.0.1:9",
        access=Access(),
        topic="orders",
        group="readers",
        scenario=scenario,
        read_partitions=6,
    )
    with WorkerPool(1, lambda _: contextlib.nullcontext(backend)) as pool:
        report = pool.run([assignment], pool.counters(groups=1), check=lambda: None, progress=backend.follow)
    assert report.problems == []
    assert (report.lag_max, report.lag_end) == (7, 7)
