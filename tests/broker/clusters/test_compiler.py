"""The compiler threads of real brokers."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.monitoring.compiler import (
    CompilerReader,
    CompilerWatcher,
    ContainerFiles,
    JcmdThreads,
    ThreadFiles,
    reader_of,
)
from pytest_kafkaperf.clusters.monitoring.probes import ContainerProbe, ProcessProbe
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec

if TYPE_CHECKING:
    from tests.support.rounds import Load

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="compares with /proc")


def total_s(reader: CompilerReader) -> float:
    return sum(reader.read().values())


def pid_of(cluster: Cluster) -> int:
    probe = cluster.probes()[1][0]
    assert isinstance(probe, ProcessProbe)
    return probe.pid


def test_jcmd_and_proc_agree(broker: Cluster) -> None:
    """One is for macOS, the other for Linux; both are those of the same threads."""
    files, jcmd = (kind(pid_of(broker), with_children=False) for kind in (ThreadFiles, JcmdThreads))
    before_s, asked_s, after_s = total_s(files), total_s(jcmd), total_s(files)
    assert 0 < before_s - 0.02 <= asked_s <= after_s + 0.02
    assert len(jcmd.read()) == len(files.read())


def test_the_compilers_of_children_count(broker: Cluster) -> None:
    """A start script is the parent of an application's JVM."""
    parent = psutil.Process(pid_of(broker)).ppid()
    with_children = ThreadFiles(parent, with_children=True).read()
    assert ThreadFiles(pid_of(broker), with_children=False).read().keys() <= with_children.keys()


def test_load_on_a_broker_makes_its_compiler_work(broker: Cluster, load: Load) -> None:
    """And the watcher shows when."""
    began_ns = time.monotonic_ns()
    with CompilerWatcher(broker.probes) as watcher:
        load(broker, duration="1 s", record_size=321, warmup=0)
    usage = watcher.usage()[1]
    assert usage is not None
    share = usage.share(began_ns, time.monotonic_ns())
    assert share is not None
    assert 0 < share < 3


@pytest.fixture
def docker_broker() -> Iterator[Cluster]:
    with provision(ClusterSpec(heap="300m"), target="docker") as cluster:
        yield cluster


@pytest.mark.docker
def test_the_threads_of_a_container_are_the_same_from_outside_and_inside(
    docker_broker: Cluster,
) -> None:
    """A daemon on another machine shows a process id that means nothing here."""
    probe = docker_broker.probes()[1][0]
    assert isinstance(probe, ContainerProbe)
    outside = reader_of([probe])
    assert isinstance(outside, ContainerFiles)
    if outside.is_costly:
        pytest.skip("the daemon's processes are not visible here")
    inside = ContainerFiles(_Elsewhere(probe.container))
    assert inside.is_costly
    before_s, within_s, after_s = total_s(outside), total_s(inside), total_s(outside)
    assert 0 < before_s - 0.05 <= within_s <= after_s + 0.05


class _Elsewhere:
    """A container whose process id belongs to a process of this machine that is not in it."""

    def __init__(self, container: object) -> None:
        self._container = container
        self.attrs = {"State": {"Pid": psutil.Process().pid}}
        self.reload: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> object:
        return getattr(self._container, name)
