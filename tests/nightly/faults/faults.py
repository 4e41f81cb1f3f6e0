"""What goes wrong: done from outside to the processes, disks and clusters of a run that knows nothing of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import AlterPartitionReassignmentsRequest

from pytest_kafkaperf.clusters.admin.run_names import PREFIX
from pytest_kafkaperf.clusters.cluster import Cluster
from tests.support import quotas
from tests.support.disks import fill
from tests.support.ground import Ground
from tests.support.strangers import on_a_loop

from .terminal import Run

REQUEST_TIMEOUT_S = 2
"""Of the producers that a short stop is to outlast."""
_STOPPED_S = 5
_AGAIN_S = 0.1
"""Between two presses of a key."""
_HOUR_S = 3600
_QUOTA_BYTES = 60_000
"""A second; the load makes twice as much."""
_LEADERS_TIMEOUT_S = 20
_ATTACH_TIMEOUT_S = 10
_CLOCK = Path(__file__).with_name("clock.c")
_CGROUP_V1, _CGROUP_V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")


@dataclass(kw_only=True)
class Scene:
    """A run, and what it runs on."""

    run: Run
    ground: Ground
    foreign: Cluster | None
    """The cluster that it uses, where that is not its own."""
    disk: Path
    """Where its brokers' logs are, in the cells that fill it."""
    clock: Path
    """The step of its wall clock."""
    undone: ExitStack = field(default_factory=ExitStack)
    """What is put right again when the run has ended."""


def kill_broker(scene: Scene) -> None:
    _broker(scene).kill()


def stop_broker(scene: Scene) -> None:
    """For good: nothing is answered, and connections stay open."""
    _broker(scene).suspend()


def stop_broker_for_a_while(scene: Scene) -> None:
    broker = _broker(scene)
    broker.suspend()
    threading.Timer(_STOPPED_S, _resume, args=(broker,)).start()


def fill_disk(scene: Scene) -> None:
    fill(scene.disk)


def kill_worker(scene: Scene) -> None:
    scene.ground.workers()[0].kill()


def starve_worker(scene: Scene) -> None:
    _starve(scene, *(worker.pid for worker in scene.ground.workers()))


def starve(scene: Scene) -> None:
    _starve(scene, scene.run.process.pid)


def interrupt(scene: Scene) -> None:
    scene.run.interrupt()


def interrupt_twice(scene: Scene) -> None:
    """Once more while it cleans up, as somebody does who sees nothing happen."""
    scene.run.interrupt()
    with contextlib.suppress(subprocess.TimeoutExpired):
        scene.run.process.wait(_AGAIN_S)
    scene.run.interrupt()


def terminate(scene: Scene) -> None:
    scene.run.process.terminate()


def hang_up(scene: Scene) -> None:
    """Close the terminal: the system sends SIGHUP to the processes in it."""
    os.killpg(scene.run.process.pid, signal.SIGHUP)


def remove_cache(scene: Scene) -> None:
    """Remove what a next run would find the brokers by, as a CI runner does with its cache, and end the run."""
    shutil.rmtree(scene.ground.cache / "runs")
    scene.run.process.kill()


def delete_topic(scene: Scene) -> None:
    on_a_loop(_delete_topics(_foreign(scene).bootstrap_servers))


def move_leaders(scene: Scene) -> None:
    """Give each partition to the other one of two brokers, and wait until that leads it."""
    on_a_loop(_move_leaders(_foreign(scene).bootstrap_servers))


def set_quota(scene: Scene) -> None:
    rates = {"producer_byte_rate": _QUOTA_BYTES, "consumer_byte_rate": _QUOTA_BYTES}
    scene.undone.enter_context(quotas.quota(_foreign(scene), **rates))


def set_clock_ahead(scene: Scene) -> None:
    _set_clock(scene, _HOUR_S)


def set_clock_back(scene: Scene) -> None:
    _set_clock(scene, -_HOUR_S)


FAULTS: dict[str, Callable[[Scene], None]] = {
    "broker killed": kill_broker,
    "broker stopped": stop_broker,
    "broker stopped for 5 s": stop_broker_for_a_while,
    "disk full": fill_disk,
    "worker killed": kill_worker,
    "worker out of memory": starve_worker,
    "Ctrl-C": interrupt,
    "Ctrl-C twice": interrupt_twice,
    "SIGTERM": terminate,
    "SIGHUP": hang_up,
    "out of memory": starve,
    "cache folder removed, SIGKILL": remove_cache,
    "topic deleted": delete_topic,
    "leaders moved": move_leaders,
    "quota set": set_quota,
    "clock set ahead": set_clock_ahead,
    "clock set back": set_clock_back,
}
"""By the name that the table gives them."""


def make_read_only(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)


@contextmanager
def slow_writing(pid: int, seconds: int) -> Iterator[None]:
    """Let each fsync(2) of a process take so long: what it writes is written and not in its place yet."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed: nothing else makes a disk slow at one point")
    delay = f"inject=fsync:delay_enter={seconds * 1_000_000}"
    command = [strace, "-o", os.devnull, "-e", "trace=fsync", "-e", delay, "-p", str(pid)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        try:
            assert tracer.stderr is not None
            line = tracer.stderr.readline()
            if "attached" not in line:
                pytest.skip(f"strace cannot be used here: {line.strip()}")
            yield
        finally:
            tracer.send_signal(signal.SIGINT)  # it lets the process go


def clock_environment(folder: Path) -> dict[str, str]:
    """Variables that give processes a wall clock which `set_clock_ahead` and `set_clock_back` step."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: the clock that can be set is made with it")
    library, step = folder / "clock.so", folder / "step"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, _CLOCK, "-ldl"], check=True)
    step.write_bytes(_step(0))
    return {"LD_PRELOAD": str(library), "CLOCK_STEP": str(step)}


def _set_clock(scene: Scene, seconds: int) -> None:
    with scene.clock.open("r+b") as step:  # in place: who looks at a page of a file that is cut short dies
        step.write(_step(seconds))


def _step(seconds: int) -> bytes:
    return struct.pack("q", seconds)


def _broker(scene: Scene) -> psutil.Process:
    (broker,) = scene.ground.brokers()
    return broker


def _foreign(scene: Scene) -> Cluster:
    assert scene.foreign is not None
    return scene.foreign


def _resume(broker: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        broker.resume()


def _starve(scene: Scene, *pids: int) -> None:
    """Let the kernel end the first that wants memory: in a control group that may take no page more."""
    group, limit = _control_group()
    group.mkdir()
    scene.undone.callback(_remove_group, group)
    (group / limit).write_text(str(os.sysconf("SC_PAGE_SIZE")), encoding="ascii")
    for pid in pids:
        (group / "cgroup.procs").write_text(str(pid), encoding="ascii")


def _control_group() -> tuple[Path, str]:
    """A new one, and the name of its limit; skips where there are none."""
    name = f"kafkaperf-faults-{os.getpid()}-{time.monotonic_ns()}"
    if os.access(_CGROUP_V1, os.W_OK):
        return _CGROUP_V1 / name, "memory.limit_in_bytes"
    controllers = _CGROUP_V2 / "cgroup.subtree_control"
    if controllers.exists() and "memory" in controllers.read_text(encoding="ascii") and os.access(_CGROUP_V2, os.W_OK):
        return _CGROUP_V2 / name, "memory.max"
    pytest.skip("no control group can be made here")


def _remove_group(group: Path) -> None:
    """Once the process that was in it is gone."""
    deadline = time.monotonic() + _ATTACH_TIMEOUT_S
    while True:
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


async def _delete_topics(servers: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        ours = [topic for topic in await admin.list_topics() if topic.startswith(PREFIX)]
        await admin.delete_topics(ours)
    finally:
        await admin.close()


async def _move_leaders(servers: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        ours = [topic for topic in await admin.list_topics() if topic.startswith(PREFIX)]
        brokers = [broker["node_id"] for broker in (await admin.describe_cluster())["brokers"]]
        moves: list[tuple[str, Any, dict[int, bytes]]] = [
            (
                topic["topic"],
                [
                    (part["partition"], [broker for broker in brokers if broker != part["leader"]], {})
                    for part in topic["partitions"]
                ],
                {},
            )
            for topic in await admin.describe_topics(ours)
        ]
        answer = await admin._send_to_controller(  # noqa: SLF001 - aiokafka has no public way
            AlterPartitionReassignmentsRequest(_LEADERS_TIMEOUT_S * 1000, moves, {})
        )
        assert answer.error_code == 0, answer
        wanted = {(name, number): moved[0] for name, parts, _ in moves for number, moved, _ in parts}
        deadline = time.monotonic() + _LEADERS_TIMEOUT_S
        while await _leaders(admin, ours) != wanted:
            assert time.monotonic() < deadline, "the leaders did not move"
    finally:
        await admin.close()


async def _leaders(admin: AIOKafkaAdminClient, topics: list[str]) -> dict[tuple[str, int], int]:
    return {
        (topic["topic"], part["partition"]): part["leader"]
        for topic in await admin.describe_topics(topics)
        for part in topic["partitions"]
    }
