"""Perf tests together with plugins and options that many projects use."""

from __future__ import annotations

import os
from collections.abc import Callable

import psutil
import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from tests.support.orphans import becomes
from tests.support.project import Project, Run
from tests.support.strangers import topics_of_runs

ASYNCIO = ("-p", "asyncio", "-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function")

TESTS = """
pytestmark = [
    pytest.mark.kafka_scenario(rate="500 records/s", duration="500 ms", warmup="200 ms", rounds=1, partitions=1),
    pytest.mark.kafka_threshold("lost == 0"),
]

def test_passes(kafka_perf):
    kafka_perf()

@pytest.mark.kafka_threshold("produce.throughput >= 100k records/s")
def test_violates(kafka_perf):
    kafka_perf()

def test_passes_too(kafka_perf, kafka_cluster_factory):
    kafka_cluster_factory()
    kafka_perf()
"""
VERDICTS = {"test_passes": "PASSED", "test_violates": "VIOLATED", "test_passes_too": "PASSED"}

SLOW = """
pytestmark = pytest.mark.kafka_scenario(rate="500 records/s", warmup="200 ms", rounds=1, partitions=1)

{word}def test_slow(kafka_perf):
    {call}(duration="10 min")

def test_next(kafka_perf):
    kafka_perf(duration="500 ms")
"""


@pytest.fixture
def on_own(project: Project, on_broker: str) -> Callable[..., Run]:
    """Run the tests above with some options on the shared broker."""
    return lambda *options: project.test(TESTS).run_steadily(on_broker, *options)


@pytest.mark.parametrize(("word", "call"), [("", "kafka_perf"), ("async ", "await kafka_perf.run")])
def test_a_timeout_by_signal_ends_the_load_and_the_next_test_runs(
    project: Project, broker: Cluster, on_broker: str, word: str, call: str
) -> None:
    """pytest-timeout's default method raises in the main thread."""
    project.test(SLOW.format(word=word, call=call))
    run = project.run_steadily(on_broker, *ASYNCIO, "--timeout=6", "--timeout-method=signal")
    assert run.status == pytest.ExitCode.TESTS_FAILED, run.out
    assert "Timeout" in run.out
    assert "1 failed, 1 passed" in run.out
    assert list(run.verdicts) == ["test_next"]
    assert topics_of_runs(broker) == []


def test_a_timeout_by_thread_leaves_no_process(project: Project, on_broker: str) -> None:
    """It ends pytest at once, without any teardown."""
    project.test(SLOW.format(word="", call="kafka_perf"))
    with project.running(on_broker, "--timeout=6", "--timeout-method=thread") as process:
        out, _ = process.communicate(timeout=60)
        assert "Timeout" in out
        assert becomes(lambda: not [one for one in psutil.process_iter() if _is_of(process.pid, one)])


def _is_of(leader: int, process: psutil.Process) -> bool:
    try:
        return os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, psutil.NoSuchProcess):
        return False


@pytest.mark.parametrize("options", [("-p", "randomly"), ("-W", "error")], ids=" ".join)
def test_verdicts_are_the_same(on_own: Callable[..., Run], options: tuple[str, ...]) -> None:
    """In any order of the tests, and with every warning an error."""
    run = on_own(*options)
    assert run.verdicts == VERDICTS, run.out
    assert "1 failed, 2 passed" in run.out


def test_a_repeated_test_keeps_its_last_verdict(on_own: Callable[..., Run]) -> None:
    """pytest-rerunfailures repeats what fails; the table says so."""
    run = on_own("--reruns=1")
    assert run.verdicts == VERDICTS, run.out
    assert "1 failed, 2 passed, 1 rerun" in run.out
    assert "this test was repeated; its earlier verdict was" in run.out, run.out


def test_only_the_failed_test_runs_again(on_own: Callable[..., Run]) -> None:
    """By --lf, which knows the tests by their names."""
    on_own("-p", "cacheprovider")
    run = on_own("-p", "cacheprovider", "--lf")
    assert run.verdicts == {"test_violates": "VIOLATED"}, run.out
    assert "1 failed" in run.out


def test_n_in_addopts_is_refused_and_n0_takes_it_back(on_own: Callable[..., Run], project: Project) -> None:
    """pytest-xdist would run loads side by side, each disturbing the other's results."""
    project.write("pytest.ini", "[pytest]\nkafka_broker_warmup = 0 s\naddopts = -n 2\n")
    run = on_own()
    assert run.status == pytest.ExitCode.TESTS_FAILED, run.out
    assert "perf tests cannot run in parallel with other tests" in run.out
    run = on_own("-n0")
    assert run.verdicts == VERDICTS, run.out
