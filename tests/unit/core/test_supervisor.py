"""What a run leaves that had no chance to clean up: nothing, within two seconds."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_kafkaperf.clusters.child_process import ChildProcess
from pytest_kafkaperf.core import supervisor
from pytest_kafkaperf.load.backends.processes import Processes
from tests.support.orphans import becomes, ended, with_word
from tests.support.patience import PATIENCE_S
from tests.support.project import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.name != "posix", reason="local brokers need POSIX")

_PROGRAM = """
import os, pathlib, subprocess, sys, time
from pytest_kafkaperf.clusters.brokers.run_folders import PROPERTIES, run_folder
from pytest_kafkaperf.core import supervisor
from tests.support.orphans import as_broker

def broker(folder):
    home = folder / "broker-1"
    home.mkdir()
    return subprocess.Popen(as_broker(home / PROPERTIES), cwd=home, start_new_session=True)

with run_folder(pathlib.Path(sys.argv[1])) as folder:
    left = broker(folder)
    {more}
    print(left.pid, flush=True)
    sys.stdin.read()
    left.kill()
    left.wait()
"""
"""A run with a process that passes for its broker."""


@contextmanager
def run(runs: Path, more: str = "") -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """A run, and its broker."""
    command = [sys.executable, "-c", _PROGRAM.format(more=more), str(runs)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        broker = psutil.Process(int(process.stdout.readline()))
        try:
            yield process, broker
        finally:
            process.kill()
            with contextlib.suppress(psutil.NoSuchProcess):
                broker.kill()


def child(process: subprocess.Popen[str], word: str) -> psutil.Process:
    """The run's child with this word on its command line, which is empty for a moment after its start."""
    assert becomes(lambda: with_word(psutil.Process(process.pid).children(), word) != [])
    (found,) = with_word(psutil.Process(process.pid).children(), word)
    return found


def left(runs: Path) -> list[str]:
    """What is in the folder of the runs, besides the lock that runs sweep under."""
    return [path.name for path in runs.glob("*") if path.name != ".lock"]


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_run_that_a_signal_ends_leaves_neither_broker_nor_folder(tmp_path: Path, by: signal.Signals) -> None:
    """CI systems send SIGTERM, terminals SIGHUP, and a kernel without memory SIGKILL."""
    with run(tmp_path) as (process, broker):
        assert len(left(tmp_path)) == 2
        process.send_signal(by)
        assert process.wait(PATIENCE_S) == -by
        assert becomes(lambda: ended(broker.pid) and left(tmp_path) == [])


def test_a_run_that_exits_at_once_leaves_nothing(tmp_path: Path) -> None:
    """Exactly what pytest-timeout does with its method `thread`."""
    exits = """
    import signal, threading
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])  # it waits for the thread, and no read can miss it
    threading.Thread(target=lambda: (signal.sigwait([signal.SIGUSR1]), os._exit(1)), daemon=True).start()
"""
    with run(tmp_path, exits) as (process, broker):
        process.send_signal(signal.SIGUSR1)
        assert process.wait(PATIENCE_S) == 1
        assert becomes(lambda: ended(broker.pid) and left(tmp_path) == [])


def test_a_broker_goes_too_if_the_folder_is_gone_before(tmp_path: Path) -> None:
    """Some CI runners wipe the cache: then no next run can find the broker."""
    with run(tmp_path / "runs") as (process, broker):
        shutil.rmtree(tmp_path / "runs")
        process.kill()
        assert becomes(lambda: ended(broker.pid))


def test_a_process_that_the_run_forked_does_not_keep_its_broker_alive(tmp_path: Path) -> None:
    """It inherits the pipe, and a user's own service may outlive pytest."""
    forked = "service = os.fork() or (os.close(0), os.close(1), time.sleep(3600), os._exit(0))"
    with run(tmp_path, forked) as (process, broker):
        service = child(process, "service = ")
        try:
            process.kill()
            assert becomes(lambda: ended(broker.pid) and left(tmp_path) == [])
            assert not ended(service.pid)
        finally:
            service.kill()


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_all_does_not_reach_the_one_who_cleans_up(tmp_path: Path, by: signal.Signals) -> None:
    """A terminal sends Ctrl-C to its process group; `pkill -f pytest` sends SIGTERM to whatever has the name."""
    with run(tmp_path) as (process, broker):
        cleaner = child(process, "supervisor")
        cleaner.send_signal(by)
        process.kill()
        assert becomes(lambda: ended(broker.pid) and left(tmp_path) == [])
        assert becomes(lambda: ended(cleaner.pid))


def test_descendants_in_groups_of_their_own_go_too(tmp_path: Path) -> None:
    """An application may start its workers so."""
    leads = "import time, subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'], "
    leads += "start_new_session=True); time.sleep(3600)"
    more = f"application = subprocess.Popen([sys.executable, '-c', {leads!r}], start_new_session=True)\n"
    more += "    supervisor.kill_later(application.pid)"
    with run(tmp_path, more) as (process, _):
        application = child(process, "subprocess.Popen")
        assert becomes(lambda: application.children() != [])
        (worker,) = application.children()
        process.kill()
        assert becomes(lambda: ended(worker.pid) and ended(application.pid))


def test_a_run_that_ends_in_order_leaves_no_process(tmp_path: Path) -> None:
    """Nothing watches on for a run that is over."""
    with run(tmp_path) as (process, _):
        children = psutil.Process(process.pid).children()
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
        assert [each for each in children if each.is_running()] == []
        assert left(tmp_path) == []


READS = "[sys.executable, '-c', 'import time; time.sleep(30)', {before!r}, str(folder / {file!r})]"
TOOL = "as_broker(folder / 'client.properties', program='kafka.admin.TopicCommand')"


@pytest.mark.parametrize(
    ("command", "word"),
    [
        (READS.format(before="", file="broker.log"), "broker.log"),
        (READS.format(before="", file="own.properties"), "own.properties"),
        (READS.format(before="kafka.Kafka", file="own.properties"), "own.properties"),
        (TOOL, "client.properties"),
    ],
    ids=["log", "properties", "a search in properties", "another of Kafka's tools"],
)
def test_others_who_look_at_the_folder_live_on(tmp_path: Path, command: str, word: str) -> None:
    """A user may follow the broker's log, read its properties or pass them to a tool; only brokers are ours to end."""
    with run(tmp_path, f"subprocess.Popen({command})") as (process, broker):
        reader = child(process, word)
        process.kill()
        assert becomes(lambda: ended(broker.pid) and left(tmp_path) == [])
        assert not ended(reader.pid)
        reader.kill()


@pytest.mark.parametrize("forget", [False, True])
def test_a_process_that_was_forgotten_lives_on(tmp_path: Path, forget: bool) -> None:  # noqa: FBT001 - a parameter
    """Its id may be that of somebody else's process by then."""
    more = "other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(30)'], start_new_session=True)\n"
    more += "    supervisor.kill_later(other.pid)\n"
    more += "    supervisor.forget(other.pid)" if forget else ""
    with run(tmp_path, more) as (process, broker):
        other = child(process, "time.sleep(30)")
        process.kill()
        assert becomes(lambda: ended(broker.pid) and left(tmp_path) == [])
        if forget:
            assert not ended(other.pid)
            other.kill()
        assert becomes(lambda: ended(other.pid))


def told(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[object]]:
    """Return what the supervisor of this process is told from now on."""
    pipe = io.BytesIO()
    monkeypatch.setattr(supervisor, "_pipe", lambda _: pipe)
    return lambda: [json.loads(line) for line in pipe.getvalue().splitlines()]


@pytest.mark.parametrize("end", [ChildProcess.stop, lambda one: one.wait(PATIENCE_S)], ids=["stopped", "ended"])
def test_a_child_that_has_ended_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Callable[[ChildProcess], None]
) -> None:
    """In a run of hours, brokers and applications start often, and ids are used again."""
    messages = told(monkeypatch)
    one = ChildProcess("child", tmp_path / "log", stop_timeout_s=PATIENCE_S)
    one.launch([sys.executable, "-c", ""], folder=tmp_path)
    pid = one.pid
    end(one)
    assert messages() == [pid, [pid]]


def test_workers_that_have_ended_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test starts its own."""
    messages = told(monkeypatch)
    with Processes(1) as workers:
        (future,) = workers._submit(abs, [-1])  # noqa: SLF001 - any work starts them
        assert future.result(PATIENCE_S) == 1
    (pid, forgotten) = messages()
    assert forgotten == [pid]
