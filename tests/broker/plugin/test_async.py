"""`async def` tests: the load runs next to the event loop, and so does an application in this loop."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from tests.support import mover
from tests.support.patience import PATIENCE_S
from tests.support.project import Project
from tests.support.strangers import drop_topic, topics_of_runs

ASYNCIO = [
    "-p",
    "asyncio",
    "-oasyncio_mode=auto",
    "-oasyncio_default_fixture_loop_scope=function",
    "-okafka_writable_topics=moved-in",
]

THROUGH = """
from mover import Mover

@pytest.mark.kafka_scenario(
    topic="moved-in", output_topic="moved-out", rate="500 records/s", duration="1 s", warmup="200 ms", rounds=1,
    consumers=1,
)
@pytest.mark.kafka_threshold("lost == 0", "errors == 0", {limit})
async def test_moved(kafka_cluster, kafka_perf):
    async with Mover(kafka_cluster.bootstrap_servers) as mover:
        await kafka_perf.run()
    assert mover.moved >= 500
"""

ENDLESS = """
import asyncio, pathlib

pytestmark = pytest.mark.kafka_scenario(rate="100 records/s", duration="10 min", rounds=1, partitions=1)


async def touch():
    await asyncio.sleep(2)
    pathlib.Path("running").touch()


async def test_{name}(kafka_perf):
    async with asyncio.TaskGroup() as group:
        group.create_task(touch())
        async with asyncio.timeout({timeout}):
            await kafka_perf.run()
"""

BLOCKING = """
pytestmark = pytest.mark.kafka_scenario(records=10, rounds=1)


async def test_blocks(kafka_perf):
    kafka_perf()


async def test_searches(kafka_perf):
    kafka_perf.capacity("errors == 0")
"""


@pytest.fixture
def moving(project: Project, broker: Cluster) -> Iterator[Project]:
    """A project with an application, and no topics left behind."""
    yield project.write("mover.py", Path(mover.__file__).read_text(encoding="utf-8"))
    drop_topic(broker, mover.SOURCE)
    drop_topic(broker, mover.TARGET)


def test_an_application_in_the_loop_of_the_test_moves_records_during_the_load(moving: Project, on_broker: str) -> None:
    """A blocked loop would move none; and a broken threshold fails the test as without a loop."""
    run = moving.test(THROUGH.format(limit="'produce.throughput >= 1 records/s'")).run_steadily(on_broker, *ASYNCIO)
    assert (run.status, run.verdicts) == (pytest.ExitCode.OK, {"test_moved": "PASSED"}), run.out

    run = moving.test(THROUGH.format(limit="'produce.throughput >= 100k records/s'")).run_steadily(on_broker, *ASYNCIO)
    assert (run.status, run.verdicts) == (pytest.ExitCode.TESTS_FAILED, {"test_moved": "VIOLATED"}), run.out
    assert "test_moved broke its limit: produce.throughput " in run.out
    assert "Traceback" not in run.out


def test_a_call_that_would_block_the_loop_names_the_one_that_does_not(project: Project, on_broker: str) -> None:
    """Otherwise a service in the loop seems to hang."""
    run = project.test(BLOCKING).run(on_broker, *ASYNCIO, reports=False)
    assert run.status == pytest.ExitCode.TESTS_FAILED, run.out
    for called, instead in (("kafka_perf()", "run()"), ("kafka_perf.capacity()", "run_capacity()")):
        expected = f"{called} would block the test's event loop and all services in it; use `await kafka_perf."
        assert f"{expected}{instead}`" in run.out


STARTED = """
@pytest.fixture
async def cluster(kafka_cluster_factory):
    return kafka_cluster_factory(heap="256m", security="sasl_scram")


async def test_restart(cluster):
    cluster.stop_broker(1)
    cluster.start_broker(1)
"""


def test_an_async_fixture_starts_a_cluster(project: Project) -> None:
    """It waits for brokers and makes a user on loops of its own, although the fixture has a running loop."""
    run = project.test(STARTED).run(*ASYNCIO, reports=False)
    assert run.status == pytest.ExitCode.OK, run.out


def test_a_cancelled_run_ends_its_load_before_it_returns(project: Project, broker: Cluster, on_broker: str) -> None:
    """Clients, topic and workers are gone when the test goes on."""
    project.test(ENDLESS.format(name="times_out", timeout=4))
    run = project.run(on_broker, *ASYNCIO, reports=False)
    assert run.status == pytest.ExitCode.TESTS_FAILED, run.out
    assert "TimeoutError" in run.out
    assert "never retrieved" not in run.out
    assert topics_of_runs(broker) == []


def test_ctrl_c_ends_an_async_test(project: Project, broker: Cluster, on_broker: str) -> None:
    """It is asyncio that receives it, and cancels the test."""
    project.test(ENDLESS.format(name="endless", timeout=None))
    with project.running(on_broker, *ASYNCIO) as process:
        deadline = time.monotonic() + PATIENCE_S
        while not (project.folder / "running").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, out
    assert "never retrieved" not in out
    assert topics_of_runs(broker) == []


def test_a_load_that_nobody_awaits_is_an_error(project: Project, on_broker: str) -> None:
    """The test would pass without having measured anything."""
    body = """
import asyncio

@pytest.mark.kafka_scenario(rate="100 records/s", duration="60 s", rounds=1)
async def test_not_awaited(kafka_perf):
    task = asyncio.create_task(kafka_perf.run())
    await asyncio.sleep(0)
"""
    run = project.test(body).run(on_broker, *ASYNCIO)
    assert run.status == pytest.ExitCode.TESTS_FAILED, run.out
    assert "this test measured nothing: await kafka_perf.run() until it finishes, or call pytest.skip()" in run.out
