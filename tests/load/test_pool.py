"""The controller's side: how workers are started, and how long they may take."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kafkaperf.load.board import Board
from pytest_kafkaperf.load.pool import WorkerPool, _without_interrupt, _without_main
from pytest_kafkaperf.load.worker import longest_s
from pytest_kafkaperf.run import _shares
from pytest_kafkaperf.scenario import Scenario

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kafkaperf.clusters import Cluster

_SCRIPT = """
import sys
from pytest_kafkaperf.clusters import Cluster
from pytest_kafkaperf.run import run_scenario
from pytest_kafkaperf.scenario import Scenario

print("main")
cluster = Cluster(bootstrap_servers=sys.argv[1], brokers=1, provider="external", version="unknown")
print(run_scenario(Scenario.of({"records": 100, "rounds": 1, "warmup": 0}), cluster)[0].problems)
"""


@pytest.mark.broker
def test_a_script_without_a_guard_is_not_started_again_in_workers(broker: Cluster, tmp_path: Path) -> None:
    """`multiprocessing` would import it, and it would start workers, which would import it..."""
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT, encoding="utf-8")
    command = [sys.executable, str(script), broker.bootstrap_servers]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert (ended.stdout, ended.stderr, ended.returncode) == ("main\n()\n", "", 0)


def test_the_main_module_is_back_afterwards() -> None:
    """Pickle and pytest look things up in it."""
    main = sys.modules["__main__"]
    with _without_main():
        assert sys.modules["__main__"] is not main
        assert not hasattr(sys.modules["__main__"], "__file__")
    assert sys.modules["__main__"] is main


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no signal masks on Windows")
def test_ctrl_c_while_workers_are_spawned_comes_a_moment_later() -> None:
    """It is held back, not lost."""
    reached = []

    def interrupted() -> None:
        with _without_interrupt():
            signal.raise_signal(signal.SIGINT)
            reached.append(True)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert reached
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_pool_works_inside_its_block_only(tmp_path: Path) -> None:
    """A constructor allocates nothing."""
    board = Board.create(tmp_path / "board", 1)
    with pytest.raises(RuntimeError, match="outside its `with` block"):
        WorkerPool(1).run([], board, check=lambda: None, progress=lambda _: None)


@pytest.mark.parametrize(
    ("fields", "bound_s"),
    [
        ({"duration": 5}, 20),
        ({"duration": 600}, 1200),
        ({"records": 100_000, "rate": 100}, 2000),
        ({"records": 100_000}, 3600),
    ],
)
def test_sending_is_bounded_by_what_was_asked_for(fields: dict[str, Any], bound_s: float) -> None:
    """A slow cluster gets time to catch up; a long round is not cut off."""
    assert longest_s(Scenario.of(fields)) == bound_s


@pytest.mark.parametrize(("producers", "consumers"), [(1, 0), (1, 1), (5, 3), (1000, 1000)])
def test_every_producer_and_consumer_is_in_one_worker(producers: int, consumers: int) -> None:
    """Reading does not delay sending: they are in different processes."""
    shares = _shares(Scenario.of({"producers": producers, "consumers": consumers}))

    assert sorted(number for numbers, _ in shares for number in numbers) == list(range(producers))
    assert sum(count for _, count in shares) == consumers
    assert all(bool(numbers) != bool(count) for numbers, count in shares)
