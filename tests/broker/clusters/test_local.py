"""One real broker as a child process: up when it says so, gone when the run is."""

from __future__ import annotations

import math
import os
import re
import signal
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pytest_kafkaperf.clusters.admin.admin import Admin
from pytest_kafkaperf.clusters.admin.connection import wait_ready
from pytest_kafkaperf.clusters.brokers import distribution, fleet, java, local_brokers
from pytest_kafkaperf.clusters.brokers.config import broker_properties
from pytest_kafkaperf.clusters.provision import provision, with_config
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from pytest_kafkaperf.core.errors import ClusterError, ClusterLostError
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.disks import fill, small_disk
from tests.support.orphans import becomes, ended
from tests.support.patience import PATIENCE_S
from tests.support.rounds import within
from tests.support.versions import CHOSEN

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from tests.support.plugin_runs import PluginRun

pytestmark = pytest.mark.usefixtures("cache")


@pytest.mark.story
def test_a_local_cluster_is_ready_tells_what_it_is_and_leaves_nothing(
    cache: Path, gone: Callable[[int], bool], left: Callable[[], list[str]]
) -> None:
    """The whole life of a cluster that a test passes on."""
    spec = ClusterSpec.of({"config": {"num.io.threads": 4}, "heap": "300m"})

    with provision(spec, target="local") as cluster:
        (pid,) = cluster.pids
        assert len(left()) == 2  # the folder and its lock
        assert wait_ready(cluster.bootstrap_servers, brokers=1, timeout_s=PATIENCE_S) == 1
        cluster.check()
        assert (cluster.brokers, cluster.provider, cluster.version) == (1, "local", DEFAULT_VERSION)
        assert dict(cluster.facts) == {
            "java": java.find().description,
            **java.environment_options(),
            "heap": "300m",
            "config.num.io.threads": "4",
        }
        process = psutil.Process(pid)
        assert "-Xmx300m" in process.cmdline()
        assert {each.laddr.ip for each in process.net_connections("tcp")} <= {"127.0.0.1", "::ffff:127.0.0.1"}
        assert os.getpgid(pid) == pid
        assert process.cwd().startswith(str(cache))

    assert gone(pid)
    assert left() == []


def test_logs_are_on_the_disks_that_were_named_and_leave_them_again(tmp_path: Path) -> None:
    """Each broker has folders of its own there, and whatever else is on the disk stays."""
    disks = [tmp_path / "one", tmp_path / "two"]
    for disk in disks:
        disk.mkdir()
    (disks[0] / "mine.txt").write_text("mine", encoding="utf-8")
    spec = ClusterSpec(version=CHOSEN, log_dirs=",".join(map(str, disks)))
    with provision(spec, target="local") as cluster:
        Admin(cluster.bootstrap_servers, cluster.access).create_topic("spread", Scenario(partitions=6))
        assert becomes(lambda: all([*disk.glob("kafkaperf-*/broker-1/spread-*")] for disk in disks))
        assert cluster.facts["log.dirs"] == ",".join(map(str, disks))
    assert {path.name for disk in disks for path in disk.iterdir()} == {"mine.txt"}
    assert (disks[0] / "mine.txt").read_text(encoding="utf-8") == "mine"


def test_quiet_brokers_keep_their_logs_in_memory_and_leave_nothing_there(gone: Callable[[int], bool]) -> None:
    """Results of such brokers differ from others, so their facts say so."""
    memory = Path("/dev/shm")  # noqa: S108 - that is the folder
    before = {*memory.iterdir()}
    with provision(ClusterSpec(quick_compiler=True, logs_in_memory=True, heap="300m"), target="local") as cluster:
        Admin(cluster.bootstrap_servers, cluster.access).create_topic("fast", Scenario(partitions=1))
        assert becomes(lambda: [*memory.glob("kafkaperf-*/broker-1/fast-0")] != [])
        (pid,) = cluster.pids
        options = "-XX:TieredStopAtLevel=1 -XX:+AlwaysPreTouch"
        assert {*options.split()} <= {*psutil.Process(pid).cmdline()}
        assert cluster.facts["compiler"] == f"quick ({options})"
        assert cluster.facts["logs"] == "in memory"
        Side.of(cluster).restart(quick=False)
        (again,) = cluster.pids
        assert {*options.split()}.isdisjoint(psutil.Process(again).cmdline())
    assert gone(pid)
    assert gone(again)
    assert {path for path in {*memory.iterdir()} - before if path.name.startswith("kafkaperf")} == set()


def test_logs_in_memory_replace_the_disks_that_were_named(tmp_path: Path) -> None:
    """Logs cannot be at both; what does not apply is told."""
    disk = tmp_path / "disk"
    disk.mkdir()
    spec = ClusterSpec(logs_in_memory=True, heap="300m", log_dirs=str(disk))
    with provision(spec, target="local") as cluster:
        assert cluster.facts["not applied"] == "log_dirs"
        assert "log.dirs" not in cluster.facts
        assert [*disk.iterdir()] == []


def test_logs_in_memory_without_memory_are_refused_before_the_start(left: Callable[[], list[str]]) -> None:
    """A broker whose log fills the memory would end as a lost broker, minutes later."""
    with (
        pytest.raises(ClusterError) as raised,
        provision(ClusterSpec(logs_in_memory=True, brokers=100), target="local"),
    ):
        pass
    assert re.fullmatch(
        r"logs_in_memory: /dev/shm has [0-9.]+ [MG]iB of free memory, but the brokers' logs need 200 GiB; free some "
        r"memory, or omit logs_in_memory",
        str(raised.value),
    )
    assert left() == []


def test_a_full_disk_is_told_before_the_start(tmp_path: Path) -> None:
    """A traceback of the copying would name fifty lines of Python and no remedy."""
    with small_disk(tmp_path / "disk", "1m") as disk:
        fill(disk)
        with (
            pytest.raises(ClusterError) as raised,
            provision(ClusterSpec(log_dirs=str(disk)), target="local"),
        ):
            pass
        assert [path.name for path in disk.iterdir() if path.is_dir()] == []
    text = str(raised.value)
    assert text.startswith("cannot write the brokers' files: [Errno 28] No space left on device: ")
    assert text.endswith("; free disk space, or use other folders: log_dirs, or PYTEST_KAFKAPERF_CACHE for all files")


def test_the_facts_hold_what_was_changed_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are committed with a baseline. Kafka does not know the properties of plug-ins, so the spec tells them."""
    given = {
        "num.network.threads": 3,  # the default
        "log.retention.hours": 1,
        "auto.create.topics.enable": "false",  # as the provider has it in any case
        "group.initial.rebalance.delay.ms": 50,  # not as the provider has it
        "delegation.token.secret.key": "open sesame",
        "my.plugin.threads": 7,
        "my.plugin.api.key": "open sesame",
    }
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Dplugin.password=sesame")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
    monkeypatch.setenv("_JAVA_OPTIONS", "-XX:+UseSerialGC -XX:-UseG1GC")

    spec = ClusterSpec.of({"version": CHOSEN, "config": given, "heap": "300m"})
    with provision(spec, target="local") as cluster:
        assert dict(cluster.facts) == {
            "java": java.find().description,
            "java options": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UseG1GC",
            "heap": "300m",
            "config.my.plugin.threads": "7",
            "config.group.initial.rebalance.delay.ms": "50",
            "config.log.retention.hours": "1",
        }


def test_brokers_that_do_not_answer_keep_nobody_waiting_and_the_spec_speaks_for_them() -> None:
    """The fingerprint is not worth a load that starts late, or not at all."""
    spec = ClusterSpec.of({"config": {"num.io.threads": 4}})
    with provision(spec, target="local") as cluster:
        cluster.pause_broker(1)
        with within(30):  # a request of the client alone takes 40 s
            facts = with_config(cluster).facts
        assert facts == {**cluster.facts, "broker settings": "unknown"}
        assert facts["config.num.io.threads"] == "4"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nothing_is_left_after_an_exception(
    error: type[BaseException], gone: Callable[[int], bool], left: Callable[[], list[str]]
) -> None:
    """A failing fixture or Ctrl-C must not leave a broker behind."""
    pids: list[int] = []

    with pytest.raises(error), provision(ClusterSpec(), target="local") as cluster:  # noqa: PT012 - the body is the point
        pids.extend(cluster.pids)
        raise error

    assert all(map(gone, pids))
    assert left() == []


def test_ctrl_c_in_the_terminal_reaches_the_run_alone_and_leaves_nothing(
    plugin_run: Callable[..., AbstractContextManager[PluginRun]],
    gone: Callable[[int], bool],
    left: Callable[[], list[str]],
) -> None:
    """A terminal sends SIGINT to the whole process group; only the run itself stops the broker."""
    with plugin_run() as other:
        told = other.ready()

        assert other.end(by=signal.SIGINT) != 0

    assert gone(told["pid"])
    assert left() == []


@pytest.mark.story
@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_broker_does_not_outlive_a_run_that_a_signal_ends(
    plugin_run: Callable[..., AbstractContextManager[PluginRun]], left: Callable[[], list[str]], by: signal.Signals
) -> None:
    """CI systems send SIGTERM, terminals SIGHUP, and a kernel without memory SIGKILL; there may be no next run."""
    with plugin_run() as other:
        told = other.ready()
        assert other.end(by=by) == -by

    assert becomes(lambda: ended(told["pid"]) and left() == [])


def test_what_a_killed_run_left_is_swept_by_the_next_one(
    plugin_run: Callable[..., AbstractContextManager[PluginRun]],
    gone: Callable[[int], bool],
    left: Callable[[], list[str]],
) -> None:
    """Somebody may kill all processes of a language, and so the one who would clean up."""
    with plugin_run() as killed:
        told = killed.ready()
        killed.kill_supervisor()
        killed.end(by=signal.SIGKILL)
    assert psutil.pid_exists(told["pid"])
    assert len(left()) == 2

    with provision(ClusterSpec(), target="local") as cluster:
        assert gone(told["pid"])
        assert len(left()) == 2  # this run's own
        cluster.check()
    assert left() == []


def test_a_living_run_is_left_alone_by_the_sweep_of_another(
    plugin_run: Callable[..., AbstractContextManager[PluginRun]], left: Callable[[], list[str]]
) -> None:
    """Two runs on one machine are common; so are two clusters in one run."""
    with plugin_run() as living:
        told = living.ready()

        with (
            provision(ClusterSpec(), target="local") as one,
            provision(ClusterSpec.of({"heap": "300m"}), target="local") as other,
        ):
            for servers in (told["servers"], one.bootstrap_servers, other.bootstrap_servers):
                assert wait_ready(servers, brokers=1, timeout_s=PATIENCE_S) == 1
            assert len(left()) == 6

        assert living.end() == 0
    assert left() == []


def test_a_warm_cache_needs_neither_jgo_nor_the_network(
    plugin_run: Callable[..., AbstractContextManager[PluginRun]], no_network: str
) -> None:
    """Laptops on trains, and CI with a restored cache."""
    assert no_network
    with plugin_run() as offline:
        modules = offline.ready()["modules"]

        assert {"jgo", "requests"}.isdisjoint(modules)
        assert offline.end() == 0


def test_a_broker_that_dies_is_reported_with_the_signal_that_ended_it(
    left: Callable[[], list[str]],
) -> None:
    """Its round is INVALID, and the reason says why."""
    with provision(ClusterSpec(), target="local") as cluster:
        cluster.check()
        (pid,) = cluster.pids
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # the run collects the status

        with pytest.raises(ClusterLostError) as raised:
            cluster.check()

    assert str(raised.value).startswith(f"broker 1 (pid {pid}) was ended by SIGKILL; the end of its log:\n")
    assert left() == []


def test_a_stopped_broker_is_ended_too(gone: Callable[[int], bool], left: Callable[[], list[str]]) -> None:
    """A test that stalls the broker and fails before it lets it go on."""
    with provision(ClusterSpec(), target="local") as cluster:
        (pid,) = cluster.pids
        os.kill(pid, signal.SIGSTOP)

    assert gone(pid)
    assert left() == []


def test_a_broker_that_cannot_start_is_reported_at_once_with_the_end_of_its_log(
    left: Callable[[], list[str]],
) -> None:
    """A property that Kafka refuses: its own words tell best."""
    spec = ClusterSpec.of({"config": {"num.io.threads": 0}})

    with pytest.raises(ClusterError) as raised, provision(spec, target="local"):
        pass

    text = str(raised.value)
    assert text.startswith(f"Kafka {DEFAULT_VERSION} did not start: broker 1 (pid ")
    assert ") exited with status 1; the end of its log:\n" in text
    assert "Invalid value 0 for configuration num.io.threads" in text
    assert left() == []


def test_a_lost_race_for_a_port_is_run_again_on_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between choosing a port and binding it, anyone can take it."""
    choose = local_brokers.free_ports
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = [[taken.getsockname()[1], *choose(2)]]
        monkeypatch.setattr(local_brokers, "free_ports", lambda count: ports.pop() if ports else choose(count))

        with provision(ClusterSpec(), target="local") as cluster:
            assert ports == []
            assert cluster.bootstrap_servers != f"127.0.0.1:{taken.getsockname()[1]}"


def test_a_broker_whose_address_is_unreachable_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong advertised listeners answer the first request, and nothing after it."""
    began_s = time.monotonic()
    with provision(ClusterSpec(), target="local"):
        timeout_s = math.ceil(5 + 2 * (time.monotonic() - began_s))
    properties = broker_properties
    monkeypatch.setattr(fleet, "_READY_TIMEOUT_S", timeout_s)

    def wrong(*args: Any, **given: Any) -> dict[str, str]:
        right = properties(*args, **given)
        return right | {"advertised.listeners": "CLIENT://127.0.0.1:9,INTERNAL://127.0.0.1:9"}

    monkeypatch.setattr(local_brokers, "broker_properties", wrong)

    with pytest.raises(ClusterError) as raised, provision(ClusterSpec(), target="local"):
        pass

    assert (
        f" is not ready after {timeout_s} s: broker 1 advertises 127.0.0.1:9, which cannot be reached from here; "
        "its advertised.listeners must contain an address that clients can reach"
    ) in str(raised.value)


def test_another_version_is_run_where_one_is_named(
    kafka: distribution.Distribution, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--kafka-cluster=local:VERSION` picks the broker."""
    monkeypatch.setenv(distribution.CACHE_VARIABLE, str(kafka.folder.parents[1]))  # the user's own

    with provision(ClusterSpec(version="3.9.1"), target="local") as cluster:
        assert cluster.version == "3.9.1"
