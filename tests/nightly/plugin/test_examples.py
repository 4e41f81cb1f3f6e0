"""The examples that the shorter run leaves out."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.examples import REPOSITORIES, break_promises, run_experiment, run_repository
from tests.support.project import ROOT, Project, copied_example, inherited

COMMAND_TIMEOUT_S = 300


@pytest.fixture
def quickstart(tmp_path: Path) -> Project:
    return copied_example("quickstart", tmp_path)


def test_the_quickstart_passes_on_a_broker_that_starts_by_itself(quickstart: Project) -> None:
    """No Docker, no Java, nothing to configure, and within 40 s where the machine is not busy."""
    run = quickstart.run()
    assert run.status == pytest.ExitCode.OK, run.out
    assert run.verdicts == {"test_producer_sla": "PASSED", "test_end_to_end_sla": "PASSED"}
    assert {test["cluster"]["provider"] for test in run.report["tests"]} == {"local"}


@pytest.mark.parametrize(
    "nodeid",
    [
        "test_durability.py",
        "test_placement.py",
        "test_socket_buffers.py::test_socket_buffers[16-1 KiB]",
        "test_consumers.py::test_consumers[2]",
        "test_failover.py",
    ],
)
def test_an_experiment_runs(tmp_path: Path, nodeid: str) -> None:
    """A proxy on the way to the broker, properties of a topic and of a broker, a backlog, and a failover."""
    run_experiment(nodeid, tmp_path)


@pytest.mark.timeout(2 * COMMAND_TIMEOUT_S + 60)
@pytest.mark.parametrize("name", REPOSITORIES)
def test_a_repository_is_green_in_two_commands_from_a_clone(name: str, tmp_path: Path) -> None:
    """Those of its README, with an environment of its own; of the last commit."""
    subprocess.run(["git", "clone", "--quiet", ROOT, tmp_path / "clone"], check=True, timeout=COMMAND_TIMEOUT_S)
    folder = tmp_path / "clone" / "examples" / name
    block = re.search(r"```sh\n(.+?)```", (folder / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    install, test = block[1].splitlines()
    for command in (install, test):
        subprocess.run(["bash", "-c", command], cwd=folder, env=inherited(), check=True, timeout=COMMAND_TIMEOUT_S)


@pytest.mark.speed
@pytest.mark.parametrize("name", REPOSITORIES)
def test_a_repository_is_green_as_it_stands(name: str, tmp_path: Path) -> None:
    """Its unit tests, and its perf tests on a broker and an application of their own."""
    run = run_repository(copied_example(name, tmp_path), "-o", "kafka_broker_warmup=0 s")
    assert run.status == pytest.ExitCode.OK, run.out
    assert run.verdicts
    assert set(run.verdicts.values()) == {"PASSED"}, run.out


def test_a_slower_sink_breaks_its_promises(tmp_path: Path) -> None:
    """A commit that makes the code slower must not pass."""
    break_promises("orders-sink", tmp_path)
